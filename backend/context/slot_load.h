/*
 * slot_load.h - what the commands of each slot cost: CPU time and bytes of requests and replies.
 *
 *   a key is opened ── one of about SLOT_LOAD_EVERY ──► the command's slot ──ends──► its cost × SLOT_LOAD_EVERY
 *
 * Only a sample is measured, so a command pays for a counter; figures of busy slots are exact to a few percent. The intervals
 * are random, so that no pattern of requests is always or never in the sample. CPU time is the time from the end of the command
 * before to its own end, on the partition's thread.
 *
 * Sums are those of CLUSTER SLOT-STATS: since the start or CONFIG RESETSTAT, and while the partition owns the slot. `recent` is
 * the CPU time for --rebalance load: it is halved every minute. Memory: 32 bytes per slot.
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
/* The running command is in the sample, and has opened a key of the slot. */
void slot_load_choose(struct partition *partition, uint16_t slot);
/* A command that is in the sample has ended. */
void slot_load_add(const struct call *call, uint64_t usec);
/* Before `recent` is read. */
void slot_load_age(struct partition *partition);
/* The partition does not own these slots any more. */
void slot_load_forget(struct partition *partition, uint16_t first, uint16_t last);
/* CONFIG RESETSTAT */
void slot_load_reset(struct partition *partition);
