/*
 * peers.c - SCREE PEER, SCREE FOLLOW and SCREE REPLICA: greetings with which another backend turns its connection into one of frames (peer/frame.h).
 *
 * The connection is handed over after the reply was written (partition/connection.c).
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica.h"
#include "backend/session/session.h"
#include "backend/slots/peering.h"
#include "shared/log.h"

#include <stdlib.h>

/* Replies and logs why the connection does not become that of a peer. */
static void refuse_peer(struct call *call, const char *error)
{
    log_event(LOG_WARN, "peer_refused", "from=%s reason=" LOG_QUOTED,
              stream_peer(call->session->stream), error);
    call_error_text(call, error);
}

/* From the reply on the connection belongs to this peer. */
static void keep_peer(struct session *session, const struct peer_identity *peer)
{
    session->peer = malloc(sizeof *peer);
    CHECK(session->peer);
    *session->peer = *peer;
}

/* The reply of a copy that does not lead, which has no place among the shards; NULL: the partition serves. */
static const char *refuse_peer_of_copy(struct call *call, char redirect[PEER_REDIRECTION_MAX])
{
    const struct partition *partition = call->partition;
    if (!partition->copies.is_closed)
        return NULL;
    return peer_refuse_at_copy(call->argv[2], call->argv[3], peering_shard(partition),
                               partition->copies.leader, redirect);
}

/* SCREE PEER protocol shard identity: another backend connects to this partition and expects it to be `shard`. */
void cmd_scree_peer(struct call *call)
{
    struct session *session = call->session;
    struct peer_identity peer;
    const char *error;
    char identity[PEER_IDENTITY_MAX];
    char redirect[PEER_REDIRECTION_MAX];
    if (call->partition->thread.is_stopping || session->peer) {
        call_error_text(call,
                        "ERR the partition is stopping, or this connection is a peer's already");
        return;
    }
    error = refuse_peer_of_copy(call, redirect);
    if (error) {
        call_error_text(call, error);
        return;
    }
    if (!peer_set_admit(call->partition->shards.peers, call->argv[2], call->argv[3], call->argv[4],
                        &peer, &error)) {
        refuse_peer(call, error);
        return;
    }
    keep_peer(session, &peer);
    reply_bulk(
        &call->reply,
        (struct bytes){identity, peer_set_identity(call->partition->shards.peers, identity)});
}

/* SCREE FOLLOW protocol shard identity: another copy of the shard asks this one, which leads, what it needs for its clients. */
void cmd_scree_follow(struct call *call)
{
    const struct partition *partition = call->partition;
    const struct replica *replica = partition->copies.replica;
    struct peer_identity peer;
    const char *error = "ERR this partition does not lead other copies, or is stopping";
    char identity[PEER_IDENTITY_MAX];
    bool leads = replica && !partition->copies.is_closed && !partition->thread.is_stopping &&
                 !call->session->peer;
    if (!leads ||
        !replica_admit(replica, call->argv[2], call->argv[3], call->argv[4], &peer, &error)) {
        call_error_text(call, error);
        return;
    }
    keep_peer(call->session, &peer);
    call->session->login.follows = true;
    reply_bulk(&call->reply,
               (struct bytes){identity, peer_set_identity(partition->shards.peers, identity)});
}

/* SCREE REPLICA protocol shard identity: another copy of the shard connects to this one. */
void cmd_scree_replica(struct call *call)
{
    struct session *session = call->session;
    const struct replica *replica = call->partition->copies.replica;
    struct peer_identity peer;
    const char *error = "ERR this partition has no copies, or is stopping";
    char identity[PEER_IDENTITY_MAX];
    bool is_open = replica && !call->partition->thread.is_stopping && !session->peer;
    if (!is_open ||
        !replica_admit(replica, call->argv[2], call->argv[3], call->argv[4], &peer, &error)) {
        refuse_peer(call, error);
        return;
    }
    keep_peer(session, &peer);
    reply_bulk(&call->reply, (struct bytes){identity, replica_identity(replica, identity)});
}
