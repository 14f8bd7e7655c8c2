/*
 * test_rdb.c - RDB payloads: dumps of redis-server 7.0 are read, our own dumps are read back, damaged ones are refused.
 */
#include "backend/format/rdb.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

#define PAYLOAD(literal) ((struct bytes){(literal), sizeof(literal) - 1})

/* DUMPs of redis-server 7.0.15. */
static const char dump_int[] = "\x00\xc0\x05\x0a\x00\x63\x2f\x5f\x66\x83\x2f\xb3\x51";
static const char dump_text[] =
    "\x00\x05\x68\x65\x6c\x6c\x6f\x0a\x00\x63\x72\xdf\x76\x65\x34\x20\x0a";
static const char dump_lzf[] =
    "\x00\xc3\x09\x40\x64\x01\x78\x78\xe0\x57\x00\x01\x78\x78\x0a\x00\x5d\xb7\xf6\x63\xbb\x08"
    "\x62\x5f";
static const char dump_listpack[] = "\x10\xc3\x40\x42\x40\x63\x1f\x63\x00\x00\x00\x0c\x00\x82\x66"
                                    "\x31\x03\x82\x76\x31\x03\x81\x6e\x02\xf2\x40\xe2\x01\x04"
                                    "\x83\x6e\x65\x67\x04\xdf\xfb\x02\x81\x6c\x02\x02\xa8\x79\xe0"
                                    "\x1e\x00\x06\x29\x83\x62\x69\x67\x04\xf4\x20\x4f\x01\x00"
                                    "\x01\x20\x03\x09\x09\x83\x69\x31\x36\x04\xd4\x48\x02\xff\x0a"
                                    "\x00\xe0\xdb\x16\x0d\xc6\xe0\x8a\x24";

static struct bytes read_string_dump(struct bytes payload)
{
    struct rdb_reader reader;
    struct bytes text;
    uint8_t type;
    ck_assert(rdb_open(&reader, &arena, payload));
    ck_assert(rdb_read_byte(&reader, &type));
    ck_assert_uint_eq(type, RDB_TYPE_STRING);
    ck_assert(rdb_read_string(&reader, &text));
    ck_assert_uint_eq(reader.rest.len, 0);
    return text;
}

START_TEST(strings_that_redis_dumped_are_read)
{
    ck_assert(bytes_equal(read_string_dump(PAYLOAD(dump_int)), BYTES("5")));
    ck_assert(bytes_equal(read_string_dump(PAYLOAD(dump_text)), BYTES("hello")));
    struct bytes text = read_string_dump(PAYLOAD(dump_lzf));
    ck_assert_uint_eq(text.len, 100);
    for (size_t i = 0; i < text.len; i++)
        ck_assert_int_eq(text.data[i], 'x');
}
END_TEST

START_TEST(a_listpack_that_redis_dumped_gives_its_elements)
{
    static const char *const want[] = {"f1", "v1", "n",   "123456",     "neg", "-5",
                                       "l",  NULL, "big", "4294967296", "i16", "-3000"};
    struct rdb_reader reader;
    struct bytes pack;
    struct bytes element;
    uint8_t type;
    size_t at = 0;
    ck_assert(rdb_open(&reader, &arena, PAYLOAD(dump_listpack)));
    ck_assert(rdb_read_byte(&reader, &type) && type == RDB_TYPE_HASH_LISTPACK);
    ck_assert(rdb_read_string(&reader, &pack));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        ck_assert_int_eq(rdb_listpack_next(&arena, pack, &at, &element), RDB_PACK_ELEMENT);
        if (want[i])
            ck_assert(bytes_equal(element, bytes_of(want[i])));
        else
            ck_assert_uint_eq(element.len, 40);
    }
    ck_assert_int_eq(rdb_listpack_next(&arena, pack, &at, &element), RDB_PACK_END);
}
END_TEST

START_TEST(a_string_is_dumped_as_redis_dumps_it)
{
    struct rdb_writer writer;
    rdb_writer_init(&writer, &arena);
    rdb_write_byte(&writer, RDB_TYPE_STRING);
    rdb_write_string(&writer, BYTES("hello"));
    ck_assert(bytes_equal(rdb_finish(&writer), PAYLOAD(dump_text)));
    rdb_writer_init(&writer, &arena);
    rdb_write_byte(&writer, RDB_TYPE_STRING);
    rdb_write_string(&writer, BYTES("5"));
    ck_assert(bytes_equal(rdb_finish(&writer), PAYLOAD(dump_int)));
}
END_TEST

START_TEST(every_string_reads_back)
{
    static const char *const texts[] = {
        "",           "0",   "-128", "128", "32768",       "-2147483648",
        "2147483648", "007", "+1",   "-0",  "12345678901", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "abc"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rdb_writer writer;
        rdb_writer_init(&writer, &arena);
        rdb_write_byte(&writer, RDB_TYPE_STRING);
        rdb_write_string(&writer, bytes_of(texts[i]));
        ck_assert(bytes_equal(read_string_dump(rdb_finish(&writer)), bytes_of(texts[i])));
    }
}
END_TEST

START_TEST(lengths_of_every_form_read_back)
{
    static const uint64_t lengths[] = {
        0, 63, 64, 16383, 16384, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct rdb_writer writer;
        struct rdb_reader reader;
        uint64_t length;
        rdb_writer_init(&writer, &arena);
        rdb_write_length(&writer, lengths[i]);
        ck_assert(rdb_open(&reader, &arena, rdb_finish(&writer)));
        ck_assert(rdb_read_length(&reader, &length));
        ck_assert(length == lengths[i]);
        ck_assert(!rdb_read_length(&reader, &length));
    }
}
END_TEST

START_TEST(a_changed_byte_is_detected)
{
    struct rdb_reader reader;
    for (size_t i = 0; i < sizeof dump_text - 1; i++) {
        char copy[sizeof dump_text - 1];
        memcpy(copy, dump_text, sizeof copy);
        copy[i] ^= 1;
        ck_assert(!rdb_open(&reader, &arena, (struct bytes){copy, sizeof copy}));
    }
    for (size_t len = 0; len < sizeof dump_text - 1; len++)
        ck_assert(!rdb_open(&reader, &arena, (struct bytes){dump_text, len}));
}
END_TEST

START_TEST(a_cut_listpack_is_refused_without_reading_behind_it)
{
    struct rdb_reader reader;
    struct bytes pack;
    uint8_t type;
    ck_assert(rdb_open(&reader, &arena, PAYLOAD(dump_listpack)));
    ck_assert(rdb_read_byte(&reader, &type) && rdb_read_string(&reader, &pack));
    for (size_t len = 7; len < pack.len; len++) {
        struct guard guard;
        guard_init(&guard, pack.data, len);
        uint32_t total = (uint32_t)len; /* the length in the header fits the cut payload */
        memcpy(guard.data, &total, sizeof total);
        struct bytes element;
        size_t at = 0;
        enum rdb_pack result;
        while ((result = rdb_listpack_next(&arena, (struct bytes){guard.data, len}, &at,
                                           &element)) == RDB_PACK_ELEMENT)
            continue;
        ck_assert_int_eq(result, RDB_PACK_BAD);
        guard_fini(&guard);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rdb");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, strings_that_redis_dumped_are_read);
    tcase_add_test(tests, a_listpack_that_redis_dumped_gives_its_elements);
    tcase_add_test(tests, a_string_is_dumped_as_redis_dumps_it);
    tcase_add_test(tests, every_string_reads_back);
    tcase_add_test(tests, lengths_of_every_form_read_back);
    tcase_add_test(tests, a_changed_byte_is_detected);
    tcase_add_test(tests, a_cut_listpack_is_refused_without_reading_behind_it);
    Suite *suite = suite_create("rdb");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
