/*
 * adopt.h - connections of other backends, which began as those of clients.
 *
 *   SCREE PEER     ─► session ─► peer_set     another shard
 *   SCREE REPLICA  ─► session ─► replica      another copy of this shard: the stream moves to the replica's thread
 */
#pragma once

struct partition;
struct peer_identity;
struct stream;

/* Takes ownership of the stream of a peer that was admitted, when its session is gone. */
void adopt_stream(struct partition *partition, struct stream *stream,
                  const struct peer_identity *peer);
