/*
 * test_group_clock.c - group_clock.h: two copies whose machines' clocks differ, of which one leads after the other. Clocks of whole groups
 * under failures are in tests/sim/test_voters.c.
 */
#include "backend/context/group_clock.h"
#include "shared/clock.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { SECOND_US = 1000000, EXACT_US = SECOND_US / 2 };

/* The machine's clock from now on. */
static void set_clock(uint64_t time_us)
{
    clock_set_wall((int64_t)(time_us - clock_mono_us()));
}

static bool shows(const struct group_clock *clock, uint64_t time_us)
{
    return llabs((long long)(group_clock_us(clock) - time_us)) < EXACT_US;
}

#define NOON ((uint64_t)1800000000 * SECOND_US)

START_TEST(a_leader_whose_clock_is_behind_goes_on_at_the_time_before)
{
    struct group_clock clock = {0};
    set_clock(NOON - 30 * SECOND_US);
    ck_assert_uint_eq(group_clock_us(&clock), 0);
    group_clock_hear(&clock, NOON);
    ck_assert(shows(&clock, NOON));
    ck_assert_int_eq(group_clock_lead(&clock), 0);
    ck_assert(shows(&clock, NOON));
}
END_TEST

START_TEST(a_leader_whose_clock_is_ahead_follows_its_clock)
{
    struct group_clock clock = {0};
    set_clock(NOON);
    group_clock_hear(&clock, NOON - 30 * SECOND_US);
    group_clock_raise(&clock, NOON - 20 * SECOND_US);
    ck_assert_int_eq(group_clock_lead(&clock), 0);
    ck_assert(shows(&clock, NOON));
}
END_TEST

START_TEST(the_newest_record_and_the_voters_count_too)
{
    struct group_clock clock = {0};
    set_clock(NOON);
    group_clock_raise(&clock, NOON + 10 * SECOND_US);
    group_clock_raise(&clock, NOON + 5 * SECOND_US);
    group_clock_raise(&clock, 0);
    group_clock_raise(&clock, UINT64_MAX);
    ck_assert_int_eq(group_clock_lead(&clock), 0);
    ck_assert(shows(&clock, NOON + 10 * SECOND_US));
}
END_TEST

START_TEST(the_time_approaches_the_clock_by_a_hundredth_of_what_passes)
{
    struct group_clock clock = {0};
    set_clock(NOON);
    group_clock_raise(&clock, NOON + 10 * SECOND_US);
    (void)group_clock_lead(&clock);
    clock.ticked_us -= (uint64_t)400 * SECOND_US;
    group_clock_tick(&clock);
    ck_assert(shows(&clock, NOON + 6 * SECOND_US));
    clock.ticked_us -= (uint64_t)700 * SECOND_US;
    group_clock_tick(&clock);
    ck_assert_int_eq(atomic_load(&clock.shift_us), 0);
}
END_TEST

START_TEST(a_time_that_is_far_ahead_is_not_believed)
{
    struct group_clock clock = {0};
    set_clock(NOON);
    group_clock_hear(&clock, NOON + 61 * SECOND_US);
    ck_assert_int_gt(group_clock_lead(&clock), 60 * SECOND_US);
    ck_assert(shows(&clock, NOON));
    group_clock_hear(&clock, UINT64_MAX);
    ck_assert(shows(&clock, NOON));
}
END_TEST

START_TEST(of_messages_of_a_leader_the_fastest_counts_unless_its_clock_was_set)
{
    struct group_clock clock = {0};
    set_clock(NOON - 30 * SECOND_US);
    group_clock_hear(&clock, NOON);
    int64_t shift_us = atomic_load(&clock.shift_us);
    group_clock_hear(&clock, NOON - SECOND_US / 2); /* it was late */
    ck_assert_int_ge(atomic_load(&clock.shift_us), shift_us - SECOND_US / 10);
    group_clock_hear(&clock, NOON - 20 * SECOND_US);
    ck_assert(shows(&clock, NOON - 20 * SECOND_US));
}
END_TEST

/* Its machine has run since, by both clocks; one of them was set, or the machine was started again. */
START_TEST(the_next_process_goes_on_at_the_time_that_was_kept)
{
    struct group_clock before = {0}, clock = {0}, moved = {0};
    struct replica_time kept = {0};
    set_clock(NOON - 30 * SECOND_US);
    ck_assert(!group_clock_keep(&before, &kept));
    group_clock_hear(&before, NOON);
    ck_assert(group_clock_keep(&before, &kept));
    ck_assert(!group_clock_keep(&before, &kept));
    group_clock_go_on(&clock, &kept);
    ck_assert(shows(&clock, NOON));
    kept.boot_us -= (uint64_t)20 * SECOND_US;
    kept.system_us -= (uint64_t)10 * SECOND_US;
    group_clock_go_on(&clock, &kept);
    ck_assert(shows(&clock, NOON + 10 * SECOND_US));
    kept.boot_us = UINT64_MAX / 2;
    group_clock_go_on(&moved, &kept);
    ck_assert(shows(&moved, NOON));
}
END_TEST

START_TEST(a_time_is_kept_when_it_has_moved)
{
    struct group_clock clock = {0};
    struct replica_time kept = {0};
    set_clock(NOON);
    group_clock_elected(&clock);
    ck_assert(group_clock_keep(&clock, &kept));
    group_clock_raise(&clock, NOON + SECOND_US / 2);
    ck_assert(group_clock_keep(&clock, &kept));
    atomic_store(&clock.shift_us, 0); /* by less than a second */
    ck_assert(!group_clock_keep(&clock, &kept));
    set_clock(NOON - 2 * SECOND_US);
    ck_assert(group_clock_keep(&clock, &kept));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("group_clock");
    tcase_add_test(tests, a_leader_whose_clock_is_behind_goes_on_at_the_time_before);
    tcase_add_test(tests, a_leader_whose_clock_is_ahead_follows_its_clock);
    tcase_add_test(tests, the_newest_record_and_the_voters_count_too);
    tcase_add_test(tests, the_time_approaches_the_clock_by_a_hundredth_of_what_passes);
    tcase_add_test(tests, a_time_that_is_far_ahead_is_not_believed);
    tcase_add_test(tests, of_messages_of_a_leader_the_fastest_counts_unless_its_clock_was_set);
    tcase_add_test(tests, the_next_process_goes_on_at_the_time_that_was_kept);
    tcase_add_test(tests, a_time_is_kept_when_it_has_moved);
    Suite *suite = suite_create("group_clock");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
