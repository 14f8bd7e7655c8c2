/*
 * across.h - commands that may use keys of several shards, which one shard runs for all (cross-slot = any).
 *
 *   RENAME a b ─► keys on shards 0, 1 ─► SCREE ACROSS RENAME a b ─► shard 0, on a connection of its own
 *   EVAL … 1 k ─► key on shard 2      ─► SCREE ACROSS EVAL … 1 k ─► shard 2, on the lane of scripts
 *
 * The shard fetches the other keys from their owners and commits at all of them. It suspends the connection until it has
 * the locks, so a request with keys on several shards has a connection of its own (pool_across()).
 *
 * Order of a client's requests: shards run such a command while others of the same client may be in flight to the owners
 * of its keys. So it is sent when all earlier requests are answered, and later requests wait for its reply. Only scripts
 * whose keys are on the same shard may follow each other on the lane of scripts, because that shard runs them in order.
 */
#pragma once

#include "proxy/core/client.h"
#include "proxy/core/route.h"

/* The rules by which the client's commands are routed. */
struct route_rules across_rules(const struct client *client);
/* A connection to the shard for this request alone. A client that tracks uses its dedicated connection, so that the shard
 * tracks the keys that the request reads. NULL: the client is held. */
struct upstream *across_upstream(struct client *client, const struct command *command,
                                 uint32_t shard, bool has_script);
/* True when a request may be sent that must be the client's only one in flight; else the client is held. */
bool across_may_send(struct client *client, const struct command *command);
/* Sends the frame to the shard on a connection of its own. False: the client is held and nothing was sent. */
bool across_send(struct client *client, const struct frame *frame, const struct command *command,
                 uint32_t shard);
/* Sends the frame, whose keys are on this shard and which may use other keys, on the command's lane. False: the client is
 * held and nothing was sent. */
bool across_send_shared(struct client *client, const struct frame *frame,
                        const struct command *command, uint32_t shard);
