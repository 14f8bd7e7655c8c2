/*
 * test_replica_save.c - saves of the file `replica` on their own thread: in order, each reported when it is durable, and none after one that
 * has failed (faulty_disk.h).
 */
#include "backend/replica/replica_save.h"
#include "shared/net/loop.h"
#include "tests/unit/await.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/suite.h"

enum { SAVES = 50 };

static struct loop *loop;
static struct await await;
static struct replica_file *file;
static struct replica_save *save;
static char error[512];
static uint64_t reported; /* saves */
static char failure[512]; /* empty: none */
static bool is_over;

static void on_saved(void *owner);

static void on_failed(void *owner, const char *reason)
{
    ck_assert_ptr_eq(owner, &await);
    ck_assert_str_eq(failure, "");
    (void)snprintf(failure, sizeof failure, "%s", reason);
    is_over = true;
}

static struct replica_record record_of(uint64_t term)
{
    return (struct replica_record){.group = 7, .id = 9, .term = term, .vote = term * 3};
}

static void setup(void)
{
    struct replica_record record = record_of(0);
    disk.is_lossy = false;
    disk.random = 1;
    disk_heal();
    (void)snprintf(disk.dir, sizeof disk.dir, "/dev/shm/scree-save-%d", getpid());
    CHECK(mkdir(disk.dir, 0700) == 0);
    loop = loop_new();
    await_init(&await, loop);
    file = replica_file_make(disk.dir, &record, error, sizeof error);
    ck_assert_ptr_nonnull(file);
    save = replica_save_new(loop, file, on_failed, &await);
    reported = 0;
    failure[0] = 0;
    is_over = false;
}

static void teardown(void)
{
    disk_heal();
    disk.fail_files = NULL;
    replica_save_free(save);
    replica_file_close(file);
    loop_free(loop);
    lossy_empty(disk.dir);
    CHECK(rmdir(disk.dir) == 0);
}

static uint64_t term_on_disk(void)
{
    struct replica_file *opened;
    struct replica_record record;
    ck_assert_int_eq(replica_file_open(disk.dir, &opened, &record, error, sizeof error),
                     REPLICA_IS_OPEN);
    replica_file_close(opened);
    ck_assert_uint_eq(record.vote, record.term * 3);
    return record.term;
}

static void begin(uint64_t term)
{
    struct replica_record record = record_of(term);
    replica_save_begin(save, &record, on_saved);
}

static void on_saved(void *owner)
{
    ck_assert_ptr_eq(owner, &await);
    reported++;
    is_over = reported == SAVES;
    if (reported == 1)
        begin(SAVES);
}

/* The last one is begun when the first one is reported. */
START_TEST(saves_are_done_in_order_and_each_is_reported)
{
    for (uint64_t term = 1; term < SAVES; term++)
        begin(term);
    ck_assert(await_until(&await, await_flag, &is_over));
    ck_assert_uint_eq(term_on_disk(), SAVES);
    ck_assert_str_eq(failure, "");
}
END_TEST

static bool is_first_reported(void *owner)
{
    (void)owner;
    return reported == 1;
}

START_TEST(a_save_that_is_reported_is_on_the_disk)
{
    begin(5);
    ck_assert(await_until(&await, is_first_reported, NULL));
    ck_assert_uint_ge(term_on_disk(), 5);
}
END_TEST

/* Four writes and syncs make a save; each of them fails. */
START_TEST(after_a_save_that_fails_nothing_is_saved_or_reported)
{
    disk.fail_files = "replica";
    disk.fail_after = (unsigned)_i;
    disk.fail_write = disk.fail_sync = EIO;
    begin(1);
    begin(2);
    begin(3);
    ck_assert(await_until(&await, await_flag, &is_over));
    ck_assert_ptr_nonnull(strstr(failure, strerror(EIO)));
    disk_heal();
    begin(4);
    replica_save_free(save);
    save = NULL;
    ck_assert_uint_eq(reported, 0);
    ck_assert_uint_le(term_on_disk(), 1);
}
END_TEST

START_TEST(what_was_begun_is_saved_before_the_end_and_not_reported)
{
    begin(1);
    begin(2);
    replica_save_free(save);
    save = NULL;
    ck_assert_uint_eq(term_on_disk(), 2);
    ck_assert_uint_eq(reported, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica_save");
    TCase *tests = tcase_create("replica_save");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, saves_are_done_in_order_and_each_is_reported);
    tcase_add_test(tests, a_save_that_is_reported_is_on_the_disk);
    tcase_add_loop_test(tests, after_a_save_that_fails_nothing_is_saved_or_reported, 0, 4);
    tcase_add_test(tests, what_was_begun_is_saved_before_the_end_and_not_reported);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
