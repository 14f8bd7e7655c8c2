/*
 * upkeep.h - slow care for a store, on a thread of its own: an hourly look for files that compaction is due for.
 *
 *   IDLE ──timer──► job on the worker ──done──► IDLE          a timer that finds it busy waits for the next time
 */
#pragma once

struct loop;
struct store;
struct upkeep;

struct upkeep *upkeep_new(struct loop *loop, struct store *store);
/* Waits for a job under way. NULL is allowed. */
void upkeep_free(struct upkeep *upkeep);
