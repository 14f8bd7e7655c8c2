/*
 * test_leader_return.c - leader_return.h: when a leader gives the lead to the first copy of the map. With processes:
 * tests/integration/test_rolling_restart.py.
 */
#include "backend/partition/leader_return.h"
#include "tests/unit/suite.h"

enum { WAIT_MS = 60000, HOUR_MS = 3600 * 1000 };

START_TEST(the_first_copy_must_be_fit_without_a_break)
{
    struct leader_return state = {0};
    ck_assert(!leader_return_is_due(&state, true, 1000, WAIT_MS));
    ck_assert(!leader_return_is_due(&state, true, WAIT_MS, WAIT_MS));
    ck_assert(!leader_return_is_due(&state, false, WAIT_MS + 500, WAIT_MS));
    ck_assert(!leader_return_is_due(&state, true, WAIT_MS + 1000, WAIT_MS));
    ck_assert(!leader_return_is_due(&state, true, 2 * WAIT_MS + 999, WAIT_MS));
    ck_assert(leader_return_is_due(&state, true, 2 * WAIT_MS + 1000, WAIT_MS));
}
END_TEST

/* How long after its last return, when it was fit from then on. */
static uint64_t next_wait(struct leader_return *state, uint64_t now_ms)
{
    uint64_t begin_ms = now_ms;
    while (!leader_return_is_due(state, true, now_ms, WAIT_MS))
        now_ms += 1000;
    return now_ms - begin_ms;
}

START_TEST(each_return_waits_twice_as_long_up_to_an_hour)
{
    struct leader_return state = {0};
    uint64_t now_ms = 1, wait_ms = WAIT_MS;
    for (unsigned i = 0; i < 40; i++) {
        uint64_t waited_ms = next_wait(&state, now_ms);
        ck_assert_uint_eq(waited_ms, wait_ms);
        now_ms += waited_ms;
        leader_return_note(&state, now_ms);
        wait_ms = 2 * wait_ms < HOUR_MS ? 2 * wait_ms : HOUR_MS;
    }
    ck_assert_uint_eq(wait_ms, HOUR_MS);
}
END_TEST

START_TEST(returns_of_long_ago_do_not_count)
{
    struct leader_return state = {0};
    for (unsigned i = 0; i < 40; i++)
        leader_return_note(&state, 1000);
    ck_assert_uint_eq(next_wait(&state, 3 * (uint64_t)HOUR_MS), WAIT_MS);
}
END_TEST

START_TEST(a_longer_wait_than_an_hour_is_kept)
{
    struct leader_return state = {0};
    uint64_t wait_ms = 5 * (uint64_t)HOUR_MS;
    ck_assert(!leader_return_is_due(&state, true, 1, wait_ms));
    ck_assert(!leader_return_is_due(&state, true, wait_ms, wait_ms));
    ck_assert(leader_return_is_due(&state, true, wait_ms + 1, wait_ms));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("leader_return");
    tcase_add_test(tests, the_first_copy_must_be_fit_without_a_break);
    tcase_add_test(tests, each_return_waits_twice_as_long_up_to_an_hour);
    tcase_add_test(tests, returns_of_long_ago_do_not_count);
    tcase_add_test(tests, a_longer_wait_than_an_hour_is_kept);
    Suite *suite = suite_create("leader_return");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
