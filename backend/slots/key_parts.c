#include "backend/slots/key_parts.h"

#include "shared/check.h"

#include <stdlib.h>

void key_parts_init(struct key_parts *parts)
{
    *parts = (struct key_parts){0};
    out_init(&parts->part);
}

void key_parts_clear(struct key_parts *parts)
{
    out_clear(&parts->part);
    key_parts_init(parts);
}

void key_parts_begin(struct key_parts *parts, struct key_reader *reader, uint64_t number)
{
    uint32_t begins = parts->begins;
    key_parts_clear(parts);
    parts->number = number;
    parts->begins = begins + 1;
    key_reader_rewind(reader);
}

enum rows_step key_parts_fill(struct key_parts *parts, struct key_reader *reader, size_t limit)
{
    struct out rest;
    if (parts->part.bytes)
        return reader->read.bytes || !parts->has_metadata ? ROWS_ROW : ROWS_END;
    if (!parts->has_metadata) {
        enum rows_step step = key_reader_step(reader, limit);
        if (step == ROWS_WAIT || step == ROWS_FAILED)
            return step;
        parts->has_metadata = step == ROWS_END;
        if (parts->has_metadata)
            put_row_write(&reader->read,
                          &(struct put_row){.cf = CF_METADATA, .value = reader->metadata});
    }
    out_init(&rest);
    if (reader->read.bytes > limit)
        out_cut(&reader->read, limit, &rest);
    out_move(&parts->part, &reader->read);
    out_move(&reader->read, &rest);
    return reader->read.bytes || !parts->has_metadata ? ROWS_ROW : ROWS_END;
}

void key_parts_write(const struct key_parts *parts, enum put_mode mode, const struct put_key *key,
                     struct out *out)
{
    char *bytes = malloc(parts->part.bytes);
    CHECK(bytes);
    out_copy(&parts->part, bytes);
    const struct key_part part = {
        .number = parts->number,
        .mode = (uint8_t)mode,
        .key = *key,
        .offset = parts->offset,
        .part = {bytes, parts->part.bytes},
    };
    key_part_write(out, &part);
    free(bytes);
}

void key_parts_next(struct key_parts *parts)
{
    parts->offset += parts->part.bytes;
    out_clear(&parts->part);
}
