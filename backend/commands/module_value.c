#include "backend/commands/module_value.h"

enum { PAYLOAD_VERSION = 1000 }; /* the modules refuse versions that they do not know */

static void write_string_part(struct rdb_writer *writer, struct bytes text)
{
    rdb_write_length(writer, RDB_OPCODE_STRING);
    rdb_write_string(writer, text);
}

static struct bytes joined(struct arena *arena, struct bytes first, struct bytes second)
{
    char *data = arena_alloc(arena, first.len + second.len);
    memcpy(data, first.data, first.len);
    memcpy(data + first.len, second.data, second.len);
    return (struct bytes){data, first.len + second.len};
}

bool module_save(struct call *call, struct entry *entry, struct rdb_writer *writer,
                 const char *module, const char *mark, struct bytes end)
{
    struct sub_iter it;
    struct arena scratch;
    rdb_write_byte(writer, RDB_TYPE_MODULE_2);
    rdb_write_module(writer, module, PAYLOAD_VERSION);
    write_string_part(writer, joined(call->arena, bytes_of(mark), entry->meta.payload));
    sub_iter_init(call, entry, CF_DATA, (struct bytes){"", 0}, &it);
    arena_init(&scratch);
    while (!writer->is_over && sub_iter_next(&it)) {
        if (end.len && bytes_compare(it.sub, end) >= 0)
            break;
        write_string_part(writer, joined(&scratch, it.sub, it.value));
        arena_reset(&scratch);
    }
    arena_fini(&scratch);
    rdb_write_length(writer, RDB_OPCODE_END);
    return sub_iter_fini(&it);
}

/* Reads a string, or the end: then `text->data` is NULL. */
static bool read_part(struct rdb_reader *reader, struct bytes *text)
{
    uint64_t opcode;
    *text = (struct bytes){NULL, 0};
    if (!rdb_read_length(reader, &opcode))
        return false;
    return opcode == RDB_OPCODE_END ||
           (opcode == RDB_OPCODE_STRING && rdb_read_string(reader, text));
}

bool module_read_head(struct rdb_reader *reader, const char *mark, struct bytes *metadata)
{
    size_t len = strlen(mark);
    if (!read_part(reader, metadata) || metadata->len < len ||
        memcmp(metadata->data, mark, len) != 0)
        return false;
    metadata->data += len;
    metadata->len -= len;
    return true;
}

bool module_read_rows(struct call *call, struct entry *entry, struct rdb_reader *reader,
                      module_row_fn *put, void *object)
{
    struct bytes row;
    while (read_part(reader, &row)) {
        if (!row.data)
            return true;
        if (!put(call, entry, object, row))
            return false;
    }
    return false;
}

bool module_put_row(struct call *call, struct entry *entry, struct bytes sub, struct bytes value)
{
    struct bytes old;
    if (sub_get(call, entry, CF_DATA, sub, &old) != ERR_NOT_FOUND)
        return false;
    entry->meta.size++;
    sub_put(call, entry, CF_DATA, sub, value);
    return true;
}
