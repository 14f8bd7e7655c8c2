#include "backend/consensus/message.h"

#include "shared/byte_order.h"

enum {
    FLAG_PRE = 1,
    FLAG_MARKED = 2,
    FLAG_GOOD = 4,
    FLAGS_ALL = 7,
    STATES_ALL = 15,
    FIELDS_MAX = 5,
    HEAD = 3 + 8 * 3,
};

/* Lists the u64 fields that messages of this kind have, in their order, and returns their number. An APPEND has its count behind them. */
static unsigned fields_of(struct consensus_message *message, uint64_t *fields[FIELDS_MAX])
{
    unsigned count = 0;
    switch (message->kind) {
    case CONSENSUS_VOTE:
    case CONSENSUS_SNAPSHOT:
        fields[count++] = &message->index;
        fields[count++] = &message->index_term;
        break;
    case CONSENSUS_VOTE_REPLY:
        fields[count++] = &message->wait_us;
        break;
    case CONSENSUS_APPEND:
        fields[count++] = &message->index;
        fields[count++] = &message->index_term;
        fields[count++] = &message->commit;
        fields[count++] = &message->sent_us;
        fields[count++] = &message->records_term;
        break;
    case CONSENSUS_APPEND_REPLY:
        fields[count++] = &message->index;
        fields[count++] = &message->sent_us;
        fields[count++] = &message->hint;
        fields[count++] = &message->promise_us;
        break;
    case CONSENSUS_HAND_OVER:
        break;
    }
    return count;
}

unsigned consensus_message_write(const struct consensus_message *message,
                                 char to[CONSENSUS_MESSAGE_BYTES_MAX])
{
    struct consensus_message copy = *message;
    uint64_t *fields[FIELDS_MAX];
    unsigned count = fields_of(&copy, fields);
    to[0] = (char)message->kind;
    to[1] = (char)((message->is_pre ? FLAG_PRE : 0) | (message->is_marked ? FLAG_MARKED : 0) |
                   (message->is_good ? FLAG_GOOD : 0));
    to[2] = (char)message->state;
    put_le64(to + 3, message->from);
    put_le64(to + 11, message->to);
    put_le64(to + 19, message->term);
    for (unsigned i = 0; i < count; i++)
        put_le64(to + HEAD + 8 * i, *fields[i]);
    unsigned len = HEAD + 8 * count;
    if (message->kind != CONSENSUS_APPEND)
        return len;
    put_le32(to + len, message->count);
    return len + 4;
}

static unsigned flags_of_kind(enum consensus_message_kind kind)
{
    switch (kind) {
    case CONSENSUS_VOTE:
        return FLAG_PRE | FLAG_MARKED;
    case CONSENSUS_VOTE_REPLY:
        return FLAG_PRE | FLAG_GOOD;
    case CONSENSUS_APPEND_REPLY:
        return FLAG_GOOD;
    default:
        return 0;
    }
}

static bool read_head(struct bytes bytes, struct consensus_message *message)
{
    if (bytes.len < HEAD || bytes.data[0] < CONSENSUS_VOTE || bytes.data[0] > CONSENSUS_HAND_OVER)
        return false;
    unsigned flags = (uint8_t)bytes.data[1];
    *message = (struct consensus_message){
        .kind = (enum consensus_message_kind)bytes.data[0],
        .is_pre = flags & FLAG_PRE,
        .is_marked = flags & FLAG_MARKED,
        .is_good = flags & FLAG_GOOD,
        .state = (uint8_t)bytes.data[2],
        .from = get_le64(bytes.data + 3),
        .to = get_le64(bytes.data + 11),
        .term = get_le64(bytes.data + 19),
    };
    unsigned states = message->kind == CONSENSUS_APPEND_REPLY ? STATES_ALL : 0;
    return !(flags & ~flags_of_kind(message->kind)) && !(message->state & ~states) &&
           message->from && message->to && message->from != message->to;
}

/* Terms never decrease along a log, and indexes never overflow. A copy that has heard of no term yet can refuse a vote. */
static bool is_sensible(const struct consensus_message *message)
{
    const uint64_t end = UINT64_MAX - CONSENSUS_RECORDS_MAX;
    if (message->index > end || message->term > end || message->index_term > message->term ||
        (!message->term && (message->kind != CONSENSUS_VOTE_REPLY || message->is_good)))
        return false;
    if (message->is_pre && message->is_marked)
        return false;
    if (message->kind != CONSENSUS_APPEND)
        return true;
    if (message->count > CONSENSUS_RECORDS_MAX || !message->count != !message->records_term)
        return false;
    return !message->count ||
           (message->records_term >= message->index_term && message->records_term <= message->term);
}

bool consensus_message_read(struct bytes *bytes, struct consensus_message *message)
{
    uint64_t *fields[FIELDS_MAX];
    if (!read_head(*bytes, message))
        return false;
    unsigned count = fields_of(message, fields);
    size_t len = HEAD + 8 * count + (message->kind == CONSENSUS_APPEND ? 4 : 0);
    if (bytes->len < len)
        return false;
    for (unsigned i = 0; i < count; i++)
        *fields[i] = get_le64(bytes->data + HEAD + 8 * i);
    if (message->kind == CONSENSUS_APPEND)
        message->count = get_le32(bytes->data + len - 4);
    if (!is_sensible(message))
        return false;
    *bytes = (struct bytes){bytes->data + len, bytes->len - len};
    return true;
}
