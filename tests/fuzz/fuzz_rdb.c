/*
 * fuzz_rdb.c - damaged DUMP payloads: every reader ends with a result and never reads beyond the bytes; a written
 * string is read back.
 */
#include "backend/format/rdb.h"

#include <stdint.h>
#include <stdlib.h>

static volatile unsigned sum; /* uses every element, so that the compiler keeps the reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_pack(struct arena *arena, struct bytes pack,
                      enum rdb_pack (*next)(struct arena *, struct bytes, size_t *, struct bytes *))
{
    struct bytes element;
    size_t at = 0;
    while (next(arena, pack, &at, &element) == RDB_PACK_ELEMENT)
        sum += element.len ? (uint8_t)element.data[0] + (uint8_t)element.data[element.len - 1] : 0;
}

static void check_round_trip(struct arena *arena, struct bytes text)
{
    struct rdb_writer writer;
    struct rdb_reader reader;
    struct bytes back;
    rdb_writer_init(&writer, arena);
    rdb_write_string(&writer, text);
    if (!rdb_open(&reader, arena, rdb_finish(&writer)) || !rdb_read_string(&reader, &back) ||
        !bytes_equal(back, text))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = {(const char *)data, size};
    struct rdb_reader reader;
    struct bytes text;
    uint64_t length;
    struct arena arena;
    arena_init(&arena);
    if (rdb_open(&reader, &arena, input))
        (void)rdb_read_string(&reader, &text);
    reader = (struct rdb_reader){.arena = &arena, .rest = input};
    while (rdb_read_string(&reader, &text))
        continue;
    reader = (struct rdb_reader){.arena = &arena, .rest = input};
    while (rdb_read_length(&reader, &length))
        continue;
    read_pack(&arena, input, rdb_listpack_next);
    read_pack(&arena, input, rdb_ziplist_next);
    check_round_trip(&arena, input);
    arena_fini(&arena);
    return 0;
}
