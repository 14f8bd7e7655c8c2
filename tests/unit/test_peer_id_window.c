/*
 * test_peer_id_window.c - backend/peer/id_window.h: each id is new once, in any order within the window; random ids
 * against a plain table.
 */
#include "backend/peer/id_window.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

START_TEST(an_id_is_new_once)
{
    struct peer_id_window window = {0};
    ck_assert_int_eq(peer_id_window_add(&window, 7), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, 7), PEER_ID_SEEN);
    ck_assert_int_eq(peer_id_window_add(&window, 6), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, 6), PEER_ID_SEEN);
    ck_assert_int_eq(peer_id_window_add(&window, 0), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, UINT64_MAX), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, UINT64_MAX), PEER_ID_SEEN);
}
END_TEST

START_TEST(an_id_before_the_window_is_too_old)
{
    struct peer_id_window window = {0};
    ck_assert_int_eq(peer_id_window_add(&window, 5000), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, 5000 - PEER_ID_WINDOW), PEER_ID_TOO_OLD);
    ck_assert_int_eq(peer_id_window_add(&window, 5001 - PEER_ID_WINDOW), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, 5001 - PEER_ID_WINDOW), PEER_ID_SEEN);
    ck_assert_int_eq(peer_id_window_add(&window, 5001), PEER_ID_NEW);
    ck_assert_int_eq(peer_id_window_add(&window, 5001 - PEER_ID_WINDOW), PEER_ID_TOO_OLD);
}
END_TEST

START_TEST(random_ids_are_as_in_a_plain_table)
{
    enum { ROUNDS = 100000, STEP_MAX = 3000 };
    static bool came[ROUNDS * STEP_MAX / 100];
    struct peer_id_window window = {0};
    uint64_t highest = 0;
    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t ahead = (uint64_t)rand() % (rand() % 200 ? 4 : STEP_MAX);
        uint64_t behind = (uint64_t)rand() % (rand() % 50 ? 8 : 2 * PEER_ID_WINDOW);
        uint64_t id = highest + ahead > behind ? highest + ahead - behind : 0;
        ck_assert_uint_lt(id, sizeof came);
        enum peer_id_seen expected = highest >= id + PEER_ID_WINDOW ? PEER_ID_TOO_OLD
                                     : came[id]                     ? PEER_ID_SEEN
                                                                    : PEER_ID_NEW;
        ck_assert_int_eq(peer_id_window_add(&window, id), expected);
        came[id] |= expected == PEER_ID_NEW;
        highest = id > highest ? id : highest;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_id_window");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, an_id_is_new_once);
    tcase_add_test(tests, an_id_before_the_window_is_too_old);
    tcase_add_test(tests, random_ids_are_as_in_a_plain_table);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
