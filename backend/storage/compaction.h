/*
 * compaction.h - compaction of a partition's whole store: SCREE COMPACT, BGREWRITEAOF, compaction-window.
 *
 *   idle ──start──► waiting ──► running on a thread of its own ──► done on the partition's thread ──► idle
 *                      │           │            ▲
 *                      └─ cancel ──┴─ cancel ───┘  said to the engine by the thread of maintenance.h, for it waits
 *
 * It waits until what was written before it is in the tables: else what was just deleted would stay.
 * It may take hours, so nothing else waits behind it, and the end of the partition ends it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct compaction;
struct hours;
struct loop;
struct store;
struct worker;

/* What it does, or did last. */
struct compaction_view {
    const char *state;  /* idle, running, cancelling */
    const char *family; /* the column family it is at; "" when idle */
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint64_t percent;
    uint64_t seconds;    /* it takes or took */
    const char *last;    /* "" (there was none), ok, cancelled, err */
    uint64_t ended_ms;   /* wall clock */
    uint64_t disk_bytes; /* the store's files, before and */
    uint64_t disk_bytes_after;
};

/* `helper` must outlive it. */
struct compaction *compaction_new(struct loop *loop, struct store *store, struct worker *helper);
/* Ends one under way. NULL is allowed. */
void compaction_free(struct compaction *compaction);
/* False: one is running. */
bool compaction_start(struct compaction *compaction);
/* False: none is running. It ends soon. */
bool compaction_cancel(struct compaction *compaction);
/* Some times a second: goes on with one that waits. */
void compaction_look_on(struct compaction *compaction);
/* Once a second: begins one when the hours do, and ends what it began when they are over. */
void compaction_tick(struct compaction *compaction, const struct hours *hours);
bool compaction_is_running(const struct compaction *compaction);
/* On the partition's thread. */
struct compaction_view compaction_look(const struct compaction *compaction);
/* On any thread: how much is done of how much; 0 of 0: none is running. */
void compaction_progress(const struct compaction *compaction, uint64_t *done, uint64_t *total);
