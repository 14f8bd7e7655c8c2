/*
 * test_plain_keys.c - plain keys: nothing is found that was not added or was removed, and most keys that fit are found.
 */
#include "backend/storage/plain_keys.h"
#include "tests/unit/suite.h"

enum { BYTES = 1 << 20, KEYS = 100000 };

static struct plain_keys *keys;

static void setup(void)
{
    keys = plain_keys_new(BYTES);
}

static void teardown(void)
{
    plain_keys_free(keys);
}

/* A hash as of key number `number`: a bijection, so that no two are equal. */
static uint64_t hash_of(uint64_t number)
{
    uint64_t hash = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static size_t count_found(uint64_t from, uint64_t to)
{
    size_t found = 0;
    for (uint64_t i = from; i < to; i++)
        found += plain_keys_has(keys, hash_of(i));
    return found;
}

START_TEST(most_keys_are_found_and_no_others)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        plain_keys_add(keys, hash_of(i));
        ck_assert(plain_keys_has(keys, hash_of(i)));
        plain_keys_add(keys, hash_of(i));
    }
    size_t found = count_found(0, KEYS);
    ck_assert_uint_ge(found, KEYS / 10 * 8);
    ck_assert_uint_eq(found, plain_keys_count(keys));
    ck_assert_uint_eq(count_found(KEYS, 2 * KEYS), 0);
}
END_TEST

START_TEST(removed_keys_are_gone_while_the_table_grows)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        plain_keys_add(keys, hash_of(i));
        if (i % 3 == 0)
            plain_keys_remove(keys, hash_of(i));
        if (i >= 1000)
            plain_keys_remove(keys, hash_of(i - 1000));
    }
    ck_assert_uint_eq(count_found(0, KEYS - 1000), 0);
    size_t found = count_found(KEYS - 1000, KEYS);
    ck_assert_uint_ge(found, 600);
    ck_assert_uint_eq(found, plain_keys_count(keys));
}
END_TEST

START_TEST(memory_grows_with_the_keys_up_to_its_limit)
{
    size_t begun = plain_keys_bytes(keys);
    ck_assert_uint_le(begun, 4096);
    for (uint64_t i = 0; i < 10000; i++)
        plain_keys_add(keys, hash_of(i));
    ck_assert_uint_le(plain_keys_bytes(keys), 10000 * 16 + 4096);
    for (uint64_t i = 0; i < 10 * KEYS; i++)
        plain_keys_add(keys, hash_of(i));
    ck_assert_uint_eq(plain_keys_bytes(keys), BYTES);
    ck_assert_uint_le(plain_keys_count(keys), BYTES / 8);
    ck_assert(plain_keys_has(keys, hash_of(10 * KEYS - 1)));
    plain_keys_clear(keys);
    ck_assert_uint_eq(plain_keys_bytes(keys), begun);
    ck_assert_uint_eq(count_found(0, 10 * KEYS), 0);
}
END_TEST

START_TEST(hash_zero_is_never_found)
{
    plain_keys_add(keys, 0);
    plain_keys_remove(keys, 0);
    ck_assert(!plain_keys_has(keys, 0));
    ck_assert_uint_eq(plain_keys_count(keys), 0);
}
END_TEST

START_TEST(a_table_of_no_size_works)
{
    struct plain_keys *small = plain_keys_new(1);
    for (uint64_t i = 0; i < 5000; i++)
        plain_keys_add(small, hash_of(i));
    ck_assert(plain_keys_has(small, hash_of(4999)));
    ck_assert_uint_eq(plain_keys_bytes(small), 4096);
    plain_keys_free(small);
    plain_keys_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("plain_keys");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, most_keys_are_found_and_no_others);
    tcase_add_test(tests, removed_keys_are_gone_while_the_table_grows);
    tcase_add_test(tests, memory_grows_with_the_keys_up_to_its_limit);
    tcase_add_test(tests, hash_zero_is_never_found);
    tcase_add_test(tests, a_table_of_no_size_works);
    Suite *suite = suite_create("plain_keys");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
