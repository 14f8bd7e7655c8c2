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

/* Lists the shards that have keys, in the order of their first key: fills parts[] (room for SHARD_COUNT_MAX) and
 * order[i] = index in parts[] of key i. `order` may be split->shards. Returns the number of parts. */
uint32_t split_group(const struct split *split, uint16_t *order, uint16_t *parts);
/* Sets argcs[i] to the number of arguments of part i. */
void split_count(const struct split *split, const uint16_t *order, uint32_t count, uint32_t *argcs);
/* Writes the arguments of part i to outs[i], after the array header that the caller has written. NULL: that part is
 * not written. */
void split_write(const struct split *split, const uint16_t *order, uint32_t count,
                 struct out *const *outs);
