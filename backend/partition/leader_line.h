/*
 * leader_line.h - the connection of a copy that does not lead to the partition that leads its shard: what it asks there for its clients.
 *
 *   copy: SCREE FOLLOW ─► leader, which takes it for a link of its own shard (peer/link.h)
 *     LEADERS   ten times a second, in big clusters less often: who leads the other shards, and how far all copies are (cluster_heard.h)
 *     LEAD      when an operator asks (CLUSTER FAILOVER): the leader hands over to this copy (hand_over.h)
 *     READ_INDEX  for reads that must be fresh (dispatch/fresh_reads.h), one question at a time: what its data must have
 *     SUMS      when rows are compared: those of this copy (compare.h)
 *
 * It is beside the connections on which the log comes: those belong to the replica's thread. A leader of an older version refuses SCREE
 * FOLLOW; then its copies know of other shards what they have heard before, and what the map says.
 */
#pragma once

#include "backend/dispatch/fresh_reads.h"
#include "shared/bytes.h"

struct partition;

/* Ten times a second: connects to the copy that leads now, and asks. Nothing is done while the partition stops, or has no other copies. */
void leader_line_tick(struct partition *partition);
/* Asks the leader to hand over to this copy. NULL: it was asked, and may still refuse; or why not. */
const char *leader_line_ask_lead(struct partition *partition);
/* Asks the leader what fresh reads must see; fresh_reads_answered follows. False: it cannot be reached. */
bool leader_line_ask_index(struct partition *partition);
/* A leader's answer; false: it does not lead, or may have a successor, so it must not answer. */
bool leader_line_index(const struct partition *partition, struct read_index *to);
/* Sends a request whose reply does not matter. False: the leader cannot be reached now. */
bool leader_line_tell(struct partition *partition, uint8_t kind, struct bytes payload);
/* The partition is about to lead no more: what it knows of other shards is kept until it hears more. */
void leader_line_remember(struct partition *partition);
/* Also forgets what was heard. To be called before the partition's loop ends. */
void leader_line_free(struct partition *partition);
