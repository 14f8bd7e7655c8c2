/*
 * test_store.c - the store on RocksDB: the promises of store.h, with a disk that fails or fills up, and after the
 * process was killed.
 *
 * The disk fails as faulty_disk.h describes. The killed process is this program itself: test_store --writer PATH NEXT.
 */
#include "backend/backup/store_cut.h"
#include "backend/storage/copied_batch.h"
#include "backend/storage/orphan_hold.h"
#include "backend/storage/partition_store.h"
#include "backend/store/pace.h"
#include "backend/wal/wal.h"
#include "backend/wal/wal_segment.h"
#include "shared/clock.h"
#include "shared/path.h"
#include "tests/sized.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/store_cases.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KILL_ROUNDS = 20,
    TICKETS_MAX = 300, /* in a round */
    ROWS_MAX = 20,     /* in a ticket */
};

static char dir[64];

/* ---- fixtures ---------------------------------------------------------------------------- */

static void make_dir(void)
{
    bool is_shm = access("/dev/shm", W_OK) == 0; /* faster than a disk; no test needs a real one */
    snprintf(dir, sizeof dir, "%s/test_store.XXXXXX", is_shm ? "/dev/shm" : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(disk.dir, sizeof disk.dir, "%s", dir);
}

static void remove_dir(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
    char path[128];
    make_dir();
    snprintf(path, sizeof path, "%s/some/db", dir);
    cases_begin(path);
}

static void teardown(void)
{
    cases_end();
    remove_dir();
}

static void begin_at_db(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/db", dir);
    cases_begin(path);
}

static int recover(void)
{
    bool is_reopened;
    return storage_recover(storage, &is_reopened, error, sizeof error);
}

static void reopen(void)
{
    storage_close(storage);
    open_with(NULL, NULL);
}

static void commit_synced(void)
{
    int err = try_commit(true);
    ck_assert_msg(err == OK, "%s", error);
}

/* ---- options and files ------------------------------------------------------------------- */

START_TEST(every_choice_of_options_opens)
{
    const char *const compressions[] = {"none", "lz4", "zstd"};
    for (int i = 0; i < 3; i++) {
        struct store_options options = cases_options();
        options.compression = compressions[i];
        options.bloom_bits = i == 0 ? 0 : 10;
        options.blob_threshold_bytes = i == 2 ? 512 : 0;
        storage_close(storage);
        open_as(&options);
        ck_assert_msg(store != NULL, "%s", error);
        char value[2001], key[2] = {(char)('a' + i), 0};
        memset(value, key[0], sizeof value);
        effects_put(batch, CF_METADATA, bytes_of(key), (struct bytes){value, 2000});
        commit();
        store_compact(store, CF_METADATA, BYTES(""), BYTES(""));
        struct slice slice;
        ck_assert_int_eq(store_get(store, CF_METADATA, bytes_of(key), &slice), OK);
        ck_assert(bytes_equal(slice_bytes(&slice), (struct bytes){value, 2000}));
        slice_release(&slice);
        ck_assert_uint_eq(store_figure(store, "blob_bytes") > 0, i == 2);
    }
}
END_TEST

/* Writes a big value and flushes it. */
static void flush_big(const char *key)
{
    char value[2000];
    memset(value, 'x', sizeof value);
    effects_put(batch, CF_METADATA, bytes_of(key), (struct bytes){value, sizeof value});
    commit();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
}

START_TEST(options_are_changed_while_it_runs_and_stay_over_a_recovery)
{
    struct store_options options = cases_options();
    flush_big("a");
    ck_assert_uint_eq(store_figure(store, "blob_bytes"), 0);
    options.blob_threshold_bytes = 512;
    options.compression = "none";
    options.memtable_bytes = 1 << 18;
    options.memtables = 8;
    ck_assert_msg(store_set_options(store, &options, error, sizeof error), "%s", error);
    flush_big("b");
    uint64_t bytes = store_figure(store, "blob_bytes");
    ck_assert_uint_ge(bytes, 2000); /* incompressible: not much smaller on disk */
    disk.fail_files = ".batches";
    disk.fail_write = EIO;
    put(CF_DATA, "k", "v");
    ck_assert_int_ne(try_commit(true), OK);
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    flush_big("c");
    ck_assert_uint_ge(store_figure(store, "blob_bytes"), bytes + 2000);
    options.compression = "zstd";
    options.blob_threshold_bytes = 0;
    ck_assert_msg(store_set_options(store, &options, error, sizeof error), "%s", error);
    bytes = store_figure(store, "blob_bytes");
    flush_big("d");
    ck_assert_uint_eq(store_figure(store, "blob_bytes"), bytes);
    store_env_resize(env, 1 << 20);
}
END_TEST

START_TEST(a_file_in_the_way_is_reported)
{
    char path[128];
    struct store_options options = cases_options();
    snprintf(path, sizeof path, "%s/file", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    options.path = path;
    ck_assert_ptr_null(storage_open(env, &options, wal_bytes_max, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "Not a directory"));
    snprintf(path, sizeof path, "%s/file/below", dir);
    ck_assert_ptr_null(storage_open(env, &options, wal_bytes_max, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "Not a directory"));
}
END_TEST

/* Flips a byte in the middle of the only table file with rows. */
static void corrupt_table(void)
{
    char command[256];
    snprintf(command, sizeof command,
             "f=$(ls %s/*.sst | head -1) && printf '\\377\\000\\377' | "
             "dd of=$f bs=1 seek=100 conv=notrunc 2>/dev/null",
             store_path);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(a_damaged_row_is_an_error_not_a_wrong_value)
{
    char key[16];
    struct slice value;
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        put(CF_DATA, key, "a value that is long enough to be found in the middle of a block");
    }
    commit();
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    ck_assert_int_eq(storage_flush(storage, error, sizeof error),
                     OK); /* no log brings the row back */
    storage_close(storage);
    store_env_free(env);
    corrupt_table();
    env = store_env_new(&(struct store_env_options){8 << 20, 2, NULL});
    open_with(NULL, NULL);
    ck_assert_int_eq(store_get(store, CF_DATA, BYTES("key 1"), &value), ERR_STORE);
    struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES(""), BYTES(""));
    store_iter_seek_first(iter);
    ck_assert(!store_iter_valid(iter));
    ck_assert(store_iter_failed(iter));
    store_iter_free(iter);
}
END_TEST

START_TEST(a_stop_leaves_no_long_log_to_the_next_start)
{
    static char value[1 << 20];
    struct store_options options = cases_options();
    storage_close(storage);
    wal_bytes_max = 64 << 20;
    open_as(&options);
    put(CF_METADATA, "first", "keeps the WAL");
    commit();
    for (char key[2] = "a"; key[0] < 'a' + 20; key[0]++) {
        memset(value, key[0], sizeof value);
        effects_put(batch, CF_DATA, bytes_of(key), (struct bytes){value, sizeof value});
        commit();
    }
    ck_assert_uint_gt(storage_figure(storage, "wal_bytes"), 8 << 20);
    while (store_holds_writes(store))
        sched_yield(); /* closing does not wait for compactions, and would keep the WAL */
    storage_close(storage);
    ck_assert_uint_lt(path_bytes(store_path, ".batches"), 1 << 20);
    open_with(NULL, NULL);
    ck_assert_str_eq(get(CF_METADATA, "first"), "keeps the WAL");
}
END_TEST

/* ---- rows on the disk -------------------------------------------------------------------- */

/* Reopens the store: none of its rows is in memory then. */
static void make_uncached(void)
{
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %02d", i);
        put(CF_DATA, key, "value");
    }
    commit();
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    storage_close(storage);
    store_env_free(env);
    env = store_env_new(&(struct store_env_options){8 << 20, 2, NULL});
    open_with(NULL, NULL);
}

START_TEST(a_row_on_the_disk_is_uncached_until_its_block_is_kept)
{
    struct slice value;
    make_uncached();
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("key 10"), &value), ERR_UNCACHED);
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("absent"), &value), ERR_NOT_FOUND);
    ck_assert_int_eq(store_fetch(store, CF_DATA, BYTES("key 10"), false, &value), OK);
    ck_assert_mem_eq(value.data, "value", 5);
    slice_release(&value);
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("key 10"), &value), ERR_UNCACHED);
    ck_assert_int_eq(store_fetch(store, CF_DATA, BYTES("key 10"), true, &value), OK);
    slice_release(&value);
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("key 10"), &value), OK);
    ck_assert_mem_eq(value.data, "value", 5);
    slice_release(&value);
}
END_TEST

static size_t count_cached(enum cf cf, bool *is_uncached)
{
    size_t rows = 0;
    struct store_iter *iter = store_iter_new_cached(store, cf, BYTES(""), BYTES(""));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
        rows++;
    *is_uncached = store_iter_is_uncached(iter);
    store_iter_free(iter);
    return rows;
}

/* Makes two files in each column family, and reopens the store with so few open files that RocksDB opens few at once. */
static void reopen_with_few_files(void)
{
    for (int file = 0; file < 2; file++) {
        for (enum cf cf = CF_METADATA; cf < CF_COUNT; cf++) {
            put(cf, "a", "first");
            put(cf, "empty", "");
            put(cf, "full", "value");
            put(cf, "z", "last");
        }
        commit();
        ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    }
    storage_close(storage);
    struct store_options options = cases_options();
    options.max_open_files = 16;
    open_as(&options);
}

START_TEST(a_row_of_a_file_that_is_not_open_is_uncached_not_an_empty_value)
{
    struct slice value;
    bool is_uncached = false;
    reopen_with_few_files();
    for (enum cf cf = CF_METADATA; cf < CF_COUNT; cf++) {
        bool is_incomplete;
        size_t rows = count_cached(cf, &is_incomplete);
        ck_assert_msg(rows == 4 || is_incomplete, "column family %d: %zu rows", cf, rows);
        int err = store_get_cached(store, cf, BYTES("absent"), &value);
        ck_assert_msg(err == ERR_UNCACHED || err == ERR_NOT_FOUND, "column family %d: %d", cf, err);
        is_uncached |= err == ERR_UNCACHED;
        ck_assert_int_eq(store_fetch(store, cf, BYTES("absent"), true, &value), ERR_NOT_FOUND);
        static const struct bytes KEYS[] = {{"empty", 5}, {"full", 4}};
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(store_fetch(store, cf, KEYS[i], true, &value), OK);
            slice_release(&value);
            ck_assert_int_eq(store_get_cached(store, cf, KEYS[i], &value), OK);
            ck_assert_uint_eq(value.len, i == 0 ? 0 : 5);
            slice_release(&value);
        }
    }
    ck_assert_msg(is_uncached, "all files were open: the case has not happened");
}
END_TEST

START_TEST(blocks_that_were_read_can_be_dropped)
{
    struct slice value;
    put(CF_DATA, "key", "value");
    commit();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    ck_assert_int_eq(store_fetch(store, CF_DATA, BYTES("key"), true, &value), OK);
    slice_release(&value);
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("key"), &value), OK);
    slice_release(&value);
    store_forget_blocks(store);
    ck_assert_int_eq(store_get_cached(store, CF_DATA, BYTES("key"), &value), ERR_UNCACHED);
    ck_assert_int_eq(store_fetch(store, CF_DATA, BYTES("key"), true, &value), OK);
    slice_release(&value);
}
END_TEST

START_TEST(a_walk_over_rows_on_the_disk_is_uncached_until_they_were_fetched)
{
    bool is_uncached;
    const struct store_range range = {.cf = CF_DATA, .bytes = 1 << 20};
    make_uncached();
    (void)count_cached(CF_DATA, &is_uncached);
    ck_assert(is_uncached);
    ck_assert_int_eq(store_fetch_range(store, &range), OK);
    ck_assert_uint_eq(count_cached(CF_DATA, &is_uncached), 100);
    ck_assert(!is_uncached);
}
END_TEST

/* Writes rows "<first> 00" to "<first> 49" to a file of their own on the last level. */
static void put_file(char first)
{
    char key[16];
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "%c %02d", first, i);
        put(CF_DATA, key, "value");
    }
    commit();
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
}

START_TEST(a_walk_that_comes_to_a_file_on_the_disk_is_uncached)
{
    bool is_uncached;
    const struct store_range range = {.cf = CF_DATA, .upper = BYTES("b"), .bytes = 1 << 20};
    put_file('a');
    put_file('b');
    store_forget_blocks(store);
    ck_assert_int_eq(store_fetch_range(store, &range), OK);
    ck_assert_uint_eq(count_cached(CF_DATA, &is_uncached), 50);
    ck_assert(is_uncached);
}
END_TEST

START_TEST(a_walk_where_a_range_was_deleted_reads_what_it_needs)
{
    bool is_uncached;
    put_file('a');
    put_file('b');
    effects_delete_range(batch, CF_DATA, BYTES("a 10"), BYTES("a 20"));
    commit();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    store_forget_blocks(store);
    ck_assert_uint_eq(count_cached(CF_DATA, &is_uncached), 90);
    ck_assert(!is_uncached);
    store_compact_ranges(store);
    store_forget_blocks(store);
    ck_assert_uint_lt(count_cached(CF_DATA, &is_uncached), 90);
    ck_assert(is_uncached);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    reopen();
    store_forget_blocks(store);
    (void)count_cached(CF_DATA, &is_uncached);
    ck_assert(is_uncached);
}
END_TEST

/* ---- failed writes ----------------------------------------------------------------------- */

static void put_acknowledged(void)
{
    put(CF_DATA, "acknowledged", "a");
    commit_synced();
    put(CF_METADATA, "acknowledged too", "b");
    commit();
}

static void check_acknowledged(void)
{
    ck_assert_str_eq(get(CF_DATA, "acknowledged"), "a");
    ck_assert_str_eq(get(CF_METADATA, "acknowledged too"), "b");
}

/* Writes two rows in two column families: either both are there, or none. */
static int try_pair(void)
{
    put(CF_DATA, "pair", "x");
    put(CF_EXPIRE, "pair", "x");
    return try_commit(true);
}

static void check_pair_is_whole(void)
{
    ck_assert_str_eq(get(CF_DATA, "pair"), get(CF_EXPIRE, "pair"));
}

static void check_works_again(void)
{
    check_acknowledged();
    check_pair_is_whole();
    ck_assert_int_eq(try_pair(), OK);
    reopen();
    check_acknowledged();
    ck_assert_str_eq(get(CF_DATA, "pair"), "x");
    check_pair_is_whole();
}

static void check_refuses(int expected)
{
    ck_assert_int_eq(try_pair(), expected);
    ck_assert_int_eq(try_pair(), expected);
    ck_assert_str_eq(get(CF_DATA, "pair"), "(none)");
    check_acknowledged();
}

START_TEST(a_write_without_room_is_refused_until_recovery)
{
    put_acknowledged();
    disk.fail_files = ".batches";
    disk.fail_half = _i == 1;
    disk.fail_write = ENOSPC;
    check_refuses(ERR_DISK_FULL);
    ck_assert_int_eq(recover(), ERR_DISK_FULL);
    check_acknowledged();
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    check_works_again();
}
END_TEST

START_TEST(a_failed_write_is_refused_until_recovery)
{
    put_acknowledged();
    disk.fail_files = ".batches";
    disk.fail_half = _i == 1;
    disk.fail_write = EIO;
    check_refuses(ERR_STORE);
    ck_assert_int_eq(recover(), ERR_STORE);
    check_acknowledged();
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    check_works_again();
}
END_TEST

START_TEST(a_failed_sync_is_refused_until_recovery)
{
    put_acknowledged();
    disk.fail_files = ".batches";
    disk.fail_sync = EIO;
    check_refuses(ERR_STORE);
    ck_assert_int_ne(storage_sync(storage, error, sizeof error), OK);
    ck_assert_int_ne(recover(), OK);
    disk.fail_sync = 0;
    ck_assert_int_eq(recover(), OK);
    check_works_again();
}
END_TEST

/* A copy that follows another one has no right to append a record of its own. */
START_TEST(a_recovery_adds_no_batch_to_the_log)
{
    char path[sizeof store_path + 32];
    put_acknowledged();
    uint64_t last = storage_logged(storage);
    disk.fail_files = ".batches";
    disk.fail_sync = EIO;
    check_refuses(ERR_STORE);
    disk.fail_sync = 0;
    disk.fail_files = "probe";
    disk.fail_write = ENOSPC;
    ck_assert_int_eq(recover(), ERR_DISK_FULL);
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    ck_assert_uint_eq(storage_logged(storage), last);
    snprintf(path, sizeof path, "%s/probe.batches", store_path);
    ck_assert_int_ne(access(path, F_OK), 0);
    check_works_again();
}
END_TEST

START_TEST(reads_go_on_when_the_database_cannot_be_reopened)
{
    put_acknowledged();
    disk.fail_files = "";
    disk.fail_write = EIO;
    check_refuses(ERR_STORE);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(recover(), ERR_STORE);
        check_acknowledged();
        ck_assert_str_eq(walk(CF_DATA, "", "b", true), "acknowledged ");
        ck_assert_int_ne(try_pair(), OK);
        ck_assert_uint_gt(storage_figure(storage, "wal_bytes"), 0);
    }
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    check_works_again();
}
END_TEST

/* A flush fails, so the database has to be reopened, and that fails too. */
START_TEST(a_database_that_was_lost_comes_back_with_every_row)
{
    bool is_reopened;
    struct slice value;
    uint64_t bytes = 0;
    put_acknowledged();
    disk.fail_files = ".sst";
    disk.fail_write = EIO;
    ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
    disk.fail_files = "MANIFEST";
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ne(storage_recover(storage, &is_reopened, error, sizeof error), OK);
        ck_assert(!is_reopened);
        ck_assert_int_eq(store_state(store), STORE_CLOSED);
        ck_assert_int_eq(store_get(store, CF_DATA, BYTES("acknowledged"), &value), ERR_STORE);
        ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
        if (i == 0)
            bytes = storage_figure(storage, "wal_bytes");
        ck_assert_uint_eq(storage_figure(storage, "wal_bytes"), bytes);
    }
    disk.fail_write = 0;
    ck_assert_int_eq(storage_recover(storage, &is_reopened, error, sizeof error), OK);
    ck_assert(is_reopened);
    check_works_again();
}
END_TEST

/* Changes the only byte 'M' of the WAL's segments. */
static void damage_log(void)
{
    char command[256];
    snprintf(command, sizeof command, "sed -i 's/M/m/' %s/*.batches", store_path);
    ck_assert_int_eq(system(command), 0);
}

/* Rows that were acknowledged must not vanish while clients are served: a start reports what it drops. */
START_TEST(a_recovery_does_not_leave_out_damaged_batches)
{
    put(CF_DATA, "a", "1");
    commit_synced();
    put(CF_DATA, "b", "M");
    commit_synced();
    put(CF_DATA, "c", "1");
    commit_synced();
    damage_log();
    disk.fail_files = ".sst";
    disk.fail_write = EIO;
    ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), ERR_STORE);
    ck_assert_ptr_nonnull(strstr(error, "damaged"));
    ck_assert_int_eq(store_state(store), STORE_CLOSED);
    ck_assert_int_eq(recover(), ERR_STORE);
    reopen();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
    ck_assert_uint_ge(storage_figure(storage, "wal_damaged_batches"), 1);
}
END_TEST

/* The disk fails from the n-th write of any file on, during writes, flushes and compactions: acknowledged rows must
 * be there afterwards. False: fewer than n writes took place. */
static bool survive_failure_at(unsigned n, int reason)
{
    char key[16];
    unsigned acknowledged = 0;
    disk.fail_files = "";
    disk.fail_after = n;
    disk.fail_write = reason;
    for (unsigned i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%02u", i);
        put(CF_DATA, key, "v");
        put(CF_METADATA, key, "v");
        if (try_commit(true) != OK)
            break;
        acknowledged = i + 1;
        if (i % 3 == 1)
            store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    }
    bool was_reached = disk.fail_after == 0;
    (void)recover();
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    for (unsigned i = 0; i < acknowledged; i++) {
        snprintf(key, sizeof key, "%02u", i);
        ck_assert_str_eq(get(CF_DATA, key), "v");
        ck_assert_str_eq(get(CF_METADATA, key), "v");
    }
    /* Deletes row by row, not a range: RocksDB 7.8 with assertions aborts when a compaction fails that would write
     * only a range deletion. */
    for (unsigned i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%02u", i);
        effects_delete(batch, CF_DATA, bytes_of(key));
        effects_delete(batch, CF_METADATA, bytes_of(key));
    }
    commit();
    reopen();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "");
    return was_reached;
}

START_TEST(no_acknowledged_row_is_lost_wherever_the_disk_fails)
{
    unsigned n = 0;
    while (survive_failure_at(n, n % 2 ? ENOSPC : EIO))
        n++;
    ck_assert_uint_gt(n, 10);
}
END_TEST

/* ---- the WAL and the tables -------------------------------------------------------------- */

/* Reopens the store with the files that a process killed at this point would leave. */
static void go_on_as_if_killed(void)
{
    char command[300];
    snprintf(command, sizeof command, "cp -r %s %s.left", store_path, store_path);
    ck_assert_int_eq(system(command), 0);
    storage_close(storage);
    snprintf(store_path + strlen(store_path), sizeof store_path - strlen(store_path), ".left");
    open_with(NULL, NULL);
}

/* wal_fn */
static bool pass(void *owner, uint64_t index, struct bytes record, char *reason, size_t size)
{
    (void)owner, (void)index, (void)record, (void)reason, (void)size;
    return true;
}

/* Writes a batch to the WAL without applying it. */
static void log_only(const char *key, const char *value)
{
    put(CF_DATA, key, value);
    ck_assert_int_eq(storage_log(storage, batch, true, &(uint64_t){0}, error, sizeof error), OK);
    effects_clear(batch);
}

START_TEST(logged_batches_in_no_table_are_there_after_a_kill)
{
    log_only("a", "1");
    log_only("a", "2");
    log_only("b", "1");
    ck_assert_str_eq(get(CF_DATA, "a"), "(none)");
    go_on_as_if_killed();
    ck_assert_str_eq(get(CF_DATA, "a"), "2");
    ck_assert_str_eq(get(CF_DATA, "b"), "1");
}
END_TEST

/* Appends a record in a WAL segment of its own to a closed store, and changes the segment's header to format 1. */
static void log_as_format_1(struct bytes record)
{
    char path[PATH_MAX];
    const struct wal_options options = {.path = store_path, .file_bytes = 1 << 20};
    struct wal *log = wal_open(&options, pass, NULL, error, sizeof error);
    ck_assert_msg(log != NULL, "%s", error);
    ck_assert_int_eq(wal_rotate(log, error, sizeof error), OK);
    ck_assert_int_eq(wal_rotate(log, error, sizeof error), OK);
    wal_segment_path(path, store_path, wal_last(log) + 1);
    ck_assert_int_eq(wal_append(log, record, true, error, sizeof error), OK);
    wal_close(log);
    int fd = open(path, O_WRONLY);
    ck_assert_msg(fd >= 0 && pwrite(fd, "1", 1, 14) == 1, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(close(fd), 0);
}

/* Appends a batch with this commit index, which puts the key, to the WAL of a closed store. */
static void log_with_commit(uint64_t commit, const char *key)
{
    const struct wal_options options = {.path = store_path, .file_bytes = 1 << 20};
    struct wal *wal = wal_open(&options, pass, NULL, error, sizeof error);
    ck_assert_msg(wal != NULL, "%s", error);
    const struct effects_header header = {
        .type = EFFECTS_BATCH, .index = wal_last(wal) + 1, .commit = commit};
    effects_begin(batch, &header);
    effects_put(batch, CF_DATA, bytes_of(key), BYTES("v"));
    ck_assert_int_eq(wal_append(wal, effects_bytes(batch), true, error, sizeof error), OK);
    effects_clear(batch);
    wal_close(wal);
}

START_TEST(uncommitted_batches_are_not_applied_and_do_not_come_back)
{
    put(CF_DATA, "a", "v");
    commit();
    uint64_t last = storage_logged(storage);
    storage_close(storage);
    log_with_commit(last, "b");
    log_with_commit(last + 1, "c");
    log_with_commit(last + 1, "d");
    open_with(NULL, NULL);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b ");
    ck_assert_uint_eq(storage_logged(storage), last + 1);
    put(CF_DATA, "e", "v");
    commit();
    storage_close(storage);
    open_with(NULL, NULL);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b e ");
}
END_TEST

/* Appends a batch to the open log that is not committed, as a copy does that follows another one. */
static void follow(const char *key)
{
    uint64_t index;
    const struct effects_header header = {.type = EFFECTS_BATCH,
                                          .index = storage_logged(storage) + 1,
                                          .term = 3,
                                          .commit = storage_committed(storage)};
    effects_begin(batch, &header);
    effects_put(batch, CF_DATA, bytes_of(key), BYTES("v"));
    ck_assert_int_eq(storage_append(storage, effects_bytes(batch), &index, error, sizeof error),
                     OK);
    ck_assert_uint_eq(index, storage_logged(storage) + 1);
    ck_assert_int_eq(storage_sync(storage, error, sizeof error), OK);
    ck_assert_uint_eq(storage_logged(storage), index);
    effects_clear(batch);
}

/* A store with the row of a group, a committed batch and a tail of two. Returns the index of the committed one. */
static uint64_t begin_copy(void)
{
    put(CF_SYSTEM, "g", "members");
    put(CF_DATA, "a", "v");
    commit_synced();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    reopen();
    uint64_t committed = storage_committed(storage);
    follow("b");
    follow("c");
    ck_assert_uint_eq(storage_committed(storage), committed);
    return committed;
}

START_TEST(the_tail_of_a_copy_is_truncated_to_what_is_committed_at_most)
{
    uint64_t index, committed = begin_copy();
    storage_commit(storage, committed + 1);
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_BATCH, .index = committed + 3});
    ck_assert_int_eq(storage_append(storage, effects_bytes(batch), &index, error, sizeof error),
                     OK);
    effects_clear(batch);
    ck_assert_uint_eq(storage_logged(storage), committed + 2);
    ck_assert_uint_eq(storage_written(storage), committed + 3);
    ck_assert_int_eq(storage_truncate(storage, committed, error, sizeof error), ERR_STORE);
    ck_assert_uint_eq(storage_written(storage), committed + 3);
    ck_assert_int_eq(storage_truncate(storage, committed + 1, error, sizeof error), OK);
    ck_assert_uint_eq(storage_written(storage), committed + 1);
    follow("d");
    ck_assert_uint_eq(storage_logged(storage), committed + 2);
}
END_TEST

START_TEST(a_batch_that_copies_cannot_be_sent_is_refused)
{
    enum { VALUE_BYTES = 1 << 29, VALUES = 5 };
    uint64_t index;
    ck_assert(copied_batch_fits(COPIED_BATCH_MAX, error, sizeof error));
    ck_assert(!copied_batch_fits(COPIED_BATCH_MAX + 1, error, sizeof error));
    if (sized(1) == 1) /* it needs 8 GB of memory */
        return;
    char *value = calloc(1, VALUE_BYTES);
    ck_assert_ptr_nonnull(value);
    uint64_t committed = begin_copy();
    for (char key = 'a'; key < 'a' + VALUES; key++)
        effects_put(batch, CF_DATA, (struct bytes){&key, 1}, (struct bytes){value, VALUE_BYTES});
    free(value);
    ck_assert_int_eq(storage_log(storage, batch, true, &index, error, sizeof error), ERR_STORE);
    ck_assert_ptr_nonnull(strstr(error, "exceeds the maximum of 2 GiB"));
    ck_assert_uint_eq(storage_written(storage), committed + 2);
    effects_clear(batch);
}
END_TEST

START_TEST(a_copy_keeps_the_last_record_of_its_log)
{
    uint64_t committed = begin_copy();
    storage_commit(storage, committed + 2);
    storage_applied(storage, committed + 2);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
        ck_assert_uint_eq(wal_trimmed(storage_wal(storage)), committed + 1);
        ck_assert_uint_le(wal_first(storage_wal(storage)), committed + 2);
        reopen();
        ck_assert_uint_eq(storage_logged(storage), committed + 2);
        storage_commit(storage, committed + 2);
        storage_applied(storage, committed + 2);
    }
}
END_TEST

START_TEST(a_copy_takes_no_batch_of_its_own)
{
    uint64_t committed = begin_copy();
    effects_put(batch, CF_DATA, BYTES("x"), BYTES("v"));
    ck_assert(storage_is_replicated(storage));
    ck_assert_int_eq(storage_write(storage, batch, true, error, sizeof error), ERR_STORE);
    ck_assert_uint_eq(storage_written(storage), committed + 2);
    ck_assert(partition_store_rename_log(storage, error, sizeof error)); /* it was restored */
    ck_assert(!storage_is_replicated(storage));
    reopen();
    ck_assert(!storage_is_replicated(storage));
}
END_TEST

START_TEST(the_tail_of_a_copy_stays_whoever_opens_it)
{
    uint64_t committed = begin_copy();
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(storage_logged(storage), committed + 2);
        ck_assert_uint_eq(storage_committed(storage), committed);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
        if (i == 0)
            ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
        if (i == 1)
            go_on_as_if_killed();
        else
            reopen();
    }
    storage_commit(storage, committed + 1);
    put(CF_METADATA, "m", "v");
    struct store_batch *rows = store_batch_new();
    ck_assert(store_batch_add_effects(rows, store, effects_bytes(batch), error, sizeof error));
    ck_assert_int_eq(store_apply(store, rows, error, sizeof error), OK);
    store_batch_free(rows);
    effects_clear(batch);
    disk.fail_files =
        ".sst"; /* the database is reopened: all that is known to be committed is replayed */
    disk.fail_write = EIO;
    ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    ck_assert_uint_eq(storage_logged(storage), committed + 2);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b ");
}
END_TEST

START_TEST(a_checkpoint_of_a_copy_ends_with_what_was_committed)
{
    char path[sizeof store_path + 8];
    uint64_t committed = begin_copy();
    storage_commit(storage, committed + 1);
    snprintf(path, sizeof path, "%s-cut", store_path);
    ck_assert_int_eq(storage_checkpoint(storage, path, error, sizeof error), OK);
    storage_close(storage);
    snprintf(store_path, sizeof store_path, "%.*s", (int)sizeof store_path - 1, path);
    for (int i = 0; i < 2; i++) {
        open_with(NULL, NULL);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b ");
        ck_assert_uint_eq(storage_logged(storage), committed + 1);
        if (i == 0)
            storage_close(storage);
    }
}
END_TEST

/* Cuts the last byte of the newest segment. */
static void cut_log(void)
{
    char path[PATH_MAX], newest[NAME_MAX + 1] = "";
    struct stat found;
    DIR *entries = opendir(store_path);
    ck_assert_ptr_nonnull(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strstr(entry->d_name, ".batches") && strcmp(entry->d_name, newest) > 0)
            snprintf(newest, sizeof newest, "%s", entry->d_name);
    closedir(entries);
    snprintf(path, sizeof path, "%s/%s", store_path, newest);
    ck_assert(stat(path, &found) == 0 && truncate(path, found.st_size - 1) == 0);
}

START_TEST(a_cut_whose_log_is_damaged_has_lost)
{
    char path[sizeof store_path + 8];
    uint64_t committed = begin_copy();
    storage_commit(storage, committed + 2);
    ck_assert(!storage_has_lost(storage));
    snprintf(path, sizeof path, "%s-cut", store_path);
    ck_assert_int_eq(storage_checkpoint(storage, path, error, sizeof error), OK);
    storage_close(storage);
    snprintf(store_path, sizeof store_path, "%.*s", (int)sizeof store_path - 1, path);
    cut_log();
    open_with(NULL, NULL);
    ck_assert(storage_has_lost(storage));
}
END_TEST

/* The form of records up to format 1 of the WAL: u64 sequence 0
 *  u32 count
 *  put, delete, range, data for the WAL. */
START_TEST(a_log_of_write_batches_is_read_and_not_kept)
{
    put(CF_DATA, "gone", "1");
    put(CF_DATA, "m", "1");
    commit();
    storage_close(storage);
    log_as_format_1(BYTES("\0\0\0\0\0\0\0\0\4\0\0\0"
                          "\3\6probe!"
                          "\x0e\2\1m\1n"
                          "\1\1s\3new"
                          "\5\1\2me\5later"
                          "\4\2\4gone"));
    open_with(NULL, NULL);
    ck_assert_str_eq(get(CF_SYSTEM, "s"), "new");
    ck_assert_str_eq(get(CF_METADATA, "me"), "later");
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "");
    ck_assert_uint_lt(path_bytes(store_path, ".batches"), 100);
    put(CF_DATA, "k", "v");
    commit();
    storage_close(storage);
    open_with(NULL, NULL);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "k ");
}
END_TEST

START_TEST(a_flush_leaves_in_the_log_what_is_in_no_table)
{
    put(CF_DATA, "applied", "1");
    commit_synced();
    uint64_t applied = storage_logged(storage);
    log_only("logged", "1");
    storage_applied(storage, applied);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    go_on_as_if_killed();
    ck_assert_str_eq(get(CF_DATA, "applied"), "1");
    ck_assert_str_eq(get(CF_DATA, "logged"), "1");
}
END_TEST

START_TEST(a_stop_keeps_batches_that_are_in_no_table_however_long_the_log_is)
{
    static char value[1 << 20];
    char key[16];
    for (int i = 0; i < 12; i++) {
        snprintf(key, sizeof key, "%02d", i);
        effects_put(batch, CF_DATA, bytes_of(key), (struct bytes){value, sizeof value});
        ck_assert_int_eq(storage_log(storage, batch, true, &(uint64_t){0}, error, sizeof error),
                         OK);
        effects_clear(batch);
    }
    reopen();
    reopen();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "00 01 02 03 04 05 06 07 08 09 10 11 ");
}
END_TEST

START_TEST(flushes_and_compactions_that_fail_leave_the_log_alone)
{
    struct store_progress progress = {0};
    put(CF_DATA, "a", "1");
    commit_synced();
    disk.fail_files = ".sst";
    disk.fail_write = ENOSPC;
    ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
    (void)store_compact_all(store, &progress);
    ck_assert_int_ne(storage_flush(storage, error, sizeof error), OK);
    disk.fail_write = 0;
    go_on_as_if_killed();
    ck_assert_str_eq(get(CF_DATA, "a"), "1");
}
END_TEST

START_TEST(a_checkpoint_has_what_is_in_no_table)
{
    char path[sizeof store_path];
    put(CF_DATA, "applied", "1");
    commit_synced();
    log_only("applied", "2");
    snprintf(path, sizeof path, "%s/db.copy", dir);
    ck_assert_int_eq(storage_checkpoint(storage, path, error, sizeof error), OK);
    log_only("applied", "3");
    storage_close(storage);
    memcpy(store_path, path, sizeof path);
    open_with(NULL, NULL);
    ck_assert_str_eq(get(CF_DATA, "applied"), "2");
}
END_TEST

static unsigned open_files(void)
{
    unsigned count = 0;
    DIR *files = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(files);
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

START_TEST(a_cut_that_is_written_keeps_no_space_of_the_trimmed_log)
{
    char path[sizeof store_path];
    put(CF_DATA, "key", "1");
    commit_synced();
    snprintf(path, sizeof path, "%s/db.copy", dir);
    unsigned before = open_files();
    struct cut *cut = cut_begin(storage, path, error, sizeof error);
    ck_assert_msg(cut, "%s", error);
    ck_assert_int_eq(cut_end(cut, error, sizeof error), OK);
    ck_assert_uint_gt(open_files(), before);
    ck_assert_int_eq(cut_write(cut, path, error, sizeof error), OK);
    ck_assert_uint_eq(open_files(), before);
    cut_free(cut);
}
END_TEST

START_TEST(a_cut_ends_with_the_last_batch_before_its_end)
{
    char path[sizeof store_path];
    put(CF_DATA, "before", "1");
    commit_synced();
    log_only("logged", "1");
    snprintf(path, sizeof path, "%s/db.copy", dir);
    struct cut *cut = cut_begin(storage, path, error, sizeof error);
    ck_assert_msg(cut, "%s", error);
    put(CF_DATA, "inside", "1");
    commit_synced();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK); /* its batch may go now */
    log_only("inside", "2");
    storage_commit(storage, storage_logged(storage));
    ck_assert_int_eq(cut_end(cut, error, sizeof error), OK);
    uint64_t last = storage_logged(storage);
    log_only("inside", "3");
    put(CF_DATA, "behind", "1");
    commit_synced();
    storage_applied(storage, storage_logged(storage));
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    ck_assert_int_eq(cut_write(cut, path, error, sizeof error), OK);
    cut_free(cut);
    storage_close(storage);
    memcpy(store_path, path, sizeof path);
    open_with(NULL, NULL);
    ck_assert_uint_eq(storage_logged(storage), last);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "before inside logged ");
    ck_assert_str_eq(get(CF_DATA, "inside"), "2");
}
END_TEST

START_TEST(a_cut_that_is_given_up_holds_back_the_log_no_more)
{
    char path[sizeof store_path];
    put(CF_DATA, "k", "1");
    commit_synced();
    snprintf(path, sizeof path, "%s/db.copy", dir);
    struct cut *cut = cut_begin(storage, path, error, sizeof error);
    ck_assert_msg(cut, "%s", error);
    uint64_t first = wal_first(storage_wal(storage));
    ck_assert_int_eq(wal_rotate(storage_wal(storage), error, sizeof error), OK);
    put(CF_DATA, "k", "2");
    commit_synced();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    ck_assert_uint_eq(wal_first(storage_wal(storage)), first);
    cut_free(cut);
    put(CF_DATA, "k", "3");
    commit_synced();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    ck_assert_uint_gt(wal_first(storage_wal(storage)), first);
    ck_assert_ptr_null(cut_begin(storage, path, error, sizeof error)); /* it exists */
}
END_TEST

START_TEST(recovery_of_a_sound_store_does_nothing)
{
    put_acknowledged();
    ck_assert_int_eq(recover(), OK);
    check_works_again();
}
END_TEST

/* ---- a full disk ------------------------------------------------------------------------- */

static bool mount_small(void)
{
    uid_t uid = getuid();
    if (unshare(CLONE_NEWNS) != 0 && (uid == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0))
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", dir, "tmpfs", 0, "size=64m") == 0;
}

/* Writes a value of random bytes, so that compression cannot shrink it. */
static int write_row(uint64_t number)
{
    char key[32], value[1000];
    model_state = number;
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (char)model_random(256);
    snprintf(key, sizeof key, "%08llu", (unsigned long long)number);
    effects_put(batch, CF_METADATA, bytes_of(key), (struct bytes){value, sizeof value});
    return try_commit(number % 16 == 0);
}

static void check_rows(uint64_t count)
{
    uint64_t seen = 0;
    struct store_iter *iter = store_iter_new(store, CF_METADATA, BYTES(""), BYTES(""));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
        ck_assert_uint_eq(strtoull(store_iter_key(iter).data, NULL, 10), seen++);
    ck_assert(!store_iter_failed(iter));
    store_iter_free(iter);
    ck_assert_uint_ge(seen, count);
    ck_assert_uint_le(seen, count + 1);
}

static void fill_up(int fd)
{
    static char zeros[4096];
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    ck_assert_int_eq(errno, ENOSPC);
}

/* Writes rows until the disk is full for good: a compaction under way may free space for some more rows. */
static uint64_t write_until_full(int ballast)
{
    uint64_t rows = 0;
    int err = OK;
    for (int i = 0; i < 1000 && err == OK; i++) {
        while ((err = write_row(rows)) == OK)
            rows++;
        ck_assert_int_eq(err, ERR_DISK_FULL);
        ck_assert_uint_gt(rows, 1000);
        check_rows(rows);
        fill_up(ballast);
        err = recover();
    }
    ck_assert_int_eq(err, ERR_DISK_FULL);
    return rows;
}

START_TEST(a_full_disk_stops_writes_only_and_room_brings_them_back)
{
    char path[128];
    make_dir();
    if (!mount_small()) {
        fprintf(stderr, "not allowed to mount: full disk not tested\n");
        remove_dir();
        return;
    }
    snprintf(path, sizeof path, "%s/ballast", dir);
    int ballast = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(ballast, 0);
    ck_assert_int_eq(posix_fallocate(ballast, 0, 24 << 20), 0);
    ck_assert_int_ge(lseek(ballast, 0, SEEK_END), 0);
    begin_at_db();
    uint64_t rows = write_until_full(ballast);
    check_rows(rows);
    ck_assert_int_eq(write_row(rows), ERR_DISK_FULL);
    ck_assert_int_eq(ftruncate(ballast, 0), 0);
    ck_assert_int_eq(recover(), OK);
    check_rows(rows);
    ck_assert_int_eq(write_row(rows), OK);
    reopen();
    check_rows(rows + 1);
    cases_end();
    close(ballast);
    ck_assert_int_eq(umount(dir), 0);
    remove_dir();
}
END_TEST

/* ---- several threads --------------------------------------------------------------------- */

static _Atomic bool is_over;
static _Atomic unsigned drops_asked;

/* drop_fn: rows "0…" are orphans. Reads the store, as the real function does. */
static bool drop_zeros(void *owner, struct store *from, enum cf cf, struct bytes key)
{
    struct slice value;
    (void)owner, (void)cf;
    drops_asked++;
    if (store_get(from, CF_METADATA, BYTES("newest"), &value) != OK)
        return false;
    slice_release(&value);
    return key.data[0] == '0';
}

static void *read_on(void *unused)
{
    struct slice value;
    (void)unused;
    while (!is_over) {
        struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES("1"), BYTES("2"));
        for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
            ck_assert_uint_eq(store_iter_value(iter).len, 100);
        store_iter_free(iter);
        if (store_get(store, CF_METADATA, BYTES("newest"), &value) == OK)
            slice_release(&value);
    }
    return NULL;
}

static void *compact_on(void *unused)
{
    (void)unused;
    while (!is_over) {
        store_compact(store, CF_DATA, BYTES(""), BYTES(""));
        (void)store_figure(store, "disk_bytes");
    }
    return NULL;
}

static void write_some(unsigned batches)
{
    char key[16], value[100] = "";
    for (unsigned i = 0; i < batches; i++) {
        for (unsigned row = 0; row < 8; row++) {
            snprintf(key, sizeof key, "%u %05u", row % 2, i * 8 + row);
            effects_put(batch, CF_DATA, bytes_of(key), (struct bytes){value, sizeof value});
        }
        put(CF_METADATA, "newest", key);
        commit();
    }
}

START_TEST(readers_compaction_and_a_writer_share_the_store)
{
    pthread_t readers[2], compactor;
    storage_close(storage);
    open_with(drop_zeros, NULL);
    pthread_create(&readers[0], NULL, read_on, NULL);
    pthread_create(&readers[1], NULL, read_on, NULL);
    pthread_create(&compactor, NULL, compact_on, NULL);
    write_some(1000);
    is_over = true;
    pthread_join(readers[0], NULL);
    pthread_join(readers[1], NULL);
    pthread_join(compactor, NULL);
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    ck_assert_str_eq(walk(CF_DATA, "0", "1", true), "");
    ck_assert_uint_gt(drops_asked, 0);
}
END_TEST

static const char *compacted_data(void)
{
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    return walk(CF_DATA, "", "", true);
}

START_TEST(a_copy_holds_orphans_after_its_start_and_rows_of_other_shards)
{
    enum { BEGUN = 1000000, MOVED = BEGUN + ORPHAN_HOLD_MS, OVER = MOVED + ORPHAN_HOLD_MS };
    struct orphan_hold hold;
    storage_close(storage);
    open_with(drop_zeros, NULL);
    put(CF_SYSTEM, "g", "members");
    put(CF_METADATA, "newest", "v");
    put(CF_DATA, "0", "orphan");
    commit();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    storage_close(storage);
    open_with(drop_zeros, NULL);
    ck_assert_str_eq(compacted_data(), "0 ");
    orphan_hold_begin(&hold, store, storage_is_replicated(storage), 1);
    orphan_hold_hear(&hold, BEGUN, false, 1);
    store_set_unapplied(store, MOVED + 1);
    orphan_hold_hear(&hold, MOVED, true, 2);
    orphan_hold_tick(&hold, 2 + ORPHAN_HOLD_MS + 1); /* by the record's clock it is too early */
    ck_assert_str_eq(compacted_data(), "0 ");
    store_set_unapplied(store, OVER + 1);
    orphan_hold_tick(&hold, 2 + ORPHAN_HOLD_MS); /* by the clock here */
    ck_assert_str_eq(compacted_data(), "0 ");
    orphan_hold_tick(&hold, 2 + ORPHAN_HOLD_MS + 1);
    ck_assert_str_eq(compacted_data(), "");
}
END_TEST

START_TEST(recovery_takes_the_database_from_under_compaction_and_figures)
{
    pthread_t compactor;
    storage_close(storage);
    open_with(drop_zeros, NULL);
    disk.fail_files = ".batches";
    pthread_create(&compactor, NULL, compact_on, NULL);
    for (int i = 0; i < 5; i++) {
        write_some(50);
        disk.fail_write = EIO;
        ck_assert_int_ne(try_pair(), OK);
        disk.fail_write = 0;
        ck_assert_int_eq(recover(), OK);
    }
    is_over = true;
    pthread_join(compactor, NULL);
    ck_assert_uint_gt(strlen(get(CF_METADATA, "newest")), 0);
}
END_TEST

/* ---- compaction of everything by hand ---------------------------------------------------- */

/* drop_fn: blocks at the first row until the compaction is cancelled. */
static bool wait_for_cancel(void *owner, struct store *from, enum cf cf, struct bytes key)
{
    struct store_progress *progress = owner;
    (void)from, (void)cf, (void)key;
    drops_asked++;
    while (!progress->is_cancelled)
        sched_yield();
    return false;
}

static void *cancel_it(void *progress)
{
    while (!drops_asked)
        sched_yield();
    store_compact_cancel(store, progress);
    return NULL;
}

START_TEST(a_compaction_of_everything_reports_its_progress)
{
    struct store_progress progress = {0};
    storage_close(storage);
    open_with(drop_zeros, NULL);
    for (int i = 0; i < 5; i++)
        write_some(200);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    uint64_t before = store_figure(store, "sst_bytes");
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACTED);
    ck_assert_uint_eq(progress.bytes_total, before);
    ck_assert_uint_eq(progress.bytes_done, before);
    ck_assert_uint_lt(store_figure(store, "sst_bytes"), before);
    ck_assert_str_eq(walk(CF_DATA, "0", "1", true), "");
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        ck_assert_uint_gt(strlen(store_family_name(cf)), 0);
}
END_TEST

START_TEST(a_cancelled_compaction_ends_in_the_middle_and_the_next_one_runs)
{
    struct store_progress progress = {0};
    pthread_t canceller;
    storage_close(storage);
    open_with(wait_for_cancel, &progress);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "row %d", i);
        put(CF_DATA, key, "value");
        put(CF_ZSET_SCORE, key, "value");
    }
    commit();
    drops_asked = 0;
    pthread_create(&canceller, NULL, cancel_it, &progress);
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACT_CANCELLED);
    pthread_join(canceller, NULL);
    ck_assert_uint_lt(drops_asked, 1000);
    ck_assert_str_eq(get(CF_DATA, "row 999"), "value");
    store_compact_cancel(store, &progress); /* no compaction is running */
    drops_asked = 0;
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACT_CANCELLED);
    ck_assert_uint_eq(drops_asked, 0);
    storage_close(storage);
    open_with(drop_zeros, NULL);
    atomic_store(&progress.is_cancelled, false);
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACTED);
    ck_assert_uint_ge(drops_asked, 2000);
}
END_TEST

START_TEST(a_compaction_that_cannot_write_has_failed)
{
    struct store_progress progress = {0};
    write_some(200);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    write_some(200);
    disk.fail_files = ".sst";
    disk.fail_write = EIO;
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACT_FAILED);
    disk.fail_write = 0;
}
END_TEST

/* ---- the pace of compactions ------------------------------------------------------------- */

static struct pace *pace;

static void open_paced(uint64_t bytes_per_s)
{
    storage_close(storage);
    store_env_free(env);
    pace = pace_new();
    pace_limit(pace, bytes_per_s, 0);
    env = store_env_new(&(struct store_env_options){8 << 20, 2, pace});
    open_with(drop_zeros, NULL);
}

static void close_paced(void)
{
    storage_close(storage);
    store_env_free(env);
    pace_free(pace);
    env = store_env_new(&(struct store_env_options){8 << 20, 2, NULL});
    open_with(NULL, NULL);
}

/* Writes 800 KB into each of two column families. The compaction counts both, although metadata has no orphans. */
static void write_half(void)
{
    static char value[1000];
    for (unsigned i = 0; i < 800; i++) {
        char key[16];
        snprintf(key, sizeof key, "row %03u", i);
        effects_put(batch, CF_DATA, bytes_of(key), (struct bytes){value, sizeof value});
        effects_put(batch, CF_METADATA, bytes_of(key), (struct bytes){value, sizeof value});
    }
    commit();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
}

START_TEST(compactions_are_counted_and_flushes_are_not)
{
    struct store_progress progress = {0};
    open_paced(0);
    write_half();
    ck_assert_uint_eq(pace_figures(pace).bytes, 0);
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACTED);
    uint64_t bytes = pace_figures(pace).bytes;
    ck_assert_uint_ge(bytes, 1600000 - 2 * PACE_SHARE);
    ck_assert_uint_eq(pace_figures(pace).waited_us, 0);
    pace_limit(pace, PACE_RATE_MIN, 0);
    atomic_store(&progress.is_cancelled, false);
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACTED);
    ck_assert_uint_gt(pace_figures(pace).bytes, bytes);
    ck_assert_uint_gt(pace_figures(pace).waited_us, 0);
    close_paced();
}
END_TEST

START_TEST(rows_with_blobs_are_not_read_for_the_pace)
{
    struct store_progress progress = {0};
    struct store_options options = cases_options();
    open_paced(0);
    options.blob_threshold_bytes = 500;
    ck_assert(store_set_options(store, &options, error, sizeof error));
    write_half();
    ck_assert_int_eq(store_compact_all(store, &progress), STORE_COMPACTED);
    ck_assert_uint_gt(store_figure(store, "blob_bytes"), 0);
    ck_assert_uint_le(pace_figures(pace).bytes, 900000);
    close_paced();
}
END_TEST

/* Compacts at a pace that needs two hours. */
static void *compact_slowly(void *progress)
{
    static enum store_compacted result;
    (void)pace_spend(pace, 7200ULL * PACE_RATE_MIN, clock_mono_us());
    result = store_compact_all(store, progress);
    return &result;
}

static enum store_compacted end_of(pthread_t thread)
{
    void *result;
    pthread_join(thread, &result);
    return *(enum store_compacted *)result;
}

static pthread_t begin_slow(struct store_progress *progress)
{
    pthread_t thread;
    pthread_create(&thread, NULL, compact_slowly, progress);
    while (pace_figures(pace).waited_us == 0)
        sched_yield();
    return thread;
}

START_TEST(a_cancel_a_reopening_and_the_end_wake_a_compaction_that_waits)
{
    struct store_progress progress = {0};
    open_paced(1);
    write_half();
    pthread_t thread = begin_slow(&progress);
    store_compact_cancel(store, &progress);
    ck_assert_int_eq(end_of(thread), STORE_COMPACT_CANCELLED);
    close_paced();

    open_paced(1);
    atomic_store(&progress.is_cancelled, false);
    thread = begin_slow(&progress);
    disk.fail_files = ".batches";
    disk.fail_write = EIO;
    ck_assert_int_ne(try_pair(), OK);
    disk.fail_write = 0;
    ck_assert_int_eq(recover(), OK);
    pace_limit(pace, 0, 0);
    (void)end_of(thread);
    struct slice value;
    ck_assert_int_eq(store_get(store, CF_DATA, BYTES("row 799"), &value), OK);
    slice_release(&value);
    close_paced();
}
END_TEST

/* ---- kill -9 ----------------------------------------------------------------------------- */

static unsigned rows_of(uint64_t ticket)
{
    return 1 + (unsigned)(ticket * 2654435761U % ROWS_MAX);
}

/* Puts the rows of batch `ticket`, and its number in another column family. */
static void put_ticket(uint64_t ticket)
{
    char key[48], value[512];
    memset(value, 'v', sizeof value);
    for (unsigned row = 0; row < rows_of(ticket); row++) {
        snprintf(key, sizeof key, "%08llu %02u", (unsigned long long)ticket, row);
        effects_put(batch, row % 2 ? CF_DATA : CF_STREAM, bytes_of(key),
                    (struct bytes){value, sizeof value});
    }
    snprintf(key, sizeof key, "%llu", (unsigned long long)ticket);
    put(CF_SYSTEM, "newest", key);
}

/* The process that is killed: writes without end and reports durable tickets. It does not use the test framework. */
static int run_writer(const char *path, uint64_t ticket)
{
    struct store_options options = cases_options();
    options.path = path;
    env = store_env_new(&(struct store_env_options){8 << 20, 2, NULL});
    storage = storage_open(env, &options, wal_bytes_max, error, sizeof error);
    batch = effects_new();
    for (; storage; ticket++) {
        put_ticket(ticket);
        if (try_commit(true) != OK)
            break;
        if (write(STDOUT_FILENO, &ticket, sizeof ticket) != sizeof ticket)
            break;
    }
    fprintf(stderr, "writer: %s\n", error);
    return 1;
}

static uint64_t newest_on_disk(void)
{
    return strtoull(get(CF_SYSTEM, "newest"), NULL, 10);
}

static unsigned count_rows(enum cf cf, const char *from, const char *to)
{
    unsigned count = 0;
    struct store_iter *iter = store_iter_new(store, cf, bytes_of(from), bytes_of(to));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
        count++;
    ck_assert(!store_iter_failed(iter));
    store_iter_free(iter);
    return count;
}

/* Every batch from `first` to `newest` is complete, and there is no row of a later one. */
static void check_tickets(uint64_t first, uint64_t newest)
{
    char from[32], to[32];
    for (uint64_t ticket = first; ticket <= newest + 1; ticket++) {
        snprintf(from, sizeof from, "%08llu", (unsigned long long)ticket);
        snprintf(to, sizeof to, "%08llu", (unsigned long long)ticket + 1);
        unsigned expected = ticket <= newest ? rows_of(ticket) : 0;
        const char *end = ticket <= newest ? to : "";
        unsigned rows = count_rows(CF_DATA, from, end) + count_rows(CF_STREAM, from, end);
        ck_assert_uint_eq(rows, expected);
    }
}

/* Kills the writer after it has reported `reports` tickets; returns the last reported one. */
static uint64_t kill_writer(uint64_t next, unsigned reports)
{
    int pipe_fds[2];
    char text[32], path[128];
    uint64_t ticket, last = next - 1;
    snprintf(path, sizeof path, "%s/db", dir);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    snprintf(text, sizeof text, "%llu", (unsigned long long)next);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_store", "--writer", path, text, (char *)NULL);
        _exit(2);
    }
    close(pipe_fds[1]);
    while (reports-- > 0 && read(pipe_fds[0], &ticket, sizeof ticket) == sizeof ticket)
        last = ticket;
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &ticket, sizeof ticket) == sizeof ticket)
        last = ticket;
    close(pipe_fds[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    return last;
}

START_TEST(reported_batches_survive_kill_9_and_batches_are_never_half)
{
    uint64_t next = 1;
    model_state = (uint64_t)getpid();
    make_dir();
    for (int round = 0; round < KILL_ROUNDS; round++) {
        uint64_t reported = kill_writer(next, model_random(TICKETS_MAX));
        begin_at_db();
        uint64_t newest = newest_on_disk();
        ck_assert_uint_ge(newest, reported);
        ck_assert_uint_le(newest, reported + 1);
        check_tickets(round == KILL_ROUNDS - 1 ? 1 : next, newest);
        next = newest + 1;
        cases_end();
    }
    remove_dir();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--writer") == 0)
        return run_writer(argv[2], strtoull(argv[3], NULL, 10));
    TCase *tests = tcase_create("store"), *alone = tcase_create("alone");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_set_timeout(alone, 240);
    cases_add(tests);
    tcase_add_test(tests, every_choice_of_options_opens);
    tcase_add_test(tests, options_are_changed_while_it_runs_and_stay_over_a_recovery);
    tcase_add_test(tests, a_file_in_the_way_is_reported);
    tcase_add_test(tests, a_damaged_row_is_an_error_not_a_wrong_value);
    tcase_add_test(tests, a_stop_leaves_no_long_log_to_the_next_start);
    tcase_add_test(tests, a_row_on_the_disk_is_uncached_until_its_block_is_kept);
    tcase_add_test(tests, a_row_of_a_file_that_is_not_open_is_uncached_not_an_empty_value);
    tcase_add_test(tests, blocks_that_were_read_can_be_dropped);
    tcase_add_test(tests, a_walk_that_comes_to_a_file_on_the_disk_is_uncached);
    tcase_add_test(tests, a_walk_where_a_range_was_deleted_reads_what_it_needs);
    tcase_add_test(tests, a_walk_over_rows_on_the_disk_is_uncached_until_they_were_fetched);
    tcase_add_loop_test(tests, a_write_without_room_is_refused_until_recovery, 0, 2);
    tcase_add_loop_test(tests, a_failed_write_is_refused_until_recovery, 0, 2);
    tcase_add_test(tests, a_failed_sync_is_refused_until_recovery);
    tcase_add_test(tests, a_recovery_adds_no_batch_to_the_log);
    tcase_add_test(tests, reads_go_on_when_the_database_cannot_be_reopened);
    tcase_add_test(tests, a_database_that_was_lost_comes_back_with_every_row);
    tcase_add_test(tests, a_recovery_does_not_leave_out_damaged_batches);
    tcase_add_test(tests, no_acknowledged_row_is_lost_wherever_the_disk_fails);
    tcase_add_test(tests, logged_batches_in_no_table_are_there_after_a_kill);
    tcase_add_test(tests, a_log_of_write_batches_is_read_and_not_kept);
    tcase_add_test(tests, uncommitted_batches_are_not_applied_and_do_not_come_back);
    tcase_add_test(tests, the_tail_of_a_copy_stays_whoever_opens_it);
    tcase_add_test(tests, a_cut_whose_log_is_damaged_has_lost);
    tcase_add_test(tests, the_tail_of_a_copy_is_truncated_to_what_is_committed_at_most);
    tcase_add_test(tests, a_batch_that_copies_cannot_be_sent_is_refused);
    tcase_add_test(tests, a_copy_keeps_the_last_record_of_its_log);
    tcase_add_test(tests, a_copy_holds_orphans_after_its_start_and_rows_of_other_shards);
    tcase_add_test(tests, a_copy_takes_no_batch_of_its_own);
    tcase_add_test(tests, a_checkpoint_of_a_copy_ends_with_what_was_committed);
    tcase_add_test(tests, a_flush_leaves_in_the_log_what_is_in_no_table);
    tcase_add_test(tests, a_stop_keeps_batches_that_are_in_no_table_however_long_the_log_is);
    tcase_add_test(tests, flushes_and_compactions_that_fail_leave_the_log_alone);
    tcase_add_test(tests, a_checkpoint_has_what_is_in_no_table);
    tcase_add_test(tests, a_cut_that_is_written_keeps_no_space_of_the_trimmed_log);
    tcase_add_test(tests, a_cut_ends_with_the_last_batch_before_its_end);
    tcase_add_test(tests, a_cut_that_is_given_up_holds_back_the_log_no_more);
    tcase_add_test(tests, recovery_of_a_sound_store_does_nothing);
    tcase_add_test(tests, readers_compaction_and_a_writer_share_the_store);
    tcase_add_test(tests, recovery_takes_the_database_from_under_compaction_and_figures);
    tcase_add_test(tests, a_compaction_of_everything_reports_its_progress);
    tcase_add_test(tests, a_cancelled_compaction_ends_in_the_middle_and_the_next_one_runs);
    tcase_add_test(tests, a_compaction_that_cannot_write_has_failed);
    tcase_add_test(tests, compactions_are_counted_and_flushes_are_not);
    tcase_add_test(tests, rows_with_blobs_are_not_read_for_the_pace);
    tcase_add_test(tests, a_cancel_a_reopening_and_the_end_wake_a_compaction_that_waits);
    tcase_add_test(alone, a_full_disk_stops_writes_only_and_room_brings_them_back);
    tcase_add_test(alone, reported_batches_survive_kill_9_and_batches_are_never_half);
    Suite *suite = suite_create("store");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, alone);
    return suite_run(suite);
}
