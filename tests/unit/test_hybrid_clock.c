/*
 * test_hybrid_clock.c - hybrid_clock.h: the times of batches and frames of one shard, and of two that exchange frames while their wall
 * clocks differ and jump.
 */
#include "backend/context/hybrid_clock.h"
#include "tests/unit/suite.h"

START_TEST(a_batch_has_the_wall_clocks_time)
{
    struct hybrid_clock clock = {0};
    ck_assert_uint_eq(hybrid_clock_close(&clock, 100), 100);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 250), 250);
}
END_TEST

START_TEST(time_never_goes_back)
{
    struct hybrid_clock clock = {0};
    ck_assert_uint_eq(hybrid_clock_close(&clock, 100), 100);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 100), 101);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 7), 102);
    struct hybrid_clock restarted = {0};
    hybrid_clock_begin(&restarted, 102);
    ck_assert_uint_eq(hybrid_clock_now(&restarted), 102);
    ck_assert_uint_eq(hybrid_clock_close(&restarted, 7), 103);
    /* read again after a failed batch: its time is not given out twice */
    hybrid_clock_begin(&restarted, 102);
    ck_assert_uint_eq(hybrid_clock_close(&restarted, 7), 104);
}
END_TEST

START_TEST(a_frame_has_the_time_of_what_was_announced)
{
    struct hybrid_clock clock = {0};
    hybrid_clock_begin(&clock, 50);
    (void)hybrid_clock_close(&clock, 100);
    ck_assert_uint_eq(hybrid_clock_now(&clock), 50);
    hybrid_clock_announce(&clock);
    ck_assert_uint_eq(hybrid_clock_now(&clock), 100);
    ck_assert(hybrid_clock_hear(&clock, 120, 100));
    ck_assert_uint_eq(hybrid_clock_now(&clock), 120);
    ck_assert(hybrid_clock_hear(&clock, 60, 100));
    ck_assert_uint_eq(hybrid_clock_now(&clock), 120);
}
END_TEST

START_TEST(a_batch_is_later_than_what_was_heard)
{
    struct hybrid_clock clock = {0};
    ck_assert(hybrid_clock_hear(&clock, 500, 100));
    ck_assert_uint_eq(hybrid_clock_close(&clock, 100), 501);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 900), 900);
}
END_TEST

START_TEST(the_latest_time_does_not_overflow)
{
    struct hybrid_clock clock = {0};
    ck_assert(hybrid_clock_hear(&clock, HYBRID_MAX, HYBRID_MAX));
    ck_assert_uint_eq(hybrid_clock_close(&clock, UINT64_MAX), HYBRID_MAX);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 1), HYBRID_MAX);
}
END_TEST

START_TEST(a_time_a_century_ahead_is_not_heard)
{
    struct hybrid_clock clock = {0};
    ck_assert(hybrid_clock_hear(&clock, 100 + HYBRID_AHEAD_US, 100));
    ck_assert(!hybrid_clock_hear(&clock, 101 + HYBRID_AHEAD_US, 100));
    ck_assert(!hybrid_clock_hear(&clock, HYBRID_MAX, 100));
    ck_assert_uint_eq(hybrid_clock_now(&clock), 100 + HYBRID_AHEAD_US);
    ck_assert_uint_eq(hybrid_clock_close(&clock, 200), 101 + HYBRID_AHEAD_US);
}
END_TEST

/* A writes, B hears of it and writes, A hears of that: each is later than its cause, whatever the clocks show. */
START_TEST(an_effect_is_later_than_its_cause_whatever_the_clocks_show)
{
    enum { ROUNDS = 1000 };
    struct hybrid_clock shards[2] = {{0}};
    uint64_t wall[2] = {1000000, 1000000}, cause = 0, random = 1;
    for (int i = 0; i < ROUNDS; i++) {
        struct hybrid_clock *at = &shards[i % 2];
        random = random * 6364136223846793005 + 1442695040888963407;
        wall[i % 2] += (random >> 33) % 3000;
        wall[i % 2] -= (random >> 20) % 3000;
        ck_assert(hybrid_clock_hear(at, hybrid_clock_now(&shards[1 - i % 2]), wall[i % 2]));
        uint64_t effect = hybrid_clock_close(at, wall[i % 2]);
        hybrid_clock_announce(at);
        ck_assert_uint_gt(effect, cause);
        ck_assert_uint_ge(effect, wall[i % 2]);
        cause = effect;
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("hybrid_clock");
    tcase_add_test(tests, a_batch_has_the_wall_clocks_time);
    tcase_add_test(tests, time_never_goes_back);
    tcase_add_test(tests, a_frame_has_the_time_of_what_was_announced);
    tcase_add_test(tests, a_batch_is_later_than_what_was_heard);
    tcase_add_test(tests, the_latest_time_does_not_overflow);
    tcase_add_test(tests, a_time_a_century_ahead_is_not_heard);
    tcase_add_test(tests, an_effect_is_later_than_its_cause_whatever_the_clocks_show);
    Suite *suite = suite_create("hybrid_clock");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
