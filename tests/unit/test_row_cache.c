/*
 * test_row_cache.c - the row cache: a row found has the value that was put last, also after evictions.
 */
#include "backend/storage/row_cache.h"
#include "backend/storage/write_buffer.h"
#include "shared/table.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CACHE_BYTES = 256 * 1024, KEYS = 3000, VALUE_MAX = 400 };

static struct row_cache *cache;

static void setup(void)
{
    cache = row_cache_new(CACHE_BYTES);
}

static void teardown(void)
{
    row_cache_free(cache);
}

static struct bytes key_of(int number, char text[16])
{
    return (struct bytes){text, (size_t)sprintf(text, "key:%d", number)};
}

static void put(int number, struct bytes value)
{
    char text[16];
    struct bytes key = key_of(number, text);
    row_cache_put(cache, CF_METADATA, key, hash_row(CF_METADATA, key), value);
}

static bool get(int number, struct bytes *value)
{
    char text[16];
    struct bytes key = key_of(number, text);
    return row_cache_get(cache, CF_METADATA, key, hash_row(CF_METADATA, key), value);
}

static void put_stream(int from, int count)
{
    char value[100] = {0};
    for (int i = 0; i < count; i++) {
        row_cache_release_borrowed(cache);
        put(from + i, (struct bytes){value, sizeof value});
    }
}

START_TEST(a_row_that_was_put_is_there)
{
    struct bytes value;
    ck_assert(!get(1, &value));
    put(1, BYTES("one"));
    put(2, BYTES(""));
    ck_assert(get(1, &value) && bytes_equal(value, BYTES("one")));
    ck_assert(get(2, &value) && value.len == 0);
    put(1, BYTES("longer than before"));
    ck_assert(get(1, &value) && bytes_equal(value, BYTES("longer than before")));
}
END_TEST

/* Reads rows as a partition does: a row that is not in the cache comes from the store and is offered to the cache.
 * Returns the hits. */
static int read_all(int from, int count)
{
    char text[16];
    struct bytes value;
    int hits = 0;
    for (int i = from; i < from + count; i++) {
        struct bytes key = key_of(i, text);
        row_cache_release_borrowed(cache);
        if (row_cache_get(cache, CF_METADATA, key, hash_row(CF_METADATA, key), &value))
            hits++;
        else
            row_cache_offer(cache, CF_METADATA, key, hash_row(CF_METADATA, key),
                            BYTES("of the store"));
    }
    return hits;
}

START_TEST(reading_everything_once_evicts_few_hot_rows)
{
    enum { HOT = 500, RARE = 100000 };
    struct row_cache_figures before, after;
    read_all(0, RARE); /* the cache is full now */
    read_all(RARE, HOT);
    read_all(RARE, HOT);
    ck_assert_int_ge(read_all(RARE, HOT), HOT * 9 / 10);
    row_cache_figures(cache, &before);
    ck_assert_int_le(read_all(2 * RARE, RARE), RARE / 100);
    row_cache_figures(cache, &after);
    ck_assert_uint_ge(after.misses - before.misses, RARE * 99 / 100);
    ck_assert_int_ge(read_all(RARE, HOT), HOT * 8 / 10);
}
END_TEST

START_TEST(replacing_changes_rows_of_the_cache_and_adds_none)
{
    char text[16];
    struct bytes value;
    struct bytes key = key_of(1, text);
    row_cache_replace(cache, CF_METADATA, key, hash_row(CF_METADATA, key), BYTES("new"));
    ck_assert(!get(1, &value));
    put(1, BYTES("old"));
    row_cache_replace(cache, CF_METADATA, key, hash_row(CF_METADATA, key), BYTES("longer"));
    ck_assert(get(1, &value) && bytes_equal(value, BYTES("longer")));
    row_cache_replace(cache, CF_DATA, key, hash_row(CF_DATA, key), BYTES("another family"));
    ck_assert(get(1, &value) && bytes_equal(value, BYTES("longer")));
}
END_TEST

static size_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert(file && fscanf(file, "%*u %lu", &pages) == 1); // NOLINT(cert-err34-c)
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

START_TEST(a_big_cache_uses_memory_as_rows_are_added_and_gives_it_back)
{
    enum { MB = 1 << 20, ROWS = 1000, SLACK = 24 * MB };
    row_cache_free(cache);
    size_t before = resident();
    cache = row_cache_new((size_t)4096 * MB);
    put_stream(0, ROWS);
    ck_assert_uint_lt(resident(), before + SLACK);
    put_stream(ROWS, 400 * ROWS);
    ck_assert_uint_gt(resident(), before + SLACK);
    ck_assert_uint_lt(resident(), before + 400 * ROWS * 200 + SLACK);
    row_cache_clear(cache);
    ck_assert_uint_lt(resident(), before + SLACK);
}
END_TEST

START_TEST(no_row_is_lost_while_the_index_grows)
{
    enum { ROWS = 40000 }; /* of 128 bytes: a third of the cache */
    struct bytes value;
    row_cache_free(cache);
    cache = row_cache_new(16 << 20);
    int found = 0;
    for (int i = 0; i < ROWS; i++) {
        put_stream(i, 1);
        found += get(i / 2, &value) && get(i, &value);
    }
    for (int i = 0; i < ROWS; i++)
        found += get(i, &value);
    ck_assert_int_ge(found, 2 * ROWS * 99 / 100); /* full buckets evict rows */
}
END_TEST

START_TEST(column_families_are_apart)
{
    struct bytes value, key = BYTES("key");
    row_cache_put(cache, CF_DATA, key, 7, BYTES("data"));
    ck_assert(!row_cache_get(cache, CF_METADATA, key, 7, &value));
    ck_assert(row_cache_get(cache, CF_DATA, key, 7, &value));
}
END_TEST

START_TEST(a_removed_row_is_gone)
{
    struct bytes value, key = BYTES("key:1");
    put(1, BYTES("one"));
    row_cache_remove(cache, CF_METADATA, key, hash_row(CF_METADATA, key));
    ck_assert(!get(1, &value));
    put(1, BYTES("again"));
    row_cache_clear(cache);
    ck_assert(!get(1, &value));
}
END_TEST

START_TEST(a_big_row_is_not_cached_and_removes_the_old_one)
{
    static char big[64 * 1024];
    struct bytes value;
    put(1, BYTES("small"));
    put(1, (struct bytes){big, sizeof big});
    ck_assert(!get(1, &value));
}
END_TEST

START_TEST(old_rows_are_evicted_and_used_ones_stay)
{
    enum { USED = 40, FIRST = 2, STREAM = 100 };
    struct bytes value;
    int found = 0;
    put(1, BYTES("unused"));
    for (int i = 0; i < USED; i++)
        put(FIRST + i, BYTES("used"));
    for (int i = 0; i < 100; i++) {
        put_stream(STREAM + i * 100, 100);
        row_cache_release_borrowed(cache);
        found = 0;
        for (int j = 0; j < USED; j++)
            found += get(FIRST + j, &value) && bytes_equal(value, BYTES("used"));
    }
    ck_assert_int_ge(found, USED * 3 / 4); /* a full bucket evicts its oldest row */
    ck_assert(!get(1, &value));
    ck_assert(get(STREAM + 99 * 100 + 99, &value));
}
END_TEST

START_TEST(a_borrowed_value_stays_until_the_turn_ends)
{
    struct bytes value;
    put(1, BYTES("borrowed"));
    for (int round = 0; round < 50; round++) {
        put_stream(1000 * round + 10, 600);
        row_cache_release_borrowed(cache);
        if (!get(1, &value)) {
            put(1, BYTES("borrowed"));
            continue;
        }
        for (int i = 0; i < 5000; i++)
            put(100000 + i, BYTES("more than the cache holds, without a turn"));
        ck_assert(bytes_equal(value, BYTES("borrowed")));
    }
}
END_TEST

START_TEST(every_answer_is_the_last_value_put)
{
    static char model[KEYS][VALUE_MAX];
    static int lens[KEYS]; /* -1: removed */
    unsigned random = 1;
    size_t hits = 0;
    memset(lens, 0xff, sizeof lens);
    for (int i = 0; i < 300000; i++) {
        int number = rand_r(&random) % KEYS;
        struct bytes value;
        char text[16];
        struct bytes key = key_of(number, text);
        if (i % 7 == 0)
            row_cache_release_borrowed(cache);
        switch (rand_r(&random) % 8) {
        case 0:
            lens[number] = -1;
            row_cache_remove(cache, CF_METADATA, key, hash_row(CF_METADATA, key));
            break;
        case 1:
        case 2:
            lens[number] = rand_r(&random) % VALUE_MAX;
            memset(model[number], i, (size_t)lens[number]);
            put(number, (struct bytes){model[number], (size_t)lens[number]});
            break;
        default:
            if (!get(number, &value))
                break;
            hits++;
            ck_assert_int_eq(lens[number], (int)value.len);
            ck_assert(memcmp(model[number], value.data, value.len) == 0);
        }
    }
    ck_assert_uint_gt(hits, 10000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_cache");
    TCase *tests = tcase_create("row_cache");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_row_that_was_put_is_there);
    tcase_add_test(tests, reading_everything_once_evicts_few_hot_rows);
    tcase_add_test(tests, replacing_changes_rows_of_the_cache_and_adds_none);
    tcase_add_test(tests, a_big_cache_uses_memory_as_rows_are_added_and_gives_it_back);
    tcase_add_test(tests, no_row_is_lost_while_the_index_grows);
    tcase_add_test(tests, column_families_are_apart);
    tcase_add_test(tests, a_removed_row_is_gone);
    tcase_add_test(tests, a_big_row_is_not_cached_and_removes_the_old_one);
    tcase_add_test(tests, old_rows_are_evicted_and_used_ones_stay);
    tcase_add_test(tests, a_borrowed_value_stays_until_the_turn_ends);
    tcase_add_test(tests, every_answer_is_the_last_value_put);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
