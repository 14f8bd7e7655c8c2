/*
 * test_wal_mem.c - the log in memory keeps the promises of wal.h, and its crashes are as wal_mem.h describes.
 */
#include "shared/error.h"
#include "tests/sim/wal_mem.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>

static struct wal *wal;
static char error[256];
static char seen[256]; /* the batches of the last replay, each one character */

/* wal_fn */
static bool note(void *owner, uint64_t index, struct bytes batch, char *reason, size_t size)
{
    uint64_t *next = owner;
    (void)reason, (void)size;
    ck_assert(batch.len == 1 && strlen(seen) + 1 < sizeof seen);
    ck_assert(!*next || index == *next);
    *next = index + 1;
    strncat(seen, batch.data, 1);
    return true;
}

static void open_wal(void)
{
    uint64_t next = 0;
    seen[0] = 0;
    wal = wal_open(&(struct wal_options){.path = "log", .file_bytes = 1 << 20}, note, &next, error,
                   sizeof error);
    ck_assert_msg(wal != NULL, "%s", error);
}

static int append(char batch, bool sync)
{
    return wal_append(wal, (struct bytes){&batch, 1}, sync, error, sizeof error);
}

static void append_all(const char *batches)
{
    for (; *batches; batches++)
        ck_assert_int_eq(append(*batches, false), OK);
}

static const char *replayed(void)
{
    wal_close(wal);
    open_wal();
    return seen;
}

static const char *replayed_after_crash(void)
{
    wal_mem_crash(wal);
    ck_assert_int_eq(append('!', true), ERR_STORE);
    return replayed();
}

static void setup(void)
{
    wal_mem_seed(1);
    open_wal();
}

static void teardown(void)
{
    wal_close(wal);
    wal_mem_reset();
}

START_TEST(a_close_keeps_everything_and_a_crash_what_was_synced)
{
    bool was_lost = false, was_kept = false;
    append_all("abc");
    ck_assert_str_eq(replayed(), "abc");
    ck_assert_uint_eq(wal_last(wal), 3);
    ck_assert_int_eq(wal_sync_upto(wal, 3, error, sizeof error), OK);
    for (int i = 0; i < 40; i++) {
        append_all("d");
        bool is_kept = strcmp(replayed_after_crash(), "abcd") == 0;
        ck_assert(is_kept || strcmp(seen, "abc") == 0);
        was_kept |= is_kept;
        was_lost |= !is_kept;
        ck_assert_int_eq(wal_truncate(wal, 3, error, sizeof error), OK);
    }
    ck_assert(was_lost && was_kept);
    ck_assert_int_eq(append('e', true), OK);
    ck_assert_str_eq(replayed_after_crash(), "abce");
}
END_TEST

START_TEST(a_batch_that_failed_is_void)
{
    append_all("a");
    wal_mem_fail_next(wal, 1, ERR_STORE);
    ck_assert_int_eq(append('b', true), ERR_STORE);
    ck_assert_int_eq(append('c', true), ERR_STORE);
    wal_mem_fail_rotate(wal, 1);
    ck_assert_int_eq(wal_rotate(wal, error, sizeof error), ERR_STORE);
    ck_assert_int_eq(wal_rotate(wal, error, sizeof error), OK);
    ck_assert_uint_eq(wal_last(wal), 1);
    ck_assert_int_eq(append('d', true), OK);
    ck_assert_str_eq(replayed_after_crash(), "ad");
}
END_TEST

/* As a real log: what is behind the index is gone at once, and a rotation that fails completes it later. */
START_TEST(a_truncation_ends_a_failure)
{
    append_all("abc");
    wal_mem_fail_next(wal, 1, ERR_DISK_FULL);
    ck_assert_int_eq(append('d', true), ERR_DISK_FULL);
    wal_mem_fail_rotate(wal, 1);
    ck_assert_int_eq(wal_truncate(wal, 2, error, sizeof error), ERR_DISK_FULL);
    ck_assert_uint_eq(wal_last(wal), 2);
    ck_assert_int_eq(append('e', true), ERR_DISK_FULL);
    ck_assert_int_eq(wal_truncate(wal, 2, error, sizeof error), OK);
    ck_assert_int_eq(append('f', true), OK);
    ck_assert_str_eq(replayed_after_crash(), "abf");
}
END_TEST

START_TEST(a_cursor_reads_what_is_appended_and_holds_back_trimming)
{
    uint64_t index;
    struct bytes batch;
    append_all("abc");
    wal_trim(wal, 1);
    ck_assert_uint_eq(wal_first(wal), 2);
    ck_assert_ptr_null(wal_cursor_new(wal, 1));
    struct wal_cursor *cursor = wal_cursor_new(wal, 2);
    append_all("d");
    for (char want = 'b'; want <= 'd'; want++) {
        wal_trim(wal, 3);
        ck_assert_uint_eq(wal_first(wal), want == 'd' ? 4 : (uint64_t)(want - 'a' + 1));
        ck_assert_int_eq(wal_cursor_next(cursor, &index, &batch, error, sizeof error), OK);
        ck_assert(index == (uint64_t)(want - 'a' + 1) && batch.data[0] == want);
    }
    ck_assert_int_eq(wal_cursor_next(cursor, &index, &batch, error, sizeof error), ERR_NOT_FOUND);
    ck_assert_int_eq(wal_truncate(wal, 3, error, sizeof error), OK);
    ck_assert_int_eq(wal_cursor_next(cursor, &index, &batch, error, sizeof error), ERR_STORE);
    wal_cursor_free(cursor);
    ck_assert_int_eq(append('e', true), OK);
    ck_assert_uint_eq(wal_last(wal), 4);
    ck_assert_str_eq(replayed_after_crash(), "e");
}
END_TEST

START_TEST(a_copy_has_every_batch)
{
    uint64_t next = 0;
    append_all("abc");
    wal_trim(wal, 1);
    ck_assert_int_eq(wal_copy(wal, "copy", 0, error, sizeof error), OK);
    ck_assert_int_eq(wal_copy(wal, "copy", 0, error, sizeof error), ERR_STORE);
    append_all("d");
    seen[0] = 0;
    ck_assert(wal_read_only("copy", note, &next, error, sizeof error));
    ck_assert_str_eq(seen, "bc");
    ck_assert_uint_eq(next, 4);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("wal_mem");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_close_keeps_everything_and_a_crash_what_was_synced);
    tcase_add_test(tests, a_batch_that_failed_is_void);
    tcase_add_test(tests, a_truncation_ends_a_failure);
    tcase_add_test(tests, a_cursor_reads_what_is_appended_and_holds_back_trimming);
    tcase_add_test(tests, a_copy_has_every_batch);
    Suite *suite = suite_create("wal_mem");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
