/*
 * maintenance.h - maintenance of a store, on a thread of its own, one task after the other.
 *
 *   MAINTAIN   hourly: compaction looks for files that are due, orphans go where nothing is written
 *   FLUSH      the WAL has grown long: tables go to files, and it is shortened
 *   OPTIONS    the engine takes over options that were changed
 *   SAVE       BGSAVE: a consistent copy, made of hard links, takes the place of the last one
 *
 *   idle ──timer, maintenance_start──► running on the worker ──► done() on the partition's thread ──► idle
 *
 * A copy is made beside the last one and takes its name in one step: there is always a whole one.
 * Beside it: compaction of everything, which has a thread of its own (compaction.h).
 */
#pragma once

#include <stdbool.h>

struct compaction;
struct loop;
struct store;
struct store_options;
struct maintenance;

enum maintenance_task {
    MAINTENANCE_MAINTAIN,
    MAINTENANCE_FLUSH,
    MAINTENANCE_SAVE,
    MAINTENANCE_SET_OPTIONS,
    MAINTENANCE_TASKS
};

/* Called on the loop's thread when a task has ended. */
typedef void maintenance_fn(void *owner, enum maintenance_task task, bool good);

/* Copies go to `save_path`, a directory beside the store's. */
struct maintenance *maintenance_new(struct loop *loop, struct store *store, const char *save_path,
                                    maintenance_fn *done, void *owner);
/* Waits for a task under way, ends a compaction. NULL is allowed. */
void maintenance_free(struct maintenance *maintenance);
/* False: this task is running already. */
bool maintenance_start(struct maintenance *maintenance, enum maintenance_task task);
bool maintenance_is_running(const struct maintenance *maintenance, enum maintenance_task task);
/* Lives as long as the maintenance. */
struct compaction *maintenance_compaction(struct maintenance *maintenance);
/* False: the last change is still under way. */
bool maintenance_set_options(struct maintenance *maintenance, const struct store_options *options);
