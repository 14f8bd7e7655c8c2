/*
 * test_wal.c - the WAL: cut and damaged at every byte; lost, trimmed, copied and rotated segments; and random
 * operations on a disk that fails and loses power (faulty_disk.h).
 */
#include "backend/wal/wal.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"
#include "tests/sized.h"
#include "tests/unit/faulty_disk.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { BATCHES_MAX = 20000, TEXT_MAX = 8192, FILE_BYTES = 300 };

static char root[] =
    "/dev/shm/scree-batches-XXXXXX"; /* in memory, or in /tmp if /dev/shm does not exist */
static char dir[64], other[64];
static char error[512];

/* ---- helpers ----------------------------------------------------------------------------- */

/* A batch contains its index and the number of the attempt to write it, then bytes that depend on both. */
static struct bytes batch_of(uint64_t index, unsigned try)
{
    static _Thread_local char text[TEXT_MAX];
    int len = snprintf(text, sizeof text, "%" PRIu64 "/%u:", index, try);
    uint64_t more = index * 7919 % (index % 50 == 0 ? 5000 : 60);
    if (index % 11 == 3 && try == 0)
        return (struct bytes){text, 0};
    memset(text + len, 'a' + (int)(index % 26), more);
    return (struct bytes){text, (size_t)len + more};
}

/* The batches that were read: first and last index, and the attempt of each. */
static struct {
    uint64_t first, last;
    uint64_t refuse; /* index at which reading fails */
    unsigned try[BATCHES_MAX];
} seen;

static bool see(void *owner, uint64_t index, struct bytes batch, char *reason, size_t size)
{
    unsigned try = 0;
    CHECK(owner == &seen);
    if (index == seen.refuse) {
        (void)snprintf(reason, size, "it was refused");
        return false;
    }
    CHECK(index < BATCHES_MAX);
    CHECK(!seen.last || index > seen.last);
    for (uint64_t missing = seen.last + 1; seen.last && missing < index; missing++)
        seen.try[missing] = UINT_MAX;
    while (try < 1000 && !bytes_equal(batch_of(index, try), batch))
        try++;
    CHECK(try < 1000);
    seen.try[index] = try;
    if (!seen.first)
        seen.first = index;
    seen.last = index;
    return true;
}

static struct wal *open_at(const char *path, uint64_t file_bytes, uint64_t trimmed)
{
    struct wal_options options = {path, file_bytes, trimmed};
    seen.first = seen.last = 0;
    return wal_open(&options, see, &seen, error, sizeof error);
}

static struct wal *open_wal(void)
{
    struct wal *wal = open_at(dir, FILE_BYTES, 0);
    CHECK(wal);
    return wal;
}

static void append(struct wal *wal, unsigned count)
{
    while (count--) {
        struct bytes batch = batch_of(wal_last(wal) + 1, 0);
        CHECK(wal_append(wal, batch, false, error, sizeof error) == OK);
    }
}

/* Checks that the disk has exactly the batches first..last, each of attempt 0. The file `filed`, which a power loss may
 * take, is removed before, so that all are read. */
static void check_read(uint64_t first, uint64_t last)
{
    char filed[LOSSY_PATH_MAX];
    snprintf(filed, sizeof filed, "%s/filed", dir);
    (void)unlink(filed);
    struct wal *wal = open_wal();
    CHECK(seen.first == first && seen.last == last);
    CHECK(!last || wal_last(wal) == last);
    for (uint64_t index = first; index && index <= last; index++)
        CHECK(seen.try[index] == 0);
    wal_close(wal);
}

static void path_of(char *path, const char *folder, uint64_t first)
{
    snprintf(path, LOSSY_PATH_MAX, "%s/%020" PRIu64 ".batches", folder, first);
}

static uint64_t bytes_of_file(uint64_t first)
{
    char path[LOSSY_PATH_MAX];
    struct stat found;
    path_of(path, dir, first);
    return stat(path, &found) == 0 ? (uint64_t)found.st_size : 0;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, another = *(const uint64_t *)b;
    return (one > another) - (one < another);
}

/* The first indexes of the segments, in order; returns the number of segments. */
static size_t list_firsts(uint64_t *firsts, size_t max)
{
    size_t count = 0;
    DIR *from = opendir(dir);
    CHECK(from);
    for (struct dirent *entry; (entry = readdir(from));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "filed") == 0 ||
            strcmp(entry->d_name, "kept") == 0)
            continue;
        CHECK(count < max);
        CHECK(strlen(entry->d_name) == 28 && strcmp(entry->d_name + 20, ".batches") == 0);
        firsts[count++] = strtoull(entry->d_name, NULL, 10);
    }
    (void)closedir(from);
    qsort(firsts, count, sizeof *firsts, compare_numbers);
    return count;
}

static size_t read_whole(uint64_t first, char *bytes, size_t size)
{
    char path[LOSSY_PATH_MAX];
    path_of(path, dir, first);
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, bytes, size);
    CHECK(len >= 0 && close(fd) == 0);
    return (size_t)len;
}

static void write_whole(uint64_t first, const char *bytes, size_t len)
{
    char path[LOSSY_PATH_MAX];
    path_of(path, dir, first);
    (void)remove(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
}

static void start(void)
{
    char kept[LOSSY_PATH_MAX];
    snprintf(kept, sizeof kept, "%s/kept", dir);
    (void)path_remove(kept);
    lossy_empty(dir);
    lossy_empty(other);
}

/* ---- replay ------------------------------------------------------------------------------ */

static void test_appended_batches_are_read_again(void)
{
    uint64_t firsts[64];
    start();
    check_read(0, 0);
    CHECK(list_firsts(firsts, 64) == 0); /* no segment before the first append */
    for (unsigned round = 1; round <= 5; round++) {
        struct wal *wal = open_wal();
        append(wal, 30);
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        append(wal, 10);
        CHECK(wal_append(wal, batch_of(round * 41, 0), true, error, sizeof error) == OK);
        CHECK(wal_last(wal) == round * 41);
        wal_close(wal);
        check_read(1, round * 41);
    }
    size_t count = list_firsts(firsts, 64);
    uint64_t bytes = 0;
    CHECK(count > 10);
    for (size_t i = 0; i < count; i++)
        bytes += bytes_of_file(firsts[i]);
    struct wal *wal = open_wal();
    /* replaced batches are not counted */
    CHECK(wal_bytes(wal) <= bytes && wal_bytes(wal) > bytes / 2);
    wal_close(wal);
}

static bool see_x(void *owner, uint64_t index, struct bytes batch, char *reason, size_t size)
{
    (void)reason, (void)size;
    CHECK(index == ++*(unsigned *)owner && batch.len == 3 << 20);
    for (size_t i = 0; i < batch.len; i++)
        CHECK(batch.data[i] == 'x');
    return true;
}

static void test_a_long_batch_is_read_again_and_a_too_long_one_refused(void)
{
    static char long_text[3 << 20];
    uint64_t firsts[8];
    start();
    memset(long_text, 'x', sizeof long_text);
    struct wal *wal = open_wal();
    struct bytes batch = {long_text, sizeof long_text};
    CHECK(wal_append(wal, batch, true, error, sizeof error) == OK);
    CHECK(wal_append(wal, batch, true, error, sizeof error) == OK);
    batch.len = (size_t)UINT32_MAX + 1;
    CHECK(wal_append(wal, batch, true, error, sizeof error) == ERR_STORE);
    CHECK(wal_append(wal, BYTES("x"), true, error, sizeof error) == ERR_STORE);
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    CHECK(wal_copy(wal, other, 0, error, sizeof error) == OK);
    wal_close(wal);
    CHECK(list_firsts(firsts, 8) == 3);
    CHECK(bytes_of_file(1) == bytes_of_file(2) && bytes_of_file(2) == 16 + 28 + sizeof long_text);
    struct wal_options options = {.path = other, .file_bytes = FILE_BYTES};
    unsigned count = 0;
    wal = wal_open(&options, see_x, &count, error, sizeof error);
    CHECK(wal && count == 2);
    wal_close(wal);
}

static void test_writes_that_are_cut_short_or_interrupted_are_continued(void)
{
    start();
    disk.is_lossy = disk.is_short = true;
    struct wal *wal = open_wal();
    append(wal, 200);
    wal_close(wal);
    disk.is_lossy = disk.is_short = false;
    check_read(1, 200);
}

static void test_the_reader_may_refuse_and_nothing_is_removed(void)
{
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_close(wal);
    seen.refuse = 30;
    CHECK(!open_at(dir, FILE_BYTES, 0));
    CHECK(strstr(error, "batch 30: it was refused"));
    seen.refuse = 0;
    check_read(1, 60);
}

/* Makes a segment of 6 short records; ends: offsets of their ends. Returns its size. */
static size_t make_small(char *bytes, size_t size, uint64_t ends[7])
{
    start();
    struct wal *wal = open_at(dir, 1 << 20, 0);
    ends[0] = 16;
    for (unsigned i = 1; i <= 6; i++) {
        append(wal, 1);
        ends[i] = wal_bytes(wal);
    }
    wal_close(wal);
    size_t len = read_whole(1, bytes, size);
    CHECK(len == ends[6]);
    return len;
}

static void test_an_end_cut_at_every_byte_leaves_the_batches_before(void)
{
    char bytes[2048];
    uint64_t ends[7];
    size_t len = make_small(bytes, sizeof bytes, ends);
    for (size_t cut = 0; cut <= len; cut++) {
        unsigned whole = 6;
        while (whole && ends[whole] > cut)
            whole--;
        lossy_empty(dir);
        write_whole(1, bytes, cut);
        check_read(whole ? 1 : 0, whole);
        struct wal *wal = open_wal();
        append(wal, 2);
        wal_close(wal);
        check_read(1, whole + 2);
    }
}

static void test_a_changed_byte_ends_the_log_before_it(void)
{
    char bytes[2048], path[LOSSY_PATH_MAX];
    uint64_t ends[7];
    size_t len = make_small(bytes, sizeof bytes, ends);
    path_of(path, dir, 1);
    for (size_t at = 0; at < len; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            unsigned whole = 6;
            while (whole && ends[whole] > at)
                whole--;
            if (at < 16)
                whole = 6;
            bytes[at] ^= (char)(1 << bit);
            write_whole(1, bytes, len);
            if (at != 14 || bytes[at] <= '2')
                check_read(whole ? 1 : 0, whole);
            bytes[at] ^= (char)(1 << bit);
        }
    }
}

static void test_a_newer_format_is_refused_and_stays(void)
{
    char bytes[2048];
    uint64_t ends[7], firsts[4];
    size_t len = make_small(bytes, sizeof bytes, ends);
    bytes[14] = '3';
    write_whole(1, bytes, len);
    write_whole(100, bytes, len); /* after a gap */
    CHECK(!open_at(dir, FILE_BYTES, 0));
    CHECK(strstr(error, "newer"));
    CHECK(list_firsts(firsts, 4) == 2);
}

static void test_lengths_that_lie_are_not_believed(void)
{
    char bytes[2048];
    uint64_t ends[7];
    size_t len = make_small(bytes, sizeof bytes, ends);
    const uint32_t lies[] = {0, 1, 1 << 20, 1 << 30, (1 << 30) + 1, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(bytes + ends[5], &lies[i], sizeof lies[i]);
        write_whole(1, bytes, len);
        check_read(1, 5);
    }
}

static void test_other_files_are_left_alone(void)
{
    static const char *const names[] = {"1.batches",
                                        "0000000000000000000a.batches",
                                        "LOCK",
                                        "00000000000000000000.batches",
                                        "00000000000000000001.batches.old",
                                        "99999999999999999999.batches"};
    char path[LOSSY_PATH_MAX];
    start();
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT, 0640);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    struct wal *wal = open_wal();
    append(wal, 30);
    wal_trim(wal, 30);
    wal_close(wal);
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        CHECK(access(path, F_OK) == 0);
    }
}

/* ---- gaps -------------------------------------------------------------------------------- */

static void read_warning(char *text, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);
    CHECK(len >= 0 && close(fd) == 0);
    text[len] = 0;
}

/* A segment in the middle is cut: later batches are dropped, and new ones follow those before the cut. */
static void test_segments_after_a_gap_are_removed(void)
{
    char path[LOSSY_PATH_MAX], log_path[LOSSY_PATH_MAX], text[2048];
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_close(wal);
    size_t count = list_firsts(firsts, 64);
    CHECK(count >= 6);
    path_of(path, dir, firsts[2]);
    CHECK(truncate(path, (off_t)bytes_of_file(firsts[2]) - 1) == 0);
    snprintf(log_path, sizeof log_path, "%s/warnings", root);
    CHECK(log_set_file(log_path));
    log_set_level(LOG_INFO);
    uint64_t last = firsts[3] - 2;
    check_read(1, last);
    CHECK(list_firsts(firsts, 64) == 3);
    read_warning(text, sizeof text, log_path);
    CHECK(strstr(text, " warn wal_gap ") && strstr(text, path));
    CHECK(strchr(text, '\n') == text + strlen(text) - 1); /* exactly one line */
    check_read(1, last);
    wal = open_wal();
    append(wal, 30);
    wal_close(wal);
    check_read(1, last + 30);
    read_warning(text, sizeof text, log_path);
    CHECK(strchr(text, '\n') == text + strlen(text) - 1);
    log_set_level(LOG_ERROR);
    CHECK(log_set_file(NULL));
    CHECK(unlink(log_path) == 0);
}

/* Damages a byte of the third of six batches, and reads the warning in the log. */
static void damage(char *text, size_t size, bool is_synced)
{
    char path[LOSSY_PATH_MAX], log_path[LOSSY_PATH_MAX], bytes[4096];
    uint64_t end = 0;
    start();
    struct wal *wal = open_at(dir, UINT64_MAX, 0);
    CHECK(wal);
    for (uint64_t index = 1; index <= 6; index++) {
        struct bytes batch = batch_of(index, 0);
        CHECK(wal_append(wal, batch, is_synced, error, sizeof error) == OK);
        if (index == 3)
            end = wal_bytes(wal);
    }
    wal_close(wal);
    size_t len = read_whole(1, bytes, sizeof bytes);
    bytes[end - 1] ^= 1;
    write_whole(1, bytes, len);
    path_of(path, dir, 1);
    snprintf(log_path, sizeof log_path, "%s/warnings", root);
    CHECK(log_set_file(log_path));
    log_set_level(LOG_INFO);
    check_read(1, 2);
    log_set_level(LOG_ERROR);
    CHECK(log_set_file(NULL));
    read_warning(text, size, log_path);
    CHECK(unlink(log_path) == 0);
    CHECK(!is_synced || strstr(text, path));
}

static void test_damage_before_whole_batches_is_logged(void)
{
    char text[2048];
    damage(text, sizeof text, true);
    CHECK(strstr(text, " error wal_damaged "));
    CHECK(strstr(text, " after_batch=2 next_whole_batch=4 dropped_batches=3 dropped_bytes="));
    CHECK(strstr(text, " synced=yes"));
    damage(text, sizeof text, false);
    CHECK(strstr(text, " warn wal_damaged "));
    CHECK(strstr(text, " after_batch=2 next_whole_batch=4 dropped_batches=3 dropped_bytes="));
    CHECK(strstr(text, " synced=unknown"));
}

static void test_a_file_that_is_missing_is_a_gap(void)
{
    char path[LOSSY_PATH_MAX];
    uint64_t firsts[64];
    for (size_t missing = 1; missing < 5; missing++) {
        start();
        struct wal *wal = open_wal();
        append(wal, 60);
        wal_close(wal);
        CHECK(list_firsts(firsts, 64) > 5);
        path_of(path, dir, firsts[missing]);
        CHECK(unlink(path) == 0);
        log_set_level(LOG_ERROR);
        check_read(1, firsts[missing] - 1);
        log_set_level(LOG_ERROR);
        wal = open_wal();
        append(wal, 7);
        wal_close(wal);
        check_read(1, firsts[missing] + 6);
    }
}

static void test_a_gap_of_batches_that_are_not_needed_is_accepted(void)
{
    char path[LOSSY_PATH_MAX];
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_close(wal);
    CHECK(list_firsts(firsts, 64) > 5);
    path_of(path, dir, firsts[2]);
    CHECK(truncate(path, 20) == 0);
    wal = open_at(dir, FILE_BYTES, firsts[3] - 1);
    CHECK(wal && seen.first == firsts[3] && seen.last == 60);
    append(wal, 1);
    wal_close(wal);
    wal = open_at(dir, FILE_BYTES, 1000); /* the caller has applied more batches than the WAL has */
    CHECK(wal && wal_last(wal) == 1000);
    append(wal, 2);
    wal_close(wal);
    check_read(1001, 1002);
}

/* ---- rotate ------------------------------------------------------------------------------ */

static void test_a_batch_that_failed_is_void(void)
{
    char bytes[2048];
    start();
    struct wal *wal = open_at(dir, 1 << 20, 0);
    append(wal, 5);
    CHECK(wal_append(wal, batch_of(6, 1), false, error, sizeof error) == OK);
    wal_close(wal);
    size_t len = read_whole(1, bytes, sizeof bytes); /* a segment with all 6 batches */
    start();
    wal = open_at(dir, 1 << 20, 0);
    append(wal, 5);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    disk.is_lossy = true;
    disk.fail_sync = EIO;
    CHECK(wal_append(wal, batch_of(6, 1), true, error, sizeof error) == ERR_STORE);
    disk_heal();
    CHECK(wal_last(wal) == 5);
    CHECK(wal_append(wal, batch_of(6, 0), true, error, sizeof error) == ERR_STORE);
    CHECK(wal_sync(wal, error, sizeof error) == ERR_STORE);
    CHECK(strstr(error, strerror(EIO)));
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    append(wal, 3);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_close(wal);
    disk.is_lossy = false;
    write_whole(1, bytes, len); /* as if the failed batch had reached the file */
    check_read(1, 8);
}

static void test_the_first_batch_of_a_file_may_fail(void)
{
    uint64_t firsts[8];
    start();
    struct wal *wal = open_at(dir, 1 << 20, 0);
    append(wal, 3);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    disk.is_lossy = true;
    for (unsigned i = 0; i < 3; i++) {
        CHECK(wal_rotate(wal, error, sizeof error) == OK);
        disk.fail_sync = EIO;
        CHECK(wal_append(wal, batch_of(4, 1), true, error, sizeof error) == ERR_STORE);
        disk_heal();
    }
    disk.fail_rename = ENOSPC;
    CHECK(wal_rotate(wal, error, sizeof error) == ERR_DISK_FULL);
    disk.fail_rename = EDQUOT;
    CHECK(wal_rotate(wal, error, sizeof error) == ERR_DISK_FULL);
    disk_heal();
    disk.fail_dir_sync = EIO;
    CHECK(wal_rotate(wal, error, sizeof error) == ERR_STORE);
    CHECK(wal_append(wal, batch_of(4, 0), true, error, sizeof error) == ERR_STORE);
    disk_heal();
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    append(wal, 1);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_close(wal);
    disk.is_lossy = false;
    CHECK(list_firsts(firsts, 8) == 2 && firsts[0] == 1 && firsts[1] == 4);
    check_read(1, 4);
}

/* Of 40 batches `synced` are synced, then the sync of segment number `after` fails. False: there are fewer segments. */
static bool lose_at(unsigned synced, unsigned after)
{
    start();
    struct wal *wal = open_wal();
    append(wal, synced);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    append(wal, 40 - synced);
    disk.fail_sync = EIO;
    disk.fail_after = after;
    bool is_lost = wal_append(wal, batch_of(41, 1), true, error, sizeof error) != OK;
    disk_heal();
    disk.fail_after = 0;
    if (is_lost) {
        CHECK(wal_last(wal) == 40);
        CHECK(wal_rotate(wal, error, sizeof error) == OK);
        CHECK(wal_append(wal, batch_of(41, 0), true, error, sizeof error) == OK);
    }
    wal_close(wal);
    if (is_lost) {
        lossy_power_loss();
        check_read(1, 41);
    }
    return is_lost;
}

static void test_what_a_failed_sync_may_have_lost_is_written_again(void)
{
    disk.is_lossy = true;
    for (unsigned synced = 0; synced <= 40; synced += 5) {
        unsigned after = 0;
        while (lose_at(synced, after))
            after++;
        CHECK(after > 0);
    }
    disk.is_lossy = false;
}

/* The process ends before it rotates. The next process reads batches that are not on the disk, and must write them
 * again. */
static void test_what_a_failed_sync_has_lost_is_written_again_by_the_next_process(void)
{
    for (unsigned i = 0; i < 2; i++) {
        start();
        disk.is_lossy = true;
        struct wal *wal = open_wal();
        append(wal, 5);
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        append(wal, 2);
        disk.fail_sync = EIO;
        CHECK(wal_append(wal, batch_of(8, 1), true, error, sizeof error) != OK);
        disk_heal();
        wal_close(wal);
        wal = open_wal();
        CHECK(wal_last(wal) == 7);
        append(wal, i);
        CHECK(wal_append(wal, batch_of(8 + i, 0), true, error, sizeof error) == OK);
        wal_close(wal);
        lossy_power_loss();
        disk.is_lossy = false;
        check_read(1, 8 + i);
    }
}

/* The new segment has all batches; the process ends before it has removed all old ones. */
static void test_a_rotation_that_ends_half_way_loses_nothing(void)
{
    for (unsigned after = 0; after < 5; after++) {
        start();
        disk.is_lossy = true;
        struct wal *wal = open_wal();
        append(wal, 40);
        disk.fail_sync = EIO;
        CHECK(wal_sync(wal, error, sizeof error) == ERR_STORE);
        disk_heal();
        disk.fail_unlink = EIO;
        disk.fail_after = after;
        CHECK(wal_rotate(wal, error, sizeof error) == ERR_STORE);
        CHECK(wal_append(wal, BYTES("x"), false, error, sizeof error) == ERR_STORE);
        disk_heal();
        disk.fail_after = 0;
        wal_close(wal);
        disk.is_lossy = false;
        check_read(1, 40);
    }
}

/* The lost batches are not needed, but keeping their segments would leave a gap after them. */
static void test_what_is_lost_and_trimmed_leaves_no_gap(void)
{
    start();
    disk.is_lossy = true;
    struct wal *wal = open_wal();
    append(wal, 5);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    append(wal, 35);
    disk.fail_sync = EIO;
    CHECK(wal_sync(wal, error, sizeof error) == ERR_STORE);
    disk_heal();
    disk.fail_unlink = EIO;
    log_set_level(LOG_ERROR);
    wal_trim(wal, 38);
    CHECK(wal_rotate(wal, error, sizeof error) == ERR_STORE);
    log_set_level(LOG_ERROR);
    disk_heal();
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    append(wal, 1);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_close(wal);
    lossy_power_loss();
    disk.is_lossy = false;
    check_read(39, 41);
}

static void test_a_disk_that_is_full_loses_nothing(void)
{
    struct rlimit old, limit;
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    start();
    struct wal *wal = open_at(dir, 1 << 20, 0);
    append(wal, 10);
    for (unsigned more = 0; more < 120; more += 7) {
        uint64_t last = wal_last(wal);
        uint64_t firsts[64];
        size_t count = list_firsts(firsts, 64);
        limit = (struct rlimit){bytes_of_file(firsts[count - 1]) + more, old.rlim_max};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        int failure;
        do
            failure =
                wal_append(wal, batch_of(wal_last(wal) + 1, 0), more % 2, error, sizeof error);
        while (failure == OK);
        CHECK(failure == ERR_STORE && strstr(error, strerror(EFBIG)));
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        CHECK(wal_last(wal) >= last);
        CHECK(wal_rotate(wal, error, sizeof error) == OK);
        append(wal, 2);
    }
    uint64_t last = wal_last(wal);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_close(wal);
    check_read(1, last);
    CHECK(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
}

/* A sync that appended zeros behind the batches made the file longer; later syncs do not change its length. A
 * process that starts after a kill must not read the zeros as batches. */
static void test_synced_batches_take_the_place_of_zeros(void)
{
    enum { COUNT = 6000, ZEROS = 256 << 10 };
    char log_path[LOSSY_PATH_MAX];
    uint64_t size = 0;
    unsigned changes = 0;
    start();
    struct wal *wal = open_at(dir, UINT64_MAX, 0);
    for (uint64_t index = 1; index <= COUNT; index++) {
        CHECK(wal_append(wal, batch_of(index, 0), true, error, sizeof error) == OK);
        changes += bytes_of_file(1) != size;
        size = bytes_of_file(1);
        CHECK(size >= wal_bytes(wal) && size <= wal_bytes(wal) + ZEROS);
    }
    CHECK(changes >= 2 && changes == (wal_bytes(wal) + ZEROS - 1) / ZEROS);
    snprintf(log_path, sizeof log_path, "%s/warnings", root);
    CHECK(log_set_file(log_path));
    check_read(1, COUNT);
    CHECK(log_set_file(NULL));
    struct stat found;
    CHECK(stat(log_path, &found) == 0 && found.st_size == 0 && unlink(log_path) == 0);
    wal_close(wal);
    CHECK(bytes_of_file(1) < size);
    check_read(1, COUNT);
}

/* ---- trim -------------------------------------------------------------------------------- */

static void test_trim_removes_exactly_what_is_not_needed(void)
{
    for (uint64_t index = 0; index <= 62; index++) {
        uint64_t before[64], after[64];
        start();
        struct wal *wal = open_wal();
        append(wal, 60);
        size_t count = list_firsts(before, 64), gone = 0;
        wal_trim(wal, index);
        while (gone + 1 < count && before[gone + 1] - 1 <= index)
            gone++;
        CHECK(list_firsts(after, 64) == count - gone);
        CHECK(memcmp(after, before + gone, (count - gone) * sizeof *after) == 0);
        CHECK(wal_last(wal) == 60);
        append(wal, 1);
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        uint64_t bytes = wal_bytes(wal);
        wal_close(wal);
        check_read(before[gone], 61);
        wal = open_wal();
        CHECK(wal_bytes(wal) == bytes);
        wal_close(wal);
    }
}

static void test_the_newest_file_keeps_the_count(void)
{
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_close(wal);
    wal = open_wal();
    wal_trim(wal, 60); /* all batches are applied, and none is being appended */
    CHECK(list_firsts(firsts, 64) == 1);
    wal_close(wal);
    wal = open_wal();
    CHECK(wal_last(wal) == 60);
    append(wal, 1);
    wal_trim(wal, 60);
    CHECK(list_firsts(firsts, 64) == 1 && firsts[0] == 61);
    wal_close(wal);
    check_read(61, 61);
}

static void test_a_removal_that_fails_is_tried_again(void)
{
    uint64_t before[64], after[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    size_t count = list_firsts(before, 64);
    uint64_t bytes = wal_bytes(wal), first_bytes = bytes_of_file(1);
    log_set_level(LOG_ERROR);
    disk.is_lossy = true;
    disk.fail_unlink = EIO;
    disk.fail_after = 1;
    wal_trim(wal, 60);
    disk_heal();
    disk.fail_dir_sync = EIO;
    wal_trim(wal, 60);
    disk_heal();
    disk.fail_after = 0;
    CHECK(list_firsts(after, 64) == count - 1 && after[0] == before[1]);
    CHECK(wal_bytes(wal) == bytes - first_bytes);
    wal_trim(wal, 0);
    disk.is_lossy = false;
    log_set_level(LOG_ERROR);
    CHECK(list_firsts(after, 64) == 1);
    wal_close(wal);
}

/* ---- cursor ---- */

/* The cursor's next batch is `expected`; 0: there is no further batch. */
static void check_next(struct wal_cursor *cursor, uint64_t expected)
{
    uint64_t index;
    struct bytes batch;
    int result = wal_cursor_next(cursor, &index, &batch, error, sizeof error);
    CHECK(result == (expected ? OK : ERR_NOT_FOUND));
    CHECK(!expected || (index == expected && bytes_equal(batch, batch_of(index, 0))));
}

static void test_a_cursor_reads_what_is_appended(void)
{
    for (uint64_t from = 1; from <= 61; from++) {
        start();
        struct wal *wal = open_wal();
        append(wal, 60);
        CHECK(!wal_cursor_new(wal, 62));
        struct wal_cursor *cursor = wal_cursor_new(wal, from);
        CHECK(cursor);
        for (uint64_t index = from; index <= 60; index++)
            check_next(cursor, index);
        for (uint64_t index = 61; index <= 150; index++) {
            check_next(cursor, 0);
            /* a rotation writes batches that are not durable to a new segment */
            if (index % 9 == 0)
                CHECK(wal_rotate(wal, error, sizeof error) == OK);
            append(wal, 1);
            check_next(cursor, index);
        }
        wal_cursor_free(cursor);
        wal_close(wal);
    }
}

static void test_a_cursor_continues_after_batches_were_written_again(void)
{
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_close(wal);
    wal = open_wal();
    struct wal_cursor *cursor = wal_cursor_new(wal, 20);
    for (uint64_t index = 20; index <= 40; index++)
        check_next(cursor, index);
    /* writes all batches again, since none was synced */
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    CHECK(wal_first(wal) == 1);
    for (uint64_t index = 41; index <= 60; index++)
        check_next(cursor, index);
    check_next(cursor, 0);
    wal_cursor_free(cursor);
    wal_close(wal);
}

static void test_a_cursor_holds_back_trimming(void)
{
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    struct wal_cursor *cursor = wal_cursor_new(wal, 1), *later = wal_cursor_new(wal, 30);
    for (uint64_t index = 1; index <= 60; index++) {
        wal_trim(wal, 60);
        CHECK(wal_first(wal) <= index);
        CHECK(list_firsts(firsts, 64) && firsts[0] == wal_first(wal));
        CHECK(firsts[1] > (index < 30 ? index : 30) || firsts[1] == 0);
        check_next(cursor, index);
    }
    CHECK(!wal_cursor_new(wal, 1));
    wal_cursor_free(later);
    wal_cursor_free(cursor);
    wal_trim(wal, 60);
    CHECK(list_firsts(firsts, 64) == 1);
    wal_close(wal);
}

static struct {
    struct wal *wal;
    struct wal_cursor *cursor;
    uint64_t first;
} begun;

static void begin_to_read(void)
{
    if (begun.cursor)
        return;
    begun.first = wal_first(begun.wal);
    begun.cursor = wal_cursor_new(begun.wal, begun.first);
    CHECK(begun.cursor);
}

static void test_a_cursor_may_begin_while_a_trim_waits_for_the_disk(void)
{
    start();
    begun.wal = open_wal();
    append(begun.wal, 60);
    disk.before_dir_sync = begin_to_read;
    wal_trim(begun.wal, 60);
    disk.before_dir_sync = NULL;
    CHECK(begun.cursor && begun.first > 1);
    for (uint64_t index = begun.first; index <= 60; index++)
        check_next(begun.cursor, index);
    wal_cursor_free(begun.cursor);
    wal_close(begun.wal);
}

/* ---- write, sync, show ---- */

static void write_batches(struct wal *wal, uint64_t from, unsigned count)
{
    for (uint64_t index = from; count--; index++) {
        uint64_t got = 0;
        CHECK(wal_write(wal, batch_of(index, 0), &got, error, sizeof error) == OK);
        CHECK(got == index);
    }
}

static void test_a_batch_is_shown_when_it_is_synced(void)
{
    for (unsigned count = 1; count < 60; count += 7) {
        start();
        struct wal *wal = open_wal();
        append(wal, 5);
        struct wal_cursor *cursor = wal_cursor_new(wal, 6);
        write_batches(wal, 6, count); /* also more than a segment has room for */
        CHECK(wal_last(wal) == 5);
        check_next(cursor, 0);
        CHECK(wal_copy(wal, other, 5, error, sizeof error) == OK);
        CHECK(wal_committed_at(other) == 5);
        if (count % 2)
            CHECK(wal_sync(wal, error, sizeof error) == OK);
        else
            wal_show(wal);
        CHECK(wal_last(wal) == 5 + count);
        for (unsigned i = 0; i < count; i++)
            check_next(cursor, 6 + i);
        write_batches(wal, 6 + count, 1);
        wal_cursor_free(cursor);
        wal_close(wal);
        check_read(1, 5 + count); /* what was not shown is void */
        wal = open_at(other, FILE_BYTES, 0);
        CHECK(wal && wal_last(wal) == 5);
        wal_close(wal);
    }
}

/* Else a power loss brings the number back, and the next start drops what was appended after it. */
static void test_a_copy_that_has_ended_is_none_after_a_power_loss(void)
{
    for (int i = 0; i < 20; i++) {
        start();
        struct wal *wal = open_at(other, FILE_BYTES, 0);
        append(wal, 5);
        CHECK(wal_copy(wal, dir, 5, error, sizeof error) == OK);
        wal_close(wal);
        disk.is_lossy = true;
        wal = open_wal();
        CHECK(wal_copy_ends(wal, error, sizeof error) == OK);
        wal_close(wal);
        lossy_power_loss();
        disk.is_lossy = false;
        CHECK(wal_committed_at(dir) == 0);
        check_read(1, 5);
    }
}

static void test_the_next_index_and_the_segments_are_known(void)
{
    uint64_t names[64], firsts[64];
    start();
    struct wal *wal = open_wal();
    CHECK(wal_written(wal) == 0 && wal_firsts(wal, firsts, 64) == 0);
    append(wal, 60);
    write_batches(wal, 61, 3);
    CHECK(wal_last(wal) == 60 && wal_written(wal) == 63);
    size_t count = list_firsts(names, 64);
    count -= names[count - 1] > 60; /* a segment of which nothing is shown */
    CHECK(wal_firsts(wal, firsts, 64) == count && memcmp(names, firsts, count * 8) == 0);
    firsts[1] = 0;
    CHECK(wal_firsts(wal, firsts, 1) == count && firsts[0] == 1 && firsts[1] == 0);
    wal_trim(wal, 60);
    CHECK(wal_rotate(wal, error, sizeof error) == OK && wal_written(wal) == 60);
    wal_trim(wal, 60);
    CHECK(wal_firsts(wal, firsts, 64) == 0);
    wal_close(wal);
}

static void test_a_failed_sync_voids_all_that_was_not_shown(void)
{
    start();
    struct wal *wal = open_wal();
    append(wal, 5);
    write_batches(wal, 6, 3);
    disk.is_lossy = true;
    disk.fail_sync = EIO;
    CHECK(wal_sync(wal, error, sizeof error) == ERR_STORE);
    disk_heal();
    CHECK(wal_last(wal) == 5);
    CHECK(wal_write(wal, batch_of(6, 1), &(uint64_t){0}, error, sizeof error) == ERR_STORE);
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    write_batches(wal, 6, 2);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    disk.is_lossy = false;
    wal_close(wal);
    check_read(1, 7);
}

/* ---- what is filed ---- */

static void test_a_start_replays_only_what_is_not_filed(void)
{
    char path[LOSSY_PATH_MAX];
    snprintf(path, sizeof path, "%s/filed", dir);
    for (uint64_t filed = 1; filed <= 60; filed++) {
        start();
        struct wal *wal = open_wal();
        append(wal, 60);
        struct wal_cursor *cursor = wal_cursor_new(wal, 1); /* so that no segment is removed */
        wal_trim(wal, filed);
        CHECK(wal_trimmed(wal) == filed);
        wal_cursor_free(cursor);
        wal_close(wal);
        wal = open_wal();
        CHECK(seen.first == (filed < 60 ? filed + 1 : 0) && wal_last(wal) == 60);
        CHECK(wal_trimmed(wal) == filed);
        wal_close(wal);
        int fd = open(path, O_RDWR);
        CHECK(fd >= 0 && pwrite(fd, "U", 1, (off_t)(filed % 16)) == 1 && close(fd) == 0);
        wal = open_wal(); /* a torn file counts for nothing */
        CHECK(seen.first == 1 && seen.last == 60);
        wal_close(wal);
    }
}

/* ---- kept segments ---- */

/* The names in the directory of the kept files: first indexes in order. */
static size_t list_kept_firsts(uint64_t *firsts)
{
    char kept[LOSSY_PATH_MAX], whole[64];
    snprintf(kept, sizeof kept, "%s/kept", dir);
    if (access(kept, F_OK) != 0)
        return 0;
    snprintf(whole, sizeof whole, "%s", dir);
    snprintf(dir, sizeof dir, "%.*s", (int)sizeof dir - 1, kept);
    size_t count = list_firsts(firsts, 64);
    snprintf(dir, sizeof dir, "%s", whole);
    return count;
}

static void keep(struct wal *wal, uint64_t bytes)
{
    wal_keep(wal, &(struct wal_keep){.bytes = bytes});
}

/* What the cursor's next call returns; a batch must be `expected`. */
static int next_of(struct wal_cursor *cursor, uint64_t expected)
{
    uint64_t index;
    struct bytes batch;
    int result = wal_cursor_next(cursor, &index, &batch, error, sizeof error);
    CHECK(result != OK || (index == expected && bytes_equal(batch, batch_of(index, 0))));
    return result;
}

static void test_a_weak_cursor_holds_nothing_back(void)
{
    uint64_t firsts[64];
    for (uint64_t at = 1; at <= 60; at += 6) {
        start();
        struct wal *wal = open_wal();
        keep(wal, 1 << 20);
        append(wal, 60);
        struct wal_cursor *cursor = wal_cursor_new_weak(wal, 1);
        CHECK(next_of(cursor, 1) == ERR_NOT_FOUND); /* it is not durable */
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        for (uint64_t index = 1; index < at; index++)
            CHECK(next_of(cursor, index) == OK);
        uint64_t bytes = wal_bytes(wal);
        wal_trim(wal, 60);
        CHECK(wal_bytes(wal) + wal_kept(wal).bytes >= bytes && wal_kept(wal).first == 1);
        CHECK(list_firsts(firsts, 64) == 1 && !wal_cursor_new(wal, 1));
        CHECK(list_kept_firsts(firsts) > 5 && firsts[0] == 1);
        for (uint64_t index = at; index <= 60; index++)
            CHECK(next_of(cursor, index) == OK);
        append(wal, 30);
        CHECK(next_of(cursor, 61) == ERR_NOT_FOUND);
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        CHECK(next_of(cursor, 61) == OK);
        wal_cursor_free(cursor);
        CHECK(wal_copy(wal, other, 90, error, sizeof error) == OK);
        wal_close(wal);
        wal = open_wal(); /* which replays none of the kept ones */
        CHECK(seen.first > 60 && wal_last(wal) == 90);
        CHECK(!wal_cursor_new_weak(wal, 92));
        cursor = wal_cursor_new_weak(wal, at);
        for (uint64_t index = at; index <= 60; index++)
            CHECK(next_of(cursor, index) == OK);
        wal_cursor_free(cursor);
        wal_close(wal);
        wal = open_at(other, FILE_BYTES, 0);
        CHECK(wal && seen.first > 50 && wal_last(wal) == 90 && !wal_kept(wal).bytes);
        wal_close(wal);
    }
}

/* The records of a process that was killed do not show that its last batch was durable. A start that needs none of them keeps them
 * all the same, for readers. */
static void test_what_is_kept_survives_a_killed_process(void)
{
    for (uint64_t unsynced = 0; unsynced <= 3; unsynced++) {
        start();
        struct wal *wal = open_wal();
        keep(wal, 1 << 20);
        for (uint64_t index = 1; index <= 40; index++)
            CHECK(wal_append(wal, batch_of(index, 0), true, error, sizeof error) == OK);
        wal_trim(wal, 20);
        append(wal, (unsigned)unsynced);
        wal_close(wal);
        wal = open_wal();
        wal_trim(wal, 40 + unsynced);
        CHECK(wal_rotate(wal, error, sizeof error) == OK);
        wal_trim(wal, 40 + unsynced);
        CHECK(wal_append(wal, batch_of(41 + unsynced, 0), true, error, sizeof error) == OK);
        CHECK(wal_kept(wal).first == 1);
        struct wal_cursor *cursor = wal_cursor_new_weak(wal, 1);
        CHECK(cursor);
        for (uint64_t index = 1; index <= 41 + unsynced; index++)
            CHECK(next_of(cursor, index) == OK);
        wal_cursor_free(cursor);
        wal_close(wal);
    }
}

/* A process that was killed before anything was kept: its start keeps what it does not need, before it has the limits. */
static void test_the_first_segment_is_kept_after_a_killed_process(void)
{
    start();
    struct wal *wal = open_wal();
    keep(wal, 1 << 20);
    append(wal, 3);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    append(wal, 1);
    wal_close(wal);
    wal = open_wal();
    wal_trim(wal, 4);
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    wal_trim(wal, 4);
    CHECK(wal_append(wal, batch_of(5, 0), true, error, sizeof error) == OK);
    struct wal_cursor *cursor = wal_cursor_new_weak(wal, 1);
    CHECK(cursor);
    for (uint64_t index = 1; index <= 5; index++)
        CHECK(next_of(cursor, index) == OK);
    wal_cursor_free(cursor);
    wal_close(wal);
}

/* With durability os no record shows that batches are durable, however old they are: writers do not wait until all that is kept is copied. */
static void test_few_kept_batches_are_copied_after_a_killed_process(void)
{
    enum { BATCHES = 400 };
    start();
    struct wal *wal = open_wal();
    keep(wal, 1 << 20);
    append(wal, BATCHES);
    uint64_t bytes = wal_bytes(wal);
    CHECK(bytes > 10 * FILE_BYTES);
    wal_trim(wal, BATCHES);
    wal_close(wal);
    wal = open_wal();
    wal_trim(wal, BATCHES);
    CHECK(wal_rotate(wal, error, sizeof error) == OK);
    CHECK(wal_append(wal, batch_of(BATCHES + 1, 0), true, error, sizeof error) == OK);
    CHECK(wal_bytes(wal) <= 5 * FILE_BYTES);
    wal_close(wal);
    check_read(BATCHES + 1, BATCHES + 1);
}

static void test_what_is_kept_stays_within_its_limits(void)
{
    uint64_t firsts[64];
    start();
    struct wal *wal = open_at(dir, 2000, 0);
    keep(wal, 20000);
    append(wal, 1);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    struct wal_cursor *cursor = wal_cursor_new_weak(wal, 1);
    for (uint64_t index = 2; index <= 1000; index++) {
        append(wal, 1);
        CHECK(wal_sync(wal, error, sizeof error) == OK);
        wal_trim(wal, index);
        CHECK(wal_kept(wal).bytes <= 20000);
        CHECK((list_kept_firsts(firsts) ? firsts[0] : 0) == wal_kept(wal).first);
    }
    CHECK(wal_kept(wal).first > 1 && wal_kept(wal).bytes > 5000);
    CHECK(next_of(cursor, 1) == ERR_GONE && next_of(cursor, 1) == ERR_GONE);
    wal_cursor_free(cursor);
    CHECK(!wal_cursor_new_weak(wal, firsts[0] - 1));
    cursor = wal_cursor_new_weak(wal, firsts[0]);
    CHECK(next_of(cursor, firsts[0]) == OK);
    wal_keep(wal, &(struct wal_keep){.bytes = 20000, .age_ms = 3600 * 1000});
    CHECK(wal_kept(wal).first == firsts[0]);
    wal_keep(wal, &(struct wal_keep){.bytes = 20000, .free_bytes_min = UINT64_MAX});
    CHECK(!wal_kept(wal).first && list_kept_firsts(firsts) == 0);
    CHECK(next_of(cursor, firsts[0] + 1) == ERR_GONE);
    wal_cursor_free(cursor);
    wal_close(wal);
}

static void test_old_segments_are_not_kept(void)
{
    char path[LOSSY_PATH_MAX], kept[80];
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    keep(wal, 1 << 20);
    append(wal, 60);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_trim(wal, 60);
    wal_close(wal);
    size_t count = list_kept_firsts(firsts);
    CHECK(count > 5);
    for (size_t i = 0; i < 3; i++) {
        snprintf(kept, sizeof kept, "%s/kept", dir);
        path_of(path, kept, firsts[i]);
        const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    }
    wal = open_wal();
    CHECK(wal_kept(wal).oldest_s == 1000);
    wal_keep(wal, &(struct wal_keep){.bytes = 1 << 20, .age_ms = 3600 * 1000});
    CHECK(wal_kept(wal).first == firsts[3] && wal_kept(wal).oldest_s > 1000);
    keep(wal, 0);
    CHECK(list_kept_firsts(firsts) == 0 && access(kept, F_OK) != 0);
    wal_close(wal);
}

/* For a copy of the shard, whose readers of changes go on where they ended. The opened copy keeps them, whether they were kept or not. */
static void test_a_copy_of_the_files_has_the_kept_segments(void)
{
    uint64_t first;
    start();
    struct wal *wal = open_wal();
    keep(wal, 1 << 20);
    append(wal, 60);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_trim(wal, 30);
    CHECK(wal_kept(wal).first == 1);
    CHECK(wal_copy(wal, other, 60, error, sizeof error) == OK);
    wal_trim(wal, 40); /* one that is there in both forms */
    wal_copy_kept(wal, other);
    keep(wal, 0);
    wal_close(wal);
    wal_keep_at(other);
    wal = open_at(other, FILE_BYTES, 50);
    CHECK(wal_kept(wal).first == 1);
    wal_trim(wal, 50);
    CHECK(wal_firsts(wal, &first, 1) && first == 1);
    struct wal_cursor *cursor = wal_cursor_new_weak(wal, 1);
    for (unsigned i = 1; i <= 50; i++)
        CHECK(next_of(cursor, i) == OK);
    wal_cursor_free(cursor);
    keep(wal, 0);
    wal_close(wal);
}

/* What cannot be kept is removed, and then nothing before it is kept either. */
static void test_kept_segments_have_no_gap(void)
{
    char path[LOSSY_PATH_MAX], kept[80];
    uint64_t firsts[64];
    start();
    log_set_level(LOG_ERROR);
    struct wal *wal = open_wal();
    keep(wal, 1 << 20);
    append(wal, 60);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_trim(wal, 30);
    CHECK(list_kept_firsts(firsts) > 2);
    disk.is_lossy = true;
    disk.fail_rename = ENOSPC;
    wal_trim(wal, 60);
    disk_heal();
    disk.is_lossy = false;
    CHECK(list_kept_firsts(firsts) == 0 && !wal_kept(wal).bytes);
    CHECK(list_firsts(firsts, 64) == 1);
    append(wal, 60);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    wal_trim(wal, 120);
    wal_close(wal);
    size_t count = list_kept_firsts(firsts);
    CHECK(count > 5);
    snprintf(kept, sizeof kept, "%s/kept", dir); /* a power loss has taken a file in between */
    path_of(path, kept, firsts[2]);
    CHECK(unlink(path) == 0);
    wal = open_wal();
    struct wal_cursor *cursor = wal_cursor_new_weak(wal, firsts[0]);
    for (uint64_t index = firsts[0]; index < firsts[2]; index++)
        CHECK(next_of(cursor, index) == OK);
    CHECK(next_of(cursor, firsts[2]) == ERR_GONE);
    wal_cursor_free(cursor);
    cursor = wal_cursor_new_weak(wal, firsts[3]);
    CHECK(next_of(cursor, firsts[3]) == OK);
    wal_cursor_free(cursor);
    wal_close(wal);
}

/* ---- a full disk ---- */

enum {
    FULL_FILE_BYTES = 1 << 16,
    BIG_AT = 250
}; /* the batch with this index has more than 4 KiB */

static int append_one(struct wal *wal)
{
    struct bytes batch = batch_of(wal_last(wal) + 1, 0);
    return wal_append(wal, batch, true, error, sizeof error);
}

static void append_small(struct wal *wal)
{
    while (wal_last(wal) + 1 < BIG_AT)
        CHECK(append_one(wal) == OK);
}

static void fill_disk(bool is_full)
{
    disk.fail_files = is_full ? "batches" : NULL;
    disk.is_full = is_full;
}

static void test_a_full_disk_takes_small_batches(void)
{
    start();
    log_set_level(LOG_ERROR + 1);
    struct wal *wal = open_at(dir, FULL_FILE_BYTES, 0);
    append(wal, 10);
    wal_make_spare(wal);
    fill_disk(true);
    CHECK(wal_rotate(wal, error, sizeof error) == OK && wal_is_on_spare(wal));
    append_small(wal);
    uint64_t last = wal_last(wal);
    for (unsigned i = 0; i < 3; i++)
        CHECK(append_one(wal) == ERR_DISK_FULL && wal_last(wal) == last);
    CHECK(wal_probe(wal, error, sizeof error) == ERR_DISK_FULL);
    CHECK(wal_truncate(wal, last, error, sizeof error) == OK && wal_is_on_spare(wal));
    fill_disk(false);
    CHECK(append_one(wal) == OK && !wal_is_on_spare(wal));
    wal_close(wal);
    check_read(1, last + 1);
}

/* One that an earlier process has made. */
static void test_a_spare_segment_outlives_its_process(void)
{
    start();
    log_set_level(LOG_ERROR + 1);
    struct wal *wal = open_at(dir, FULL_FILE_BYTES, 0);
    append(wal, 10);
    wal_make_spare(wal);
    wal_close(wal);
    fill_disk(true);
    wal = open_at(dir, FULL_FILE_BYTES, 0);
    wal_make_spare(wal);
    CHECK(append_one(wal) == OK && wal_is_on_spare(wal));
    wal_close(wal);
    fill_disk(false);
    check_read(1, 11);
}

/* ---- truncate ---- */

static void test_truncation_leaves_what_lies_before(void)
{
    for (uint64_t index = 0; index <= 61; index++) {
        uint64_t last = index < 60 ? index : 60;
        start();
        struct wal *wal = open_wal();
        append(wal, 60);
        if (index % 2)
            CHECK(wal_sync(wal, error, sizeof error) == OK);
        struct wal_cursor *cursor = wal_cursor_new(wal, 1), *ahead = wal_cursor_new(wal, 61);
        CHECK(wal_truncate(wal, index, error, sizeof error) == OK);
        CHECK(wal_last(wal) == last);
        uint64_t bytes = wal_bytes(wal);
        for (uint64_t next = 1; next <= last; next++)
            check_next(cursor, next);
        check_next(cursor, 0);
        if (last < 60)
            CHECK(wal_cursor_next(ahead, &(uint64_t){0}, &(struct bytes){0}, error, sizeof error) ==
                  ERR_STORE);
        else
            check_next(ahead, 0);
        wal_cursor_free(ahead);
        for (unsigned count = 0; count < 30; count++) {
            struct bytes batch = batch_of(wal_last(wal) + 1, 1);
            CHECK(wal_append(wal, batch, count % 5 == 0, error, sizeof error) == OK);
        }
        CHECK(wal_bytes(wal) > bytes);
        wal_cursor_free(cursor);
        wal_close(wal);
        wal = open_wal();
        CHECK(seen.first == 1 && seen.last == last + 30);
        for (uint64_t next = 1; next <= last + 30; next++)
            CHECK(seen.try[next] == (next > last && batch_of(next, 1).len));
        wal_close(wal);
    }
}

static void test_truncation_behind_what_was_trimmed_is_refused(void)
{
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    wal_trim(wal, 30);
    CHECK(wal_truncate(wal, 29, error, sizeof error) == ERR_STORE);
    CHECK(strstr(error, "29") && wal_last(wal) == 60);
    append(wal, 1);
    CHECK(wal_truncate(wal, 30, error, sizeof error) == OK);
    CHECK(wal_last(wal) == 30);
    wal_close(wal);
}

/* A system call of the truncation fails: the segments left have no gap, wal_rotate completes the truncation, and a
 * process that starts instead finds all batches before the cut. */
static bool truncation_fails_at(unsigned after, _Atomic int *fail, bool dies)
{
    uint64_t firsts[64];
    start();
    struct wal *wal = open_wal();
    append(wal, 60);
    CHECK(wal_sync(wal, error, sizeof error) == OK);
    size_t before = list_firsts(firsts, 64);
    disk.is_lossy = true;
    disk.fail_after = after;
    *fail = EIO;
    int failure = wal_truncate(wal, 7, error, sizeof error);
    disk_heal();
    disk.fail_after = 0;
    disk.is_lossy = false;
    uint64_t left[64];
    size_t count = list_firsts(left, 64);
    /* the newest segments are removed first; 8 may be the new one */
    for (size_t i = 0; i < count; i++)
        CHECK(left[i] == firsts[i] || (i + 1 == count && left[i] == 8));
    CHECK(count <= before);
    if (dies) {
        wal_close(wal);
        wal = open_wal();
        CHECK(seen.first == 1 && seen.last >= 7);
        CHECK(wal_truncate(wal, 7, error, sizeof error) == OK);
    } else if (failure) {
        CHECK(wal_append(wal, BYTES("x"), true, error, sizeof error) != OK);
        CHECK(wal_rotate(wal, error, sizeof error) == OK);
    }
    append(wal, 1);
    wal_close(wal);
    check_read(1, 8);
    return failure != OK;
}

static void test_a_truncation_that_fails_leaves_no_gap(void)
{
    unsigned failures = 0;
    _Atomic int *const faults[] = {&disk.fail_unlink, &disk.fail_dir_sync, &disk.fail_rename,
                                   &disk.fail_write};
    for (size_t fault = 0; fault < 4; fault++)
        for (unsigned after = 0; after < 40; after++)
            for (int dies = 0; dies < 2; dies++)
                failures += truncation_fails_at(after, faults[fault], dies);
    CHECK(failures > 20);
}

/* ---- copy during appends and trims ------------------------------------------------------- */

enum { COPIES = 20 };

struct writer {
    struct wal *wal;
    _Atomic bool is_ending;
    pthread_t threads[4];
};

static void *keep_appending(void *owner)
{
    struct writer *writer = owner;
    char reason[512];
    for (unsigned i = 0; !writer->is_ending && wal_last(writer->wal) < BATCHES_MAX - 1; i++) {
        struct bytes batch = batch_of(wal_last(writer->wal) + 1, 0);
        CHECK(wal_append(writer->wal, batch, i % 16 == 0, reason, sizeof reason) == OK);
        if (i % 400 == 300)
            CHECK(wal_rotate(writer->wal, reason, sizeof reason) == OK);
        if (i % 512 == 500)
            CHECK(wal_sync(writer->wal, reason, sizeof reason) == OK);
    }
    return NULL;
}

static void *keep_trimming(void *owner)
{
    struct writer *writer = owner;
    while (!writer->is_ending) {
        uint64_t last = wal_last(writer->wal);
        wal_trim(writer->wal, last > 200 ? last - 200 : 0);
        CHECK(wal_bytes(writer->wal) > 0 || !last);
    }
    return NULL;
}

static void *keep_syncing(void *owner)
{
    struct writer *writer = owner;
    char reason[512];
    while (!writer->is_ending)
        CHECK(wal_sync_upto(writer->wal, wal_last(writer->wal), reason, sizeof reason) == OK);
    return NULL;
}

static void begin_threads(struct writer *writer)
{
    start();
    writer->wal = open_at(dir, 4096, 0);
    append(writer->wal, 10);
    CHECK(pthread_create(&writer->threads[0], NULL, keep_appending, writer) == 0);
    CHECK(pthread_create(&writer->threads[1], NULL, keep_trimming, writer) == 0);
    CHECK(pthread_create(&writer->threads[2], NULL, keep_trimming, writer) == 0);
    CHECK(pthread_create(&writer->threads[3], NULL, keep_syncing, writer) == 0);
}

static void end_threads(struct writer *writer)
{
    writer->is_ending = true;
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_join(writer->threads[i], NULL) == 0);
}

/* Reads from the oldest batch to the newest of now and a few more. False: the oldest batch was trimmed before the
 * cursor was made. */
static bool read_with_cursor(struct wal *wal)
{
    uint64_t index = 0, before = 0, upto = wal_last(wal);
    struct bytes batch;
    char reason[512];
    int result = OK;
    struct wal_cursor *cursor = wal_cursor_new(wal, wal_first(wal));
    while (cursor && before < upto + 20 && result == OK) {
        result = wal_cursor_next(cursor, &index, &batch, reason, sizeof reason);
        CHECK(result != ERR_STORE);
        CHECK(result != OK || !before || index == before + 1);
        CHECK(result != OK || bytes_equal(batch, batch_of(index, 0)));
        before = index;
    }
    CHECK(!cursor || before >= upto);
    wal_cursor_free(cursor);
    return cursor != NULL;
}

static void test_cursors_read_beside_appends_rotations_and_trims(void)
{
    unsigned read = 0;
    struct writer writer = {0};
    begin_threads(&writer);
    for (unsigned i = 0; i < COPIES * 4; i++) {
        read += read_with_cursor(writer.wal);
        seen.first = seen.last = 0;
        CHECK(wal_read_only(dir, see, &seen, error, sizeof error));
        for (uint64_t index = seen.first; index && index <= seen.last; index++)
            CHECK(seen.try[index] == 0);
    }
    CHECK(read > COPIES);
    end_threads(&writer);
    wal_close(writer.wal);
}

static void test_a_copy_has_everything_appended_before(void)
{
    struct writer writer = {0};
    begin_threads(&writer);
    for (unsigned i = 0; i < COPIES; i++) {
        char reason[512];
        lossy_empty(other);
        uint64_t before = wal_last(writer.wal);
        CHECK(wal_copy(writer.wal, other, 0, reason, sizeof reason) == OK);
        uint64_t after = wal_last(writer.wal);
        struct wal *copy = open_at(other, 4096, 0);
        CHECK(copy && seen.last >= before && seen.last <= after);
        CHECK(seen.first <= (after > 200 ? after - 199 : 1));
        for (uint64_t index = seen.first; index <= seen.last; index++)
            CHECK(seen.try[index] == 0);
        wal_close(copy);
    }
    end_threads(&writer);
    uint64_t last = wal_last(writer.wal);
    wal_close(writer.wal);
    struct wal *wal = open_wal();
    CHECK(seen.last == last);
    CHECK(wal_copy(wal, "/nonexistent", 0, error, sizeof error) == ERR_STORE);
    lossy_empty(other);
    CHECK(wal_copy(wal, other, 0, error, sizeof error) == OK);
    CHECK(wal_copy(wal, other, 0, error, sizeof error) == ERR_STORE); /* the target has segments */
    wal_close(wal);
}

/* Writes the copy up to `index`, and opens it. */
static void check_copy_up_to(struct wal *wal, uint64_t first, uint64_t index)
{
    lossy_empty(other);
    struct wal_copy *copy = wal_copy_begin(wal, error, sizeof error);
    CHECK(copy && wal_copy_end(copy, index, error, sizeof error) == OK);
    CHECK(wal_copy_write(copy, other, index, error, sizeof error) == OK);
    wal_copy_free(copy);
    CHECK(wal_committed_at(other) == index);
    struct wal *opened = open_at(other, FILE_BYTES, 0);
    CHECK(opened && seen.first == first && seen.last == index && wal_last(opened) == index);
    wal_close(opened);
}

static void test_a_copy_ends_with_the_batch_that_was_named(void)
{
    start();
    struct wal *wal = open_wal();
    append(wal, 100); /* several segments */
    for (uint64_t index = 1; index <= 100; index++)
        check_copy_up_to(wal, 1, index);
    wal_trim(wal, 50);
    uint64_t first = wal_first(wal);
    CHECK(first > 1 && first <= 51);
    for (uint64_t index = first; index <= 100; index++)
        check_copy_up_to(wal, first, index);
    struct wal_copy *copy = wal_copy_begin(wal, error, sizeof error);
    CHECK(copy && wal_copy_end(copy, 101, error, sizeof error) == ERR_STORE);
    wal_copy_free(copy);
    copy = wal_copy_begin(wal, error, sizeof error);
    CHECK(copy && wal_copy_end(copy, first - 2, error, sizeof error) == ERR_STORE);
    wal_copy_free(copy);
    lossy_empty(other);
    copy = wal_copy_begin(wal, error, sizeof error);
    CHECK(copy &&
          wal_copy_end(copy, first - 1, error, sizeof error) == OK); /* what is before the log */
    CHECK(wal_copy_write(copy, other, first - 1, error, sizeof error) == OK);
    CHECK(wal_committed_at(other) == first - 1);
    wal_copy_free(copy);
    wal_close(wal);
}

/* ---- at random --------------------------------------------------------------------------- */

enum { SEEDS = 40, STEPS = 400 }; /* to run other seeds: WAL_SEEDS=FROM-TO */

static struct {
    struct wal *wal;
    bool is_failed, knows_trimmed;
    bool is_own;       /* all batches of earlier processes are on the disk */
    unsigned doubtful; /* number of batches that may have reached the disk although they failed */
    uint64_t last, durable, trimmed;
    unsigned try[BATCHES_MAX]; /* attempt that was accepted; the next higher one may have failed */
    unsigned tries[BATCHES_MAX];
    unsigned seed, failures, losses;
} model;

static void random_open(void)
{
    model.wal = open_at(dir, 1 + disk_random(600), model.knows_trimmed ? model.trimmed : 0);
    if (!model.wal)
        printf("%s\n", error);
    CHECK(model.wal);
    CHECK(!model.is_failed || wal_last(model.wal) <= model.last + 1 + model.doubtful);
    CHECK(model.is_failed || wal_last(model.wal) <= model.last);
    for (uint64_t index = model.trimmed + 1; index <= wal_last(model.wal); index++) {
        CHECK(seen.first <= index && seen.last >= index);
        if (index > model.last)
            /* the batch of the failed append is in the WAL */
            model.try[index] = model.tries[index];
        CHECK(seen.try[index] == model.try[index]);
    }
    model.last = wal_last(model.wal);
    model.is_failed = model.is_own = false;
    model.doubtful = 0;
}

static void random_reopen(bool is_power_lost)
{
    wal_close(model.wal);
    disk_heal();
    if (is_power_lost)
        lossy_power_loss();
    uint64_t last = model.last;
    random_open();
    CHECK(model.last >= (is_power_lost ? model.durable : last));
    if (is_power_lost)
        model.durable = model.last;
    model.losses += model.last < last;
}

static void random_append(void)
{
    uint64_t index = model.last + 1;
    bool sync = disk_random(3) == 0;
    struct bytes batch = batch_of(index, ++model.tries[index]);
    int failure = wal_append(model.wal, batch, sync, error, sizeof error);
    if (failure) {
        model.is_failed = true;
        model.failures++;
        CHECK(wal_last(model.wal) == model.last);
        return;
    }
    CHECK(!model.is_failed);
    model.try[index] = model.tries[index];
    model.last = index;
    CHECK(wal_last(model.wal) == index);
    if (sync) {
        model.durable = index;
        model.is_own = true;
    }
}

/* Writes some batches, and syncs them together. */
static void random_group(void)
{
    unsigned count = 1 + (unsigned)disk_random(4), written = 0;
    int failure = model.is_failed ? ERR_STORE : OK;
    for (; !failure && written < count; written++) {
        uint64_t index = model.last + 1 + written, got;
        struct bytes batch = batch_of(index, ++model.tries[index]);
        failure = wal_write(model.wal, batch, &got, error, sizeof error);
        CHECK(failure || got == index);
        CHECK(wal_last(model.wal) == model.last);
    }
    if (!failure)
        failure = wal_sync(model.wal, error, sizeof error);
    if (failure) {
        model.doubtful = written > model.doubtful ? written : model.doubtful;
        model.is_failed = true;
        CHECK(wal_last(model.wal) == model.last);
        return;
    }
    for (unsigned i = 1; i <= count; i++)
        model.try[model.last + i] = model.tries[model.last + i];
    model.last += count;
    CHECK(wal_last(model.wal) == model.last);
    model.durable = model.last;
    model.is_own = true;
}

/* Syncs as another thread would: the appending thread notices an error only at its next call. */
static void random_sync_upto(void)
{
    if (!model.is_own || model.last == 0)
        return;
    if (wal_sync_upto(model.wal, model.last, error, sizeof error) == OK) {
        CHECK(!model.is_failed);
        model.durable = model.last;
    } else {
        model.is_failed = true;
        CHECK(wal_append(model.wal, batch_of(model.last + 1, 0), false, error, sizeof error) != OK);
    }
}

static void random_fault(void)
{
    int cause = disk_random(2) ? EIO : ENOSPC;
    disk_heal();
    disk.fail_after = (unsigned)disk_random(4);
    switch (disk_random(6)) {
    case 0:
        disk.fail_write = cause;
        break;
    case 1:
        disk.fail_dir_sync = cause;
        break;
    case 2:
        disk.fail_rename = cause;
        break;
    case 3:
        disk.fail_unlink = cause;
        break;
    default:
        disk.fail_sync = cause;
        break;
    }
}

/* Repeats a failed truncation until it works: no other operation may come in between. */
static void random_truncate(void)
{
    uint64_t lowest =
        model.trimmed > wal_first(model.wal) - 1 ? model.trimmed : wal_first(model.wal) - 1;
    if (model.last <= lowest)
        return;
    uint64_t index = lowest + disk_random(model.last - lowest);
    if (wal_truncate(model.wal, index, error, sizeof error) != OK) {
        disk_heal();
        CHECK(wal_truncate(model.wal, index, error, sizeof error) == OK);
    }
    model.is_failed = false;
    model.last = index;
    if (model.durable > index)
        model.durable = index;
}

static void random_step(void)
{
    uint64_t chance = disk_random(100);
    if (chance < 50) {
        random_append();
    } else if (chance < 60) {
        random_group();
    } else if (chance < 63) {
        random_sync_upto();
    } else if (chance < 66) {
        if (wal_sync(model.wal, error, sizeof error) == OK) {
            model.durable = model.last;
            model.is_own = true;
        } else {
            model.is_failed = true;
        }
    } else if (chance < 72) {
        uint64_t most = model.knows_trimmed ? model.last : model.durable;
        if (most > model.trimmed)
            model.trimmed += disk_random(most - model.trimmed + 1);
        wal_trim(model.wal, model.trimmed);
    } else if (chance < 74) {
        random_truncate();
    } else if (chance < 81) {
        random_fault();
    } else if (chance < 86) {
        disk_heal();
    } else if (chance < 94) {
        model.is_failed = wal_rotate(model.wal, error, sizeof error) != OK;
        model.is_own |= !model.is_failed;
    } else {
        random_reopen(chance >= 97);
    }
}

static void say_seed(int signal)
{
    (void)signal;
    (void)fprintf(stderr, "seed %u\n", model.seed);
}

static void test_nothing_durable_is_lost_at_random(void)
{
    unsigned failures = 0, losses = 0, from = 1, to = sized(SEEDS);
    const char *range = getenv("WAL_SEEDS");
    CHECK(!range || sscanf(range, "%u-%u", &from, &to) == 2);
    log_set_level(LOG_ERROR);
    CHECK(signal(SIGABRT, say_seed) != SIG_ERR);
    for (unsigned seed = from; seed <= to; seed++) {
        start();
        memset(&model, 0, sizeof model);
        model.seed = seed;
        disk.random = seed * UINT64_C(0x9e3779b97f4a7c15);
        disk.is_lossy = disk.is_short = true;
        model.knows_trimmed = seed % 2;
        lossy_start();
        random_open();
        for (unsigned step = 0; step < STEPS; step++)
            random_step();
        random_reopen(true);
        wal_close(model.wal);
        failures += model.failures;
        losses += model.losses;
        disk.is_lossy = disk.is_short = false;
        disk_heal();
    }
    log_set_level(LOG_ERROR);
    CHECK(signal(SIGABRT, SIG_DFL) != SIG_ERR);
    /* checks that enough failures and losses occurred */
    CHECK(range || (failures > to && losses > to / 4));
}

int main(void)
{
    log_set_level(LOG_ERROR); /* thousands of damaged WALs are opened */
    if (!mkdtemp(root)) {
        snprintf(root, sizeof root, "/tmp/scree-batches-XXXXXX");
        CHECK(mkdtemp(root));
    }
    snprintf(dir, sizeof dir, "%s/log", root);
    snprintf(other, sizeof other, "%s/copy", root);
    snprintf(disk.dir, sizeof disk.dir, "%s", dir);
    snprintf(disk.trash, sizeof disk.trash, "%s/trash", root);
    CHECK(mkdir(dir, 0750) == 0 && mkdir(other, 0750) == 0 && mkdir(disk.trash, 0750) == 0);
    disk.random = 1;
    test_appended_batches_are_read_again();
    test_a_long_batch_is_read_again_and_a_too_long_one_refused();
    test_writes_that_are_cut_short_or_interrupted_are_continued();
    test_the_reader_may_refuse_and_nothing_is_removed();
    test_an_end_cut_at_every_byte_leaves_the_batches_before();
    test_a_changed_byte_ends_the_log_before_it();
    test_a_newer_format_is_refused_and_stays();
    test_lengths_that_lie_are_not_believed();
    test_other_files_are_left_alone();
    test_segments_after_a_gap_are_removed();
    test_damage_before_whole_batches_is_logged();
    test_a_file_that_is_missing_is_a_gap();
    test_a_gap_of_batches_that_are_not_needed_is_accepted();
    test_a_batch_that_failed_is_void();
    test_the_first_batch_of_a_file_may_fail();
    test_what_a_failed_sync_may_have_lost_is_written_again();
    test_what_a_failed_sync_has_lost_is_written_again_by_the_next_process();
    test_a_rotation_that_ends_half_way_loses_nothing();
    test_what_is_lost_and_trimmed_leaves_no_gap();
    test_a_disk_that_is_full_loses_nothing();
    test_synced_batches_take_the_place_of_zeros();
    test_trim_removes_exactly_what_is_not_needed();
    test_the_newest_file_keeps_the_count();
    test_a_removal_that_fails_is_tried_again();
    test_a_cursor_reads_what_is_appended();
    test_a_cursor_continues_after_batches_were_written_again();
    test_a_cursor_holds_back_trimming();
    test_a_cursor_may_begin_while_a_trim_waits_for_the_disk();
    test_truncation_leaves_what_lies_before();
    test_truncation_behind_what_was_trimmed_is_refused();
    test_a_batch_is_shown_when_it_is_synced();
    test_a_copy_that_has_ended_is_none_after_a_power_loss();
    test_the_next_index_and_the_segments_are_known();
    test_a_failed_sync_voids_all_that_was_not_shown();
    test_a_start_replays_only_what_is_not_filed();
    test_a_weak_cursor_holds_nothing_back();
    test_what_is_kept_survives_a_killed_process();
    test_the_first_segment_is_kept_after_a_killed_process();
    test_few_kept_batches_are_copied_after_a_killed_process();
    test_what_is_kept_stays_within_its_limits();
    test_a_full_disk_takes_small_batches();
    test_a_spare_segment_outlives_its_process();
    test_old_segments_are_not_kept();
    test_kept_segments_have_no_gap();
    test_a_copy_of_the_files_has_the_kept_segments();
    test_a_truncation_that_fails_leaves_no_gap();
    test_cursors_read_beside_appends_rotations_and_trims();
    test_a_copy_has_everything_appended_before();
    test_a_copy_ends_with_the_batch_that_was_named();
    test_nothing_durable_is_lost_at_random();
    start();
    log_set_level(LOG_ERROR);
    lossy_empty(disk.trash);
    CHECK(rmdir(dir) == 0 && rmdir(other) == 0 && rmdir(disk.trash) == 0 && rmdir(root) == 0);
    return 0;
}
