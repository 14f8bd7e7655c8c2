#include "backend/slots/key_reader.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/slots/key_message.h"

static const enum cf families[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
enum { FAMILIES = sizeof families / sizeof families[0] };

void key_reader_init(struct key_reader *reader, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner)
{
    *reader = (struct key_reader){0};
    range_rows_init(&reader->rows, partition, on_rows, owner);
    arena_init(&reader->arena);
    out_init(&reader->read);
}

void key_reader_close(struct key_reader *reader)
{
    range_rows_close(&reader->rows);
    out_clear(&reader->read);
    arena_reset(&reader->arena);
    reader->space = NULL;
    reader->family = 0;
    reader->is_whole = false;
}

void key_reader_fini(struct key_reader *reader)
{
    key_reader_close(reader);
    range_rows_fini(&reader->rows);
    arena_fini(&reader->arena);
}

bool key_reader_open(struct key_reader *reader, struct space *space, struct bytes row_key,
                     struct bytes metadata)
{
    struct bytes name;
    key_reader_close(reader);
    reader->metadata = arena_copy(&reader->arena, metadata);
    if (!decode_metadata_key(arena_copy(&reader->arena, row_key), &name, &reader->slot,
                             &reader->key) ||
        !decode_metadata(reader->metadata, &reader->meta))
        return false;
    reader->space = space;
    reader->is_whole = type_is_inline(reader->meta.type);
    return true;
}

void key_reader_rewind(struct key_reader *reader)
{
    range_rows_close(&reader->rows);
    out_clear(&reader->read);
    reader->family = 0;
    reader->is_whole = type_is_inline(reader->meta.type);
}

static void open_family_of_key(struct key_reader *reader)
{
    struct arena arena;
    arena_init(&arena);
    struct bytes from = encode_collection_prefix(&arena, reader->space->name, reader->slot,
                                                 reader->key, reader->meta.version);
    range_rows_open(&reader->rows, families[reader->family], from, encode_prefix_end(&arena, from));
    arena_fini(&arena);
}

enum rows_step key_reader_step(struct key_reader *reader, size_t limit)
{
    struct bytes row;
    struct put_row put;
    while (!reader->is_whole && reader->read.bytes <= limit) {
        struct bytes space;
        struct bytes key;
        uint16_t slot;
        uint64_t version;
        if (!range_rows_is_open(&reader->rows))
            open_family_of_key(reader);
        enum rows_step step = range_rows_next(&reader->rows, &row, &put.value);
        if (step == ROWS_WAIT || step == ROWS_FAILED)
            return step;
        if (step == ROWS_END) {
            range_rows_close(&reader->rows);
            reader->is_whole = ++reader->family == FAMILIES;
        } else if (!decode_collection_key(row, &space, &slot, &key, &version, &put.sub)) {
            return ROWS_FAILED;
        } else {
            put.cf = (uint8_t)families[reader->family];
            put_row_write(&reader->read, &put);
        }
    }
    return reader->is_whole && reader->read.bytes <= limit ? ROWS_END : ROWS_ROW;
}
