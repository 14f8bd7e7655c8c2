#include "backend/peer/message.h"

#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/out.h"

#include <stdlib.h>

enum { JOINED_MIN = 4096 };

void message_put_u8(struct out *out, uint8_t value)
{
    out_write(out, &value, sizeof value);
}

void message_put_u32(struct out *out, uint32_t value)
{
    char bytes[4];
    put_le32(bytes, value);
    out_write(out, bytes, sizeof bytes);
}

void message_put_u64(struct out *out, uint64_t value)
{
    char bytes[8];
    put_le64(bytes, value);
    out_write(out, bytes, sizeof bytes);
}

void message_put_bytes(struct out *out, struct bytes value)
{
    message_put_u32(out, (uint32_t)value.len);
    out_write(out, value.data, value.len);
}

struct message_reader message_read(struct bytes payload)
{
    return (struct message_reader){.rest = payload, .is_good = true};
}

/* The next `len` bytes; NULL: there are fewer. */
static const char *take(struct message_reader *reader, size_t len)
{
    const char *data = reader->rest.data;
    reader->is_good = reader->is_good && reader->rest.len >= len;
    if (!reader->is_good)
        return NULL;
    reader->rest.data += len;
    reader->rest.len -= len;
    return data;
}

uint8_t message_u8(struct message_reader *reader)
{
    const char *data = take(reader, 1);
    return data ? (uint8_t)*data : 0;
}

uint32_t message_u32(struct message_reader *reader)
{
    const char *data = take(reader, 4);
    return data ? get_le32(data) : 0;
}

uint64_t message_u64(struct message_reader *reader)
{
    const char *data = take(reader, 8);
    return data ? get_le64(data) : 0;
}

struct bytes message_bytes(struct message_reader *reader)
{
    uint32_t len = message_u32(reader);
    const char *data = take(reader, len);
    return data ? (struct bytes){data, len} : (struct bytes){"", 0};
}

static size_t joined_room(size_t len)
{
    size_t room = JOINED_MIN;
    while (room < len)
        room *= 2;
    return room;
}

char *message_join(char *heap, size_t len, struct bytes part)
{
    size_t room = joined_room(len + part.len);
    if (!heap || room > joined_room(len))
        heap = realloc(heap, room);
    CHECK(heap);
    memcpy(heap + len, part.data, part.len);
    return heap;
}

bool message_is_read(const struct message_reader *reader)
{
    return reader->is_good && reader->rest.len == 0;
}
