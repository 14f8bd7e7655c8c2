#include "backend/backup/pushed.h"
#include "shared/path.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/scree-pushed-XXXXXX";

static void make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    ck_assert(path_remove(dir));
}

static uint64_t until_of(const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/PUSHED", dir);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    return pushed_until_s(dir);
}

START_TEST(the_time_is_read_of_the_first_line)
{
    ck_assert_uint_eq(until_of("until-s 1796000299\nall-s 1796000294\n"), 1796000299);
    ck_assert_uint_eq(until_of("until-s 1\nall-s 0\n"), 1);
}
END_TEST

START_TEST(a_file_that_is_missing_or_damaged_tells_no_time)
{
    char too_long[400];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    ck_assert_uint_eq(pushed_until_s(dir), 0);
    ck_assert_uint_eq(pushed_until_s(""), 0);
    static const char *const bad[] = {"",
                                      "until-s",
                                      "until-s 1796000299",
                                      "until-s \n",
                                      "until-s -4\n",
                                      "until-s 17x\n",
                                      "until-x 17\n",
                                      "\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_uint_eq(until_of(bad[i]), 0);
    ck_assert_uint_eq(until_of(too_long), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pushed");
    TCase *tests = tcase_create("pushed");
    tcase_add_checked_fixture(tests, make_dir, remove_dir);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, the_time_is_read_of_the_first_line);
    tcase_add_test(tests, a_file_that_is_missing_or_damaged_tells_no_time);
    return suite_run(suite);
}
