/*
 * ttl_hashes.h - counts the hashes whose fields have TTLs, for `subexpiry` of INFO keyspace.
 *
 *   CF_RANK by key:   ─── keys before `from` ──────────────┬──── keys from `from` on ───────────────────────►
 *                      their changes are counted at once    their changes are not: a step of the walk will find the hash as it is then
 *
 * The counts are not stored. When counters are read, which is at the start and after a failed batch, they begin with 0, and the walk
 * begins anew. It visits collections that have rows in CF_RANK, among which are all hashes with TTLs (field_expiry.h), and counts a
 * hash if its metadata row says so. The counts are right as soon as the walk has ended.
 *
 * While it goes on, a metadata row must not be in the store without its rows in CF_RANK for longer than a turn, or the walk could
 * pass the key without finding it. So it waits while slots arrive, and while a transaction is partly applied.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct overlay;
struct space_set;

/* Where the walk is. Zeroed: at the beginning. */
struct ttl_hash_walk {
    char *from; /* heap; a place in CF_RANK */
    size_t len;
    bool is_done;
};

void ttl_hash_walk_restart(struct ttl_hash_walk *walk);
void ttl_hash_walk_fini(struct ttl_hash_walk *walk);
/* Is the key with this metadata row before `from`? */
bool ttl_hash_walk_has_passed(const struct ttl_hash_walk *walk, struct bytes row_key);

/* Have all hashes been counted? */
bool ttl_hashes_are_counted(const struct space_set *set);
/* A step of the walk over so many keys, which ends early after some milliseconds. To be called between commands. */
void ttl_hashes_step(struct space_set *set, uint32_t keys);
