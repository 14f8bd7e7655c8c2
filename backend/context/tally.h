/*
 * tally.h - memory that a transaction over shards holds on the heap, from one attempt to the next, at one shard.
 *
 *   needs, keys, rows of other shards ─┐
 *   locks (lock_owner.tally) ──────────┴► tally_add ─► bytes ─── more than command-memory ─► is_over
 *                                                        ▲                                     │
 *   what is freed ─────────────────────► tally_remove ───┘                                     ▼
 *                                                        the transaction fails, and has changed nothing
 *
 * The memory of one attempt (its arena, pinned values) is in the call's budget (budget.h), and ends with the attempt. This one does not:
 * keys stay locked and rows stay here until the transaction ends. So both together are within command-memory.
 *
 * Each shard has its own tally of a transaction: the coordinator that of borrow.h, every other shard that of participant.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct call_budget;

struct tally {
    size_t bytes;
    size_t max;    /* command-memory of the namespace */
    bool is_over;  /* stays set: the transaction must end */
    size_t *total; /* bytes of this tally and others; NULL: they are not added up */
    /* of the partition, whose call ends if it is an attempt of this transaction; NULL: none runs here */
    struct call_budget *budget;
};

/* The tally exceeds its limit, or has exceeded it before. Use tally_add. */
void tally_end(struct tally *tally);

/* Counts memory that was allocated. `tally` NULL: it is not counted. */
static inline void tally_add(struct tally *tally, size_t bytes)
{
    if (!tally)
        return;
    tally->bytes += bytes;
    if (tally->total)
        *tally->total += bytes;
    if (tally->bytes > tally->max)
        tally_end(tally);
}

/* The memory was freed. */
static inline void tally_remove(struct tally *tally, size_t bytes)
{
    if (!tally)
        return;
    size_t removed = bytes < tally->bytes ? bytes : tally->bytes;
    tally->bytes -= removed;
    if (tally->total)
        *tally->total -= removed;
}

/* From now on the bytes count in another total; NULL: in none. */
static inline void tally_set_total(struct tally *tally, size_t *total)
{
    if (tally->total)
        *tally->total -= tally->bytes;
    tally->total = total;
    if (total)
        *total += tally->bytes;
}

/* So many bytes are left. */
static inline size_t tally_room(const struct tally *tally)
{
    return tally->bytes < tally->max ? tally->max - tally->bytes : 0;
}
