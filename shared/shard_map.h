/*
 * shard_map.h - which shard owns each of the 16384 slots: an immutable, shared snapshot.
 *
 *   slot ── slot_shard[slot] ──► shards[i] {name, addresses}
 *
 * One thread builds a map (new, add, claim, complete); afterwards it never changes: any thread may read it and hold
 * references. A new map is a new object; requests in flight finish with the map they were routed with.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/slot.h"

#include <stdatomic.h>
#include <stdio.h>

enum {
    SHARD_COUNT_MAX = 1024,
    SHARD_NAME_MAX = 64,
    SHARD_NONE = 0xffff,
    SHARD_ADDRESS_MAX = 255,
    SHARD_ADDRESSES_MAX = 5, /* in a shards.ini: of the copies of a shard */
};

struct shard {
    char *name;
    char **addresses; /* "host:port" …, of its copies; requests go to the first */
    size_t address_count;
    uint32_t slot_count;
};

struct shard_map {
    _Atomic uint32_t refs;
    uint64_t epoch;
    struct shard *shards;
    size_t shard_count;
    uint16_t slot_shard[SLOT_COUNT]; /* index into shards; SHARD_NONE only while the map is built */
};

struct shard_map *shard_map_new(uint64_t epoch);
/* A copy of the shards with their addresses, in which no shard has slots. */
struct shard_map *shard_map_without_slots(const struct shard_map *map);
struct shard_map *shard_map_ref(struct shard_map *map);
/* NULL is allowed. */
void shard_map_unref(struct shard_map *map);

/* 1 to SHARD_NAME_MAX letters, digits, '.', '_' and '-'? */
bool shard_name_valid(struct bytes name);

/* Building a map. shard_map_add returns the new shard's index, or -1 when the name is a duplicate or not valid, or
 * there are too many shards. */
int shard_map_add(struct shard_map *map, struct bytes name);
void shard_map_add_address(struct shard_map *map, int shard, struct bytes address);
/* Moves one of the shard's addresses before the others, which stay in their order. Does nothing if it is none of them. */
void shard_map_put_first(struct shard_map *map, int shard, struct bytes address);
/* Its place among the shard's addresses, or -1. */
int shard_address_place(const struct shard *shard, struct bytes address);
/* Assigns slots first..last to the shard. False: *taken is a slot that already has an owner, and nothing was
 * assigned. */
bool shard_map_claim(struct shard_map *map, int shard, unsigned first, unsigned last,
                     unsigned *taken);
/* True when every slot has an owner. False: *missing is the first slot without one. */
bool shard_map_complete(const struct shard_map *map, unsigned *missing);

/* One shard per address, named a, b, c … (s26 … after z), with equal slot ranges and epoch 1. */
struct shard_map *shard_map_even(const char *const *addresses, size_t count);

static inline uint16_t shard_map_find(const struct shard_map *map, uint16_t slot)
{
    return map->slot_shard[slot];
}
/* Index of the shard with this name, or -1. */
int shard_map_named(const struct shard_map *map, struct bytes name);
/* Are epoch, shards and owners equal? */
bool shard_map_equal(const struct shard_map *a, const struct shard_map *b);
/* Equal maps have equal hashes, in any process. */
uint64_t shard_map_hash(const struct shard_map *map);
/* Hash of the shards' names and slots alone: equal for maps that differ in epoch, addresses or the order of shards. */
uint64_t shard_map_slots_hash(const struct shard_map *map);
/* Iterates over the ranges of a shard's slots in order: start with *slot = 0; false at the end. */
bool shard_map_next_range(const struct shard_map *map, int shard, unsigned *slot, unsigned *first,
                          unsigned *last);
/* Prints the map as a shards.ini, which config/shards_file.h reads. */
void shard_map_print(const struct shard_map *map, FILE *to);
