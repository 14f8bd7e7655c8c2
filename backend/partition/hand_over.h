/*
 * hand_over.h - a leader gives its role to another copy, on purpose: when its process is stopped, an operator asks (SCREE LEADER TO), or
 * its disk is full (copies_room.h).
 *
 *   DRAINS   SCREE SELF says "replica"; STOPPING_FRAME: proxies end what is in flight here, and hold what is new
 *     │      other shards begin no transaction here
 *     │ all of that has ended, or DRAIN_MS are over
 *   GIVES    commands wait (partition_lease_is_over) ─► nothing is to be committed any more ─► replica_hand_over
 *     │ the role is lost: the partition steps down (step_down.h)
 *   GIVEN    until it is known which copy leads, so that clients who wait are sent there
 *
 * So no client of a proxy sees an error, and the shard stands still for as long as requests in flight take, and an election without a
 * timeout. If the other copy is not ready in time, the partition leads on.
 */
#pragma once

struct partition;
struct replica_figure;
struct replica_figures;

/* To the copy at the address; empty: to the voter that has most of the log. NULL, or why not. May be called by a command. */
const char *hand_over_begin(struct partition *partition, const char *address);
/* The disk has less room than those of most copies: to one of these, if that was not tried a moment ago. */
void hand_over_for_room(struct partition *partition);
/* Why the copy cannot lead at once, by the leader's figures; NULL: it can. */
const char *hand_over_objection(const struct replica_figures *figures,
                                const struct replica_figure *copy);
/* At the end of each turn. */
void hand_over_turn_end(struct partition *partition);
/* The partition leads no more. */
void hand_over_role_lost(struct partition *partition);
void hand_over_free(struct partition *partition);
