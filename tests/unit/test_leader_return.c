/*
 * test_leader_return.c - leader_return.h: when a leader gives the lead to the first copy of the map. With processes:
 * tests/integration/test_rolling_restart.py.
 */
#include "backend/partition/leader_return.h"
#include "backend/replica/replica_figures.h"
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

/* Of a leader `a` that a map of epoch 7 has dropped for b, c and d, which are voters and can lead. */
static struct replica_figures dropped(void)
{
    struct replica_figures figures = {
        .own = 1, .map_epoch = 7, .members_epoch = 6, .count = 4, .place_count = 3};
    for (unsigned i = 0; i < 4; i++) {
        struct replica_figure *copy = &figures.of[i];
        *copy = (struct replica_figure){.id = i + 1, .is_voter = true, .is_up = true};
        copy->address[0] = (char)('a' + i);
        if (i)
            figures.places[i - 1].address[0] = copy->address[0];
    }
    return figures;
}

START_TEST(a_leader_that_the_map_does_not_name_is_dropped)
{
    struct replica_figures figures = dropped();
    ck_assert(leader_return_is_dropped(&figures));
    figures.own = 2;
    ck_assert(!leader_return_is_dropped(&figures));
}
END_TEST

START_TEST(a_map_older_than_the_members_drops_no_leader)
{
    struct replica_figures figures = dropped();
    figures.members_epoch = 8;
    ck_assert(!leader_return_is_dropped(&figures));
}
END_TEST

START_TEST(a_dropped_leader_prefers_the_first_copy_with_room)
{
    struct replica_figures figures = dropped();
    ck_assert_uint_eq(leader_return_successor(&figures)->id, 2);
    figures.of[1].room = REPLICA_ROOM_LOW;
    ck_assert_uint_eq(leader_return_successor(&figures)->id, 3);
    figures.of[2].declines = true;
    ck_assert_uint_eq(leader_return_successor(&figures)->id, 4);
    figures.of[3].is_up = false;
    ck_assert_uint_eq(leader_return_successor(&figures)->id, 3);
}
END_TEST

START_TEST(a_dropped_leader_stays_while_no_copy_of_the_map_can_lead)
{
    struct replica_figures figures = dropped();
    for (unsigned i = 1; i < 4; i++)
        figures.of[i].is_voter = false;
    ck_assert_ptr_null(leader_return_successor(&figures));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("leader_return");
    tcase_add_test(tests, the_first_copy_must_be_fit_without_a_break);
    tcase_add_test(tests, each_return_waits_twice_as_long_up_to_an_hour);
    tcase_add_test(tests, returns_of_long_ago_do_not_count);
    tcase_add_test(tests, a_longer_wait_than_an_hour_is_kept);
    tcase_add_test(tests, a_leader_that_the_map_does_not_name_is_dropped);
    tcase_add_test(tests, a_map_older_than_the_members_drops_no_leader);
    tcase_add_test(tests, a_dropped_leader_prefers_the_first_copy_with_room);
    tcase_add_test(tests, a_dropped_leader_stays_while_no_copy_of_the_map_can_lead);
    Suite *suite = suite_create("leader_return");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
