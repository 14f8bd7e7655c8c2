/*
 * lane.h - which of a worker's connections a client's command is sent on.
 *
 *   the client watches keys of the shard ─► the dedicated connection of WATCH
 *   the client tracks (CLIENT TRACKING)  ─► its dedicated connection to the shard
 *   it reads, has sent READONLY, and may ─► a shared connection to a copy that follows (copy_reads.h)
 *   else                                 ─► the shared connection for the command's lane (node.h) and the protocol
 */
#pragma once

#include "proxy/core/client.h"

/* The label of the connections that a command would use; client_may_send() compares it. `bytes`: length of its frame, or of
 * all frames that are sent together. A request whose lane differs from that of the client's requests in flight waits for
 * their replies, so each client's requests are run in order. */
uint32_t client_label(const struct client *client, const struct command *command, size_t bytes);
/* The connection for a command to this shard. */
struct upstream *client_upstream(struct client *client, uint32_t shard,
                                 const struct command *command, size_t bytes);
/* May reads of the client be at a copy that follows: it has sent READONLY, or the data are fresh there? */
bool client_reads_at_copies(const struct client *client);
/* The connection to a copy of this shard, for a client that has sent READONLY. NULL: the command needs the leader, or no copy is up. */
struct upstream *client_copy(const struct client *client, uint32_t shard,
                             const struct command *command, size_t bytes);
/* Sends the frame of a read there. */
void client_send_copy(struct client *client, struct upstream *copy, const struct command *command,
                      const struct frame *frame);
