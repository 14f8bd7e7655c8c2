/*
 * test_name_lengths.c - lengths are in order, each is there once, and goes with the last name that has it.
 */
#include "shared/name_lengths.h"
#include "tests/unit/suite.h"

static struct name_lengths lengths;

static void teardown(void)
{
    name_lengths_free(&lengths);
}

START_TEST(each_length_is_there_once_in_order)
{
    enum { NAMES = 1000, DIFFERENT = 100 };
    for (size_t i = 0; i < NAMES; i++)
        name_lengths_add(&lengths, i * 37 % DIFFERENT);
    ck_assert_uint_eq(lengths.count, DIFFERENT);
    for (size_t i = 0; i < DIFFERENT; i++) {
        ck_assert_uint_eq(lengths.items[i].len, i);
        ck_assert_uint_eq(lengths.items[i].names, NAMES / DIFFERENT);
    }
}
END_TEST

START_TEST(a_length_goes_with_its_last_name)
{
    name_lengths_add(&lengths, 3);
    name_lengths_add(&lengths, 5);
    name_lengths_add(&lengths, 3);
    name_lengths_remove(&lengths, 3);
    ck_assert(name_lengths_have(&lengths, 3));
    name_lengths_remove(&lengths, 3);
    ck_assert(!name_lengths_have(&lengths, 3));
    ck_assert(name_lengths_have(&lengths, 5));
    ck_assert_uint_eq(lengths.count, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name_lengths");
    TCase *cases = tcase_create("name_lengths");
    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_add_test(cases, each_length_is_there_once_in_order);
    tcase_add_test(cases, a_length_goes_with_its_last_name);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
