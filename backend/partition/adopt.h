/*
 * adopt.h - connections of other backends, which began as those of clients.
 *
 *   SCREE PEER     ─► session ─► peer_set     another shard
 *   SCREE FOLLOW   ─► session ─► peer_set     another copy of this shard, which asks this one as the leader (leader_line.h)
 *   SCREE REPLICA  ─► session ─► replica      another copy of this shard: the stream moves to the replica's thread
 */
#pragma once

#include <stdbool.h>

struct partition;
struct peer_identity;
struct stream;

/* Takes ownership of the stream of a peer that was admitted, when its session is gone. `is_line`: after SCREE FOLLOW. */
void adopt_stream(struct partition *partition, struct stream *stream,
                  const struct peer_identity *peer, bool is_line);
