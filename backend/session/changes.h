/*
 * changes.h - reports changes of keys after the command that made them has succeeded (change.h).
 *
 *   messages:  change(k)  message  change(j)  ──changes_tell──►  invalidation(k)  message  invalidation(j)
 *                                                     └─ marks watchers of k and j, wakes clients that wait for them
 *
 * Changes are queued among the messages, so clients receive both in the order in which they happened. When a command
 * fails or is rolled back, its changes are dropped with its messages.
 */
#pragma once

#include "backend/context/change.h"

extern const struct change_events changes_events;

/* Called after a successful top-level command: turns its changes into messages, dirty watchers and woken clients. */
void changes_tell(struct call *call);
/* SWAPDB: changes of `a` now concern clients that watch `b`, and the reverse. */
void changes_swap(struct partition *partition, const struct space *a, const struct space *b);
