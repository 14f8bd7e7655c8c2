#include "backend/format/archive_frame.h"

#include "backend/format/xxh3.h"
#include "shared/byte_order.h"

static const char magic[16] = {'s', 'c', 'r', 'e', 'e', ' ', 'a', 'r',
                               'c', 'h', 'i', 'v', 'e', ' ', '1', '\n'};

uint64_t archive_sum(struct bytes bytes)
{
    struct xxh3 hash;
    xxh3_init(&hash);
    xxh3_add(&hash, bytes);
    return xxh3_result(&hash);
}

void encode_archive_head(const struct archive_head *head, char to[ARCHIVE_HEAD_BYTES])
{
    memcpy(to, magic, sizeof magic);
    put_le64(to + 16, head->log_id);
    put_le64(to + 24, head->data_format);
    put_le64(to + 32, head->first);
    put_le64(to + 40, archive_sum((struct bytes){to, 40}));
}

bool decode_archive_head(struct bytes bytes, struct archive_head *head)
{
    if (bytes.len != ARCHIVE_HEAD_BYTES || memcmp(bytes.data, magic, sizeof magic) != 0 ||
        get_le64(bytes.data + 40) != archive_sum((struct bytes){bytes.data, 40}))
        return false;
    head->log_id = get_le64(bytes.data + 16);
    head->data_format = get_le64(bytes.data + 24);
    head->first = get_le64(bytes.data + 32);
    return head->first > 0;
}

void encode_archive_frame(const struct archive_frame *frame, char to[ARCHIVE_FRAME_BYTES])
{
    to[0] = (char)frame->kind;
    to[1] = (char)frame->is_packed;
    put_le16(to + 2, 0);
    put_le32(to + 4, frame->count);
    const uint64_t numbers[] = {frame->stored,    frame->raw,     frame->first,    frame->last,
                                frame->begins_us, frame->ends_us, frame->last_sum, frame->body_sum};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_le64(to + 8 + i * 8, numbers[i]);
    put_le64(to + 72, archive_sum((struct bytes){to, 72}));
}

/* Do the numbers fit each other? */
static bool is_sane(const struct archive_frame *frame)
{
    bool has_body = frame->kind == ARCHIVE_RECORDS;
    uint64_t least = (uint64_t)frame->count * ARCHIVE_RECORD_BYTES;
    if (frame->first > frame->last || frame->begins_us > frame->ends_us)
        return false;
    if (!has_body)
        return !frame->stored && !frame->raw && !frame->count && !frame->is_packed;
    return frame->count && frame->last - frame->first == frame->count - 1 && frame->raw >= least &&
           (frame->is_packed || frame->stored == frame->raw);
}

bool decode_archive_frame(struct bytes bytes, struct archive_frame *frame)
{
    const char *from = bytes.data;
    if (bytes.len != ARCHIVE_FRAME_BYTES ||
        get_le64(from + 72) != archive_sum((struct bytes){from, 72}) || from[0] < ARCHIVE_RECORDS ||
        from[0] > ARCHIVE_END || (from[1] & ~1) || get_le16(from + 2))
        return false;
    *frame = (struct archive_frame){
        .kind = (enum archive_kind)from[0],
        .is_packed = from[1] == 1,
        .count = get_le32(from + 4),
        .stored = get_le64(from + 8),
        .raw = get_le64(from + 16),
        .first = get_le64(from + 24),
        .last = get_le64(from + 32),
        .begins_us = get_le64(from + 40),
        .ends_us = get_le64(from + 48),
        .last_sum = get_le64(from + 56),
        .body_sum = get_le64(from + 64),
    };
    return is_sane(frame);
}

uint64_t encode_archive_record(struct bytes record, char to[ARCHIVE_RECORD_BYTES])
{
    uint64_t sum = archive_sum(record);
    put_le32(to, (uint32_t)record.len);
    put_le64(to + 4, sum);
    return sum;
}

bool decode_archive_record(struct bytes *rest, struct bytes *record)
{
    if (rest->len < ARCHIVE_RECORD_BYTES || get_le32(rest->data) > rest->len - ARCHIVE_RECORD_BYTES)
        return false;
    *record = (struct bytes){rest->data + ARCHIVE_RECORD_BYTES, get_le32(rest->data)};
    uint64_t sum = get_le64(rest->data + 4);
    rest->data += ARCHIVE_RECORD_BYTES + record->len;
    rest->len -= ARCHIVE_RECORD_BYTES + record->len;
    return sum == archive_sum(*record);
}
