/*
 * map_change.h - which slots change their shard when one shard map replaces another. Pure.
 *
 *   before   a: 0-8191      b: 8192-16383                        2731 slots from a to c
 *   after    a: 0-5460      b: 8192-13652      c: the others     2731 slots from b to c
 *
 * Shards are compared by name: their addresses and their order do not matter. `before` may be incomplete: slots without a
 * shard are slots whose owner is not known.
 */
#pragma once

#include "shared/shard_map.h"

/* The slots that one shard gives to another. */
struct map_flow {
    const char *from; /* borrowed from `before`; NULL: the owner is not known */
    const char *to;   /* borrowed from `after` */
    unsigned slots;
};

/* All flows, ordered by the shards' places in `before` and then in `after`. */
struct map_change {
    struct map_flow *flows;
    size_t count;
    unsigned slots;   /* sum of all flows */
    unsigned unknown; /* part of `slots` whose owner is not known */
};

/* Lives at most as long as the maps; to be freed with map_change_free. */
struct map_change map_change_find(const struct shard_map *before, const struct shard_map *after);
void map_change_free(struct map_change *change);
/* Is the shard of the slot in `before` (false: has it none) the one in `after`? */
bool map_change_keeps(const struct shard_map *before, const struct shard_map *after, uint16_t slot);
/* "nothing", or "2731 slots from a to c, 2731 slots from b to c"; a longer list ends with "and N more". */
void map_change_print(const struct map_change *change, char *text, size_t size);
