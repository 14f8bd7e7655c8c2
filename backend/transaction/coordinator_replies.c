/*
 * coordinator_replies.c - what other shards answer to the requests of a transaction: it goes on, begins again or fails.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"

enum {
    MOVED_MAX = 40,       /* ticks, of 50 ms each */
    SEEK_OWNER_MS = 3000, /* how long to ask all shards often for the slots that they own */
    SHOWN_MAX = 256,      /* bytes of a refusal that a client sees */
};

/* The shard does not own a key's slot any more: asks all shards for owners, and begins again at the next tick. False: that has
 * happened too often. */
static bool seek_owner(struct coordinated *transaction)
{
    struct partition_shards *shards = &transaction->coordinator->partition->shards;
    if (transaction->moved == MOVED_MAX || !coordinated_begin_later(transaction))
        return false;
    transaction->moved++;
    if (!shards->unknown_until_ms)
        shards->unknown_until_ms =
            loop_mono_ms(transaction->coordinator->partition->loop) + SEEK_OWNER_MS;
    return true;
}

/* Handles a refusal by the shard, or the loss of its link (NOT_REFUSED). True: the transaction begins again. */
static bool outlives(struct participation *part, enum refusal_code refusal)
{
    struct coordinated *transaction = part->transaction;
    if (coordinated_await_shard(transaction, part->shard, refusal == REFUSED_STOPPING))
        return true;
    if (refusal == REFUSED_ELSEWHERE || refusal == REFUSED_LEAVING)
        return seek_owner(transaction);
    if (refusal != REFUSED_LOCKS_LOST || transaction->moved == MOVED_MAX ||
        !coordinated_begin_later(transaction))
        return false;
    transaction->moved++;
    return true;
}

static void on_refused(struct participation *part, uint8_t sent, enum peer_result result,
                       struct bytes payload)
{
    struct coordinated *transaction = part->transaction;
    enum refusal_code refusal = result == PEER_LOST ? NOT_REFUSED : part->request.refusal;
    int len = (int)(payload.len < SHOWN_MAX ? payload.len : SHOWN_MAX);
    if (sent == PEER_APPLY)
        return; /* coordinator_tick sends it again */
    if (result == PEER_LOST)
        part->is_locked = sent == PEER_PREPARE; /* it may be prepared */
    if (outlives(part, refusal))
        return;
    if (result == PEER_LOST) {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
                         "TRYAGAIN the connection to shard '%s' was lost", part->shard);
    } else if (refusal == REFUSED_MEMORY) {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_MEMORY,
                         "ERR the command needs more memory at shard '%s' than it may use there "
                         "(command-memory), and has changed nothing",
                         part->shard);
    } else if (refusal == REFUSED_BUSY) {
        /* the reply is that of a command for this shard alone */
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_REFUSED, "BUSY %.*s", len,
                         payload.data);
    } else {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_REFUSED,
                         "TRYAGAIN shard '%s' refused: %.*s", part->shard, len, payload.data);
    }
}

/* The shard has taken a portion of PREPARE; the last one when its record is durable. */
static void on_portion(struct participation *part)
{
    struct coordinated *transaction = part->transaction;
    if (participation_has_all(part))
        coordinated_on_prepared(transaction);
    else if (!participation_prepare_next(part))
        coordinated_cannot_send(transaction, part->shard);
}

void participation_on_reply(struct peer_request *request, enum peer_result result,
                            struct bytes payload)
{
    struct participation *part = container_of(request, struct participation, request);
    struct coordinated *transaction = part->transaction;
    uint8_t sent = part->sent;
    part->sent = 0;
    transaction->outstanding--;
    if (result != PEER_OK) {
        on_refused(part, sent, result, payload);
    } else if (sent == PEER_LOCK || sent == PEER_LOCK_REST) {
        participation_locked(part, payload);
    } else if (sent == PEER_PREPARE || sent == PEER_PREPARE_PART) {
        on_portion(part);
    } else if (sent == PEER_RELEASE) {
        participation_free(part);
        coordinated_on_prepared(transaction);
    } else {
        CHECK(sent == PEER_APPLY);
        part->is_applied = true;
        coordinated_apply_all(transaction);
    }
}
