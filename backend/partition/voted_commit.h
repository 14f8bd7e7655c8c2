/*
 * voted_commit.h - batches of a partition whose group may have several voters: they go through the replica's log (backend/replica/replica.h).
 *
 *   commit thread ── record ──► replica_append ──► own log ∥ other copies ──► most have it ──► leadership_committed ──► commit_ended
 *
 * With replicas = yes the group has one voter, and commits by its own disk alone: there the partition writes its log itself, and the
 * replica is told (replica_logged). So is the record that founds a group.
 */
#pragma once

struct partition;

/* The partition is about to serve in a new term: from now on its batches go through the replica, with replicas = voters. All records of
 * the log are added. */
void voted_commit_begin(struct partition *partition);
