/*
 * route.h - the shards of a request, by its command's row, its keys and the shard map. Pure.
 *
 *   one key ─► slot ─► shard                                        the hot path: route_one_key()
 *   several keys of one shard ─► that shard, the frame unchanged
 *   keys of several shards: SPLIT ─► split by keys      BLPOP … ─► tried one by one      others ─► ACROSS or CROSSSLOT
 */
#pragma once

#include "shared/command/keys.h"
#include "shared/namespace.h"
#include "shared/shard_map.h"

enum route_kind {
    ROUTE_KIND_ONE,   /* to `shard`, the frame unchanged */
    ROUTE_KIND_ANY,   /* no key: to any shard */
    ROUTE_KIND_PARTS, /* split by keys: shards[i] is the shard of key i */
    ROUTE_KIND_ALL,   /* to every shard */
    ROUTE_KIND_LOCAL, /* the proxy answers */
    ROUTE_KIND_TRANSACTION,
    ROUTE_KIND_BLOCKING, /* a command that may wait: to `shard`; without keys to any shard, or to all */
    /* a blocking command that takes from the first non-empty key, with keys on several shards */
    ROUTE_KIND_BLOCKING_PARTS,
    /* another blocking command with keys on several shards: `shard` tries it with SCREE ACROSS */
    ROUTE_KIND_BLOCKING_ACROSS,
    ROUTE_KIND_UNKNOWN, /* clients get "unknown command" */
    ROUTE_KIND_DENIED,
    ROUTE_KIND_ACROSS, /* keys of several shards: to `shard`, which gets the other keys' data from theirs */
    ROUTE_KIND_CROSSSLOT,
};

struct route_rules {
    const struct shard_map *map;
    const struct namespace *entry; /* row of the namespace; NULL: the slot rule is {tag} */
    bool is_strict;                /* several keys must have one slot, not only one shard */
    bool is_any;                   /* commands may have keys of several shards */
    bool is_atomic;                /* no command is split */
};

struct route {
    enum route_kind kind;
    uint16_t shard; /* ONE, ACROSS */
    /* the shard may have to reach keys of other shards: the command is sent with SCREE ACROSS */
    bool is_across;
    bool has_keys;
    uint16_t slot; /* slot of the first key; only if has_keys and not PARTS */
};

/* The kind that follows from the row alone. ROUTE_KIND_ONE: the kind depends on the keys. */
enum route_kind route_by_row(const struct command *command);

/* Slot of a command whose only key is `key`. */
static inline uint16_t route_slot(const struct route_rules *rules, struct bytes key)
{
    return rules->entry ? namespace_slot(rules->entry, key) : slot_of(key);
}

/* The keys that route_plan found. The memory is reused. */
struct route_keys {
    struct key_list list;
    uint16_t *shards; /* shard of each key; heap */
    uint16_t *slots;  /* slot of each key; in the same allocation, after the shards */
    uint32_t shards_cap;
    uint32_t located;  /* so many keys have a shard and a slot */
    bool is_one_shard; /* these keys have the same shard */
    bool is_one_slot;
    bool is_prepared; /* these are the keys of the next route_plan(), by its rules, and located */
};

void route_keys_init(struct route_keys *keys);
/* Frees the memory; usable again. */
void route_keys_fini(struct route_keys *keys);

/* What route_plan() does with the keys, in steps: finds them … */
void route_keys_find(const struct command *command, const struct bytes *argv, uint32_t argc,
                     struct route_keys *keys);
/* … and then their slots and shards, of at most so many keys in each step. False: all are located. */
bool route_keys_locate(const struct route_rules *rules, const struct bytes *argv,
                       struct route_keys *keys, uint32_t most);

/* Decides where a request goes; its arity was checked. If that depends on keys, has_keys is set and `keys` is filled. */
struct route route_plan(const struct route_rules *rules, const struct command *command,
                        const struct bytes *argv, uint32_t argc, struct route_keys *keys);
/* Like route_plan, but uses only the keys and ignores the row's route, e.g. for WATCH. */
struct route route_by_keys(const struct route_rules *rules, const struct command *command,
                           const struct bytes *argv, uint32_t argc, struct route_keys *keys);
