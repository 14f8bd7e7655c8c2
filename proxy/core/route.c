#include "proxy/core/route.h"

#include "shared/check.h"
#include "shared/command/arguments.h"

#include <stdlib.h>

enum route_kind route_by_row(const struct command *command)
{
    bool is_planned = command->handlers == 0;
    switch (command->route) {
    case ROUTE_LOCAL:
        return command->handlers & HANDLER_PROXY ? ROUTE_KIND_LOCAL : ROUTE_KIND_UNKNOWN;
    case ROUTE_CURSOR:
        return ROUTE_KIND_LOCAL;
    case ROUTE_BY_KEY:
    case ROUTE_SPLIT:
    case ROUTE_CHANNEL:
        return ROUTE_KIND_ONE;
    case ROUTE_ALL_SHARDS:
        return command->traits & TRAIT_WHOLE ? ROUTE_KIND_LOCAL : ROUTE_KIND_ALL;
    case ROUTE_ANY:
        return ROUTE_KIND_ANY;
    case ROUTE_PINNED:
        if (is_planned)
            return ROUTE_KIND_UNKNOWN;
        if (command->handlers & HANDLER_PROXY)
            return ROUTE_KIND_LOCAL;
        if (command->flags & CMD_BLOCKING || command->merge != MERGE_ONE)
            return ROUTE_KIND_BLOCKING;
        return ROUTE_KIND_TRANSACTION;
    case ROUTE_TRANSACTION:
        return ROUTE_KIND_TRANSACTION;
    case ROUTE_DENIED:
        return command->flags & CMD_INTERNAL ? ROUTE_KIND_UNKNOWN : ROUTE_KIND_DENIED;
    }
    CHECK(!"a route");
    return ROUTE_KIND_UNKNOWN;
}

void route_keys_init(struct route_keys *keys)
{
    keys_list_init(&keys->list);
    keys->shards = keys->slots = NULL;
    keys->shards_cap = keys->located = 0;
    keys->is_prepared = false;
}

void route_keys_fini(struct route_keys *keys)
{
    keys_list_fini(&keys->list);
    free(keys->shards);
    keys->shards = keys->slots = NULL;
    keys->shards_cap = 0;
}

static void reserve_shards(struct route_keys *keys)
{
    uint32_t count = keys->list.count;
    if (count <= keys->shards_cap)
        return;
    uint32_t cap = count < KEYS_INLINE ? KEYS_INLINE : count;
    keys->shards = realloc(keys->shards, 2 * cap * sizeof(*keys->shards));
    CHECK(keys->shards);
    keys->slots = keys->shards + cap;
    keys->shards_cap = cap;
}

void route_keys_find(const struct command *command, const struct bytes *argv, uint32_t argc,
                     struct route_keys *keys)
{
    (void)keys_find(command, argv, argc, &keys->list); /* invalid arguments: no keys */
    reserve_shards(keys);
    keys->located = 0;
    keys->is_one_shard = keys->is_one_slot = true;
}

bool route_keys_locate(const struct route_rules *rules, const struct bytes *argv,
                       struct route_keys *keys, uint32_t most)
{
    const struct key_list *list = &keys->list;
    uint32_t left = list->count - keys->located;
    uint32_t end = keys->located + (left < most ? left : most);
    for (uint32_t i = keys->located; i < end; i++) {
        keys->slots[i] = route_slot(rules, argv[list->refs[i].index]);
        keys->shards[i] = (uint16_t)shard_map_find(rules->map, keys->slots[i]);
        keys->is_one_slot &= keys->slots[i] == keys->slots[0];
        keys->is_one_shard &= keys->shards[i] == keys->shards[0];
    }
    keys->located = end;
    return end < list->count;
}

/* The shard that runs a command with keys of several shards: that of the first key that it writes, else of its first
 * key. */
static uint16_t shard_across(const struct route_keys *keys)
{
    for (uint32_t i = 0; i < keys->list.count; i++)
        if (key_is_written(&keys->list.refs[i]))
            return keys->shards[i];
    return keys->shards[0];
}

struct route route_by_keys(const struct route_rules *rules, const struct command *command,
                           const struct bytes *argv, uint32_t argc, struct route_keys *keys)
{
    if (!keys->is_prepared)
        route_keys_find(command, argv, argc, keys);
    if (keys->list.count == 0 || keys_lack_value(command, &keys->list, argc))
        return (struct route){
            .kind = ROUTE_KIND_ANY}; /* the backend replies the error for invalid arguments */
    while (route_keys_locate(rules, argv, keys, keys->list.count))
        ;
    struct route route = {
        .kind = ROUTE_KIND_ONE, .has_keys = true, .slot = keys->slots[0], .shard = keys->shards[0]};
    if (keys->is_one_slot ||
        (keys->is_one_shard && (!rules->is_strict || command->route == ROUTE_SPLIT)))
        return route;
    bool is_split = command->route == ROUTE_SPLIT && !rules->is_atomic;
    route.kind = is_split ? ROUTE_KIND_PARTS : ROUTE_KIND_CROSSSLOT;
    if (rules->is_any && !is_split) {
        route.kind = ROUTE_KIND_ACROSS;
        route.shard = shard_across(keys);
        route.is_across = true;
    }
    return route;
}

/* Commands that read streams wait only with BLOCK. Requests that they refuse do not wait. */
static bool never_waits(const struct command *command, const struct bytes *argv, uint32_t argc)
{
    struct stream_arguments found;
    if (command->timeout != TIMEOUT_MS_BLOCK)
        return false;
    return !stream_arguments_find(argv, argc, &found) || !found.block_at;
}

/* True for scripts and for SORT with patterns of keys: they may use keys that only the shard finds. */
static bool has_unnamed_keys(const struct command *command, const struct bytes *argv, uint32_t argc)
{
    struct sort_arguments found;
    if (!(command->traits & TRAIT_UNNAMED_KEYS) || command->key_rule != KEY_RULE_SORT)
        return command->traits & TRAIT_UNNAMED_KEYS;
    return sort_arguments_find(argv, argc, &found) && found.reads_others;
}

struct route route_plan(const struct route_rules *rules, const struct command *command,
                        const struct bytes *argv, uint32_t argc, struct route_keys *keys)
{
    enum route_kind kind = route_by_row(command);
    if (kind != ROUTE_KIND_ONE && kind != ROUTE_KIND_BLOCKING)
        return (struct route){.kind = kind};
    /* any shard can publish the message, so it does not fix the transaction's shard */
    if (command->route == ROUTE_CHANNEL) {
        uint16_t slot = route_slot(rules, argv[1]);
        return (struct route){ROUTE_KIND_ONE, .slot = slot,
                              .shard = shard_map_find(rules->map, slot)};
    }
    struct route route = route_by_keys(rules, command, argv, argc, keys);
    bool may_wait = kind == ROUTE_KIND_BLOCKING && !never_waits(command, argv, argc);
    if (may_wait && (route.kind == ROUTE_KIND_ONE || route.kind == ROUTE_KIND_ANY))
        route.kind = ROUTE_KIND_BLOCKING;
    bool is_first_of_keys = command->traits & TRAIT_FIRST_OF_KEYS;
    if (may_wait && route.kind == ROUTE_KIND_ACROSS)
        route.kind = is_first_of_keys ? ROUTE_KIND_BLOCKING_PARTS : ROUTE_KIND_BLOCKING_ACROSS;
    if (may_wait && route.kind == ROUTE_KIND_CROSSSLOT && is_first_of_keys && !rules->is_strict)
        route.kind = ROUTE_KIND_BLOCKING_PARTS;
    route.is_across |= rules->is_any && has_unnamed_keys(command, argv, argc);
    return route;
}
