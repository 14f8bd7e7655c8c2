/*
 * slot_set.h - the slots that a proxy's shard map gives to this partition.
 *
 *   proxy ── SCREE SLOTS "0-5460 7000" ──► session ──► slot set, shared by all sessions with the same slots
 *   keyspace_open(key) ─► is the key's slot in the session's set? ─► no: an error, the key is on another shard
 *
 * A proxy chooses the shard by the keys in the request. It does not see keys that a script computes or that SORT's patterns
 * name: these may belong to another shard, where they would be missing when read here, and lost when written here.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"
#include "shared/slot.h"

struct slot_set {
    struct list link; /* in the partition's list */
    uint32_t refs;
    uint64_t words[SLOT_COUNT / 64];
};

/* Finds the set of these ranges in `sets` or adds it, and takes a reference for the caller. *set is NULL if the ranges
 * contain all slots. False: the text is no list of ranges. */
bool slot_set_get(struct list *sets, struct bytes ranges, struct slot_set **set);
/* NULL is allowed. */
void slot_set_unref(struct slot_set *set);

static inline void slot_set_add(struct slot_set *set, uint16_t slot)
{
    set->words[slot / 64] |= (uint64_t)1 << slot % 64;
}

/* Finds the first run of slots in the set from slot *from on, and moves *from behind it. False: there is none. */
bool slot_set_next_run(const struct slot_set *set, unsigned *from, uint16_t *first, uint16_t *last);

/* SLOT_SUM_ALL if it has all slots (shared/slot.h). */
uint64_t slot_set_sum(const struct slot_set *set);

/* A set that is NULL contains every slot. */
static inline bool slot_set_has(const struct slot_set *set, uint16_t slot)
{
    return !set || set->words[slot / 64] >> slot % 64 & 1;
}
