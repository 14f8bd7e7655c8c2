/*
 * test_replay.c - replay.h: committed batches are applied once and in order, others are not applied.
 */
#include "backend/format/effects.h"
#include "backend/storage/replay.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct effects *effects;
static struct replay *replay;
static char error[128];
static char applied[128]; /* the keys that were put, one letter for each */

/* replay_fn */
static bool apply(void *owner, struct bytes batch, char *reason, size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    (void)reason, (void)size;
    if (owner)
        return false;
    ck_assert_int_eq(effects_open(batch, &header, &reader), EFFECTS_READ);
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        strncat(applied, effect.key.data, 1);
    return true;
}

static void setup(void)
{
    effects = effects_new();
    replay = replay_new(apply, NULL);
    applied[0] = 0;
}

static void teardown(void)
{
    effects_free(effects);
    replay_free(replay);
}

/* Adds a batch with one key, the letter of its index: 1 is a. */
static bool add(uint64_t index, uint64_t commit)
{
    const struct effects_header header = {.type = EFFECTS_BATCH, .index = index, .commit = commit};
    char key = (char)('a' + index - 1);
    effects_begin(effects, &header);
    effects_put(effects, CF_DATA, (struct bytes){&key, 1}, BYTES(""));
    return replay_batch(replay, index, effects_bytes(effects), error, sizeof error);
}

START_TEST(batches_that_commit_themselves_are_applied_at_once)
{
    for (uint64_t index = 1; index <= 5; index++) {
        ck_assert(add(index, index));
        ck_assert_uint_eq(replay_committed(replay), index);
    }
    ck_assert_str_eq(applied, "abcde");
    ck_assert_uint_eq(replay_uncommitted(replay), 0);
}
END_TEST

START_TEST(batches_after_the_commit_index_are_not_applied)
{
    ck_assert(add(1, 1) && add(2, 1) && add(3, 2) && add(4, 2) && add(5, 2));
    ck_assert_str_eq(applied, "ab");
    ck_assert_uint_eq(replay_committed(replay), 2);
    ck_assert_uint_eq(replay_uncommitted(replay), 3);
    ck_assert(add(6, 4));
    ck_assert_str_eq(applied, "abcd");
    ck_assert(add(7, 7));
    ck_assert_str_eq(applied, "abcdefg");
    ck_assert_uint_eq(replay_uncommitted(replay), 0);
}
END_TEST

START_TEST(a_log_may_begin_anywhere_and_hold_nothing_that_is_committed)
{
    ck_assert(add(10, 3) && add(11, 9));
    ck_assert_str_eq(applied, "");
    ck_assert_uint_eq(replay_committed(replay), 0);
    ck_assert_uint_eq(replay_uncommitted(replay), 2);
}
END_TEST

START_TEST(a_batch_of_another_index_and_one_that_is_damaged_are_refused)
{
    effects_begin(effects,
                  &(struct effects_header){.type = EFFECTS_BATCH, .index = 2, .commit = 2});
    struct bytes batch = effects_bytes(effects);
    ck_assert(!replay_batch(replay, 1, batch, error, sizeof error));
    ck_assert(strstr(error, "is damaged"));
    batch.len--;
    ck_assert(!replay_batch(replay, 2, batch, error, sizeof error));
    effects_begin(effects,
                  &(struct effects_header){.type = (enum effects_type)9, .index = 1, .commit = 1});
    ck_assert(!replay_batch(replay, 1, effects_bytes(effects), error, sizeof error));
    ck_assert(strstr(error, "newer"));
}
END_TEST

START_TEST(a_batch_that_cannot_be_applied_ends_it)
{
    replay_free(replay);
    replay = replay_new(apply, effects);
    ck_assert(!add(1, 1));
    ck_assert(add(2, 0) && !add(3, 2));
    ck_assert_uint_eq(replay_committed(replay), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replay");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, batches_that_commit_themselves_are_applied_at_once);
    tcase_add_test(tests, batches_after_the_commit_index_are_not_applied);
    tcase_add_test(tests, a_log_may_begin_anywhere_and_hold_nothing_that_is_committed);
    tcase_add_test(tests, a_batch_of_another_index_and_one_that_is_damaged_are_refused);
    tcase_add_test(tests, a_batch_that_cannot_be_applied_ends_it);
    Suite *suite = suite_create("replay");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
