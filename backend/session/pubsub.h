/*
 * pubsub.h - channels, shard channels and patterns of a partition, and their subscribers.
 *
 *   namespace ─► tables ─┬─ channels ──name──► subscribers ─┐
 *                        ├─ patterns ──glob──► subscribers ─┼─ PUBLISH ─► messages
 *                        └─ shard channels ──► subscribers ─┘ SPUBLISH
 *
 * Channels belong to a namespace and not to a database. A session that has a subscription in RESP2 is in
 * subscriber mode: it may run few commands (gates.h).
 */
#pragma once

#include "shared/acl/channel.h"

struct call;
struct out;
struct partition;
struct pubsub; /* all of a partition */
struct reply;
struct session;

struct pubsub *pubsub_new(void);
void pubsub_free(struct pubsub *pubsub);
/* The subscription table of a namespace; made if there is none. */
struct subscription_table *pubsub_set(struct pubsub *pubsub, struct bytes namespace_name,
                                      enum channel_kind kind);
/* Ends the subscriptions of clients that are no proxies to shard channels whose slots are no longer here, and sends these clients
 * SUNSUBSCRIBE, as Redis Cluster does; to be called between commands, several times a second. */
void pubsub_check_slots(struct partition *partition);
/* Sends the payload to the subscribers of the channel (plain channels: also of matching patterns). Returns the number
 * of subscribers; those of a proxy's connection are counted one by one. If the comparison with the patterns takes the call too long, the
 * call fails (budget.h), and nothing is sent. */
int64_t pubsub_publish(struct call *call, struct bytes namespace_name, enum channel_kind kind,
                       struct bytes channel, struct bytes payload);
/* Sends a message that was published at another shard (channel_relay.h) to the subscribers that are no proxies. False: the comparison with
 * the patterns took too long, and some of them did not get it. */
bool pubsub_publish_relayed(struct partition *partition, struct bytes channel,
                            struct bytes payload);
