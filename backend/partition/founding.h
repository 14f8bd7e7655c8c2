/*
 * founding.h - makes a partition one of the copies of its shard: which copy the shard map and the disk make it, and how a group of copies
 * begins.
 *
 *   the store is a copy (row 'g', file `replica`)     ─► a replica, which goes on as what it was
 *   the map has one address for the shard             ─► no replica: the data have one copy
 *   several   this is the first    ─► NONE: founds the group when all other addresses have said that they are of none; serves from then on
 *             another, no keys     ─► EMPTY: waits for the leader's snapshot
 *             another, with keys   ─► DATA: waits for the operator, since its keys would be lost
 *
 *   replica ── on_propose: these members ─► row 'g' in the open batch, of type MEMBERS ─► on_commit ─► replica_logged
 *
 * With replicas = voters, a copy that has lost its promises gets an empty directory (on_lost), and then waits for a snapshot also at the first
 * address; and a group without keys is served only when most of the addresses are those of voters.
 *
 * A group is founded once. So the first address founds only while each other one is connected and says on this connection that it is of no
 * group and has lost nothing: a copy that is away may be a member of a group that is forgotten here. The operator can found without those
 * that do not answer (SCREE REPLICAS FOUND), never beside one that is a member, or that has lost its promises.
 *
 * All functions but founding_wants_loop and founding_begin are called on the partition's thread.
 */
#pragma once

#include "backend/replica/replica.h"

struct metrics;
struct partition;

struct founding_options {
    struct loop *loop;       /* of the replica's thread, which does not run yet */
    struct metrics *metrics; /* of that thread */
    const struct replica_snapshots *snapshots;
    /* replica_events.on_install; on the partition's thread */
    void (*on_install)(void *owner, const char *dir, const struct replica_record *record);
    void (*on_lost)(void *owner); /* replica_events.on_lost; likewise */
    bool has_lost;                /* replica_options.has_lost */
    void *owner;
};

/* Will founding_begin make a replica, which needs a thread? Before the partition's thread runs; its map and ports are known. */
bool founding_wants_loop(const struct partition *partition);
/* Makes the partition's replica, if it is to have one, and closes the partition until its copy leads. Once, before the first
 * peering_configure and before its thread runs. False: it cannot start, for the reason in error[size]. */
bool founding_begin(struct partition *partition, const struct founding_options *options,
                    char *error, size_t size);
/* After its replica has stopped. */
void founding_free(struct partition *partition);
/* The map, the secret or limits of connections have changed. */
void founding_configure(struct partition *partition);
/* A metric: this copy begins to serve. */
void founding_count_lead(const struct partition *partition);
/* For the metrics: the shard has a new leader. */
void founding_count_change(const struct partition *partition);
/* To be called 10 times a second, while no command runs: founds the group when it may, and writes proposed members. */
void founding_tick(struct partition *partition);
/* The members that the batch with this ticket, which is committed, has written; NULL: none. Valid until the next founding_tick. */
const struct members *founding_logged(struct partition *partition, uint64_t ticket);
/* The batches that were not committed were rolled back. */
void founding_not_logged(struct partition *partition);

/* SCREE REPLICAS FOUND and FORCE. NULL, or an error text. */
const char *founding_found(struct partition *partition);
const char *founding_force(struct partition *partition);
/* The role of the partition's copy, as its replica has said it last. The partition has a replica. */
const struct replica_role *founding_role(const struct partition *partition);
