/*
 * upkeep.h - slow care for a store, on a thread of its own, one task after the other.
 *
 *   MAINTAIN   hourly: compaction looks for files that are due, orphans go where nothing is written
 *   FLUSH      the WAL has grown long: tables go to files, and it is shortened
 *   OPTIONS    the engine takes over options that were changed
 *   SAVE       BGSAVE: a consistent copy, made of hard links, takes the place of the last one
 *
 *   idle ──timer, upkeep_start──► running on the worker ──► done() on the partition's thread ──► idle
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
struct upkeep;

enum upkeep_task { UPKEEP_MAINTAIN, UPKEEP_FLUSH, UPKEEP_SAVE, UPKEEP_SET_OPTIONS, UPKEEP_TASKS };

/* Called on the loop's thread when a task has ended. */
typedef void upkeep_fn(void *owner, enum upkeep_task task, bool good);

/* Copies go to `save_path`, a directory beside the store's. */
struct upkeep *upkeep_new(struct loop *loop, struct store *store, const char *save_path,
                          upkeep_fn *done, void *owner);
/* Waits for a task under way, ends a compaction. NULL is allowed. */
void upkeep_free(struct upkeep *upkeep);
/* False: this task is running already. */
bool upkeep_start(struct upkeep *upkeep, enum upkeep_task task);
bool upkeep_is_running(const struct upkeep *upkeep, enum upkeep_task task);
/* Lives as long as the upkeep. */
struct compaction *upkeep_compaction(struct upkeep *upkeep);
/* False: the last change is still under way. */
bool upkeep_set_options(struct upkeep *upkeep, const struct store_options *options);
