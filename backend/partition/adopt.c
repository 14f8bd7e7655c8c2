#include "backend/partition/adopt.h"

#include "backend/context/partition.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica.h"

void adopt_stream(struct partition *partition, struct stream *stream,
                  const struct peer_identity *peer, bool is_line)
{
    struct replica *replica = partition->copies.replica;
    if (is_line && partition->copies.is_closed)
        stream_abort(stream); /* it leads no more */
    else if (!is_line && replica && replica_is_of_shard(replica, peer->shard))
        replica_adopt(replica, stream, peer);
    else
        peer_set_adopt_stream(partition->shards.peers, stream, peer);
}
