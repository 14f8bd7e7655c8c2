/*
 * fuzz_encoding.c - random bytes as rows: no decoder reads past the end, and encoding what a decoder accepted gives
 * exactly its input.
 */
#include "backend/format/encoding.h"
#include "shared/check.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_keys(struct arena *arena, struct bytes row)
{
    struct bytes space, key, sub, metadata_key;
    uint16_t slot;
    uint64_t number;
    if (decode_metadata_key(row, &space, &slot, &key))
        CHECK(bytes_equal(encode_metadata_key(arena, space, slot, key), row));
    if (decode_counter_key(row, &space, &slot))
        CHECK(bytes_equal(encode_counter_key(arena, space, slot), row));
    uint8_t position;
    if (decode_journal_key(row, &position))
        CHECK(bytes_equal(encode_journal_key(arena, position), row));
    if (decode_expire_key(row, &number, &metadata_key))
        CHECK(bytes_equal(encode_expire_key(arena, number, metadata_key), row));
    if (decode_field_ttl(row, &sub))
        CHECK(bytes_equal(encode_field_ttl(arena, sub), row));
    if (decode_field_time(row, &number, &sub))
        CHECK(bytes_equal(encode_field_time(arena, number, sub), row));
    if (decode_u64(row, &number))
        CHECK(bytes_equal(encode_u64(arena, number), row));
    if (decode_collection_key(row, &space, &slot, &key, &number, &sub)) {
        struct bytes prefix = encode_collection_prefix(arena, space, slot, key, number);
        CHECK(bytes_equal(encode_sub_key(arena, prefix, sub), row));
    }
}

/* A counter row has counts, a journal row a section. */
static void check_counts(struct bytes row)
{
    struct slot_count count;
    struct bytes rest = row;
    struct bytes space;
    uint16_t counts;
    char made[SLOT_COUNT_BYTES_MAX + UINT8_MAX];
    while (decode_next_slot_count(&rest, &count)) {
        size_t size = (size_t)(write_slot_count(made, &count) - made);
        CHECK(bytes_equal((struct bytes){made, size}, (struct bytes){rest.data - size, size}));
    }
    if (decode_next_journal_space(&row, &space, &counts)) {
        size_t size = (size_t)(write_journal_space(made, space, counts) - made);
        CHECK(bytes_equal((struct bytes){made, size}, (struct bytes){row.data - size, size}));
    }
}

/* Fields that the type does not have are zero, so results can be compared by memcmp. */
static void check_metadata(struct arena *arena, struct bytes row)
{
    struct metadata metadata, again;
    if (!decode_metadata(row, &metadata))
        return;
    struct bytes made = encode_metadata(arena, &metadata);
    bool is_old = !(row.data[0] & 0x80);
    CHECK(is_old ? made.len > row.len : bytes_equal(made, row));
    CHECK(decode_metadata(made, &again));
    CHECK(bytes_equal(again.payload, metadata.payload));
    again.payload = metadata.payload;
    CHECK(memcmp(&again, &metadata, sizeof metadata) == 0);
}

static void check_numbers(struct arena *arena, struct bytes row)
{
    struct batch_header header;
    if (decode_batch_header(row, &header)) { /* the row of an older program has no hybrid time */
        struct bytes made = encode_batch_header(arena, &header);
        CHECK(made.len >= row.len && memcmp(made.data, row.data, row.len) == 0);
        CHECK(made.len == row.len || header.hybrid == 0);
    }
    if (row.len < 16)
        return;
    double a = decode_score(get_be64(row.data)), b = decode_score(get_be64(row.data + 8));
    if (isnan(a) || isnan(b))
        return;
    uint64_t left = encode_score(a), right = encode_score(b);
    CHECK((left < right) == (a < b));
    CHECK((left == right) == (a == b));
    CHECK(decode_score(left) == a);
}

static void check_prefix(struct arena *arena, struct bytes row)
{
    struct bytes end = encode_prefix_end(arena, row);
    if (!end.len)
        return;
    CHECK(bytes_compare(row, end) < 0);
    CHECK(bytes_compare(encode_sub_key(arena, row, BYTES("\xff\xff")), end) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    /* A copy of exactly this size, so that the sanitizer reports a read past its end. */
    char *copy = malloc(size ? size : 1);
    CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    struct bytes row = {copy, size};
    arena_init(&arena);
    check_keys(&arena, row);
    check_counts(row);
    check_metadata(&arena, row);
    check_numbers(&arena, row);
    check_prefix(&arena, row);
    arena_fini(&arena);
    free(copy);
    return 0;
}
