/*
 * test_replica_figures.c - for how long a copy has lacked records, as its operator sees it.
 */
#include "backend/replica/replica_figures.h"
#include "tests/unit/suite.h"

START_TEST(a_copy_that_has_all_does_not_lag)
{
    struct replica_lag lag = {0};
    ck_assert_uint_eq(replica_lag_note(&lag, 0, 0, 1000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 7, 2000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 7, 900000), 0);
}
END_TEST

START_TEST(a_copy_that_stands_still_lags_by_the_time_since_then)
{
    struct replica_lag lag = {0};
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 7, 1000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 8, 2000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 9, 5000), 3000);
    ck_assert_uint_eq(replica_lag_note(&lag, 7, 500, 902000), 900000);
}
END_TEST

START_TEST(a_copy_that_follows_records_without_end_lags_by_its_delay)
{
    struct replica_lag lag = {0};
    for (uint64_t i = 1; i <= 1000; i++) /* 10 records and 1000 us at a time, and it is 15 behind */
        ck_assert_uint_le(replica_lag_note(&lag, i * 10 > 15 ? i * 10 - 15 : 0, i * 10, i * 1000),
                          2000);
}
END_TEST

START_TEST(a_copy_that_has_caught_up_does_not_lag_any_more)
{
    struct replica_lag lag = {0};
    ck_assert_uint_eq(replica_lag_note(&lag, 0, 100, 1000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 50, 200, 60001000), 60000000);
    ck_assert_uint_eq(replica_lag_note(&lag, 100, 200, 61001000), 0);
    ck_assert_uint_eq(replica_lag_note(&lag, 200, 200, 62001000), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replica_figures");
    tcase_add_test(tests, a_copy_that_has_all_does_not_lag);
    tcase_add_test(tests, a_copy_that_stands_still_lags_by_the_time_since_then);
    tcase_add_test(tests, a_copy_that_follows_records_without_end_lags_by_its_delay);
    tcase_add_test(tests, a_copy_that_has_caught_up_does_not_lag_any_more);
    Suite *suite = suite_create("replica_figures");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
