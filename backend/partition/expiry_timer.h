/*
 * expiry_timer.h - when the partition's thread deletes expired keys (expiry.h).
 *
 *   tick, 10 times a second ─► step ─► rest ─► step ─► rest …  until nothing is due
 *                              0.2 ms   │        └─ rows are only on disk: until reader threads have brought them
 *                                       └─ others are served for at least as long as expire-effort demands
 *
 * Steps take a quarter of the thread's time with `expire-effort` 1, and 5 percent more with each further number: 70 percent with 10.
 */
#pragma once

struct partition;

void expiry_timer_new(struct partition *partition);
void expiry_timer_free(struct partition *partition);
/* Begins with the keys that are due, unless they are being deleted already. */
void expiry_timer_tick(struct partition *partition);
/* Sets the metrics, and the figures of INFO. */
void expiry_timer_show(struct partition *partition);
