/*
 * leadership.h - what a partition that has copies does in each role of its replica (backend/replica/replica.h).
 *
 *   role                            the partition
 *   NONE                            closed; it writes the record of the members, if it is told to (founding.h)
 *   JOINING, FOLLOWING, LEADING ─►  follows: closed, adds what is committed; clients may read old data
 *   SERVING                     ─►  adds all up to the role's index ─► reads anew what is cached from rows ─► serves
 *   SERVING ─► another one      ─►  steps down (step_down.h), then as above
 *   LOST, OVERTAKEN                 follows, but no more comes
 *
 * Closed (partition_copies.is_closed): commands for data are refused or sent to the leader (gates.h). Expired keys are hidden and stay.
 * There are no links to other shards, no transactions over shards and no moves of slots: their rows are read when the partition begins to
 * serve. So nothing is written but by the leader.
 *
 * In a group with one voter, records are committed as soon as this copy has them on its disk, and the partition serves until survivors were
 * made a group of their own. Only a fault can take its role from it otherwise: that ends the process. In a group that votes (leadership_use_votes), a leader serves as long as its lease lasts
 * (partition_lease_is_over): then requests wait, at most WAITS_MS, until it has a lease again, or another role. A lease
 * is good for one term only: the one in which the partition called replica_serves. So if this copy loses its role and is elected again
 * while a long command runs, the command gets no lease from the new term.
 */
#pragma once

#include "backend/replica/replica.h"

struct partition;

/* The partition is one of several copies, or will be: it is closed from now on. To be called before its thread runs, before
 * peering_configure, and before replica_new. */
void leadership_new(struct partition *partition);
/* Other copies may be elected: the partition steps down when one is, and obeys its lease. After leadership_new, before its thread runs. */
void leadership_use_votes(struct partition *partition);
/* Frees the replica too, whose loop must have ended. Does nothing without leadership_new. */
void leadership_free(struct partition *partition);
/* Ends the replica: nothing is added any more; on_stopped is called at last, at once if there is no replica. */
void leadership_stop(struct partition *partition, void (*on_stopped)(void *owner), void *owner);

/* replica_events.on_role, on_committed and on_acknowledged; the owner is the partition. */
void leadership_role(void *owner, const struct replica_role *role);
void leadership_committed(void *owner, uint64_t index);
void leadership_acknowledged(void *owner);

/* ---- called by the partition ---- */

/* Ten times a second. */
void leadership_tick(struct partition *partition);
/* There may be room in the write buffers again. */
void leadership_has_room(struct partition *partition);
/* The batch with this ticket is durable, and has this index. */
void leadership_logged(struct partition *partition, uint64_t ticket, uint64_t index);
/* The batches that were not durable were rolled back. */
void leadership_not_logged(struct partition *partition);
/* Is it a copy that follows another one, or waits for one to be elected? */
bool leadership_follows(const struct partition *partition);
/* The partition cannot go on in its role: ends the process, with the reason in the log. */
void leadership_end_process(const struct partition *partition, const char *why);
