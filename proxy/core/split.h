/*
 * split.h - splits a request by its keys into one frame per shard. Pure.
 *
 *   MSET a 1 b 2 c 3     a, c on shard 0, b on shard 1   ─►   0: MSET a 1 c 3     1: MSET b 2
 *   JSON.MGET a b $.x                                    ─►   0: JSON.MGET a $.x  1: JSON.MGET b $.x
 *
 * A key and the arguments up to the next key stay together. Arguments before the first key and after the last group go
 * to every shard. Arguments are copied with their RESP headers.
 */
#pragma once

#include "shared/command/keys.h"
#include "shared/out.h"
#include "shared/resp.h"
#include "shared/shard_map.h"

/* A request to split: its frame and its keys. */
struct split {
    const struct command *command;
    struct block *block; /* holds `base`; NULL: everything is copied */
    const char *base;
    const struct span *args;
    uint32_t argc;
    const struct key_list *keys;
    const uint16_t *shards; /* shard of each key */
};

/* Keys [from, to). A request is split range by range, from key 0 to split->keys->count. */
struct split_range {
    uint32_t from;
    uint32_t to;
};

/* The shards that have keys, in the order of their first key. */
struct split_parts {
    uint32_t count;
    uint16_t shards[SHARD_COUNT_MAX]; /* of each part */
    uint32_t argcs[SHARD_COUNT_MAX];  /* number of arguments of each part */
    uint16_t part_after
        [SHARD_COUNT_MAX]; /* of each shard: the index of its part, plus one; 0: it has no keys */
};

void split_parts_init(struct split_parts *parts);
/* Adds the keys of the next range to parts, and sets order[i] to the part of key i. `order` may be split->shards. */
void split_group(const struct split *split, struct split_range range, uint16_t *order,
                 struct split_parts *parts);
/* Writes the keys of the next range, with the arguments up to the next key, to the outs[] of their parts, which are all known by then.
 * The first range also writes the arguments before the keys, the last one those behind them; the array header is the caller's. NULL:
 * that part is not written. */
void split_write(const struct split *split, struct split_range range, const uint16_t *order,
                 uint32_t count, struct out *const *outs);
