/*
 * bitmap.c - strings as arrays of bits: SETBIT, GETBIT, BITCOUNT, BITPOS.
 *
 * Fragments without a row are zeros, so counting and searching visit only the fragments that exist.
 */
#include "backend/dispatch/handlers.h"
#include "backend/format/bits.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"

static bool offset_argument(struct call *call, uint32_t index, uint64_t *offset)
{
    if (bit_offset_parse(call->argv[index], 0, call_bulk_bytes_max(call), offset))
        return true;
    call_error_text(call, "ERR bit offset is not an integer or out of range");
    return false;
}

void cmd_setbit(struct call *call)
{
    struct entry entry;
    uint64_t offset;
    char byte;
    if (!offset_argument(call, 2, &offset))
        return;
    bool on = bytes_equal(call->argv[3], BYTES("1"));
    if (!on && !bytes_equal(call->argv[3], BYTES("0"))) {
        call_error_text(call, "ERR bit is not an integer or out of range");
        return;
    }
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        !text_copy(call, &entry, offset / 8, 1, &byte))
        return;
    bool old = bits_get(&byte, offset % 8);
    reply_int(&call->reply, old);
    if (old == on && offset / 8 < text_len(&entry))
        return;
    char mask = (char)(0x80 >> offset % 8);
    byte = (char)(on ? byte | mask : byte & ~mask);
    if (text_write(call, &entry, offset / 8, (struct bytes){&byte, 1}))
        notify(call, NOTIFY_STRING, "setbit", entry.key);
}

void cmd_getbit(struct call *call)
{
    struct entry entry;
    uint64_t offset;
    char byte;
    if (offset_argument(call, 2, &offset) &&
        keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry) &&
        text_copy(call, &entry, offset / 8, 1, &byte))
        reply_int(&call->reply, bits_get(&byte, offset % 8));
}

/* ---- ranges ---- */

enum unit { UNIT_BYTE = 8, UNIT_BIT = 1 };

/* Parses BYTE or BIT; anything else is a syntax error. */
static bool unit_argument(struct call *call, uint32_t index, enum unit *unit)
{
    if (bytes_is(call->argv[index], "bit"))
        *unit = UNIT_BIT;
    else if (bytes_is(call->argv[index], "byte"))
        *unit = UNIT_BYTE;
    else
        call_error(call, ERR_SYNTAX);
    return !call->failed;
}

/* Converts start and end of a range in a value of `len` bytes to the first and last bit. False: the range is empty. */
static bool range_clamp(uint64_t len, enum unit unit, int64_t *start, int64_t *end)
{
    int64_t units = (int64_t)(len * 8 / unit);
    if (*start < 0)
        *start = *start + units < 0 ? 0 : *start + units;
    if (*end < 0)
        *end = *end + units < 0 ? 0 : *end + units;
    if (*end >= units)
        *end = units - 1;
    if (*start > *end)
        return false;
    *start *= unit;
    *end = *end * unit + unit - 1;
    return true;
}

/* Counts the ones from bit `first` to `last`, which must be within the value. False: the store failed. */
static bool count_bits(struct call *call, struct entry *entry, uint64_t first, uint64_t last,
                       uint64_t *count)
{
    char before = (char)~(0xff >> first % 8); /* bits of the first byte that are before the range */
    char behind = (char)(0xff >> (last % 8 + 1));
    struct text_iter iter;
    *count = 0;
    text_iter_init(call, entry, first / 8, last / 8 + 1, &iter);
    while (text_iter_next(&iter)) {
        *count += bits_count(iter.piece);
        if (iter.at == first / 8) {
            char out = (char)(iter.piece.data[0] & before);
            *count -= bits_count((struct bytes){&out, 1});
        }
        if (iter.at + iter.piece.len == last / 8 + 1) {
            char out = (char)(iter.piece.data[iter.piece.len - 1] & behind);
            *count -= bits_count((struct bytes){&out, 1});
        }
    }
    return text_iter_fini(&iter);
}

void cmd_bitcount(struct call *call)
{
    struct entry entry;
    int64_t start = 0;
    int64_t end = -1;
    enum unit unit = UNIT_BYTE;
    uint64_t count = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_int(&call->reply, 0);
        return;
    }
    if (call->argc == 4 || call->argc == 5) {
        if (!call_int64(call, 2, &start) || !call_int64(call, 3, &end))
            return;
    } else if (call->argc != 2) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    bool empty = start < 0 && end < 0 && start > end;
    if (!empty && call->argc == 5 && !unit_argument(call, 4, &unit))
        return;
    if (empty || !range_clamp(text_len(&entry), unit, &start, &end) ||
        count_bits(call, &entry, (uint64_t)start, (uint64_t)end, &count))
        reply_int(&call->reply, (int64_t)count);
}

/* ---- BITPOS ---- */

/* *place: the first bit with value `bit` from `first` to `last`, which must be within the value; -1 when there is
 * none. False: the store failed. */
static bool find_in_range(struct call *call, struct entry *entry, uint64_t first, uint64_t last,
                          bool bit, int64_t *place)
{
    struct text_iter iter;
    uint64_t seen = first / 8; /* all bytes of the range before this one have been searched */
    uint64_t found = UINT64_MAX;
    text_iter_init(call, entry, seen, last / 8 + 1, &iter);
    while (found == UINT64_MAX && text_iter_next(&iter)) {
        if (!bit && iter.at > seen)
            break;
        uint64_t from = first > iter.at * 8 ? first - iter.at * 8 : 0;
        int64_t in_piece = bits_find(iter.piece, from, bit);
        if (in_piece >= 0)
            found = iter.at * 8 + (uint64_t)in_piece;
        seen = iter.at + iter.piece.len;
    }
    if (!text_iter_fini(&iter))
        return false;
    if (found == UINT64_MAX && !bit && seen <= last / 8)
        found = seen * 8 > first ? seen * 8 : first; /* a fragment without a row: zeros */
    *place = found <= last ? (int64_t)found : -1;
    return true;
}

/* Parses the optional start, end and unit. */
static bool position_arguments(struct call *call, int64_t *start, int64_t *end, enum unit *unit)
{
    *start = 0;
    *end = -1;
    *unit = UNIT_BYTE;
    if (call->argc > 6) {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    return (call->argc < 4 || call_int64(call, 3, start)) &&
           (call->argc < 6 || unit_argument(call, 5, unit)) &&
           (call->argc < 5 || call_int64(call, 4, end));
}

void cmd_bitpos(struct call *call)
{
    struct entry entry;
    int64_t bit;
    int64_t start;
    int64_t end;
    int64_t place = -1;
    enum unit unit;
    if (!call_int64(call, 2, &bit))
        return;
    if (bit != 0 && bit != 1) {
        call_error_text(call, "ERR The bit argument must be 1 or 0.");
        return;
    }
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_int(&call->reply, bit ? -1 : 0);
        return;
    }
    if (!position_arguments(call, &start, &end, &unit))
        return;
    bool has_range = range_clamp(text_len(&entry), unit, &start, &end);
    if (has_range && !find_in_range(call, &entry, (uint64_t)start, (uint64_t)end, bit == 1, &place))
        return;
    /* Without an end, the first 0 bit may be the one after the value. */
    if (has_range && place < 0 && bit == 0 && call->argc < 5)
        place = (int64_t)text_len(&entry) * 8;
    reply_int(&call->reply, place);
}
