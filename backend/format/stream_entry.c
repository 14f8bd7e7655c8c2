#include "backend/format/stream_entry.h"

#include "backend/format/encoding.h"

struct bytes stream_entry_encode(struct arena *arena, const struct bytes *strings, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += VARINT_BYTES_MAX + strings[i].len;
    char *row = arena_alloc(arena, size);
    char *to = row;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t len = strings[i].len;
        for (; len >= 0x80; len >>= 7)
            *to++ = (char)(uint8_t)(len | 0x80);
        *to++ = (char)(uint8_t)len;
        if (strings[i].len)
            memcpy(to, strings[i].data, strings[i].len);
        to += strings[i].len;
    }
    return (struct bytes){row, (size_t)(to - row)};
}

bool stream_entry_next(struct bytes *row, struct bytes *string)
{
    uint64_t len = 0;
    size_t at = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 56 || at == row->len)
            return false;
        byte = (uint8_t)row->data[at++];
        len |= (uint64_t)(byte & 0x7f) << shift;
    }
    if (len > row->len - at)
        return false;
    *string = (struct bytes){row->data + at, len};
    row->data += at + len;
    row->len -= at + len;
    return true;
}

bool stream_entry_count(struct bytes row, uint32_t *count)
{
    struct bytes string;
    for (*count = 0; row.len; ++*count)
        if (!stream_entry_next(&row, &string))
            return false;
    return true;
}
