/*
 * slot_load.h - what the commands of each slot cost: CPU time and bytes of requests and replies.
 *
 *   a key is opened ── one of about SLOT_LOAD_EVERY ──► the command's slot ──ends──► its cost × SLOT_LOAD_EVERY
 *
 * Only a sample of the commands is measured, so most commands only decrement a counter; figures of busy slots are exact to a few
 * percent. The intervals are random, so that no pattern of requests is always or never in the sample. CPU time is the time on the
 * partition's thread from the end of the previous command to the end of this one.
 *
 * CLUSTER SLOT-STATS replies the sums since the start, CONFIG RESETSTAT or the moment when the partition got the slot. --rebalance load
 * uses `recent`, a sum of CPU time that is halved every minute. Memory: 32 bytes per slot.
 */
#pragma once

#include "shared/bytes.h"

struct call;
struct partition;

enum { SLOT_LOAD_EVERY = 16 };

struct slot_cost {
    uint64_t usec;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t recent; /* usec */
};

struct slot_load {
    uint64_t aged_ms; /* monotonic: when `recent` was halved last */
    uint64_t random;
    struct slot_cost slots[]; /* SLOT_COUNT */
};

struct slot_load *slot_load_new(void);
/* NULL is allowed. */
void slot_load_free(struct slot_load *load);
/* To be called when the running command is in the sample and opens a key of the slot. */
void slot_load_choose(struct partition *partition, uint16_t slot);
/* To be called when a command in the sample has ended; `usec`: its CPU time. */
void slot_load_add(const struct call *call, uint64_t usec);
/* To be called before `recent` is read: halves it once for each minute that has passed. */
void slot_load_age(struct partition *partition);
/* Sets the costs of these slots to 0. To be called when the partition no longer owns them. */
void slot_load_forget(struct partition *partition, uint16_t first, uint16_t last);
/* Sets the sums of all slots to 0 (CONFIG RESETSTAT). */
void slot_load_reset(struct partition *partition);
