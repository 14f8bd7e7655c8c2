/*
 * compaction.h - compaction of a partition's whole store: SCREE COMPACT, BGREWRITEAOF, compaction-window.
 *
 *   idle ──start──► waiting ──► running on a thread of its own ──► done on the partition's thread ──► idle
 *                      │           │            ▲
 *                      └─ cancel ──┴─ cancel ───┘  on the thread of maintenance.h, because RocksDB's call blocks
 *
 * A compaction begins when all earlier writes are in the tables: otherwise rows that were just deleted would not be
 * dropped. It may take hours, so it has a thread of its own, and is cancelled when the partition stops.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct compaction;
struct hours;
struct loop;
struct storage;
struct worker;

/* The running compaction, or the last one. */
struct compaction_view {
    const char *state;  /* idle, running, cancelling */
    const char *family; /* the column family that is being compacted; "" when idle */
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint64_t percent;
    uint64_t seconds;    /* duration */
    const char *last;    /* "" (there was none), ok, cancelled, err */
    uint64_t ended_ms;   /* wall clock */
    uint64_t disk_bytes; /* size of the store's files, before and */
    uint64_t disk_bytes_after;
};

/* `helper` must outlive the result. */
struct compaction *compaction_new(struct loop *loop, struct storage *storage,
                                  struct worker *helper);
/* Cancels a running compaction and frees the struct. NULL is allowed. */
void compaction_free(struct compaction *compaction);
/* Starts a compaction, which begins at compaction_look_on. False: one is already running. */
bool compaction_start(struct compaction *compaction);
/* Requests cancellation of the compaction, which ends later. False: no compaction is running. */
bool compaction_cancel(struct compaction *compaction);
/* Starts a compaction that waits for earlier writes, when these are applied (commit_buffered_ms); called several times a second. */
void compaction_look_on(struct compaction *compaction, uint64_t buffered_ms);
/* Starts a compaction when compaction-window begins, and cancels it when the window ends; called once a second. */
void compaction_tick(struct compaction *compaction, const struct hours *hours);
bool compaction_is_running(const struct compaction *compaction);
/* State of the compaction, for the partition's thread. */
struct compaction_view compaction_look(const struct compaction *compaction);
/* Progress, for any thread; 0 of 0: none is running. */
void compaction_progress(const struct compaction *compaction, uint64_t *done, uint64_t *total);
