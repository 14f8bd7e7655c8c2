/*
 * test_shard_names.c - names have numbers, equal ones the same, and those that nothing uses are dropped without moving the others' texts.
 */
#include "backend/slots/shard_names.h"

#include "tests/unit/suite.h"

#include <stdio.h>

START_TEST(names_that_are_dropped_leave_the_others_with_new_numbers)
{
    enum { NAMES = 3000 };
    static uint16_t numbers[NAMES];
    struct shard_names names;
    char text[16];
    shard_names_init(&names);
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof text, "s%d", i);
        ck_assert_int_eq(shard_names_put(&names, bytes_of(text)), i);
        ck_assert_int_eq(shard_names_put(&names, bytes_of(text)), i);
        numbers[i] = i % 1000 == 7;
    }
    const char *kept = names.texts[1007];
    shard_names_keep(&names, numbers);
    ck_assert_int_eq(names.count, 3);
    ck_assert_int_eq(numbers[7], 1);
    ck_assert_int_eq(numbers[1007], 2);
    ck_assert_ptr_eq(names.texts[1], kept);
    ck_assert_int_eq(shard_names_put(&names, BYTES("s2007")), 2);
    ck_assert_int_eq(shard_names_put(&names, BYTES("s8")), 3);
    shard_names_fini(&names);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard_names");
    TCase *tests = tcase_create("shard_names");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, names_that_are_dropped_leave_the_others_with_new_numbers);
    return suite_run(suite);
}
