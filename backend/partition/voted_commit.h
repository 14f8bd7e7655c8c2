/*
 * voted_commit.h - batches of a partition whose group has several voters: they go through the replica's log (backend/replica/replica.h).
 *
 *   commit thread ── record ──► replica_append ──► own log ∥ other copies ──► most have it ──► leadership_committed ──► commit_ended
 *
 * A group with one voter commits by its own disk alone: there the partition writes its log itself, and the replica is told
 * (replica_logged).
 */
#pragma once

struct partition;

/* The partition is about to serve in a new term: from now on its batches go through the replica, if the group has several voters. All
 * records of the log are added. */
void voted_commit_begin(struct partition *partition);
