/*
 * test_reader.c - rows that are requested at any moment of a turn are fetched, with real threads: also when nothing else
 * would wake the loop, and when the disk suddenly becomes slow.
 *
 * The store's functions are replaced: a row is its number, odd rows do not exist, and reads can be held. A row of CF_STREAM is
 * BIG bytes long.
 */
#include "backend/storage/read_ahead.h"
#include "backend/storage/reader.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/table.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 200, THREADS = 4, KEY_MAX = 16, BIG = 100000 };

static struct loop *loop;
static struct await await;
static struct worker_pool *pool;
static struct reader *reader;
static struct retry rows_wait;
static bool has_rows;

/* ---- the store ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_held;
static int reads_now;
static int reads_kept;         /* whose blocks stay in the cache */
static int releases_elsewhere; /* not on the thread that has read the value */

static void hold_reads(bool is_to_hold)
{
    pthread_mutex_lock(&lock);
    is_held = is_to_hold;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool all_threads_read(void *owner)
{
    (void)owner;
    pthread_mutex_lock(&lock);
    bool is_true = reads_now == THREADS;
    pthread_mutex_unlock(&lock);
    return is_true;
}

static struct bytes key_of(int number, char text[KEY_MAX])
{
    return (struct bytes){text, (size_t)snprintf(text, KEY_MAX, "row:%d", number)};
}

struct pin {
    pthread_t thread;
    char data[];
};

int store_fetch(struct store *store, enum cf cf, struct bytes key, bool keeps_blocks,
                struct slice *value)
{
    (void)store;
    pthread_mutex_lock(&lock);
    reads_now++;
    reads_kept += keeps_blocks;
    while (is_held)
        pthread_cond_wait(&changed, &lock);
    reads_now--;
    pthread_mutex_unlock(&lock);
    if ((key.data[key.len - 1] - '0') % 2)
        return ERR_NOT_FOUND;
    size_t len = cf == CF_STREAM ? BIG : key.len;
    struct pin *pin = calloc(1, sizeof *pin + len);
    ck_assert_ptr_nonnull(pin);
    pin->thread = pthread_self();
    memcpy(pin->data, key.data, key.len);
    *value = (struct slice){pin->data, len, pin};
    return OK;
}

void slice_release(struct slice *slice)
{
    const struct pin *pin = slice->pin;
    pthread_mutex_lock(&lock);
    releases_elsewhere += pin && !pthread_equal(pin->thread, pthread_self());
    pthread_mutex_unlock(&lock);
    free(slice->pin);
    slice->pin = NULL;
}

/* No test uses these. */
int store_fetch_range(struct store *store, const struct store_range *range)
{
    (void)store;
    (void)range;
    return ERR_STORE;
}

void read_ahead_reap(struct list *link)
{
    list_remove(link);
}

/* ---- fixtures ---- */

static void on_ready(struct retry *wait)
{
    ck_assert_int_eq(wait->pending, 0);
    has_rows = true;
}

static void setup(void)
{
    reads_kept = releases_elsewhere = 0;
    loop = loop_new();
    await_init(&await, loop);
    pool = worker_pool_new("reader", THREADS);
    reader = reader_new(loop, pool, NULL);
    retry_init(&rows_wait, on_ready);
}

static void teardown(void)
{
    reader_free(reader);
    worker_pool_free(pool);
    loop_free(loop);
}

static void want_in(enum cf cf, int from, int to)
{
    char text[KEY_MAX];
    for (int i = from; i < to; i++) {
        struct bytes key = key_of(i, text);
        reader_want(reader, cf, key, hash_bytes(key), &rows_wait);
    }
}

static void want(int from, int to)
{
    want_in(CF_METADATA, from, to);
}

/* Even rows exist. */
static void check_rows(int from, int to)
{
    char text[KEY_MAX];
    struct slice value;
    for (int i = from; i < to; i++) {
        struct bytes key = key_of(i, text);
        int found = reader_look(reader, CF_METADATA, key, hash_bytes(key), &value);
        ck_assert_int_eq(found, i % 2 ? ERR_NOT_FOUND : OK);
        if (found == OK)
            ck_assert(bytes_equal(slice_bytes(&value), key));
    }
}

START_TEST(rows_requested_before_the_loop_runs)
{
    want(0, 3);
    ck_assert(await_until(&await, await_flag, &has_rows));
    check_rows(0, 3);
}
END_TEST

static void want_one(void *owner)
{
    int *next = owner;
    want(*next, *next + 1);
    ++*next;
}

START_TEST(rows_requested_by_a_timer)
{
    int next = 0;
    struct timer *timer = timer_new(loop, want_one, &next);
    for (int i = 0; i < 10; i++) {
        has_rows = false;
        timer_start(timer, 1, 0);
        ck_assert(await_until(&await, await_flag, &has_rows));
    }
    timer_free(timer);
    check_rows(0, 10);
}
END_TEST

/* A hook behind all others, which requests a row and does not ask for another round. */
struct late {
    struct turn_hook hook;
    bool is_armed;
    int next;
};

static bool want_late(void *owner)
{
    struct late *late = owner;
    if (late->is_armed)
        want_one(&late->next);
    late->is_armed = false;
    return false;
}

START_TEST(rows_requested_by_the_last_hook_of_a_turn)
{
    struct late late = {.hook = {.run = want_late, .owner = &late}};
    loop_add_hook(loop, &late.hook);
    for (int i = 0; i < 10; i++) {
        has_rows = false;
        late.is_armed = true;
        ck_assert(await_until(&await, await_flag, &has_rows));
    }
    check_rows(0, 10);
}
END_TEST

/* Runs in the last step, before or after the reader's. */
struct later {
    struct last_step step;
    int next;
};

static void want_last(struct last_step *step)
{
    want_one(&((struct later *)step)->next);
}

START_TEST(rows_requested_in_the_last_step_before_the_loop_waits)
{
    struct later later = {.step = {.run = want_last}, .next = 2};
    for (int i = 0; i < 10; i++) {
        has_rows = false;
        if (i % 2)
            want(i / 2 + 100, i / 2 + 101);
        list_init(&later.step.link);
        loop_at_last(loop, &later.step);
        ck_assert(await_until(&await, await_flag, &has_rows));
    }
    check_rows(2, 12);
    check_rows(100, 105);
}
END_TEST

static void want_next(struct retry *wait)
{
    static int next = 50;
    has_rows = next == 60;
    if (next < 60) {
        char text[KEY_MAX];
        struct bytes key = key_of(next++, text);
        reader_want(reader, CF_METADATA, key, hash_bytes(key), wait);
    }
}

START_TEST(rows_requested_when_others_have_come)
{
    rows_wait.on_ready = want_next;
    want(0, 1);
    ck_assert(await_until(&await, await_flag, &has_rows));
    check_rows(50, 60);
}
END_TEST

START_TEST(many_rows_are_fetched_in_portions)
{
    for (int round = 0; round < 20; round++) {
        has_rows = false;
        reader_forget_all(reader);
        want(0, ROWS);
        ck_assert(await_until(&await, await_flag, &has_rows));
        check_rows(0, ROWS);
    }
    ck_assert_uint_eq(reader_figures(reader).fetches, 20 * ROWS);
}
END_TEST

static bool is_released;

static void release_reads(void *owner)
{
    (void)owner;
    hold_reads(false);
    is_released = true;
}

/* After quick reads the portions are big: when reads block, the fetches behind them get threads of their own. */
START_TEST(a_read_that_blocks_does_not_hold_up_its_portion)
{
    static const int first = 100, rows = 16;
    for (int round = 0; round < 20; round++) {
        has_rows = false;
        reader_forget_all(reader);
        want(0, 64);
        ck_assert(await_until(&await, await_flag, &has_rows));
    }
    for (int round = 0; round < 5; round++) {
        has_rows = false;
        hold_reads(true);
        reader_forget_all(reader);
        want(first, first + rows);
        ck_assert(await_until(&await, all_threads_read, NULL));
        hold_reads(false);
        ck_assert(await_until(&await, await_flag, &has_rows));
        check_rows(first, first + rows);
    }
}
END_TEST

START_TEST(a_reader_is_freed_while_a_read_blocks)
{
    hold_reads(true);
    want(0, 40);
    struct timer *timer = timer_new(loop, release_reads, NULL);
    timer_start(timer, 10, 0);
    ck_assert(await_until(&await, await_flag, &is_released));
    timer_free(timer);
    retry_cancel(&rows_wait);
}
END_TEST

START_TEST(a_reader_is_freed_with_rows_that_were_just_requested)
{
    want(0, 5);
    retry_cancel(&rows_wait);
    ck_assert(!has_rows);
}
END_TEST

START_TEST(blocks_of_small_values_are_released_by_the_thread_that_read_them)
{
    want(0, 20);
    ck_assert(await_until(&await, await_flag, &has_rows));
    check_rows(0, 20);
    reader_forget_all(reader);
    ck_assert_int_eq(releases_elsewhere, 0);
}
END_TEST

START_TEST(big_values_are_not_copied)
{
    char text[KEY_MAX];
    struct bytes key = key_of(2, text);
    struct slice value;
    want_in(CF_STREAM, 2, 3);
    ck_assert(await_until(&await, await_flag, &has_rows));
    ck_assert_int_eq(reader_look(reader, CF_STREAM, key, hash_bytes(key), &value), OK);
    ck_assert_uint_eq(value.len, BIG);
    ck_assert_mem_eq(value.data, text, key.len);
    reader_forget_all(reader);
    ck_assert_int_eq(releases_elsewhere, 1);
}
END_TEST

static int fetch_and_count_kept(enum cf cf)
{
    has_rows = false;
    reads_kept = 0;
    reader_forget_all(reader);
    want_in(cf, 0, ROWS);
    ck_assert(await_until(&await, await_flag, &has_rows));
    return reads_kept;
}

/* The numbers of looks are enough for the mean to change from one end to the other. */
START_TEST(blocks_of_metadata_are_seldom_kept_while_memory_has_few_rows)
{
    ck_assert_int_eq(fetch_and_count_kept(CF_METADATA), ROWS);
    for (int i = 0; i < 1000; i++)
        reader_note_memory(reader, false);
    int kept = fetch_and_count_kept(CF_METADATA);
    ck_assert_msg(kept > 0 && kept < ROWS / 8, "%d of %d", kept, ROWS);
    ck_assert_int_eq(fetch_and_count_kept(CF_DATA), ROWS);
    for (int i = 0; i < 1000; i++)
        reader_note_memory(reader, true);
    ck_assert_int_eq(fetch_and_count_kept(CF_METADATA), ROWS);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("reader");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, rows_requested_before_the_loop_runs);
    tcase_add_test(tests, rows_requested_by_a_timer);
    tcase_add_test(tests, rows_requested_by_the_last_hook_of_a_turn);
    tcase_add_test(tests, rows_requested_in_the_last_step_before_the_loop_waits);
    tcase_add_test(tests, rows_requested_when_others_have_come);
    tcase_add_test(tests, many_rows_are_fetched_in_portions);
    tcase_add_test(tests, a_read_that_blocks_does_not_hold_up_its_portion);
    tcase_add_test(tests, a_reader_is_freed_while_a_read_blocks);
    tcase_add_test(tests, a_reader_is_freed_with_rows_that_were_just_requested);
    tcase_add_test(tests, blocks_of_small_values_are_released_by_the_thread_that_read_them);
    tcase_add_test(tests, big_values_are_not_copied);
    tcase_add_test(tests, blocks_of_metadata_are_seldom_kept_while_memory_has_few_rows);
    Suite *suite = suite_create("reader");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
