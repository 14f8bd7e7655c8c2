/*
 * changes.h - tells of changes to keys when the command that made them is kept (change.h).
 *
 *   messages:  change(k)  message  change(j)  ──changes_tell──►  invalidation(k)  message  invalidation(j)
 *                                                     └─ marks watchers of k and j, wakes clients that wait for them
 *
 * Changes stand among the messages, so what a client receives is in the order in which it happened. What is dropped
 * with the messages of a command that failed or was rolled back was never told.
 */
#pragma once

#include "backend/context/change.h"

extern const struct change_events changes_events;

/* The call is kept, and no command runs: turns all changes into messages, marks and wake-ups. */
void changes_tell(struct call *call);
/* SWAPDB: what changed in `a` concerns those who watch `b` now, and the other way round. */
void changes_swap(struct partition *partition, const struct space *a, const struct space *b);
