/*
 * participant_portions.c - payloads of PREPARE that come in portions, and replies to LOCK that leave in portions (portion.h).
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "shared/byte_order.h"

/* The length of the reply goes before it. */
static void begin_sending(struct part *part)
{
    size_t len = part->reply.bytes;
    char *bytes = malloc(sizeof(uint64_t) + len);
    CHECK(bytes);
    put_le64(bytes, part->is_too_long ? TOO_LONG_TO_SEND : len);
    out_copy(&part->reply, bytes + sizeof(uint64_t));
    out_clear(&part->reply);
    part->to_send = (struct portions){.bytes = bytes, .len = sizeof(uint64_t) + len};
    tally_add(&part->tally, part->to_send.len);
}

static struct bytes next_portion(struct part *part)
{
    return portions_next(&part->to_send, part->participant->partition);
}

void part_drop_reply(struct part *part)
{
    tally_remove(&part->tally, part->to_send.len);
    portions_clear(&part->to_send);
}

static void end_sending(struct part *part)
{
    if (portions_are_whole(&part->to_send))
        part_drop_reply(part);
}

void part_send_reply(struct part *part)
{
    begin_sending(part);
    struct refusal refused = part_refuse_memory(part);
    if (refused.code) {
        part_end(part, refused);
        return;
    }
    part_reply(part, next_portion(part));
    end_sending(part);
}

bool part_send_rest(struct part *part, struct peer_incoming *incoming, uint64_t request)
{
    if (!part->to_send.bytes)
        return false;
    peer_incoming_done(incoming, request, next_portion(part));
    end_sending(part);
    return true;
}

struct refusal part_add_portion(struct part *part, struct message_reader *reader)
{
    struct portions *arrived = &part->arrived;
    uint64_t at = message_u64(reader);
    struct bytes portion = message_bytes(reader);
    if (!message_is_read(reader) || at != arrived->len ||
        portion.len > PREPARED_BYTES_MAX - arrived->len)
        return REQUEST_IS_NOT_VALID;
    tally_add(&part->tally, portion.len);
    struct refusal refused = part_refuse_memory(part);
    if (refused.code)
        return refused;
    arrived->bytes = message_join(arrived->bytes, arrived->len, portion);
    arrived->len += portion.len;
    return NO_REFUSAL;
}
