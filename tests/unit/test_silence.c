/*
 * test_silence.c - a peer is silent for as long as nothing came while this thread listened.
 */
#include "backend/peer/silence.h"
#include "tests/unit/suite.h"

enum { LIMIT_MS = 5000, TICK_MS = 100 };

/* Ticks up to this time, and returns how long the silence is. */
static uint64_t tick_until(struct silence *silence, uint64_t now_ms, uint64_t limit_ms)
{
    uint64_t silent_ms = 0;
    for (uint64_t at = silence->ticked_ms + TICK_MS; at <= now_ms; at += TICK_MS)
        silent_ms = silence_ms(silence, at, limit_ms);
    return silent_ms;
}

START_TEST(time_with_ticks_is_silence)
{
    struct silence silence;
    silence_end(&silence, 1000);
    ck_assert_uint_eq(tick_until(&silence, 3500, LIMIT_MS), 2500);
    ck_assert_uint_eq(tick_until(&silence, 6100, LIMIT_MS), 5100);
}
END_TEST

START_TEST(time_in_which_a_command_ran_is_not)
{
    struct silence silence;
    silence_end(&silence, 1000);
    ck_assert_uint_eq(tick_until(&silence, 2000, LIMIT_MS), 1000);
    ck_assert_uint_eq(silence_ms(&silence, 9000, LIMIT_MS), 1000);
    ck_assert_uint_eq(tick_until(&silence, 10000, LIMIT_MS), 2000);
}
END_TEST

START_TEST(what_came_before_the_command_ran_is_not_counted_twice)
{
    struct silence silence;
    silence_end(&silence, 1000);
    (void)tick_until(&silence, 2000, LIMIT_MS);
    silence_end(&silence, 2050);
    ck_assert_uint_eq(silence_ms(&silence, 9000, LIMIT_MS), 0);
}
END_TEST

START_TEST(a_peer_is_silent_however_short_the_limit_is)
{
    struct silence silence;
    silence_end(&silence, 1000);
    ck_assert_uint_eq(tick_until(&silence, 1300, 100), 300);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("silence");
    tcase_add_test(tests, time_with_ticks_is_silence);
    tcase_add_test(tests, time_in_which_a_command_ran_is_not);
    tcase_add_test(tests, what_came_before_the_command_ran_is_not_counted_twice);
    tcase_add_test(tests, a_peer_is_silent_however_short_the_limit_is);
    Suite *suite = suite_create("silence");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
