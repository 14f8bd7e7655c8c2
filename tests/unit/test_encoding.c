/*
 * test_encoding.c - bytes on disk: golden rows written out by hand, their order, and refusal of everything that is not
 * a whole row.
 */
#include "backend/format/encoding.h"

#include "backend/format/bloom.h"
#include "backend/format/sketch.h"
#include "backend/format/tdigest.h"
#include "backend/format/topk.h"
#include "shared/slot.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static void check_row(struct bytes row, struct bytes expected)
{
    ck_assert_uint_eq(row.len, expected.len);
    ck_assert_mem_eq(row.data, expected.data, expected.len);
}

/* ---- golden bytes ------------------------------------------------------------------------ */

START_TEST(keys_have_these_bytes)
{
    struct bytes space = BYTES("shop\0\3"), key = BYTES("k:1");
    check_row(encode_metadata_key(&arena, space, 0x1234, key), BYTES("\6shop\0\3\x12\x34k:1"));
    check_row(encode_metadata_key(&arena, BYTES(""), 16383, BYTES("")), BYTES("\0\x3f\xff"));
    check_row(encode_space_prefix(&arena, space), BYTES("\6shop\0\3"));
    check_row(encode_slot_prefix(&arena, space, 258), BYTES("\6shop\0\3\1\2"));
    struct bytes prefix = encode_collection_prefix(&arena, space, 1, key, 0x0102030405060708);
    check_row(prefix, BYTES("\6shop\0\3\0\1\0\0\0\3k:1\1\2\3\4\5\6\7\10"));
    check_row(encode_sub_key(&arena, prefix, BYTES("f")),
              BYTES("\6shop\0\3\0\1\0\0\0\3k:1\1\2\3\4\5\6\7\10f"));
    check_row(encode_expire_key(&arena, 0x0000019000000001, BYTES("\0\0\1k")),
              BYTES("\0\0\1\x90\0\0\0\1\0\0\1k"));
    check_row(encode_counter_key(&arena, space, 0x1234), BYTES("c\6shop\0\3\x12\x34"));
    check_row(encode_journal_key(&arena, 0xfe), BYTES("j\xfe"));
    check_row(encode_database_map_key(&arena, BYTES("shop")), BYTES("d\4shop"));
    check_row(encode_function_key(&arena, BYTES(""), BYTES("lib")), BYTES("flib"));
    check_row(encode_function_key(&arena, BYTES("shop"), BYTES("lib")), BYTES("F\4shoplib"));
    check_row(encode_u64(&arena, 0x0102030405060708), BYTES("\1\2\3\4\5\6\7\10"));
}
END_TEST

START_TEST(a_string_has_these_bytes)
{
    struct metadata metadata = {.type = TYPE_STRING, .expire_ms = 258, .payload = BYTES("v\0w")};
    check_row(encode_metadata(&arena, &metadata), BYTES("\x81\0\0\0\0\0\0\1\2v\0w"));
    metadata = (struct metadata){.type = TYPE_STRING};
    check_row(encode_metadata(&arena, &metadata), BYTES("\x81\0\0\0\0\0\0\0\0"));
    metadata = (struct metadata){.type = TYPE_JSON, .payload = BYTES("{}")};
    check_row(encode_metadata(&arena, &metadata), BYTES("\x8a\0\0\0\0\0\0\0\0{}"));
}
END_TEST

START_TEST(collections_have_these_bytes)
{
    const struct {
        enum type type;
        char flags;
    } types[] = {{TYPE_HASH, '\x82'},
                 {TYPE_SET, '\x84'},
                 {TYPE_ZSET, '\x85'},
                 {TYPE_BITMAP, '\x86'},
                 {TYPE_SORTEDINT, '\x87'}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct metadata metadata = {.type = types[i].type, .expire_ms = 1, .version = 2, .size = 3};
        char expected[] = "?\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3";
        expected[0] = types[i].flags;
        struct bytes row = encode_metadata(&arena, &metadata);
        ck_assert_uint_eq(row.len, sizeof expected - 1);
        ck_assert_mem_eq(row.data, expected, row.len);
    }
}
END_TEST

START_TEST(a_hash_whose_fields_expire_has_these_bytes)
{
    struct metadata metadata = {.type = TYPE_HASH,
                                .expire_ms = 1,
                                .version = 2,
                                .size = 3,
                                .field_ttls = 2,
                                .field_expire_ms = 0x0102030405},
                    again;
    struct bytes row = BYTES("\x82\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3"
                             "\0\0\0\1\2\3\4\5\0\0\0\0\0\0\0\2");
    check_row(encode_metadata(&arena, &metadata), row);
    ck_assert(decode_metadata(row, &again));
    ck_assert_mem_eq(&again, &metadata, sizeof metadata);
    for (size_t len = 25 + 1; len < row.len; len++) /* as long as without TTLs is good */
        ck_assert(!decode_metadata((struct bytes){row.data, len}, &again));
    ck_assert(!decode_metadata(BYTES("\x82\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3"
                                     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2"),
                               &again)); /* never due */
    ck_assert(!decode_metadata(BYTES("\x82\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3"
                                     "\0\0\0\1\2\3\4\5\0\0\0\0\0\0\0\0"),
                               &again)); /* no field */
}
END_TEST

START_TEST(the_ttl_of_a_field_has_these_bytes)
{
    struct bytes field;
    uint64_t expire_ms;
    check_row(encode_field_ttl(&arena, BYTES("f\0g")), BYTES("\xff"
                                                             "f\0g"));
    check_row(encode_field_time(&arena, 0x0102030405, BYTES("f")), BYTES("\0\0\0\1\2\3\4\5f"));
    ck_assert(decode_field_ttl(BYTES("\xff"
                                     "f\0g"),
                               &field) &&
              bytes_equal(field, BYTES("f\0g")));
    ck_assert(!decode_field_ttl(BYTES("\xfe"
                                      "f"),
                                &field));
    ck_assert(!decode_field_ttl(BYTES(""), &field));
    ck_assert(decode_field_time(BYTES("\0\0\0\1\2\3\4\5"), &expire_ms, &field));
    ck_assert(expire_ms == 0x0102030405 && field.len == 0);
    ck_assert(!decode_field_time(BYTES("\0\0\0\1\2\3\4"), &expire_ms, &field));
}
END_TEST

START_TEST(a_key_is_due_when_it_or_a_field_expires)
{
    const struct {
        uint64_t key_ms, field_ms, due_ms;
    } cases[] = {{0, 0, 0}, {5, 0, 5}, {0, 5, 5}, {4, 5, 4}, {5, 4, 4}, {5, 5, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct metadata metadata = {.expire_ms = cases[i].key_ms,
                                    .field_expire_ms = cases[i].field_ms};
        ck_assert_uint_eq(metadata_due_ms(&metadata), cases[i].due_ms);
    }
}
END_TEST

START_TEST(a_list_has_these_bytes)
{
    struct metadata metadata = {
        .type = TYPE_LIST, .version = 1, .size = 2, .head = 0x7fffffffffffffff, .tail = 4};
    check_row(encode_metadata(&arena, &metadata), BYTES("\x83\0\0\0\0\0\0\0\0"
                                                        "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2"
                                                        "\x7f\xff\xff\xff\xff\xff\xff\xff"
                                                        "\0\0\0\0\0\0\0\4"));
}
END_TEST

START_TEST(a_stream_has_these_bytes)
{
    struct metadata metadata = {
        .type = TYPE_STREAM,
        .version = 1,
        .size = 2,
        .stream_last_generated = {3, 4},
        .stream_recorded_first = {5, 6},
        .stream_max_deleted = {7, 8},
        .stream_first = {9, 10},
        .stream_last = {11, 12},
        .stream_entries_added = 13,
    };
    check_row(encode_metadata(&arena, &metadata), BYTES("\x88\0\0\0\0\0\0\0\0"
                                                        "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2"
                                                        "\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\4"
                                                        "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\6"
                                                        "\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\10"
                                                        "\0\0\0\0\0\0\0\11\0\0\0\0\0\0\0\12"
                                                        "\0\0\0\0\0\0\0\13\0\0\0\0\0\0\0\14"
                                                        "\0\0\0\0\0\0\0\15"));
    metadata.stream_node_size = 14;
    metadata.stream_node = (struct stream_node){{15, 16}, 17, 18, 19};
    struct bytes row = encode_metadata(&arena, &metadata);
    ck_assert_uint_eq(row.len, 1 + 8 + 16 + 88 + 40);
    check_row((struct bytes){row.data + row.len - 40, 40},
              BYTES("\0\0\0\0\0\0\0\16\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0\20"
                    "\0\0\0\0\0\0\0\21\0\0\0\22\0\0\0\23"));
}
END_TEST

START_TEST(a_stream_of_whose_first_node_nothing_is_known_has_no_numbers_of_it)
{
    struct metadata metadata = {.type = TYPE_STREAM, .version = 1, .stream_node_size = 1}, again;
    struct bytes row = encode_metadata(&arena, &metadata);
    ck_assert(decode_metadata(row, &again));
    char *unknown = arena_alloc(&arena, row.len);
    memcpy(unknown, row.data, row.len);
    memset(unknown + row.len - 40, 0, 8);
    ck_assert(!decode_metadata((struct bytes){unknown, row.len}, &again));
}
END_TEST

START_TEST(a_batch_header_has_these_bytes)
{
    struct batch_header header = {
        .epoch = 1, .index = 2, .origin_ms = 3, .version = 0x0400, .hybrid = 5};
    struct batch_header again;
    struct bytes row = encode_batch_header(&arena, &header);
    check_row(row, BYTES("\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\4\0"
                         "\0\0\0\0\0\0\0\5"));
    ck_assert(decode_batch_header(row, &again));
    ck_assert_mem_eq(&again, &header, sizeof header);
    /* before data format 6 */
    ck_assert(decode_batch_header((struct bytes){row.data, 32}, &again));
    header.hybrid = 0;
    ck_assert_mem_eq(&again, &header, sizeof header);
}
END_TEST

/* The bytes that a writer put between `row` and `end`. */
static void check_written(const char *row, const char *end, struct bytes expected)
{
    check_row((struct bytes){row, (size_t)(end - row)}, expected);
}

START_TEST(counts_have_these_bytes)
{
    char row[SLOT_COUNT_BYTES_MAX];
    const struct slot_count small = {.slot = 0x1234, .keys = 127, .expires = 0};
    const struct slot_count middle = {.slot = 1, .keys = 128, .expires = 300};
    const struct slot_count big = {.slot = 16383, .keys = UINT64_MAX, .expires = UINT64_MAX};
    check_written(row, write_slot_count(row, &small), BYTES("\x12\x34\x7f\0"));
    check_written(row, write_slot_count(row, &middle), BYTES("\0\1\x80\1\xac\2"));
    check_written(row, write_slot_count(row, &big),
                  BYTES("\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"
                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
    check_written(row, write_journal_space(row, BYTES("shop\0\3"), 0x0102),
                  BYTES("\6shop\0\3\1\2"));
}
END_TEST

START_TEST(scores_have_these_bits)
{
    ck_assert_uint_eq(encode_score(0.0), 0x8000000000000000);
    ck_assert_uint_eq(encode_score(-0.0), 0x8000000000000000);
    ck_assert_uint_eq(encode_score(1.0), 0xbff0000000000000);
    ck_assert_uint_eq(encode_score(-1.0), 0x400fffffffffffff);
    ck_assert_uint_eq(encode_score(INFINITY), 0xfff0000000000000);
    ck_assert_uint_eq(encode_score(-INFINITY), 0x000fffffffffffff);
}
END_TEST

START_TEST(types_have_names)
{
    ck_assert_str_eq(type_name(TYPE_NONE), "none");
    ck_assert_str_eq(type_name(TYPE_STRING), "string");
    ck_assert_str_eq(type_name(TYPE_BITMAP), "string");
    ck_assert_str_eq(type_name(TYPE_HASH), "hash");
    ck_assert_str_eq(type_name(TYPE_LIST), "list");
    ck_assert_str_eq(type_name(TYPE_SET), "set");
    ck_assert_str_eq(type_name(TYPE_ZSET), "zset");
    ck_assert_str_eq(type_name(TYPE_STREAM), "stream");
    ck_assert_str_eq(type_name(TYPE_SORTEDINT), "sortedint");
    ck_assert_str_eq(type_name(TYPE_JSON), "ReJSON-RL");
    ck_assert_str_eq(type_name(TYPE_BLOOM), "MBbloom--");
    ck_assert_str_eq(type_name(TYPE_CMS), "CMSk-TYPE");
    ck_assert_str_eq(type_name(TYPE_TDIGEST), "TDIS-TYPE");
    ck_assert_str_eq(type_name(TYPE_TOPK), "TopK-TYPE");
    for (unsigned type = 0; type < TYPE_COUNT; type++) {
        const struct type_row *row = &type_rows[type];
        ck_assert(!row->is_inline || (row->elements == 0 && !row->exists_empty));
        ck_assert(row->opens_as == TYPE_NONE || type_rows[row->opens_as].opens_as == TYPE_NONE);
        ck_assert(row->name || memcmp(row, &(struct type_row){0}, sizeof *row) == 0);
    }
}
END_TEST

/* ---- decoding ---------------------------------------------------------------------------- */

START_TEST(keys_come_apart_again)
{
    struct bytes space, key, sub, metadata_key;
    uint16_t slot;
    uint64_t number;
    ck_assert(decode_metadata_key(BYTES("\2ab\1\2key"), &space, &slot, &key));
    ck_assert(bytes_equal(space, BYTES("ab")) && slot == 258 && bytes_equal(key, BYTES("key")));
    ck_assert(decode_metadata_key(BYTES("\0\0\0"), &space, &slot, &key));
    ck_assert(space.len == 0 && slot == 0 && key.len == 0);
    ck_assert(decode_collection_key(BYTES("\1a\0\7\0\0\0\2kk\0\0\0\0\0\0\0\11sub"), &space, &slot,
                                    &key, &number, &sub));
    ck_assert(bytes_equal(space, BYTES("a")) && slot == 7 && bytes_equal(key, BYTES("kk")));
    ck_assert(number == 9 && bytes_equal(sub, BYTES("sub")));
    ck_assert(decode_expire_key(BYTES("\0\0\0\0\0\0\1\0\1a\0\7k"), &number, &metadata_key));
    ck_assert(number == 256 && bytes_equal(metadata_key, BYTES("\1a\0\7k")));
    ck_assert(decode_counter_key(BYTES("c\1a\0\7"), &space, &slot));
    ck_assert(bytes_equal(space, BYTES("a")) && slot == 7);
    ck_assert(decode_u64(BYTES("\0\0\0\0\0\0\1\1"), &number) && number == 257);
    uint8_t position;
    ck_assert(decode_journal_key(BYTES("j\xfe"), &position) && position == 0xfe);
}
END_TEST

START_TEST(counts_come_apart_again)
{
    const uint64_t numbers[] = {0,         1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX - 1,
                                UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char row[SLOT_COUNT_BYTES_MAX];
        struct slot_count count = {(uint16_t)i, numbers[i], numbers[i] / 2}, again;
        struct bytes rest = {row, (size_t)(write_slot_count(row, &count) - row)};
        ck_assert(decode_next_slot_count(&rest, &again) && rest.len == 0);
        ck_assert(again.slot == i && again.keys == count.keys && again.expires == count.expires);
    }
    struct bytes rest = BYTES("\6shop\0\3\1\2rest"), space;
    uint16_t counts;
    ck_assert(decode_next_journal_space(&rest, &space, &counts) && counts == 0x0102);
    ck_assert(bytes_equal(space, BYTES("shop\0\3")) && bytes_equal(rest, BYTES("rest")));
}
END_TEST

START_TEST(every_type_comes_back_as_it_was)
{
    struct bloom filter;
    bloom_init(&filter, 0.01, 100, 2);
    const struct sketch sketch = {.count = 7, .width = 100, .depth = 5};
    const struct tdigest digest = {.compression = 100, .merged = 2, .weight = 5, .max = 1};
    const struct topk topk = {
        .k = 2, .width = 8, .depth = 7, .decay = 0.9, .listed = 2, .last = {3, 4}, .changes = 5};
    const enum type types[] = {TYPE_STRING, TYPE_HASH,      TYPE_LIST,   TYPE_SET,  TYPE_ZSET,
                               TYPE_BITMAP, TYPE_SORTEDINT, TYPE_STREAM, TYPE_JSON, TYPE_BLOOM,
                               TYPE_CMS,    TYPE_TDIGEST,   TYPE_TOPK};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct metadata metadata = {.type = types[i], .expire_ms = UINT64_MAX}, again;
        if (type_is_inline(types[i]))
            metadata.payload = BYTES("payload");
        else
            metadata.version = 1, metadata.size = 3;
        if (types[i] == TYPE_BLOOM)
            metadata.payload = bloom_encode(&arena, &filter);
        if (types[i] == TYPE_CMS)
            metadata.payload = sketch_encode(&arena, &sketch);
        if (types[i] == TYPE_TDIGEST)
            metadata.payload = tdigest_encode(&arena, &digest);
        if (types[i] == TYPE_TOPK)
            metadata.payload = topk_encode(&arena, &topk);
        if (types[i] == TYPE_LIST)
            metadata.head = 2, metadata.tail = 5;
        if (types[i] == TYPE_HASH)
            metadata.field_ttls = 4, metadata.field_expire_ms = UINT64_MAX;
        if (types[i] == TYPE_STREAM)
            metadata.stream_last = (struct stream_id){4, 5}, metadata.stream_entries_added = 6,
            metadata.stream_node = (struct stream_node){{7, 8}, 9, 10, 11};
        ck_assert(decode_metadata(encode_metadata(&arena, &metadata), &again));
        ck_assert(bytes_equal(again.payload, metadata.payload));
        again.payload = metadata.payload;
        ck_assert_mem_eq(&again, &metadata, sizeof metadata);
    }
}
END_TEST

START_TEST(plain_rows_are_strings_without_ttl)
{
    struct metadata metadata = {.type = TYPE_STRING};
    ck_assert(bytes_equal(encode_metadata(&arena, &metadata), metadata_plain()));
    ck_assert(metadata_is_plain(metadata_plain()));
    metadata.payload = BYTES("payload");
    ck_assert(metadata_is_plain(encode_metadata(&arena, &metadata)));
    metadata.expire_ms = 1;
    ck_assert(!metadata_is_plain(encode_metadata(&arena, &metadata)));
    metadata = (struct metadata){.type = TYPE_JSON, .payload = BYTES("{}")};
    ck_assert(!metadata_is_plain(encode_metadata(&arena, &metadata)));
    metadata = (struct metadata){.type = TYPE_HASH, .size = 1};
    ck_assert(!metadata_is_plain(encode_metadata(&arena, &metadata)));
    ck_assert(!metadata_is_plain(BYTES("")));
}
END_TEST

START_TEST(the_old_layout_is_read)
{
    struct metadata metadata;
    ck_assert(decode_metadata(BYTES("\1\0\0\1\0value"), &metadata));
    ck_assert(metadata.type == TYPE_STRING && metadata.expire_ms == 256000);
    ck_assert(bytes_equal(metadata.payload, BYTES("value")));
    ck_assert(decode_metadata(BYTES("\2\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\11"), &metadata));
    ck_assert(metadata.type == TYPE_HASH && metadata.expire_ms == 0);
    ck_assert(metadata.version == 7 && metadata.size == 9);
    ck_assert(decode_metadata(BYTES("\3\xff\xff\xff\xff\0\0\0\0\0\0\0\1\0\0\0\2"
                                    "\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\5"),
                              &metadata));
    ck_assert(metadata.type == TYPE_LIST && metadata.expire_ms == UINT64_C(4294967295000));
    ck_assert(metadata.size == 2 && metadata.head == 3 && metadata.tail == 5);
    char stream[1 + 4 + 8 + 4 + 11 * 8] = {TYPE_STREAM};
    stream[sizeof stream - 1] = 5;
    ck_assert(decode_metadata((struct bytes){stream, sizeof stream}, &metadata));
    ck_assert_uint_eq(metadata.stream_entries_added, 5);
}
END_TEST

/* ---- order ------------------------------------------------------------------------------- */

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

START_TEST(scores_order_as_numbers)
{
    const double scores[] = {-INFINITY, -1.7e308, -1e10,  -2,     -1.5,    -1,   -1e-300,
                             -5e-324,   0,        5e-324, 1e-300, 0.1,     0.2,  1,
                             1.5,       2,        3,      1e10,   1.7e308, 9e15, INFINITY};
    size_t count = sizeof scores / sizeof scores[0];
    for (size_t i = 0; i < count; i++) {
        ck_assert(decode_score(encode_score(scores[i])) == scores[i]);
        for (size_t j = 0; j < count; j++) {
            char a[8], b[8];
            put_be64(a, encode_score(scores[i]));
            put_be64(b, encode_score(scores[j]));
            int expected = (scores[i] > scores[j]) - (scores[i] < scores[j]);
            ck_assert_int_eq(sign(memcmp(a, b, 8)), expected);
        }
    }
    ck_assert(!signbit(decode_score(encode_score(-0.0))));
}
END_TEST

static uint64_t random_state = 1;

/* Numbers of every bit length, often equal or adjacent. */
static uint64_t random_number(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (random_state >> 8) >> (random_state >> 58);
}

START_TEST(random_scores_order_as_numbers)
{
    for (int i = 0; i < 20000; i++) {
        double a, b;
        uint64_t bits = random_number() << 20 ^ random_number(),
                 near = bits + (random_number() & 3);
        memcpy(&a, &bits, sizeof a);
        memcpy(&b, &near, sizeof b);
        if (isnan(a) || isnan(b))
            continue;
        uint64_t left = encode_score(a), right = encode_score(b);
        ck_assert_int_eq((left > right) - (left < right), (a > b) - (a < b));
        ck_assert(decode_score(left) == a);
    }
}
END_TEST

START_TEST(rows_order_as_their_numbers)
{
    struct bytes space = BYTES("n"), key = BYTES("key");
    for (int i = 0; i < 2000; i++) {
        uint64_t a = random_number(), b = random_number();
        int expected = (a > b) - (a < b);
        struct bytes left = encode_u64(&arena, a), right = encode_u64(&arena, b);
        ck_assert_int_eq(sign(bytes_compare(left, right)), expected);
        left = encode_expire_key(&arena, a, BYTES("zz"));
        right = encode_expire_key(&arena, b, BYTES("aa"));
        ck_assert_int_eq(sign(bytes_compare(left, right)), expected ? expected : 1);
        left = encode_collection_prefix(&arena, space, 1, key, a);
        right = encode_collection_prefix(&arena, space, 1, key, b);
        ck_assert_int_eq(sign(bytes_compare(left, right)), expected);
        uint16_t slot_a = (uint16_t)(a & 0x3fff), slot_b = (uint16_t)(b & 0x3fff);
        left = encode_metadata_key(&arena, space, slot_a, BYTES("\xff"));
        right = encode_metadata_key(&arena, space, slot_b, BYTES("\xff"));
        ck_assert_int_eq(sign(bytes_compare(left, right)), (slot_a > slot_b) - (slot_a < slot_b));
        arena_reset(&arena);
    }
}
END_TEST

static bool is_within(struct bytes row, struct bytes prefix)
{
    struct bytes end = encode_prefix_end(&arena, prefix);
    return bytes_compare(row, prefix) >= 0 && (!end.len || bytes_compare(row, end) < 0);
}

START_TEST(a_prefix_holds_its_rows_and_no_others)
{
    struct bytes space = BYTES("ab"), key = BYTES("\xff\xff");
    struct bytes row = encode_metadata_key(&arena, space, 0x10ff, key);
    ck_assert(is_within(row, encode_space_prefix(&arena, space)));
    ck_assert(!is_within(row, encode_space_prefix(&arena, BYTES("a"))));
    ck_assert(!is_within(row, encode_space_prefix(&arena, BYTES("abc"))));
    ck_assert(is_within(row, encode_slot_prefix(&arena, space, 0x10ff)));
    ck_assert(!is_within(row, encode_slot_prefix(&arena, space, 0x10fe)));
    ck_assert(!is_within(row, encode_slot_prefix(&arena, space, 0x1100)));
    struct bytes prefix = encode_collection_prefix(&arena, space, 0x10ff, key, UINT64_MAX);
    row = encode_sub_key(&arena, prefix, BYTES("\xff\xff\xff"));
    ck_assert(is_within(row, prefix));
    ck_assert(is_within(row, encode_slot_prefix(&arena, space, 0x10ff)));
    /* A key that is a prefix of another key, and the key itself with another version. */
    ck_assert(!is_within(row, encode_collection_prefix(&arena, space, 0x10ff, BYTES("\xff"), 1)));
    ck_assert(!is_within(row, encode_collection_prefix(&arena, space, 0x10ff, key, 1)));
}
END_TEST

START_TEST(a_prefix_end_is_the_next_prefix)
{
    check_row(encode_prefix_end(&arena, BYTES("a")), BYTES("b"));
    check_row(encode_prefix_end(&arena, BYTES("a\xff\xff")), BYTES("b"));
    check_row(encode_prefix_end(&arena, BYTES("\0")), BYTES("\1"));
    check_row(encode_prefix_end(&arena, BYTES("a\x7f")), BYTES("a\x80"));
    ck_assert_uint_eq(encode_prefix_end(&arena, BYTES("\xff\xff")).len, 0);
    ck_assert_uint_eq(encode_prefix_end(&arena, BYTES("")).len, 0);
    ck_assert(is_prefix_end(BYTES("ab"), BYTES("ac")));
    ck_assert(is_prefix_end(BYTES("a\xff\xff"), BYTES("b")));
    ck_assert(is_prefix_end(BYTES("a\x7f"), BYTES("a\x80")));
    ck_assert(!is_prefix_end(BYTES("ab"), BYTES("ad")));
    ck_assert(!is_prefix_end(BYTES("ab"), BYTES("b")));
    ck_assert(!is_prefix_end(BYTES("ab"), BYTES("abc")));
    ck_assert(!is_prefix_end(BYTES("a"), BYTES("ab")));
    ck_assert(!is_prefix_end(BYTES("a\xff"), BYTES("a")));
    ck_assert(!is_prefix_end(BYTES("a"), BYTES("")));
}
END_TEST

/* ---- refusal ----------------------------------------------------------------------------- */

/* A copy whose last byte lies before an unreadable page: reading past it crashes. */
static struct bytes at_page_end(struct bytes row)
{
    static char *pages;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!pages) {
        pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(pages, MAP_FAILED);
        ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
    }
    char *copy = pages + page - row.len;
    memmove(copy, row.data, row.len);
    return (struct bytes){copy, row.len};
}

static bool is_metadata_key(struct bytes row)
{
    struct bytes space, key;
    uint16_t slot;
    return decode_metadata_key(at_page_end(row), &space, &slot, &key);
}

static bool is_collection_key(struct bytes row)
{
    struct bytes space, key, sub;
    uint16_t slot;
    uint64_t version;
    return decode_collection_key(at_page_end(row), &space, &slot, &key, &version, &sub);
}

static bool is_expire_key(struct bytes row)
{
    uint64_t expire_ms;
    struct bytes key;
    return decode_expire_key(at_page_end(row), &expire_ms, &key);
}

static bool is_counter_key(struct bytes row)
{
    struct bytes space;
    uint16_t slot;
    return decode_counter_key(at_page_end(row), &space, &slot);
}

static bool is_journal_key(struct bytes row)
{
    uint8_t position;
    return decode_journal_key(at_page_end(row), &position);
}

START_TEST(roots_of_rank_trees_say_which_format_wrote_them)
{
    uint64_t levels;
    uint64_t tops;
    bool is_stale;
    struct bytes row = encode_rank_root(&arena, 2, 300);
    ck_assert(row.len == 4 && memcmp(row.data, "\2\xac\2\1", 4) == 0);
    ck_assert(decode_rank_root(row, &levels, &tops, &is_stale));
    ck_assert(levels == 2 && tops == 300 && !is_stale);
    row.len--; /* as older programs wrote it */
    ck_assert(decode_rank_root(row, &levels, &tops, &is_stale));
    ck_assert(levels == 2 && tops == 300 && is_stale);
    ck_assert(!decode_rank_root(BYTES("\2\1\2"), &levels, &tops, &is_stale));
    ck_assert(!decode_rank_root(BYTES("\2\1\1\1"), &levels, &tops, &is_stale));
    ck_assert(!decode_rank_root(BYTES("\2"), &levels, &tops, &is_stale));
}
END_TEST

START_TEST(rank_blocks_have_these_bytes)
{
    uint64_t rows;
    uint64_t blocks;
    struct bytes row = encode_rank_block(&arena, 300, 2);
    ck_assert(row.len == 3 && memcmp(row.data, "\xac\2\2", 3) == 0);
    ck_assert(decode_rank_block(row, &rows, &blocks) && rows == 300 && blocks == 2);
    row = encode_rank_block(&arena, 0, UINT64_MAX);
    ck_assert(row.len == 11 && decode_rank_block(row, &rows, &blocks));
    ck_assert(rows == 0 && blocks == UINT64_MAX);
    ck_assert(!decode_rank_block((struct bytes){row.data, row.len - 1}, &rows, &blocks));
    ck_assert(!decode_rank_block(BYTES("\1\2\3"), &rows, &blocks));
}
END_TEST

static bool is_slot_count(struct bytes row)
{
    struct slot_count count;
    struct bytes rest = at_page_end(row);
    return decode_next_slot_count(&rest, &count);
}

static bool is_journal_space(struct bytes row)
{
    struct bytes space;
    uint16_t counts;
    struct bytes rest = at_page_end(row);
    return decode_next_journal_space(&rest, &space, &counts);
}

static bool is_metadata(struct bytes row)
{
    struct metadata metadata;
    return decode_metadata(at_page_end(row), &metadata);
}

static bool is_batch_header(struct bytes row)
{
    struct batch_header header;
    return decode_batch_header(at_page_end(row), &header);
}

static bool is_u64(struct bytes row)
{
    uint64_t number;
    return decode_u64(at_page_end(row), &number);
}

/* Every prefix of at least `shortest` bytes is accepted, every shorter one is refused. */
static void check_cuts(bool (*is_row)(struct bytes row), struct bytes row, size_t shortest)
{
    for (size_t len = 0; len <= row.len; len++)
        ck_assert_msg(is_row((struct bytes){row.data, len}) == (len >= shortest), "%zu of %zu", len,
                      row.len);
}

/* Every shorter prefix, and the row with a byte appended, is refused. */
static void check_exact(bool (*is_row)(struct bytes row), struct bytes row)
{
    check_cuts(is_row, row, row.len);
    ck_assert(!is_row(encode_sub_key(&arena, row, BYTES("x"))));
}

START_TEST(truncated_keys_are_refused)
{
    struct bytes space = BYTES("space"), key = BYTES("key");
    struct bytes row = encode_metadata_key(&arena, space, 1, key);
    check_cuts(is_metadata_key, row, 1 + 5 + 2);
    check_cuts(is_expire_key, encode_expire_key(&arena, 1, row), 8 + 1 + 5 + 2);
    struct bytes prefix = encode_collection_prefix(&arena, space, 1, key, 1);
    check_cuts(is_collection_key, encode_sub_key(&arena, prefix, BYTES("sub")), prefix.len);
    check_exact(is_counter_key, encode_counter_key(&arena, space, 1));
    check_exact(is_journal_key, encode_journal_key(&arena, 1));
    check_cuts(is_journal_space, BYTES("\6shop\0\3\1\2"), 9);
    check_cuts(is_slot_count, BYTES("\0\1\x80\1\xac\2"), 6);
    check_exact(is_u64, encode_u64(&arena, 1));
    struct bytes header = encode_batch_header(&arena, &(struct batch_header){.epoch = 1});
    for (size_t len = 0; len <= header.len; len++)
        ck_assert(is_batch_header((struct bytes){header.data, len}) == (len == 32 || len == 40));
    ck_assert(!is_batch_header(encode_sub_key(&arena, header, BYTES("x"))));
}
END_TEST

START_TEST(truncated_metadata_is_refused)
{
    for (enum type type = TYPE_STRING; type <= TYPE_STREAM; type++) {
        struct metadata metadata = {.type = type, .expire_ms = 1, .size = 1, .tail = 1};
        struct bytes row = encode_metadata(&arena, &metadata);
        if (type_is_inline(type))
            check_cuts(is_metadata, row, 9);
        else
            check_exact(is_metadata, row);
    }
    check_cuts(is_metadata, BYTES("\1\0\0\0\1value"), 5);
    check_exact(is_metadata, BYTES("\2\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\11"));
    check_exact(is_metadata, BYTES("\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\2"
                                   "\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\5"));
}
END_TEST

START_TEST(numbers_that_no_collection_has_are_refused)
{
    const struct {
        struct metadata metadata;
        bool is_sound;
    } rows[] = {
        {{.type = TYPE_HASH}, false},
        {{.type = TYPE_HASH, .size = 1}, true},
        {{.type = TYPE_SET, .size = COLLECTION_SIZE_MAX}, true},
        {{.type = TYPE_SET, .size = COLLECTION_SIZE_MAX + 1}, false},
        {{.type = TYPE_ZSET, .size = UINT64_MAX}, false},
        {{.type = TYPE_BITMAP, .size = BITMAP_BYTES_MAX}, true},
        {{.type = TYPE_BITMAP, .size = BITMAP_BYTES_MAX + 1}, false},
        {{.type = TYPE_STREAM}, true},
        {{.type = TYPE_STREAM, .size = COLLECTION_SIZE_MAX}, false},
        {{.type = TYPE_LIST, .size = 2, .head = 3, .tail = 5}, true},
        {{.type = TYPE_LIST, .size = 2, .head = 3, .tail = 6}, false},
        {{.type = TYPE_LIST, .size = 2, .head = UINT64_MAX, .tail = 1}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes row = encode_metadata(&arena, &rows[i].metadata);
        ck_assert_msg(is_metadata(row) == rows[i].is_sound, "row %zu", i);
    }
}
END_TEST

START_TEST(slots_beyond_the_last_are_refused)
{
    ck_assert(is_metadata_key(encode_metadata_key(&arena, BYTES(""), SLOT_COUNT - 1, BYTES("k"))));
    ck_assert(!is_metadata_key(encode_metadata_key(&arena, BYTES(""), SLOT_COUNT, BYTES("k"))));
    ck_assert(
        !is_collection_key(encode_collection_prefix(&arena, BYTES(""), SLOT_COUNT, BYTES("k"), 1)));
}
END_TEST

START_TEST(unknown_types_and_flags_are_refused)
{
    char row[128] = {0};
    for (int flags = 0; flags < 256; flags++) {
        int type = flags & 0x0f;
        bool is_known = (type >= 1 && type <= 8) || type == 10;
        bool is_fitting = false;
        /* one element; a list has a place for it */
        memset(row, 0, sizeof row);
        row[flags & 0x80 ? 1 + 3 * 8 - 1 : 1 + 4 + 8 + 4 - 1] = 1;
        if (type == TYPE_LIST)
            row[flags & 0x80 ? 1 + 5 * 8 - 1 : 1 + 4 + 8 + 4 + 2 * 8 - 1] = 1;
        row[0] = (char)flags;
        for (size_t len = 0; len <= sizeof row; len++)
            is_fitting |= is_metadata((struct bytes){row, len});
        ck_assert_int_eq(is_fitting, is_known && (flags & 0x70) == 0);
    }
}
END_TEST

START_TEST(keys_of_another_kind_are_refused)
{
    char row[256] = {0};
    row[0] = (char)(NAMESPACE_BYTES_MAX + 2);
    ck_assert(is_metadata_key((struct bytes){row, sizeof row}));
    row[0] = (char)(NAMESPACE_BYTES_MAX + 3);
    ck_assert(!is_metadata_key((struct bytes){row, sizeof row}));
    ck_assert(!is_counter_key(BYTES("d\1a\0\7")));
    ck_assert(!is_counter_key(BYTES("h")));
    ck_assert(!is_journal_key(BYTES("c\1")));
    /* the last byte of the number is zero: not its shortest form */
    ck_assert(!is_slot_count(BYTES("\0\1\x80\0\0")));
    ck_assert(!is_slot_count(BYTES("\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\2\0")));
    ck_assert(!is_collection_key(BYTES("\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0")));
}
END_TEST

static void add_all(TCase *tests)
{
    tcase_add_test(tests, keys_have_these_bytes);
    tcase_add_test(tests, a_string_has_these_bytes);
    tcase_add_test(tests, collections_have_these_bytes);
    tcase_add_test(tests, a_hash_whose_fields_expire_has_these_bytes);
    tcase_add_test(tests, the_ttl_of_a_field_has_these_bytes);
    tcase_add_test(tests, a_key_is_due_when_it_or_a_field_expires);
    tcase_add_test(tests, a_list_has_these_bytes);
    tcase_add_test(tests, a_stream_has_these_bytes);
    tcase_add_test(tests, a_stream_of_whose_first_node_nothing_is_known_has_no_numbers_of_it);
    tcase_add_test(tests, a_batch_header_has_these_bytes);
    tcase_add_test(tests, counts_have_these_bytes);
    tcase_add_test(tests, scores_have_these_bits);
    tcase_add_test(tests, types_have_names);
    tcase_add_test(tests, keys_come_apart_again);
    tcase_add_test(tests, counts_come_apart_again);
    tcase_add_test(tests, every_type_comes_back_as_it_was);
    tcase_add_test(tests, plain_rows_are_strings_without_ttl);
    tcase_add_test(tests, the_old_layout_is_read);
    tcase_add_test(tests, scores_order_as_numbers);
    tcase_add_test(tests, random_scores_order_as_numbers);
    tcase_add_test(tests, rows_order_as_their_numbers);
    tcase_add_test(tests, a_prefix_holds_its_rows_and_no_others);
    tcase_add_test(tests, a_prefix_end_is_the_next_prefix);
    tcase_add_test(tests, roots_of_rank_trees_say_which_format_wrote_them);
    tcase_add_test(tests, rank_blocks_have_these_bytes);
    tcase_add_test(tests, truncated_keys_are_refused);
    tcase_add_test(tests, truncated_metadata_is_refused);
    tcase_add_test(tests, numbers_that_no_collection_has_are_refused);
    tcase_add_test(tests, slots_beyond_the_last_are_refused);
    tcase_add_test(tests, unknown_types_and_flags_are_refused);
    tcase_add_test(tests, keys_of_another_kind_are_refused);
}

int main(void)
{
    TCase *tests = tcase_create("encoding");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    add_all(tests);
    Suite *suite = suite_create("encoding");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
