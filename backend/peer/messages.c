#include "backend/peer/messages.h"

#include "backend/format/transaction_record.h"
#include "backend/peer/message.h"

#include <string.h>

enum sender { ANY, COORDINATOR };
enum slow { RUNS, BUSY };
enum answer { NONE, DONE };

static const struct peer_message messages[UINT8_MAX + 1] = {
#define MESSAGE(id, name, handler, sender, slow, answer)                                           \
    [id] = {#name, (sender) == COORDINATOR, (slow) == BUSY, (answer) == NONE},
#define MESSAGE_LINK(id, name, slow, answer)                                                       \
    [id] = {#name, false, (slow) == BUSY, (answer) == NONE},
#define MESSAGE_COPY(id, name, answer) [id] = {.is_silent = (answer) == NONE},
#include "backend/peer/messages.def"
#undef MESSAGE
#undef MESSAGE_LINK
#undef MESSAGE_COPY
};

const struct peer_message *peer_message(uint8_t kind)
{
    return &messages[kind];
}

static bool coordinates(const struct peer_incoming *incoming, struct bytes payload)
{
    struct message_reader reader = message_read(payload);
    struct transaction_id id;
    return transaction_id_read(message_bytes(&reader), &id) &&
           strcmp(id.shard, incoming->peer.shard) == 0;
}

struct refusal peer_message_refuse(const struct peer_incoming *incoming,
                                   const struct peer_frame *frame, const char *busy_error)
{
    const struct peer_message *message = peer_message(frame->kind);
    if (!message->name)
        return REFUSAL(OTHER, "unknown request");
    if (message->is_refused_busy && busy_error)
        return refusal_busy(busy_error);
    if (message->is_of_coordinator && !coordinates(incoming, frame->payload))
        return REQUEST_IS_NOT_VALID;
    return NO_REFUSAL;
}
