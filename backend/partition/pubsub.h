/*
 * pubsub.h - channels, shard channels and patterns of a partition, and who listens to them.
 *
 *   namespace ─► tables ─┬─ channels ──name──► listeners ──┐
 *                        ├─ patterns ──glob──► listeners ──┼─ PUBLISH ─► messages
 *                        └─ shard channels ──► listeners ◄─┘ SPUBLISH
 *
 * Channels belong to a namespace and not to a database. A session that has a subscription in RESP2 is in
 * subscriber mode: dispatch lets few commands through.
 */
#pragma once

#include "shared/channel.h"

struct call;
struct out;
struct partition;
struct pubsub; /* all of a partition */
struct reply;
struct session;

struct pubsub *pubsub_new(void);
void pubsub_free(struct pubsub *pubsub);
/* The table of a namespace; made when it is new. */
struct subscription_table *pubsub_set(struct pubsub *pubsub, struct bytes namespace_name,
                                      enum channel_kind kind);
/* Sends the payload to the listeners of the channel (plain: and of patterns that match it) in the namespace.
 * Returns how many listeners that are, those a proxy speaks for counted one by one. */
int64_t pubsub_publish(struct partition *partition, struct bytes namespace_name,
                       enum channel_kind kind, struct bytes channel, struct bytes payload);
