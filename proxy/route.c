#include "proxy/route.h"

#include "shared/check.h"

#include <stdlib.h>

enum route_kind route_by_row(const struct command *command)
{
    bool is_planned = command->handlers == 0;
    switch (command->route) {
    case ROUTE_LOCAL:
        return is_planned ? ROUTE_KIND_UNKNOWN : ROUTE_KIND_LOCAL;
    case ROUTE_CURSOR:
        return ROUTE_KIND_LOCAL;
    case ROUTE_BY_KEY:
    case ROUTE_SPLIT:
        return ROUTE_KIND_ONE;
    case ROUTE_ALL_SHARDS:
        return command->merge == MERGE_FIRST_NONNULL ? ROUTE_KIND_LOCAL : ROUTE_KIND_ALL;
    case ROUTE_ANY:
        return ROUTE_KIND_ANY;
    case ROUTE_CHANNEL:
        return ROUTE_KIND_UNKNOWN;
    case ROUTE_PINNED:
        return is_planned ? ROUTE_KIND_UNKNOWN : ROUTE_KIND_TRANSACTION;
    case ROUTE_TRANSACTION:
        return ROUTE_KIND_TRANSACTION;
    case ROUTE_DENIED:
        return command->flags & CMD_INTERNAL ? ROUTE_KIND_UNKNOWN : ROUTE_KIND_DENIED;
    }
    CHECK(!"a route");
    return ROUTE_KIND_UNKNOWN;
}

static void shards_reserve(uint16_t **shards, uint32_t *cap, uint32_t count)
{
    if (count <= *cap)
        return;
    uint32_t larger = count < 32 ? 32 : count;
    *shards = realloc(*shards, larger * sizeof(**shards));
    CHECK(*shards);
    *cap = larger;
}

/* MSET a 1 b: the last key lacks its value. */
static bool lacks_value(const struct command *command, const struct key_list *keys, uint32_t argc)
{
    uint32_t step = keys->count > 1 ? keys->refs[1].index - keys->refs[0].index : 1;
    return command->route == ROUTE_SPLIT && keys->refs[keys->count - 1].index + step > argc;
}

struct route route_keys(const struct route_rules *rules, const struct command *command,
                        const struct bytes *argv, uint32_t argc, struct key_list *keys,
                        uint16_t **shards, uint32_t *shards_cap)
{
    struct route route = {.kind = ROUTE_KIND_ONE};
    if (keys_find(command, argv, argc, keys) == KEYS_INVALID || keys->count == 0 ||
        lacks_value(command, keys, argc)) {
        route.kind =
            ROUTE_KIND_ANY; /* the backend has the words for arguments that make no sense */
        return route;
    }
    bool one_shard = true;
    bool one_slot = true;
    shards_reserve(shards, shards_cap, keys->count);
    for (uint32_t i = 0; i < keys->count; i++) {
        uint16_t slot = route_slot(rules, argv[keys->refs[i].index]);
        uint16_t shard = shard_map_find(rules->map, slot);
        if (i == 0) {
            route.slot = slot;
            route.shard = shard;
        }
        (*shards)[i] = shard;
        one_shard &= shard == route.shard;
        one_slot &= slot == route.slot;
    }
    route.has_keys = true;
    if (one_slot || (one_shard && (!rules->is_strict || command->route == ROUTE_SPLIT)))
        return route;
    route.kind = command->route == ROUTE_SPLIT ? ROUTE_KIND_PARTS : ROUTE_KIND_CROSSSLOT;
    return route;
}

struct route route_plan(const struct route_rules *rules, const struct command *command,
                        const struct bytes *argv, uint32_t argc, struct key_list *keys,
                        uint16_t **shards, uint32_t *shards_cap)
{
    enum route_kind kind = route_by_row(command);
    if (kind != ROUTE_KIND_ONE)
        return (struct route){.kind = kind};
    return route_keys(rules, command, argv, argc, keys, shards, shards_cap);
}
