/*
 * coordinator_prepare.c - sends effects and changes to the shard that has their keys.
 *
 *   effects, changes ─► to_send ─┬─ PREPARE_PART, answered at once ─► the next one
 *                                └─ PREPARE: the last portion, answered when its record is durable
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/partition.h"
#include "backend/format/effects.h"

bool participation_may_prepare(struct participation *part)
{
    size_t len = effects_bytes(part->effects).len + part->changes.bytes;
    if (len <= PREPARED_BYTES_MAX - 2 * sizeof(uint32_t))
        return true;
    coordinated_fail(part->transaction, METRIC_BACKEND_FAILED_REFUSED,
                     "ERR the command changes more than %d bytes of keys of shard '%s'",
                     PREPARED_BYTES_MAX, part->shard);
    return false;
}

/* Writes what PREPARE contains besides the id: effects and changes. */
static void make_payload(struct participation *part)
{
    struct out out;
    out_init(&out);
    message_put_bytes(&out, effects_bytes(part->effects));
    message_put_u32(&out, (uint32_t)part->changes.bytes);
    out_move(&out, &part->changes);
    struct bytes payload = out_take(&out);
    part->to_send = (struct portions){.bytes = (char *)payload.data, .len = payload.len};
}

bool participation_has_all(const struct participation *part)
{
    return portions_are_whole(&part->to_send);
}

bool participation_prepare_next(struct participation *part)
{
    const struct partition *partition = part->transaction->coordinator->partition;
    struct out out;
    uint64_t at = part->to_send.at;
    struct bytes portion = portions_next(&part->to_send, partition);
    enum peer_kind kind = participation_has_all(part) ? PEER_PREPARE : PEER_PREPARE_PART;
    out_init(&out);
    coordinated_put_id(&out, &part->transaction->id);
    message_put_u64(&out, at);
    message_put_bytes(&out, portion);
    bool is_sent = participation_send(part, kind, &out);
    if (kind == PEER_PREPARE)
        portions_clear(&part->to_send);
    return is_sent;
}

bool participation_prepare(struct participation *part)
{
    make_payload(part);
    return participation_prepare_next(part);
}
