/*
 * test_moment_slots.c - at a moment each slot has one shard, also while it moves.
 */
#include "backend/format/slot_record.h"
#include "backend/tool/moment_slots.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { A, B, C, D, SLOT = 7, GIVEN_UP = 6, MOVE = 77 };

static struct moment_slots *slots;
static char error[300];

static void note(size_t shard, unsigned slot, enum slot_state state, uint64_t epoch,
                 uint64_t migration)
{
    const struct slot_record record = {
        .state = (uint8_t)state, .epoch = epoch, .migration = migration};
    moment_slots_note(slots, shard, slot, &record);
}

/* A has all slots but this one. */
static void setup(void)
{
    slots = moment_slots_new();
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot != SLOT)
            note(A, slot, SLOT_OWNED, 1, 0);
}

static void teardown(void)
{
    moment_slots_free(slots);
}

START_TEST(a_slot_belongs_to_the_shard_to_which_it_was_released)
{
    note(C, SLOT, SLOT_STAGED, 1, GIVEN_UP);
    note(A, SLOT, SLOT_RELEASED, 2, MOVE);
    note(B, SLOT, SLOT_STAGED, 1, MOVE);
    ck_assert_msg(moment_slots_check(slots, error, sizeof error), "%s", error);
    ck_assert_int_eq(moment_slots_owner(slots, SLOT), B);
    ck_assert_int_eq(moment_slots_owner(slots, SLOT + 1), A);
}
END_TEST

START_TEST(the_last_release_counts)
{
    note(D, SLOT, SLOT_RELEASED, 2, GIVEN_UP);
    note(B, SLOT, SLOT_RELEASED, 3, MOVE);
    note(A, SLOT, SLOT_STAGED, 2, MOVE);
    note(C, SLOT, SLOT_STAGED, 1, GIVEN_UP);
    ck_assert(moment_slots_check(slots, error, sizeof error));
    ck_assert_int_eq(moment_slots_owner(slots, SLOT), A);
}
END_TEST

START_TEST(a_slot_that_nobody_or_two_shards_have_is_refused)
{
    note(C, SLOT, SLOT_STAGED, 1, GIVEN_UP);
    ck_assert(!moment_slots_check(slots, error, sizeof error));
    note(A, SLOT, SLOT_OWNED, 1, 0);
    ck_assert(moment_slots_check(slots, error, sizeof error));
    note(B, SLOT, SLOT_OWNED, 2, 0);
    ck_assert(!moment_slots_check(slots, error, sizeof error));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("moment_slots");
    TCase *cases = tcase_create("moment_slots");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, a_slot_belongs_to_the_shard_to_which_it_was_released);
    tcase_add_test(cases, the_last_release_counts);
    tcase_add_test(cases, a_slot_that_nobody_or_two_shards_have_is_refused);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
