/*
 * test_replica_file.c - the file `replica`: its bytes, blocks that are damaged at each byte, and random saves on a disk that fails and
 * loses power (faulty_disk.h).
 */
#include "backend/replica/replica_file.h"
#include "tests/sized.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/suite.h"

enum { TIME_AT = 116, TIME_END = 148 };

static char error[512];
static char path[128];

static void setup(void)
{
    static unsigned count;
    disk.random = 1;
    disk_heal();
    (void)snprintf(disk.dir, sizeof disk.dir, "/dev/shm/scree-replica-%d-%u", getpid(), count);
    (void)snprintf(disk.trash, sizeof disk.trash, "/dev/shm/scree-replica-%d-%u-old", getpid(),
                   count++);
    CHECK(mkdir(disk.dir, 0700) == 0 && mkdir(disk.trash, 0700) == 0);
    (void)snprintf(path, sizeof path, "%s/replica", disk.dir);
}

static void teardown(void)
{
    disk.is_lossy = false;
    lossy_start();
    lossy_empty(disk.dir);
    lossy_empty(disk.trash);
    CHECK(rmdir(disk.dir) == 0 && rmdir(disk.trash) == 0);
}

static struct replica_record record_of(uint64_t term)
{
    return (struct replica_record){.generation = 3,
                                   .group = 0x0102030405060708,
                                   .id = 9,
                                   .starts = 10,
                                   .term = term,
                                   .vote = term * 7919,
                                   .base = 12,
                                   .base_term = 13,
                                   .committed = 14,
                                   .whole_at = 15,
                                   .election_us = 500000,
                                   .time = {16, 17, 18}};
}

static bool is_equal(const struct replica_record *a, const struct replica_record *b)
{
    char blocks[2][REPLICA_BLOCK_BYTES];
    replica_record_write(a, 1, blocks[0]);
    replica_record_write(b, 1, blocks[1]);
    return memcmp(blocks[0], blocks[1], REPLICA_BLOCK_BYTES) == 0;
}

static struct replica_file *file_with(uint64_t term)
{
    struct replica_record record = record_of(term);
    struct replica_file *file = replica_file_make(disk.dir, &record, error, sizeof error);
    ck_assert_ptr_nonnull(file);
    return file;
}

static bool save(struct replica_file *file, uint64_t term)
{
    struct replica_record record = record_of(term);
    return replica_file_save(file, &record, error, sizeof error);
}

/* Opens the file, which must be whole, and returns its term. */
static uint64_t open_term(struct replica_file **file)
{
    struct replica_record record, wanted;
    ck_assert_int_eq(replica_file_open(disk.dir, file, &record, error, sizeof error),
                     REPLICA_IS_OPEN);
    wanted = record_of(record.term);
    ck_assert(is_equal(&record, &wanted));
    return record.term;
}

static uint64_t term_of_file(void)
{
    struct replica_file *file;
    uint64_t term = open_term(&file);
    replica_file_close(file);
    return term;
}

static enum replica_found found(void)
{
    struct replica_file *file;
    struct replica_record record;
    enum replica_found found = replica_file_open(disk.dir, &file, &record, error, sizeof error);
    replica_file_close(file);
    return found;
}

static void change_byte(size_t at, char by)
{
    char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte = (char)(byte ^ by);
    CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
    (void)close(fd);
}

/* ---- bytes ------------------------------------------------------------------------------------- */

/* Bytes that stores have on their disks: a change needs another format. */
START_TEST(a_record_has_these_bytes)
{
    static const char WANTED[] = "scree replica 1\n"
                                 "\x05\0\0\0\0\0\0\0"
                                 "\x03\0\0\0"
                                 "\x08\x07\x06\x05\x04\x03\x02\x01"
                                 "\x09\0\0\0\0\0\0\0"
                                 "\x0a\0\0\0\0\0\0\0"
                                 "\x01\0\0\0\0\0\0\0"
                                 "\xef\x1e\0\0\0\0\0\0"
                                 "\x0c\0\0\0\0\0\0\0"
                                 "\x0d\0\0\0\0\0\0\0"
                                 "\x0e\0\0\0\0\0\0\0"
                                 "\x0f\0\0\0\0\0\0\0"
                                 "\x20\xa1\x07\0\0\0\0\0";
    static const char TIME[] = "\x10\0\0\0\0\0\0\0"
                               "\x11\0\0\0\0\0\0\0"
                               "\x12\0\0\0\0\0\0\0";
    char block[REPLICA_BLOCK_BYTES];
    struct replica_record record = record_of(1);
    uint64_t number;
    replica_record_write(&record, 5, block);
    ck_assert_mem_eq(block, WANTED, sizeof WANTED - 1);
    ck_assert_mem_eq(block + TIME_AT, TIME, sizeof TIME - 1);
    ck_assert_int_eq(replica_record_read(block, &record, &number), REPLICA_READ);
    ck_assert_uint_eq(number, 5);
}
END_TEST

/* Programs that do not know the time of the group read and write the bytes before it only. */
START_TEST(a_record_without_a_time_is_whole)
{
    char block[REPLICA_BLOCK_BYTES];
    struct replica_record record = record_of(1);
    uint64_t number;
    replica_record_write(&record, 5, block);
    memset(block + TIME_AT, 0, REPLICA_BLOCK_BYTES - TIME_AT);
    ck_assert_int_eq(replica_record_read(block, &record, &number), REPLICA_READ);
    ck_assert_uint_eq(record.time.group_us, 0);
    ck_assert_uint_eq(record.election_us, 500000);
    record = record_of(1);
    replica_record_write(&record, 5, block);
    block[TIME_AT] ^= 1;
    ck_assert_int_eq(replica_record_read(block, &record, &number), REPLICA_DAMAGED);
}
END_TEST

START_TEST(a_directory_without_the_file_has_promised_nothing)
{
    ck_assert_int_eq(found(), REPLICA_NONE);
}
END_TEST

START_TEST(what_was_saved_is_found)
{
    struct replica_file *file = file_with(1);
    for (uint64_t term = 2; term < 10; term++) {
        ck_assert(save(file, term));
        ck_assert_uint_eq(term_of_file(), term);
    }
    replica_file_close(file);
}
END_TEST

START_TEST(a_file_of_a_newer_program_is_not_read)
{
    replica_file_close(file_with(1));
    change_byte(14, '1' ^ '2');
    change_byte(14 + REPLICA_BLOCK_BYTES, '1' ^ '2');
    ck_assert_int_eq(found(), REPLICA_IS_NEWER);
    ck_assert_ptr_nonnull(strstr(error, "newer"));
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------------ */

START_TEST(one_damaged_block_loses_no_vote)
{
    replica_file_close(file_with(1));
    for (size_t at = 0; at < 2 * (size_t)REPLICA_BLOCK_BYTES; at++) {
        struct replica_file *file;
        uint64_t term = open_term(&file) + 1;
        ck_assert(save(file, term));
        replica_file_close(file);
        change_byte(at, (char)(1 + at % 255));
        ck_assert_uint_eq(term_of_file(), term);
    }
}
END_TEST

START_TEST(two_damaged_blocks_are_a_lost_file)
{
    replica_file_close(file_with(1));
    change_byte(20, 1);
    change_byte(20 + REPLICA_BLOCK_BYTES, 1);
    ck_assert_int_eq(found(), REPLICA_IS_LOST);
    ck_assert_ptr_nonnull(strstr(error, "damaged"));
}
END_TEST

START_TEST(a_file_that_was_cut_short_is_a_lost_file_or_whole)
{
    for (int len = 0; len <= 2 * REPLICA_BLOCK_BYTES; len += 61) {
        replica_file_close(file_with(1));
        CHECK(truncate(path, len) == 0);
        /* what is behind the checksums are zeros */
        ck_assert_int_eq(found(), len > TIME_END ? REPLICA_IS_OPEN : REPLICA_IS_LOST);
    }
}
END_TEST

START_TEST(an_open_makes_both_blocks_equal_again)
{
    replica_file_close(file_with(1));
    for (int i = 0; i < 2; i++) {
        change_byte(20 + (size_t)i * REPLICA_BLOCK_BYTES, 1);
        ck_assert_uint_eq(term_of_file(), 1);
    }
}
END_TEST

START_TEST(a_failed_save_says_why)
{
    struct replica_file *file = file_with(1);
    disk.is_lossy = true;
    disk.fail_write = EIO;
    ck_assert(!save(file, 2));
    ck_assert_ptr_nonnull(strstr(error, strerror(EIO)));
    disk_heal();
    replica_file_close(file);
}
END_TEST

/* ---- at random --------------------------------------------------------------------------------- */

static void fail_once(void)
{
    int cause = disk_random(2) ? EIO : ENOSPC;
    disk.fail_after = (unsigned)disk_random(4);
    if (disk_random(2))
        disk.fail_write = cause;
    else
        disk.fail_sync = cause;
}

/* A process saves until its disk fails or the power is lost: the next one finds the last save that was durable, or the one on its way. */
static void live_once(uint64_t *term)
{
    struct replica_file *file;
    uint64_t durable = open_term(&file), tried = durable;
    ck_assert_uint_ge(durable, *term);
    for (uint64_t left = disk_random(6); left; left--) {
        if (disk_random(4) == 0)
            fail_once();
        tried = durable + 1;
        if (!save(file, tried))
            break;
        durable = tried;
    }
    replica_file_close(file);
    disk_heal();
    lossy_power_loss();
    *term = term_of_file();
    ck_assert(*term == durable || *term == tried);
}

START_TEST(no_durable_save_is_lost_when_disks_fail_and_power_is_lost)
{
    for (unsigned seed = 1; seed <= (unsigned)sized(100); seed++) {
        uint64_t term = 1;
        teardown();
        setup();
        disk.random = seed;
        disk.is_lossy = disk.is_short = true;
        lossy_start();
        replica_file_close(file_with(term));
        for (unsigned life = 0; life < 100; life++)
            live_once(&term);
    }
}
END_TEST

/* The power is lost at any call while the file is made: the next process finds it whole, or none. */
START_TEST(a_file_is_made_whole_or_not_at_all)
{
    disk.is_lossy = true;
    for (unsigned round = 0; round < 200; round++) {
        struct replica_record record = record_of(7);
        lossy_empty(disk.dir);
        lossy_start();
        disk.fail_after = round % 5;
        disk.fail_write = disk.fail_sync = disk.fail_rename = disk.fail_dir_sync = EIO;
        struct replica_file *file = replica_file_make(disk.dir, &record, error, sizeof error);
        replica_file_close(file);
        disk_heal();
        lossy_power_loss();
        enum replica_found is = found();
        ck_assert(is == REPLICA_IS_OPEN || (is == REPLICA_NONE && !file));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica_file");
    TCase *tests = tcase_create("replica_file");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_record_has_these_bytes);
    tcase_add_test(tests, a_record_without_a_time_is_whole);
    tcase_add_test(tests, a_directory_without_the_file_has_promised_nothing);
    tcase_add_test(tests, what_was_saved_is_found);
    tcase_add_test(tests, a_file_of_a_newer_program_is_not_read);
    tcase_add_test(tests, one_damaged_block_loses_no_vote);
    tcase_add_test(tests, two_damaged_blocks_are_a_lost_file);
    tcase_add_test(tests, a_file_that_was_cut_short_is_a_lost_file_or_whole);
    tcase_add_test(tests, an_open_makes_both_blocks_equal_again);
    tcase_add_test(tests, a_failed_save_says_why);
    tcase_add_test(tests, no_durable_save_is_lost_when_disks_fail_and_power_is_lost);
    tcase_add_test(tests, a_file_is_made_whole_or_not_at_all);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
