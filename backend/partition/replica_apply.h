/*
 * replica_apply.h - a copy that follows adds the records that its group has committed, one after the other.
 *
 *   log ── upto ──► cursor ──► commit_follow: rows in the overlay ──► clients that read old data see them
 *                     ▲                 │
 *                     └── next turn ◄───┴─ 2 ms are over, or the write buffers are full: until they are applied
 *
 * A record is added whole between two commands. What is derived from rows follows: clients that track keys, or wait for them, are told
 * after each step; counters of keys are read again ten times a second, and the records of slots, libraries and stored options at once.
 *
 * Between two records it may stop: for sums of rows (compare.h), or because an operator says so (copy_pause.h).
 *
 * A record that this release cannot read ends it, with a line in the log: nothing is skipped. When the disk fails, the tables are opened
 * again each second, and it goes on behind what they have then.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct replica_apply;

/* Called after each step, and when the tables were opened again. */
typedef void replica_apply_fn(struct partition *partition);

struct replica_apply *replica_apply_new(struct partition *partition, replica_apply_fn *on_step);
void replica_apply_free(struct replica_apply *apply); /* NULL is allowed */
/* Records up to the index are committed, and durable here. Nothing is added before the loop's next turn. */
void replica_apply_upto(struct replica_apply *apply, uint64_t index);
/* There may be room in the write buffers again. */
void replica_apply_go_on(struct replica_apply *apply);
/* To be called ten times a second. */
void replica_apply_tick(struct replica_apply *apply);
/* The role has changed: fresh reads that wait are refused. No record is held up any more until rows are summed up (compare.h). A pause ends unless this copy follows, since whoever
 * is about to serve, or to leave its group, must not wait for an operator. */
void replica_apply_new_role(struct replica_apply *apply, bool follows);
/* The store may be opened again. */
void replica_apply_stop_sums(struct replica_apply *apply);
/* Are there committed records that were not added? */
bool replica_apply_is_behind(const struct replica_apply *apply);
