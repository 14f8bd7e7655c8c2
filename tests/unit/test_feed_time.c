/*
 * test_feed_time.c - the position of a time in a log: behind the last batch with a time up to this one, in whichever segment it is, and whatever
 * records without a time are in between; where the log begins too late, there is none.
 */
#include "backend/feed/feed_time.h"
#include "backend/format/archive_frame.h"
#include "backend/format/effects.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"
#include "tests/sized.h"
#include "tests/unit/suite.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCHES_MAX = 60, BATCHES_OF_A_SEGMENT = 4, ROUNDS = 40 };

static char root[] = "/tmp/scree-feed-time-XXXXXX";
static char error[512];
static struct effects *effects;
static struct wal *wal;
static uint64_t times[BATCHES_MAX + 2]; /* of the batches that were written; 0: it has none */
static uint64_t sums[BATCHES_MAX + 2];
static uint64_t last;

/* wal_fn */
static bool skip_batch(void *owner, uint64_t index, struct bytes batch, char *why, size_t size)
{
    (void)owner, (void)index, (void)batch, (void)why, (void)size;
    return true;
}

static void open_log(void)
{
    const struct wal_options options = {.path = root, .file_bytes = BATCHES_OF_A_SEGMENT * 80};
    wal = wal_open(&options, skip_batch, NULL, error, sizeof error);
    ck_assert_msg(wal != NULL, "%s", error);
}

static void setup(void)
{
    memcpy(strrchr(root, '-') + 1, "XXXXXX", 6);
    CHECK(mkdtemp(root));
    effects = effects_new();
    last = 0;
    wal_keep_at(root);
    open_log();
}

static void teardown(void)
{
    wal_close(wal);
    effects_free(effects);
    CHECK(path_remove(root));
}

/* Appends a batch with this time; 0: the first record of a leader, which has none. */
static void append(uint64_t time_us)
{
    effects_begin(effects, &(struct effects_header){.type = time_us ? EFFECTS_BATCH : EFFECTS_PROBE,
                                                    .index = ++last,
                                                    .hybrid = time_us});
    times[last] = time_us;
    sums[last] = archive_sum(effects_bytes(effects));
    ck_assert_msg(wal_append(wal, effects_bytes(effects), true, error, sizeof error) == OK, "%s",
                  error);
}

/* Removes segments that end before this batch. */
static void remove_before(uint64_t first)
{
    wal_trim(wal, first - 1);
    wal_keep_none(wal);
}

static uint64_t first_in_log(void)
{
    uint64_t first;
    return wal_firsts(wal, &first, 1) ? first : last + 1;
}

/* Compares the position of the time with what reading all batches gives. */
static void check_time(uint64_t time_us)
{
    struct feed_position to = {0};
    uint64_t first = first_in_log(), found = 0;
    for (uint64_t i = first; i <= last; i++)
        if (times[i] && times[i] <= time_us)
            found = i;
    enum feed_time result =
        feed_time_find(wal, &(struct feed_time_wish){time_us, last}, &to, error, sizeof error);
    ck_assert_int_eq(result, found || first == 1 ? FEED_TIME_FOUND : FEED_TIME_LOST);
    ck_assert_uint_eq(to.index, found);
    ck_assert(to.sum == (found ? sums[found] : 0));
}

static void check_all_times(uint64_t end_us)
{
    for (uint64_t time_us = 1; time_us <= end_us; time_us++)
        check_time(time_us);
}

START_TEST(a_log_without_batches_has_all_times)
{
    check_time(5);
    append(0);
    check_time(5);
}
END_TEST

START_TEST(a_time_is_found_in_front_of_segments_without_times)
{
    append(10);
    append(20);
    for (int i = 0; i < 3 * BATCHES_OF_A_SEGMENT; i++)
        append(0);
    check_all_times(30);
    append(30);
    for (int i = 0; i < 3 * BATCHES_OF_A_SEGMENT; i++)
        append(0);
    check_all_times(40);
}
END_TEST

START_TEST(records_without_a_time_alone_prove_nothing)
{
    append(10);
    for (int i = 0; i < 3 * BATCHES_OF_A_SEGMENT; i++)
        append(0);
    remove_before(last);
    ck_assert_uint_gt(first_in_log(), 1);
    check_all_times(20);
}
END_TEST

START_TEST(a_time_is_not_found_until_its_batches_are_there)
{
    struct feed_position to = {0};
    append(10);
    ck_assert_int_eq(feed_time_find(wal, &(struct feed_time_wish){10, 2}, &to, error, sizeof error),
                     FEED_TIME_UNSYNCED);
    append(20);
    check_all_times(30);
}
END_TEST

static void write_at_random(uint64_t *now_us)
{
    uint64_t count = (uint64_t)random() % (BATCHES_MAX / 2);
    bool rests = random() % 3 == 0;
    for (uint64_t i = 0; i < count && last < BATCHES_MAX; i++) {
        bool has_time = !rests && random() % 3;
        *now_us += has_time ? 1 + (uint64_t)random() % 3 : 0;
        append(has_time ? *now_us : 0);
    }
}

START_TEST(every_time_is_found_in_random_logs)
{
    for (unsigned seed = 1; seed <= sized(ROUNDS); seed++) {
        uint64_t now_us = 1;
        srandom(seed);
        while (last < BATCHES_MAX) {
            write_at_random(&now_us);
            if (last && random() % 2)
                wal_trim(wal, (uint64_t)random() % last);
            if (last && random() % 3 == 0)
                remove_before(1 + (uint64_t)random() % last);
            if (random() % 3 == 0) {
                wal_close(wal);
                open_log();
                append(0); /* what is in the log is durable then */
            }
            check_all_times(now_us + 3);
        }
        teardown();
        setup();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed_time");
    TCase *tests = tcase_create("log");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, a_log_without_batches_has_all_times);
    tcase_add_test(tests, a_time_is_found_in_front_of_segments_without_times);
    tcase_add_test(tests, records_without_a_time_alone_prove_nothing);
    tcase_add_test(tests, a_time_is_not_found_until_its_batches_are_there);
    tcase_add_test(tests, every_time_is_found_in_random_logs);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
