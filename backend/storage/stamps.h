/*
 * stamps.h - says whether data derived from a collection's rows may be wrong, because its rows have changed.
 *
 *   transaction over shards, arriving slot, borrowed rows ─► overlay_put, _delete, _delete_range ─┐
 *   command that is undone ─► overlay_rollback ───────────────────────────────────────────────────┼─► the collection's stamp
 *   batch that was lost, recovery, other slots ─► every stamp ────────────────────────────────────┘     changes
 *   handler ─► sub_put, sub_delete: no change of the stamp; the handler updates the derived data itself
 *
 *   rank node, range bound   { stamp at the time when it was made, … }   valid while the collection's stamp is the same
 *
 * Derived data are the nodes of rank_cache.h and the bounds of range_bound.h. Whatever writes rows changes the stamp, without having
 * to know what is derived from them; only handlers of commands are exempt (overlay_put_own), which change few rows of a collection
 * at a time and often.
 *
 * A stamp is a counter that several collections share, chosen by the collection's version: a change of one of them drops the derived
 * data of the others too, which is harmless. Stamps are counted up only, so an old one never becomes valid again.
 */
#pragma once

#include "backend/format/column_family.h"
#include "shared/bytes.h"

#include <stdint.h>

enum { STAMP_BITS = 12 };

struct stamps {
    uint64_t all;
    uint64_t of[1 << STAMP_BITS];
};

static inline uint64_t stamp_place(uint64_t version)
{
    return version * 0x9e3779b97f4a7c15 >> (64 - STAMP_BITS);
}

/* The present stamp of the collections with this version (struct metadata). */
static inline uint64_t stamps_get(const struct stamps *stamps, uint64_t version)
{
    return stamps->all + stamps->of[stamp_place(version)];
}

/* The place of the stamp of the row's collection. False: the row belongs to none. */
bool stamps_place_of(enum cf cf, struct bytes key, size_t *place);
/* As stamps_place_of, for a range of rows. False: they do not all belong to one collection. */
bool stamps_place_of_range(enum cf cf, struct bytes from, struct bytes to, size_t *place);
/* A row has changed. Rows that belong to no collection are ignored. */
void stamps_row(struct stamps *stamps, enum cf cf, struct bytes key);
/* All rows with from <= k < to (empty `to`: to the end) have changed. */
void stamps_range(struct stamps *stamps, enum cf cf, struct bytes from, struct bytes to);
/* Any row may have changed. */
static inline void stamps_all(struct stamps *stamps)
{
    stamps->all++;
}
