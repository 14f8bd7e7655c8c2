/*
 * maintenance.h - maintenance of a store, on a thread of its own, one task after the other.
 *
 *   MAINTAIN   hourly: compacts files that are due, also in key ranges without writes, so that orphans are dropped
 *   FLUSH      the WAL has grown: memtables are flushed to files, and the WAL is trimmed
 *   OPTIONS    applies changed options to RocksDB
 *   KEEP       segments of the WAL that are kept for readers of changes: removes what is beyond the limits
 *   SAVE       BGSAVE: a consistent copy, made of hard links, replaces the last one
 *
 *   idle ──timer, maintenance_start──► running on the worker ──► done() on the partition's thread ──► idle
 *
 * A new copy is made beside the last copy and renamed at the end, so there is always a complete copy. The compaction of
 * the whole store has a thread of its own (compaction.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct compaction;
struct loop;
struct storage;
struct store_options;
struct maintenance;

enum maintenance_task {
    MAINTENANCE_MAINTAIN,
    MAINTENANCE_FLUSH,
    MAINTENANCE_SAVE,
    MAINTENANCE_SET_OPTIONS,
    MAINTENANCE_KEEP,
    MAINTENANCE_TASKS
};

/* Called on the loop's thread when a task has ended. */
typedef void maintenance_fn(void *owner, enum maintenance_task task, bool good);

/* Copies go to `save_path`, a directory beside the store. */
struct maintenance *maintenance_new(struct loop *loop, struct storage *storage,
                                    const char *save_path, maintenance_fn *done, void *owner);
/* Waits for the running task, cancels a compaction, and frees the struct. NULL is allowed. */
void maintenance_free(struct maintenance *maintenance);
/* Starts a task. False: this task is already running. */
bool maintenance_start(struct maintenance *maintenance, enum maintenance_task task);
bool maintenance_is_running(const struct maintenance *maintenance, enum maintenance_task task);
/* The compaction of the whole store; lives as long as `maintenance`. */
struct compaction *maintenance_compaction(struct maintenance *maintenance);
/* Applies changed options of the store on the maintenance thread. False: the previous change is still being applied;
 * call again. */
bool maintenance_set_options(struct maintenance *maintenance, const struct store_options *options);
/* Limits of storage_keep. */
struct maintenance_keep {
    uint64_t bytes, age_ms, free_bytes_min;
};
/* Applies the limits on the maintenance thread; to be called about once a second, since segments grow old. */
void maintenance_keep(struct maintenance *maintenance, const struct maintenance_keep *keep);
