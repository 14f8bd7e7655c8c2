/*
 * test_replica_figures.c - for how long a copy has lacked records, and whether its group has a leader, as its operator sees it.
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

START_TEST(a_leader_is_heard_when_another_copy_leads_and_has_said_how_far_it_is)
{
    struct replica_figures figures = {
        .own = 1, .count = 2, .of = {{.id = 1, .heard_us = 5}, {.id = 2}}};
    ck_assert_ptr_null(replica_leader_heard(&figures)); /* nobody leads */
    figures.leader = 2;
    ck_assert_ptr_null(replica_leader_heard(&figures)); /* it has said nothing */
    figures.of[1].heard_us = 7;
    ck_assert_ptr_eq(replica_leader_heard(&figures), &figures.of[1]);
    figures.leader = 1;
    ck_assert_ptr_null(replica_leader_heard(&figures)); /* this copy leads */
}
END_TEST

/* Of copy 2, when copy `leader` has said at said_us that its data have all up to `index`. */
static uint64_t age_of(struct replica_age *age, uint64_t leader, uint64_t index, uint64_t said_us,
                       uint64_t applied, uint64_t now_us)
{
    struct replica_figures figures = {.own = 2, .leader = leader, .count = 3};
    for (uint64_t id = 1; id <= 3; id++)
        figures.of[id - 1] = (struct replica_figure){.id = id};
    if (leader)
        figures.of[leader - 1] = (struct replica_figure){
            .id = leader, .applied = index, .heard_us = said_us, .said_us = said_us};
    return replica_age_note(age, &figures, applied, now_us);
}

START_TEST(data_are_as_old_as_what_the_leader_said_when_they_lacked_nothing)
{
    struct replica_age age = {0};
    ck_assert_uint_eq(age_of(&age, 0, 0, 0, 7, 1000), UINT64_MAX);
    ck_assert_uint_eq(age_of(&age, 1, 7, 1500, 7, 2000), 500);
    ck_assert_uint_eq(age_of(&age, 1, 9, 2900, 7, 3000), 1500);
    ck_assert_uint_eq(age_of(&age, 1, 20, 3900, 8, 4000), 2500);
    ck_assert_uint_eq(age_of(&age, 1, 30, 4900, 9, 5000), 2100); /* 9 is what it said at 2900 */
    ck_assert_uint_eq(age_of(&age, 1, 30, 4900, 30, 6000), 1100);
}
END_TEST

START_TEST(data_get_older_while_the_leader_is_silent_or_not_known)
{
    struct replica_age age = {0};
    ck_assert_uint_eq(age_of(&age, 1, 7, 1000, 7, 1000), 0);
    ck_assert_uint_eq(age_of(&age, 1, 7, 1000, 7, 90000), 89000);
    ck_assert_uint_eq(age_of(&age, 0, 0, 0, 7, 91000), 90000);
    ck_assert_uint_eq(age_of(&age, 3, 8, 92000, 7, 92000), 91000);
    ck_assert_uint_eq(age_of(&age, 3, 8, 92000, 8, 93000), 1000);
    ck_assert_uint_eq(age_of(&age, 2, 8, 93000, 8, 94000), 2000); /* it leads itself */
}
END_TEST

START_TEST(data_of_a_copy_that_always_lacks_some_records_are_as_old_as_its_delay)
{
    struct replica_age age = {0};
    for (uint64_t i = 1; i <= 1000; i++) { /* 10 records at a time, and it is 15 behind */
        uint64_t us = age_of(&age, 1, i * 10, i * 1000, i * 10 > 15 ? i * 10 - 15 : 0, i * 1000);
        ck_assert(i < 4 || us <= 4000);
    }
}
END_TEST

START_TEST(what_a_leader_said_gets_no_younger_while_it_waits_to_be_heard)
{
    struct replica_delay delay = {0};
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 700000, 1000000), 1000000);
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 800000, 1100300), 1100100); /* took 200 more */
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 900000, 9000000), 1200200); /* stood still */
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 900000, 9000000), 1200200);
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 8700000, 9000050), 9000050);
}
END_TEST

START_TEST(a_leader_whose_clock_is_ahead_or_was_set_back_by_a_restart_is_believed)
{
    struct replica_delay delay = {0};
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 90000000, 1000), 1000);
    ck_assert_uint_eq(replica_delay_note(&delay, 4, 90001000, 2500), 2001);
    ck_assert_uint_eq(replica_delay_note(&delay, 5, 50, 3000), 3000);
    ck_assert_uint_eq(replica_delay_note(&delay, 5, 1050, 4500), 4001);
}
END_TEST

/* Copies are written as "+v -v +l": a voter that is connected, one that is not, a learner. Their ids are 1, 2 …; `own` is always connected. */
static bool is_led(const char *copies, uint64_t own, uint64_t leader)
{
    struct replica_figures figures = {.own = own, .leader = leader};
    for (; *copies; copies += copies[2] ? 3 : 2) {
        uint64_t id = figures.count + 1;
        figures.of[figures.count++] = (struct replica_figure){
            .id = id, .is_voter = copies[1] == 'v', .is_up = *copies == '+' || id == own};
    }
    return replica_is_led(&figures, 1);
}

START_TEST(two_of_five_that_are_left_have_no_leader)
{
    ck_assert(!is_led("-v -v -v +v +v", 4, 1));
    ck_assert(!is_led("-v -v -v +v +v", 5, 0));
    ck_assert(is_led("-v -v -v +v +v", 4, 5)); /* it leads until its lease ends */
    ck_assert(is_led("-v -v +v +v +v", 4, 0)); /* they may elect one */
}
END_TEST

START_TEST(one_of_three_that_is_left_has_no_leader)
{
    ck_assert(!is_led("-v -v +v", 3, 1));
    ck_assert(is_led("-v +v +v", 3, 1));
}
END_TEST

START_TEST(a_warm_copy_is_led_by_the_voter_if_that_is_there)
{
    ck_assert(is_led("+v +l +l", 2, 1));
    ck_assert(is_led("+v +l +l", 2, 0)); /* it has just started */
    ck_assert(!is_led("-v +l +l", 2, 1));
    ck_assert(!is_led("-v +l +l", 2, 0));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replica_figures");
    tcase_add_test(tests, a_copy_that_has_all_does_not_lag);
    tcase_add_test(tests, a_copy_that_stands_still_lags_by_the_time_since_then);
    tcase_add_test(tests, a_copy_that_follows_records_without_end_lags_by_its_delay);
    tcase_add_test(tests, a_copy_that_has_caught_up_does_not_lag_any_more);
    tcase_add_test(tests, a_leader_is_heard_when_another_copy_leads_and_has_said_how_far_it_is);
    tcase_add_test(tests, data_are_as_old_as_what_the_leader_said_when_they_lacked_nothing);
    tcase_add_test(tests, data_get_older_while_the_leader_is_silent_or_not_known);
    tcase_add_test(tests, what_a_leader_said_gets_no_younger_while_it_waits_to_be_heard);
    tcase_add_test(tests, a_leader_whose_clock_is_ahead_or_was_set_back_by_a_restart_is_believed);
    tcase_add_test(tests, data_of_a_copy_that_always_lacks_some_records_are_as_old_as_its_delay);
    tcase_add_test(tests, two_of_five_that_are_left_have_no_leader);
    tcase_add_test(tests, one_of_three_that_is_left_has_no_leader);
    tcase_add_test(tests, a_warm_copy_is_led_by_the_voter_if_that_is_there);
    Suite *suite = suite_create("replica_figures");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
