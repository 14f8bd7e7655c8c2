#include "backend/replica/snapshot_message.h"

#include "backend/format/xxh3.h"
#include "backend/peer/message.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/out.h"

static uint64_t hash_of_bytes(struct bytes data)
{
    struct xxh3 hash;
    xxh3_init(&hash);
    xxh3_add(&hash, data);
    return xxh3_result(&hash);
}

uint64_t snapshot_origin(uint64_t id, uint64_t base)
{
    char numbers[16];
    put_le64(numbers, id);
    put_le64(numbers + 8, base);
    return hash_of_bytes((struct bytes){numbers, sizeof numbers});
}

/* ---- the list ---------------------------------------------------------------------------------- */

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

bool is_snapshot_name(struct bytes name)
{
    static const struct bytes part = {".part", 5}; /* of a file that is being fetched */
    if (!name.len || name.len > SNAPSHOT_NAME_MAX || name.data[0] == '.')
        return false;
    if (name.len > part.len && memcmp(name.data + name.len - part.len, part.data, part.len) == 0)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_byte(name.data[i]))
            return false;
    return true;
}

void snapshot_list_write(const struct snapshot_list *list, struct out *out)
{
    message_put_u64(out, list->origin);
    message_put_u64(out, list->index);
    message_put_u64(out, list->term);
    message_put_u64(out, list->whole_at);
    message_put_u32(out, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        CHECK(is_snapshot_name(list->files[i].name));
        message_put_bytes(out, list->files[i].name);
        message_put_u64(out, list->files[i].size);
    }
}

static bool read_snapshot_files(struct message_reader *reader, struct snapshot_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct snapshot_file *file = &list->files[i];
        file->name = message_bytes(reader);
        file->size = message_u64(reader);
        if (!is_snapshot_name(file->name) ||
            (i && bytes_compare(list->files[i - 1].name, file->name) >= 0))
            return false;
    }
    return message_is_read(reader);
}

bool snapshot_list_read(struct bytes payload, struct arena *arena, struct snapshot_list *list)
{
    struct message_reader reader = message_read(payload);
    list->origin = message_u64(&reader);
    list->index = message_u64(&reader);
    list->term = message_u64(&reader);
    list->whole_at = message_u64(&reader);
    list->count = message_u32(&reader);
    if (!reader.is_good || list->count > SNAPSHOT_FILES_MAX || list->count > reader.rest.len)
        return false;
    list->files = arena_alloc(arena, list->count * sizeof list->files[0]);
    return read_snapshot_files(&reader, list);
}

uint64_t snapshot_list_bytes(const struct snapshot_list *list)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < list->count; i++)
        bytes = list->files[i].size > UINT64_MAX - bytes ? UINT64_MAX : bytes + list->files[i].size;
    return bytes;
}

/* ---- pieces ------------------------------------------------------------------------------------ */

void snapshot_piece_write(const struct snapshot_piece *piece, char to[SNAPSHOT_READ_BYTES])
{
    put_le32(to, piece->file);
    put_le64(to + 4, piece->offset);
    put_le32(to + 12, piece->len);
}

bool snapshot_piece_read(struct bytes payload, struct snapshot_piece *piece)
{
    struct message_reader reader = message_read(payload);
    piece->file = message_u32(&reader);
    piece->offset = message_u64(&reader);
    piece->len = message_u32(&reader);
    return message_is_read(&reader) && piece->len > 0 && piece->len <= SNAPSHOT_PIECE_MAX;
}

void snapshot_data_seal(char *data, size_t len)
{
    put_le64(data, hash_of_bytes((struct bytes){data + SNAPSHOT_DATA_HEADER_BYTES, len}));
}

bool snapshot_data_is_good(struct bytes payload)
{
    struct bytes data = {payload.data + SNAPSHOT_DATA_HEADER_BYTES,
                         payload.len - SNAPSHOT_DATA_HEADER_BYTES};
    return get_le64(payload.data) == hash_of_bytes(data);
}
