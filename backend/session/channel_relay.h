/*
 * channel_relay.h - messages of PUBLISH reach the clients of all shards, as in Redis Cluster.
 *
 *   PUBLISH at shard a ─┬─► subscribers at a: clients and proxies         (pubsub.h)
 *                       └─► PEER_PUBLISH ─► shard b, c … ─► subscribers there that are clients
 *
 * (1) A proxy is subscribed at every shard (proxy/client/subscriptions.h), so it gets the message from a, and other shards do not send it
 *     again. Nor do they relay it to further shards.
 * (2) Messages go only to shards that listen, which means that a client, not a proxy, has subscribed there. Before the first such
 *     SUBSCRIBE runs, its shard sends PEER_LISTEN to the others and waits for their replies, so that no message published after
 *     the confirmation is missed. The identity (frame.h) has this state for shards that connect later. So PUBLISH costs
 *     nothing in a cluster whose clients all use proxies. When a shard receives a message and no such client is left, it
 *     sends PEER_LISTEN with 0; a shard that does not get this request gets one after its next message.
 * (3) A message is sent when the effects of its command, or of the transaction around it, are durable. Messages keep their order.
 * (4) Messages are never resent: those for a link that is down, or that has peer-output-limit unsent bytes, are lost and counted.
 * (5) Only messages of the open space are relayed: clients that connect to a backend directly are in no namespace.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct block;
struct call;
struct channel_relay; /* of a partition */
struct partition;
struct peer_frame;
struct peer_incoming;

struct channel_relay *channel_relay_new(struct partition *partition);
/* To be called when the partition has no links any more. NULL is allowed. */
void channel_relay_free(struct channel_relay *relay);
/* Must the command wait until the other shards have confirmed PEER_LISTEN? It runs again when they have. */
bool channel_relay_waits(const struct call *call);
/* From now on this shard listens; sends PEER_LISTEN if it did not before. */
void channel_relay_listen(struct channel_relay *relay);
/* The running command publishes the payload: adds it to the messages of the partition (push_message.h) if a shard listens. */
void channel_relay_add(struct call *call, struct bytes channel, struct bytes payload);
/* Sends a message of channel_relay_add when the batch with this ticket is durable; 0: at once. */
void channel_relay_send(struct channel_relay *relay, struct block *message, uint64_t ticket);
