#include "guard.h"
#include "shared/table.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 5000 };

static int values[COUNT];

static struct bytes key_of(int number)
{
    static char text[32];
    return (struct bytes){text, (size_t)snprintf(text, sizeof(text), "key:%d", number)};
}

START_TEST(put_keys_are_found_and_others_are_not)
{
    struct table *table = table_new();
    ck_assert_ptr_null(table_get(table, BYTES("a")));
    ck_assert_ptr_null(table_put(table, BYTES("a"), &values[1]));
    ck_assert_ptr_eq(table_get(table, BYTES("a")), &values[1]);
    ck_assert_ptr_eq(table_put(table, BYTES("a"), &values[2]), &values[1]);
    ck_assert_ptr_eq(table_get(table, BYTES("a")), &values[2]);
    ck_assert_ptr_null(table_get(table, BYTES("b")));
    ck_assert_uint_eq(table_count(table), 1);
    table_free(table);
}
END_TEST

START_TEST(keys_are_copied_and_may_be_empty_or_binary)
{
    struct table *table = table_new();
    char key[] = "abc";
    table_put(table, bytes_of(key), &values[0]);
    key[0] = 'x';
    ck_assert_ptr_nonnull(table_get(table, BYTES("abc")));
    table_put(table, (struct bytes){NULL, 0}, &values[1]);
    table_put(table, BYTES("a\0b"), &values[2]);
    table_put(table, BYTES("a\0c"), &values[3]);
    ck_assert_ptr_eq(table_get(table, BYTES("")), &values[1]);
    ck_assert_ptr_eq(table_get(table, BYTES("a\0b")), &values[2]);
    ck_assert_ptr_eq(table_get(table, BYTES("a\0c")), &values[3]);
    table_free(table);
}
END_TEST

/* Puts and removes in a mixed order and compares with a plain array after each step. */
START_TEST(it_agrees_with_an_array_through_many_puts_and_removes)
{
    static void *expected[COUNT];
    struct table *table = table_new();
    unsigned state = 7;
    size_t count = 0;
    for (int step = 0; step < 60000; step++) {
        state = state * 1103515245 + 12345;
        int number = (int)((state >> 8) % (step < 30000 ? COUNT : COUNT / 50));
        bool put = (state >> 4) % 16 < (step < 30000 ? 10u : 4u);
        void *value = &values[step % COUNT];
        void *before =
            put ? table_put(table, key_of(number), value) : table_remove(table, key_of(number));
        ck_assert_ptr_eq(before, expected[number]);
        count += (size_t)put - (before != NULL);
        expected[number] = put ? value : NULL;
        ck_assert_uint_eq(table_count(table), count);
    }
    for (int number = 0; number < COUNT; number++)
        ck_assert_ptr_eq(table_get(table, key_of(number)), expected[number]);
    table_free(table);
}
END_TEST

/* Were all entries moved at once, a table of a million would hold up its thread. */
START_TEST(a_table_that_grows_or_shrinks_moves_some_entries_with_each_change)
{
    struct table *table = table_new();
    size_t longest = 0;
    for (int i = 0; i < 2 * COUNT; i++) {
        size_t before = table_moves_left(table);
        if (i < COUNT)
            table_put(table, key_of(i), &values[i]);
        else
            table_remove(table, key_of(i - COUNT));
        size_t left = table_moves_left(table);
        ck_assert(left >= before || before - left <= 64);
        longest = left > longest ? left : longest;
    }
    ck_assert_uint_gt(longest, COUNT / 2);
    table_free(table);
}
END_TEST

/* Growing and shrinking, with look-ups of each key, and walks, in every state of the moving. */
START_TEST(all_keys_are_found_while_entries_move)
{
    struct table *table = table_new();
    for (int i = 0; i < 400; i++) {
        table_put(table, key_of(i), &values[i]);
        size_t cursor = 0;
        struct bytes key;
        void *value;
        int count = 0;
        while (table_next(table, &cursor, &key, &value))
            count++;
        ck_assert_int_eq(count, i + 1);
        for (int at = 0; at < 401; at++)
            ck_assert_ptr_eq(table_get(table, key_of(at)), at <= i ? &values[at] : NULL);
    }
    for (int i = 0; i < 400; i++) {
        ck_assert_ptr_eq(table_remove(table, key_of(i)), &values[i]);
        for (int at = 0; at < 400; at++)
            ck_assert_ptr_eq(table_get(table, key_of(at)), at > i ? &values[at] : NULL);
    }
    table_free(table);
}
END_TEST

START_TEST(a_walk_sees_every_entry_once)
{
    static int seen[COUNT];
    struct table *table = table_new();
    for (int i = 0; i < COUNT; i++)
        table_put(table, key_of(i), &values[i]);
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table_next(table, &cursor, &key, &value)) {
        ptrdiff_t number = (int *)value - values;
        ck_assert(bytes_equal(key, key_of((int)number)));
        seen[number]++;
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(seen[i], 1);
    table_free(table);
}
END_TEST

START_TEST(an_emptied_table_has_no_entries)
{
    struct table *table = table_new();
    for (int i = 0; i < COUNT; i++)
        table_put(table, key_of(i), &values[i]);
    for (int i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(table_remove(table, key_of(i)), &values[i]);
    size_t cursor = 0;
    struct bytes key;
    void *value;
    ck_assert(!table_next(table, &cursor, &key, &value));
    table_free(table);
    table_free(NULL);
}
END_TEST

START_TEST(the_hash_depends_on_every_byte_and_reads_no_further)
{
    char data[40] = "";
    for (size_t len = 0; len <= sizeof(data); len++) {
        struct guard guard;
        guard_init(&guard, data, len);
        uint64_t hash = hash_bytes((struct bytes){guard.data, len});
        ck_assert_uint_eq(hash, hash_bytes((struct bytes){data, len}));
        for (size_t i = 0; i < len; i++) {
            guard.data[i] ^= 1;
            ck_assert_uint_ne(hash, hash_bytes((struct bytes){guard.data, len}));
            guard.data[i] ^= 1;
        }
        if (len)
            ck_assert_uint_ne(hash, hash_bytes((struct bytes){data, len - 1}));
        guard_fini(&guard);
    }
}
END_TEST

START_TEST(low_bits_of_the_hash_spread_similar_keys)
{
    int buckets[64] = {0};
    for (int i = 0; i < 6400; i++)
        buckets[hash_bytes(key_of(i)) % 64]++;
    for (int i = 0; i < 64; i++)
        ck_assert(buckets[i] > 40 && buckets[i] < 180);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table");
    TCase *tests = tcase_create("table");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, put_keys_are_found_and_others_are_not);
    tcase_add_test(tests, keys_are_copied_and_may_be_empty_or_binary);
    tcase_add_test(tests, it_agrees_with_an_array_through_many_puts_and_removes);
    tcase_add_test(tests, a_table_that_grows_or_shrinks_moves_some_entries_with_each_change);
    tcase_add_test(tests, all_keys_are_found_while_entries_move);
    tcase_add_test(tests, a_walk_sees_every_entry_once);
    tcase_add_test(tests, an_emptied_table_has_no_entries);
    tcase_add_test(tests, the_hash_depends_on_every_byte_and_reads_no_further);
    tcase_add_test(tests, low_bits_of_the_hash_spread_similar_keys);
    return suite_run(suite);
}
