/*
 * test_snapshot_install.c - fetched files take the place of a copy's data (snapshot_install.h), in a process that is killed before each of
 * its calls that change the disk, or in which one of these calls fails. What opens afterwards is the old data with the old promises, or
 * the new data with the new ones, and never a mix.
 */
#include "backend/format/effects.h"
#include "backend/replica/replica_file.h"
#include "backend/replica/snapshot_install.h"
#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLD_TERM = 5, NEW_TERM = 7, RECORDS = 3, WAL_BYTES_MAX = 8 << 20, STEPS_MAX = 100 };

static char root[64], dir[96], incoming[128], error[512];
static struct store_env *env;

/* ---- calls that change the disk ----------------------------------------------------------------- */

/* The call with this number is the last one, or fails; 0: all work. */
static unsigned kill_before, fail_at;

static bool fails(void)
{
    if (kill_before && !--kill_before)
        _exit(9);
    errno = EIO;
    return fail_at && !--fail_at;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return fails() ? -1 : (ssize_t)syscall(SYS_pwrite64, fd, data, len, at);
}

int fdatasync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return fails() ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return fails() ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int unlink(const char *path)
{
    return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* ---- two stores --------------------------------------------------------------------------------- */

static struct storage *open_storage(const char *path)
{
    const struct store_options options = {.path = path,
                                          .memtable_bytes = 1 << 20,
                                          .memtables = 4,
                                          .max_open_files = -1,
                                          .compression = "none"};
    struct storage *storage = storage_open(env, &options, WAL_BYTES_MAX, error, sizeof error);
    ck_assert_msg(storage != NULL, "%s", error);
    return storage;
}

/* Writes a value RECORDS times, each in a record of its own. */
static void write_store(const char *path, const char *value)
{
    CHECK(mkdir(path, 0700) == 0);
    struct storage *storage = open_storage(path);
    struct effects *effects = effects_new();
    for (unsigned i = 0; i < RECORDS; i++) {
        effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
        effects_put(effects, CF_DATA, BYTES("who"), bytes_of(value));
        ck_assert_int_eq(storage_write(storage, effects, true, error, sizeof error), OK);
    }
    effects_free(effects);
    storage_close(storage);
}

static void write_origin_file(void)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/.origin", incoming);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}

static struct replica_record record_of(uint64_t term)
{
    return (struct replica_record){
        .generation = 1, .group = 2, .id = 3, .term = term, .base = RECORDS, .base_term = 1};
}

static void promise(const char *path, uint64_t term)
{
    const struct replica_record record = record_of(term);
    struct replica_file *file = replica_file_make(path, &record, error, sizeof error);
    ck_assert_msg(file != NULL, "%s", error);
    replica_file_close(file);
}

/* The copy's data, and the checkpoint of another one's as it was fetched. */
static void write_both(void)
{
    char source[96];
    (void)snprintf(source, sizeof source, "%s/source", root);
    CHECK(path_remove(dir) && path_remove(incoming) && path_remove(source));
    write_store(dir, "old");
    promise(dir, OLD_TERM);
    write_store(source, "new");
    struct storage *storage = open_storage(source);
    ck_assert_int_eq(storage_checkpoint(storage, incoming, error, sizeof error), OK);
    storage_close(storage);
    write_origin_file();
}

static uint64_t term_promised(void)
{
    struct replica_record record;
    struct replica_file *file;
    ck_assert_int_eq(replica_file_open(dir, &file, &record, error, sizeof error), REPLICA_IS_OPEN);
    replica_file_close(file);
    return record.term;
}

static bool has_value(struct storage *storage, const char *value)
{
    struct slice found;
    ck_assert_int_eq(store_get(storage_store(storage), CF_DATA, BYTES("who"), &found), OK);
    bool is_equal = bytes_equal(slice_bytes(&found), bytes_of(value));
    slice_release(&found);
    return is_equal;
}

/* Opens what is there. False: the old data. Neither may look like files that are being fetched. */
static bool is_new(void)
{
    char origin[128];
    uint64_t term = term_promised();
    (void)snprintf(origin, sizeof origin, "%s/.origin", dir);
    ck_assert(!path_exists(origin));
    struct storage *storage = open_storage(dir);
    ck_assert(term == OLD_TERM || term == NEW_TERM);
    ck_assert(storage_is_replicated(storage) && !storage_has_lost(storage));
    ck_assert(has_value(storage, term == NEW_TERM ? "new" : "old"));
    ck_assert_uint_eq(storage_committed(storage), RECORDS);
    storage_close(storage);
    return term == NEW_TERM;
}

static void setup(void)
{
    (void)snprintf(root, sizeof root, "/dev/shm/scree-install-%d", getpid());
    (void)snprintf(dir, sizeof dir, "%s/partition-0", root);
    (void)snprintf(incoming, sizeof incoming, "%s.incoming", dir);
    CHECK(mkdir(root, 0700) == 0);
    env = store_env_new(&(struct store_env_options){8 << 20, 1, NULL});
}

static void teardown(void)
{
    store_env_free(env);
    CHECK(path_remove(root));
}

/* ---- tests -------------------------------------------------------------------------------------- */

static bool install(void)
{
    const struct replica_record record = record_of(NEW_TERM);
    return snapshot_install(dir, &record, error, sizeof error);
}

/* Installs in a process that ends before the call. True: it had come to its end before. */
static bool install_until(unsigned call)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        kill_before = call;
        _exit(install() ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    ck_assert(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 0;
}

START_TEST(fetched_files_take_the_place_of_the_data)
{
    write_both();
    ck_assert_msg(install(), "%s", error);
    ck_assert(is_new());
    snapshot_install_clean(dir);
    ck_assert(!path_exists(incoming));
    ck_assert(is_new());
}
END_TEST

START_TEST(a_process_that_is_killed_leaves_the_old_data_or_the_new)
{
    unsigned olds = 0, news = 0;
    bool has_ended = false;
    for (unsigned call = 1; !has_ended; call++) {
        ck_assert_uint_lt(call, STEPS_MAX);
        write_both();
        has_ended = install_until(call);
        if (is_new())
            news++;
        else
            olds++;
        ck_assert(!has_ended || news);
        snapshot_install_clean(dir);
    }
    ck_assert(olds > 3 && news > 1);
}
END_TEST

START_TEST(a_call_that_fails_leaves_the_old_data_or_the_new)
{
    bool is_good = false;
    for (unsigned call = 1; !is_good; call++) {
        ck_assert_uint_lt(call, STEPS_MAX);
        write_both();
        fail_at = call;
        is_good = install();
        fail_at = 0;
        ck_assert(is_good || *error);
        ck_assert(is_new() || !is_good);
    }
}
END_TEST

/* Files of an unfinished snapshot; after the exchange the same name has the old data. */
START_TEST(what_is_left_beside_the_data_is_removed_unless_a_fetch_may_go_on_with_it)
{
    char outgoing[128], replica[128];
    (void)snprintf(outgoing, sizeof outgoing, "%s.outgoing", dir);
    (void)snprintf(replica, sizeof replica, "%s/replica", dir);
    write_both();
    CHECK(mkdir(outgoing, 0700) == 0);
    snapshot_install_clean(dir);
    ck_assert(path_exists(incoming) && !path_exists(outgoing));
    CHECK(unlink(replica) == 0);
    snapshot_install_clean(dir);
    ck_assert(!path_exists(incoming));
}
END_TEST

START_TEST(data_that_have_lost_their_promises_are_kept_once)
{
    char lost[160];
    write_both();
    ck_assert(!snapshot_is_set_aside(dir));
    ck_assert_msg(snapshot_set_aside(dir, error, sizeof error), "%s", error);
    ck_assert(snapshot_is_set_aside(dir));
    ck_assert(!path_exists(dir));
    (void)snprintf(lost, sizeof lost, "%s%s", dir, SNAPSHOT_LOST);
    struct storage *storage = open_storage(lost);
    ck_assert(has_value(storage, "old"));
    storage_close(storage);
    write_store(dir, "second");
    ck_assert(!snapshot_set_aside(dir, error, sizeof error));
    ck_assert(path_exists(dir));
}
END_TEST

int main(void)
{
    log_set_level(LOG_ERROR + 1);
    Suite *suite = suite_create("snapshot_install");
    TCase *tests = tcase_create("snapshot_install");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, fetched_files_take_the_place_of_the_data);
    tcase_add_test(tests, a_process_that_is_killed_leaves_the_old_data_or_the_new);
    tcase_add_test(tests, a_call_that_fails_leaves_the_old_data_or_the_new);
    tcase_add_test(tests, what_is_left_beside_the_data_is_removed_unless_a_fetch_may_go_on_with_it);
    tcase_add_test(tests, data_that_have_lost_their_promises_are_kept_once);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
