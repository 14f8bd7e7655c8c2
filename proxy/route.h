/*
 * route.h - where a request goes, by its table row, its keys and the shard map. Pure.
 *
 *   one key ─► slot ─► shard                                        the hot path: route_one_key()
 *   several, one shard ─► that shard, the frame untouched
 *   several shards: SPLIT ─► cut by keys      BY_KEY ─► CROSSSLOT
 */
#pragma once

#include "shared/keys.h"
#include "shared/namespace.h"
#include "shared/shard_map.h"

enum route_kind {
    ROUTE_KIND_ONE,   /* to `shard`, the frame as it is */
    ROUTE_KIND_ANY,   /* no key: to any shard */
    ROUTE_KIND_PARTS, /* cut by keys: shards[i] has key i of the key list */
    ROUTE_KIND_ALL,   /* to every shard */
    ROUTE_KIND_LOCAL, /* the proxy answers */
    ROUTE_KIND_TRANSACTION,
    ROUTE_KIND_BLOCKING, /* to `shard` and there it may wait; without keys to any, or all */
    ROUTE_KIND_UNKNOWN,  /* to the client there is no such command */
    ROUTE_KIND_DENIED,
    ROUTE_KIND_CROSSSLOT,
};

struct route_rules {
    const struct shard_map *map;
    const struct namespace *entry; /* NULL: the {tag} rule */
    bool is_strict;                /* several keys: one slot, not only one shard */
};

struct route {
    enum route_kind kind;
    uint16_t shard; /* ONE */
    bool has_keys;
    uint16_t slot; /* has_keys and not PARTS: of the first key */
};

/* The kind a row has whatever its keys are; ROUTE_KIND_ONE: they decide. */
enum route_kind route_by_row(const struct command *command);

/* A command whose only key is `key`. */
static inline uint16_t route_slot(const struct route_rules *rules, struct bytes key)
{
    return rules->entry ? namespace_slot(rules->entry, key) : slot_of(key);
}

/* The keys that were found, for reuse. */
struct route_keys {
    struct key_list list;
    uint16_t *shards; /* of each key; heap */
    uint16_t *slots;  /* too; behind the shards */
    uint32_t shards_cap;
};

void route_keys_init(struct route_keys *keys);
/* Gives the memory back; usable again. */
void route_keys_fini(struct route_keys *keys);

/* Decides where a request goes (arity checked). When its keys do, has_keys is set and `keys` is filled. */
struct route route_plan(const struct route_rules *rules, const struct command *command,
                        const struct bytes *argv, uint32_t argc, struct route_keys *keys);
/* The same by its keys alone, whatever the row's route is, e.g. for WATCH. */
struct route route_by_keys(const struct route_rules *rules, const struct command *command,
                           const struct bytes *argv, uint32_t argc, struct route_keys *keys);
