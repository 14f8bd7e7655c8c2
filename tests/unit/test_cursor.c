/*
 * test_cursor.c - SCAN cursors: their contents, and what the cache keeps.
 */
#include "backend/keyspace/cursor.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(a_cursor_carries_its_slot_and_fits_a_double)
{
    struct cursor_cache *cache = cursor_cache_new();
    uint64_t cursor = cursor_after(cache, BYTES("ns"), 16383, BYTES("key"));
    ck_assert_uint_eq(cursor_slot(cursor), 16383);
    ck_assert_uint_ne(cursor_fingerprint(cursor), 0);
    ck_assert(cursor < UINT64_C(1) << 53);
    ck_assert_uint_eq((uint64_t)(double)cursor_ordered(cursor), cursor_ordered(cursor));
    ck_assert_uint_eq(cursor_unordered(cursor_ordered(cursor)), cursor);
    ck_assert_uint_eq(cursor_slot(cursor_ordered(cursor)), 16383);
    ck_assert(!cursor_is_ordered(cursor) && cursor_is_ordered(cursor_ordered(cursor)));
    ck_assert(cursor_matches(BYTES("ns"), cursor, BYTES("key")));
    ck_assert(!cursor_matches(BYTES("ns"), cursor, BYTES("kez")));
    ck_assert(!cursor_matches(BYTES("other"), cursor, BYTES("key")));
    cursor_cache_free(cache);
}
END_TEST

START_TEST(the_cache_recalls_the_key_in_its_scope_only)
{
    struct cursor_cache *cache = cursor_cache_new();
    struct bytes last;
    uint64_t cursor = cursor_after(cache, BYTES("a"), 1, BYTES(""));
    ck_assert(cursor_recall(cache, BYTES("a"), cursor, &last));
    ck_assert_uint_eq(last.len, 0);
    ck_assert(!cursor_recall(cache, BYTES("b"), cursor, &last));
    cursor_cache_free(cache);
}
END_TEST

START_TEST(old_cursors_leave_the_cache_and_equal_ones_stay)
{
    struct cursor_cache *cache = cursor_cache_new();
    struct bytes last;
    uint64_t first = cursor_after(cache, BYTES("s"), 1, BYTES("first"));
    uint64_t again = 0;
    for (int i = 0; i < CURSOR_CACHE_MAX; i++) {
        char key[16];
        size_t len = (size_t)snprintf(key, sizeof key, "%d", i);
        (void)cursor_after(cache, BYTES("s"), 2, (struct bytes){key, len});
        again = cursor_after(cache, BYTES("s"), 3, BYTES("again"));
    }
    ck_assert(!cursor_recall(cache, BYTES("s"), first, &last));
    ck_assert(cursor_recall(cache, BYTES("s"), again, &last));
    ck_assert(bytes_equal(last, BYTES("again")));
    cursor_cache_free(cache);
}
END_TEST

START_TEST(cursors_are_read_as_redis_reads_them)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"00", true, 0},
        {"+1", true, 1},
        {"", true, 0},
        {" 1", false, 0},
        {"1a", false, 0},
        {"0x1", false, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t cursor = 77;
        ck_assert(cursor_parse(bytes_of(cases[i].text), &cursor) == cases[i].ok);
        if (cases[i].ok)
            ck_assert(cursor == cases[i].value);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cursor");
    tcase_add_test(tests, a_cursor_carries_its_slot_and_fits_a_double);
    tcase_add_test(tests, the_cache_recalls_the_key_in_its_scope_only);
    tcase_add_test(tests, old_cursors_leave_the_cache_and_equal_ones_stay);
    tcase_add_test(tests, cursors_are_read_as_redis_reads_them);
    Suite *suite = suite_create("cursor");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
