/*
 * test_slot_origins.c - the row that says from which shards slots have come: its bytes, what is noted in it, what is refused.
 */
#include "backend/format/slot_record.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct slot_origins origins, read;

static void setup(void)
{
    arena_init(&arena);
    memset(&origins, 0, sizeof origins);
}

static void teardown(void)
{
    arena_fini(&arena);
}

/* Encodes the row, and decodes it again. */
static struct bytes encode(void)
{
    struct bytes value = encode_slot_origins(&arena, &origins);
    ck_assert(decode_slot_origins(value, &read));
    ck_assert_uint_eq(read.since_us, origins.since_us);
    ck_assert_uint_eq(read.count, origins.count);
    for (uint32_t i = 0; i < read.count; i++) {
        ck_assert_uint_eq(read.items[i].until_us, origins.items[i].until_us);
        ck_assert(read.items[i].log_id == origins.items[i].log_id);
        ck_assert_str_eq(read.items[i].shard, origins.items[i].shard);
    }
    return value;
}

START_TEST(a_row_has_these_bytes)
{
    const struct bytes expected = BYTES("\2"
                                        "\0\0\0\0\0\0\0\7"
                                        "\0\0\0\0\0\0\0\x8"
                                        "\0\0\0\0\0\0\0\x9"
                                        "\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x0c\1b"
                                        "\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\0\0");
    origins.log_id = 7;
    origins.since_us = 8;
    origins.owned = 9;
    slot_origins_note(&origins, "b", 12, 10);
    slot_origins_note(&origins, "", 0, 11);
    struct bytes value = encode();
    ck_assert_uint_eq(value.len, expected.len);
    ck_assert_mem_eq(value.data, expected.data, expected.len);
    for (size_t len = 0; len < value.len; len++) /* each shard alone may be left out */
        ck_assert(decode_slot_origins((struct bytes){value.data, len}, &read) ==
                  (len == 25 || len == 43));
    ck_assert(
        !decode_slot_origins(BYTES("\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), &read));
}
END_TEST

START_TEST(a_row_of_an_older_version_has_no_logs)
{
    const struct bytes value = BYTES("\1"
                                     "\0\0\0\0\0\0\0\7"
                                     "\0\0\0\0\0\0\0\x8"
                                     "\0\0\0\0\0\0\0\x9"
                                     "\0\0\0\0\0\0\0\x0a\1b"
                                     "\0\0\0\0\0\0\0\x0b\0");
    ck_assert(decode_slot_origins(value, &read));
    ck_assert_uint_eq(read.count, 2);
    ck_assert(read.items[0].until_us == 10 && !read.items[0].log_id);
    ck_assert_str_eq(read.items[0].shard, "b");
    ck_assert(read.items[1].until_us == 11 && !*read.items[1].shard);
    for (size_t len = 0; len < value.len; len++)
        ck_assert(decode_slot_origins((struct bytes){value.data, len}, &read) ==
                  (len == 25 || len == 35));
}
END_TEST

START_TEST(a_log_is_noted_once_with_its_latest_time)
{
    slot_origins_note(&origins, "b", 7, 10);
    slot_origins_note(&origins, "c", 7, 5);
    slot_origins_note(&origins, "b", 7, 12);
    slot_origins_note(&origins, "b", 7, 11);
    slot_origins_note(&origins, "b", 8, 13); /* another shard of its name */
    ck_assert_uint_eq(origins.count, 3);
    ck_assert_uint_eq(origins.items[0].until_us, 12);
    ck_assert_uint_eq(origins.items[2].until_us, 13);
    encode();
}
END_TEST

START_TEST(with_too_many_shards_the_row_tells_of_a_shorter_time)
{
    char name[SHARD_NAME_MAX + 1];
    for (unsigned i = 0; i < SLOT_ORIGINS_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "%060u", i);
        slot_origins_note(&origins, name, 7, 100 + i);
        encode();
    }
    ck_assert_uint_eq(origins.count, SLOT_ORIGINS_MAX);
    ck_assert_uint_eq(origins.since_us, 101); /* the second one was left out, too */
    for (uint32_t i = 0; i < origins.count; i++)
        ck_assert_uint_gt(origins.items[i].until_us, 101);
}
END_TEST

START_TEST(a_row_with_more_shards_or_a_long_name_is_refused)
{
    char value[25 + (SLOT_ORIGINS_MAX + 1) * 17] = {2};
    ck_assert(!decode_slot_origins((struct bytes){value, sizeof value}, &read));
    ck_assert(decode_slot_origins((struct bytes){value, sizeof value - 17}, &read));
    value[25 + 16] = SHARD_NAME_MAX + 1;
    ck_assert(!decode_slot_origins((struct bytes){value, sizeof value - 17}, &read));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot_origins");
    TCase *tests = tcase_create("row");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_row_has_these_bytes);
    tcase_add_test(tests, a_row_of_an_older_version_has_no_logs);
    tcase_add_test(tests, a_log_is_noted_once_with_its_latest_time);
    tcase_add_test(tests, with_too_many_shards_the_row_tells_of_a_shorter_time);
    tcase_add_test(tests, a_row_with_more_shards_or_a_long_name_is_refused);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
