/*
 * key_put.h - writes keys that another shard sends because this one owns their slots (KEYS_PUT, key_message.h).
 *
 * A key gets a new version, so nothing that was stored here under its name before is mixed with it. Each key is written as a
 * command would write it: WATCH, tracking, blocked clients and keyspace events notice it. The reply waits until all keys of the
 * request are durable.
 */
#pragma once

#include "backend/peer/incoming.h"

struct partition;

/* ---- for parts of keys (key_arrival.h) ---- */

/* Does the partition take keys of this slot now? */
bool key_put_is_ready(const struct partition *partition, uint16_t slot);
/* Why no key can be written now. */
struct refusal key_put_refusal(const struct partition *partition);
/* Replies with the results when everything that was observed since overlay_observe_begin is durable. */
void key_put_reply(struct partition *partition, struct peer_incoming *incoming,
                   const struct peer_frame *frame, struct bytes results);
