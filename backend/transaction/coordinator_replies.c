/*
 * coordinator_replies.c - what other shards answer to the requests of a transaction: it goes on, begins again or fails.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"

enum {
    MOVED_MAX = 40,       /* ticks, of 50 ms each */
    SEEK_OWNER_MS = 3000, /* how long to ask all shards often for the slots that they own */
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

static bool is_elsewhere(struct bytes reason)
{
    return bytes_equal(reason, BYTES(SLOT_IS_ELSEWHERE)) ||
           bytes_equal(reason, BYTES(SLOT_IS_LEAVING));
}

static bool are_locks_lost(struct bytes reason)
{
    return bytes_equal(reason, BYTES(LOCKS_ARE_LOST)) ||
           bytes_equal(reason, BYTES(KEYS_ARE_UNLOCKED)) ||
           bytes_equal(reason, BYTES(STATE_IS_ANOTHER));
}

/* Handles a refusal by the shard, or the loss of its link. True: the transaction begins again. */
static bool outlives(struct participation *part, enum peer_result result, struct bytes reason)
{
    struct coordinated *transaction = part->transaction;
    bool is_stopping = result != PEER_LOST && bytes_equal(reason, BYTES(SHARD_STOPS));
    if (coordinated_await_shard(transaction, part->shard, is_stopping))
        return true;
    if (result != PEER_LOST && is_elsewhere(reason))
        return seek_owner(transaction);
    if (result == PEER_LOST || !are_locks_lost(reason) || transaction->moved == MOVED_MAX ||
        !coordinated_begin_later(transaction))
        return false;
    transaction->moved++;
    return true;
}

static void on_refused(struct participation *part, uint8_t sent, enum peer_result result,
                       struct bytes payload)
{
    struct coordinated *transaction = part->transaction;
    if (sent == PEER_APPLY)
        return; /* coordinator_tick sends it again */
    if (result == PEER_LOST)
        part->is_locked = sent == PEER_PREPARE; /* it may be prepared */
    if (outlives(part, result, payload))
        return;
    if (result == PEER_LOST) {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_UNREACHABLE,
                         "TRYAGAIN the connection to shard '%s' was lost", part->shard);
    } else if (bytes_equal(payload, BYTES(NEEDS_MORE_MEMORY))) {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_MEMORY,
                         "ERR the command needs more memory at shard '%s' than it may use there "
                         "(command-memory), and has changed nothing",
                         part->shard);
    } else if (payload.len > 5 && memcmp(payload.data, "BUSY ", 5) == 0) {
        /* a slow script runs there: the reply is that of a command for this shard alone */
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_REFUSED, "%.*s",
                         (int)(payload.len < 256 ? payload.len : 256), payload.data);
    } else {
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_REFUSED,
                         "TRYAGAIN shard '%s' refused: %.*s", part->shard,
                         (int)(payload.len < 256 ? payload.len : 256), payload.data);
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
        part->is_applied = true;
        coordinated_apply_all(transaction);
    }
}
