/*
 * test_archive.c - archive files: every batch once and in order, over files that overlap, grow, or were left by a crash; what is missing or
 * damaged is never taken for a batch.
 */
#include "backend/archive/archive_log.h"
#include "backend/archive/archive_pack.h"
#include "backend/archive/archive_writer.h"
#include "backend/context/hybrid_clock.h"
#include "backend/format/effects.h"
#include "shared/check.h"
#include "shared/path.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOG_ID = 0x5c, BATCHES_MAX = 64 };

static char root[] = "/tmp/scree-archive-XXXXXX";
static char dir[PATH_MAX];
static char error[512];
static struct effects *effects;
static struct archive_writer *writer;
static uint64_t seen;    /* the last batch that was read */
static uint64_t stop_at; /* … and the one after which reading ends; 0: none */
static const char *word; /* that all batches have */

static void open_writer(void)
{
    writer = archive_writer_new(dir, LOG_ID, 1, error, sizeof error);
    ck_assert_msg(writer != NULL, "%s", error);
}

static void close_writer(void)
{
    archive_writer_free(writer);
    writer = NULL;
}

static void setup(void)
{
    memcpy(strrchr(root, '-') + 1, "XXXXXX", 6);
    CHECK(mkdtemp(root));
    (void)snprintf(dir, sizeof dir, "%s/a/%016x", root, LOG_ID);
    effects = effects_new();
    stop_at = 0;
    word = "value";
    open_writer();
}

static void teardown(void)
{
    close_writer();
    effects_free(effects);
    CHECK(path_remove(root));
}

/* Batch `index` has the time index * 1000. */
static struct bytes record_of(uint64_t index)
{
    char value[64];
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH,
                                                    .index = index,
                                                    .commit = index,
                                                    .hybrid = index * 1000});
    int len = snprintf(value, sizeof value, "%s %llu", word, (unsigned long long)index);
    effects_put(effects, CF_SYSTEM, BYTES("k"), (struct bytes){value, (size_t)len});
    return effects_bytes(effects);
}

static void add(uint64_t from, uint64_t to)
{
    ck_assert_msg(archive_writer_begin(writer, from, error, sizeof error), "%s", error);
    for (uint64_t i = from; i <= to; i++)
        ck_assert_msg(archive_writer_add(writer, i, record_of(i), error, sizeof error), "%s",
                      error);
}

static void sync_until(uint64_t time_us)
{
    ck_assert_msg(archive_writer_sync(writer, time_us, error, sizeof error), "%s", error);
}

static void close_file(void)
{
    ck_assert_msg(archive_writer_close(writer, error, sizeof error), "%s", error);
}

/* archive_record_fn */
static enum archive_go see(void *owner, uint64_t index, struct bytes record, char *why, size_t size)
{
    (void)owner, (void)why, (void)size;
    ck_assert_uint_eq(index, seen + 1);
    ck_assert(bytes_equal(record, record_of(index)));
    if (index == stop_at)
        return ARCHIVE_STOP;
    seen = index;
    return ARCHIVE_GO_ON;
}

static struct archive_reach read_from(uint64_t from)
{
    struct archive_reach reach, short_reach;
    struct archive_log *log = archive_log_new(root, LOG_ID, error, sizeof error);
    ck_assert_msg(log != NULL, "%s", error);
    seen = from - 1;
    ck_assert_msg(archive_log_walk(log, from, see, NULL, &reach, error, sizeof error), "%s", error);
    ck_assert_uint_eq(reach.next, seen + 1);
    /* heads alone say the same of whole files */
    CHECK(archive_log_walk(log, from, NULL, NULL, &short_reach, error, sizeof error));
    if (!stop_at && !*reach.damage)
        ck_assert(short_reach.next == reach.next && short_reach.until_us == reach.until_us);
    archive_log_free(log);
    return reach;
}

/* The path of the only file, or the first one, whose name ends so. */
static const char *file_with(const char *end)
{
    static char path[2 * PATH_MAX];
    DIR *from = opendir(dir);
    CHECK(from);
    path[0] = 0;
    for (struct dirent *entry; (entry = readdir(from));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, end) == 0)
            (void)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    }
    (void)closedir(from);
    ck_assert_msg(*path, "no file ends in %s", end);
    return path;
}

START_TEST(batches_are_read_once_and_in_order)
{
    add(1, 20);
    sync_until(0);
    ck_assert_uint_eq(read_from(1).until_us, 20000);
    close_file();
    add(21, 40);
    sync_until(99000);
    struct archive_reach reach = read_from(7);
    ck_assert_uint_eq(seen, 40);
    ck_assert_uint_eq(reach.until_us, 99000);
    ck_assert_uint_eq(reach.later, 0);
    stop_at = 30;
    (void)read_from(7);
    ck_assert_uint_eq(seen, 29);
}
END_TEST

START_TEST(a_log_that_rests_tells_its_time)
{
    add(1, 3);
    sync_until(5000);
    close_file();
    sync_until(9000);
    ck_assert_uint_eq(read_from(1).until_us, 9000);
    ck_assert_uint_eq(read_from(4).until_us, 9000);
    add(4, 4); /* time 4000: the clock of the batch does not say more than what is known */
    sync_until(0);
    ck_assert_uint_eq(read_from(1).until_us, 9000);
    close_file();
    sync_until(10000);
    close_file(); /* a file without batches goes */
    close_writer();
    open_writer();
    ck_assert_uint_eq(archive_writer_last(writer), 4);
}
END_TEST

START_TEST(a_gap_is_said)
{
    add(1, 5);
    add(9, 12);
    close_file();
    struct archive_reach reach = read_from(1);
    ck_assert_uint_eq(seen, 5);
    ck_assert_uint_eq(reach.until_us, 5000);
    ck_assert_uint_eq(reach.later, 9);
    ck_assert_uint_eq(reach.later_us, 9000);
    ck_assert_uint_eq(read_from(9).next, 13);
}
END_TEST

START_TEST(files_of_two_directories_may_overlap)
{
    char other[64], both[128];
    add(1, 10);
    close_file();
    close_writer();
    (void)snprintf(other, sizeof other, "%s-2", root);
    (void)snprintf(dir, sizeof dir, "%s/a/%016x", other, LOG_ID);
    open_writer();
    add(6, 20);
    close_file();
    (void)snprintf(both, sizeof both, "%s,%s", root, other);
    struct archive_reach reach;
    struct archive_log *log = archive_log_new(both, LOG_ID, error, sizeof error);
    CHECK(log);
    ck_assert_uint_eq(archive_log_files(log), 2);
    seen = 0;
    CHECK(archive_log_walk(log, 1, see, NULL, &reach, error, sizeof error));
    ck_assert_uint_eq(seen, 20);
    archive_log_free(log);
    CHECK(path_remove(other));
}
END_TEST

/* Batches of a copy of the shard: below the directory of the log. */
static void add_of_copy(uint64_t id, uint64_t from, uint64_t to)
{
    close_writer();
    (void)snprintf(dir, sizeof dir, "%s/a/%016x/%016llx", root, LOG_ID, (unsigned long long)id);
    open_writer();
    add(from, to);
    close_file();
}

START_TEST(files_of_all_copies_are_one_log)
{
    add_of_copy(7, 1, 10);
    add_of_copy(8, 4, 20);
    add_of_copy(9, 21, 30);
    add_of_copy(7, 25, 40);
    ck_assert_uint_eq(read_from(1).next, 41);
    ck_assert_uint_eq(read_from(15).next, 41);
}
END_TEST

/* Reads all. */
static bool reads_on(uint64_t from, archive_record_fn *read)
{
    struct archive_reach reach;
    struct archive_log *log = archive_log_new(root, LOG_ID, error, sizeof error);
    CHECK(log);
    seen = from - 1;
    bool good = archive_log_walk(log, from, read, NULL, &reach, error, sizeof error);
    archive_log_free(log);
    return good;
}

/* archive_record_fn */
static enum archive_go pass(void *owner, uint64_t index, struct bytes record, char *why,
                            size_t size)
{
    (void)owner, (void)index, (void)record, (void)why, (void)size;
    return ARCHIVE_GO_ON;
}

START_TEST(batches_of_two_histories_are_not_mixed)
{
    add_of_copy(7, 1, 10);
    word = "other";
    add_of_copy(8, 6, 20); /* begins within the file of 7, and goes on behind it */
    ck_assert(!reads_on(1, pass));
    ck_assert_msg(strstr(error, "it has another batch 10 than the file before"), "%s", error);
    CHECK(path_remove(root) && mkdir(root, 0700) == 0);
    word = "value";
    add_of_copy(7, 1, 10);
    word = "other";
    add_of_copy(8, 3, 10); /* ends where that of 7 ends */
    ck_assert(!reads_on(1, pass) && !reads_on(1, NULL));
    ck_assert(reads_on(11, pass));
}
END_TEST

START_TEST(a_file_is_closed_while_it_is_read)
{
    struct archive_reach reach;
    add(1, 10);
    sync_until(0);
    struct archive_log *log = archive_log_new(root, LOG_ID, error, sizeof error);
    CHECK(log);
    add(11, 12);
    close_file();
    seen = 0;
    CHECK(archive_log_walk(log, 1, see, NULL, &reach, error, sizeof error));
    ck_assert_uint_eq(seen, 12);
    archive_log_free(log);
}
END_TEST

START_TEST(a_second_writer_is_refused)
{
    struct archive_writer *second = archive_writer_new(dir, LOG_ID, 1, error, sizeof error);
    ck_assert(!second);
    ck_assert(strstr(error, "another process"));
}
END_TEST

/* Copies the file; returns its bytes and their number. */
static size_t load(const char *path, char *to, size_t max)
{
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t len = read(fd, to, max);
    CHECK(len > 0 && (size_t)len < max && close(fd) == 0);
    return (size_t)len;
}

static void store(const char *path, const char *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640);
    CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len && close(fd) == 0);
}

START_TEST(a_file_cut_at_any_byte_is_a_prefix)
{
    char data[8192], path[2 * PATH_MAX];
    uint64_t before = 0;
    for (uint64_t i = 1; i <= 9; i += 3) {
        add(i, i + 2);
        sync_until(0);
    }
    (void)snprintf(path, sizeof path, "%s", file_with(".part"));
    size_t len = load(path, data, sizeof data);
    close_writer();
    for (size_t cut = 0; cut <= len; cut++) {
        store(path, data, cut);
        (void)read_from(1);
        ck_assert_uint_ge(seen, before);
        ck_assert_uint_eq(seen % 3, 0); /* whole frames */
        before = seen;
        open_writer(); /* cuts it there, closes it, and goes on */
        ck_assert_uint_eq(archive_writer_last(writer), before);
        add(before + 1, before + 2);
        close_file();
        (void)read_from(1);
        ck_assert_uint_eq(seen, before + 2);
        close_writer();
        CHECK(path_remove(dir) && path_make(dir, error, sizeof error));
    }
    ck_assert_uint_eq(before, 9);
}
END_TEST

START_TEST(a_changed_byte_is_never_taken_for_a_batch)
{
    char data[8192], path[2 * PATH_MAX];
    for (uint64_t i = 1; i <= 9; i += 3) {
        add(i, i + 2);
        sync_until(i * 1000 + 2500);
    }
    close_file();
    (void)snprintf(path, sizeof path, "%s", file_with(".log"));
    size_t len = load(path, data, sizeof data);
    for (size_t at = 0; at < len; at++) {
        data[at] ^= (char)(1 << (at % 8));
        store(path, data, len);
        struct archive_reach reach = read_from(1); /* `see` compares each record */
        bool is_noticed = *reach.damage || seen < 9;
        bool is_end = at >= len - ARCHIVE_FRAME_BYTES;
        ck_assert_msg(is_noticed || is_end, "byte %zu", at);
        ck_assert_uint_le(reach.until_us, 9500);
        data[at] ^= (char)(1 << (at % 8));
    }
    store(path, data, len);
    (void)read_from(1);
    ck_assert_uint_eq(seen, 9);
}
END_TEST

enum { RAW_BYTES = 40000 };

static uint8_t random_byte(void)
{
    static uint32_t random = 1;
    random = random * 1664525 + 1013904223;
    return (uint8_t)(random >> 24);
}

/* Packs a frame, and compares it with what is unpacked again. Its packed length in percent. */
static size_t pack_again(struct archive_packer *packer, const char raw[RAW_BYTES])
{
    static char packed[RAW_BYTES], again[RAW_BYTES];
    size_t len = archive_pack(packer, (struct bytes){raw, RAW_BYTES}, packed, sizeof packed);
    if (!len)
        return 100;
    ck_assert(archive_unpack((struct bytes){packed, len}, again, sizeof again));
    ck_assert_mem_eq(raw, again, RAW_BYTES);
    return len * 100 / RAW_BYTES;
}

/* … a frame of random bytes, of which so many in a hundred are zeros. */
static size_t packed_percent(struct archive_packer *packer, unsigned zeros)
{
    static char raw[RAW_BYTES];
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = i % 100 < zeros ? 0 : (char)random_byte();
    return pack_again(packer, raw);
}

START_TEST(frames_are_packed_again_after_random_ones)
{
    struct archive_packer *packer = archive_packer_new();
    size_t tight = packed_percent(packer, 80);
    unsigned as_it_is = 0;
    ck_assert_uint_lt(tight, 40);
    ck_assert_uint_eq(packed_percent(packer, 80), tight);
    ck_assert_uint_ge(packed_percent(packer, 0), 99); /* not worth the work, … */
    while (packed_percent(packer, 80) != tight)
        as_it_is++;
    ck_assert_uint_eq(as_it_is, 15); /* … and that is looked at again */
    ck_assert_uint_eq(packed_percent(packer, 80), tight);
    archive_packer_free(packer);
}
END_TEST

START_TEST(random_digits_take_half_in_every_frame)
{
    static char raw[RAW_BYTES];
    struct archive_packer *packer = archive_packer_new();
    for (unsigned frame = 0; frame < 40; frame++) {
        for (size_t i = 0; i < sizeof raw; i++)
            raw[i] = "0123456789abcdef"[random_byte() & 15];
        ck_assert_uint_le(pack_again(packer, raw), 60);
    }
    archive_packer_free(packer);
}
END_TEST

START_TEST(a_file_has_these_bytes)
{
    char head[ARCHIVE_HEAD_BYTES], bytes[ARCHIVE_FRAME_BYTES], record[ARCHIVE_RECORD_BYTES];
    struct archive_head again;
    struct archive_frame frame;
    encode_archive_head(&(struct archive_head){.log_id = 0x0102, .data_format = 6, .first = 7},
                        head);
    ck_assert_mem_eq(head, "scree archive 1\n\2\1\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 40);
    ck_assert(decode_archive_head((struct bytes){head, sizeof head}, &again));
    ck_assert(again.log_id == 0x0102 && again.data_format == 6 && again.first == 7);
    encode_archive_frame(&(struct archive_frame){.kind = ARCHIVE_RECORDS,
                                                 .count = 1,
                                                 .stored = 13,
                                                 .raw = 13,
                                                 .first = 7,
                                                 .last = 7,
                                                 .begins_us = 8,
                                                 .ends_us = 9,
                                                 .last_sum = 10,
                                                 .body_sum = 11},
                         bytes);
    ck_assert_mem_eq(
        bytes,
        "\1\0\0\0\1\0\0\0\x0d\0\0\0\0\0\0\0\x0d\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"
        "\x8\0\0\0\0\0\0\0\x9\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0",
        72);
    ck_assert(decode_archive_frame((struct bytes){bytes, sizeof bytes}, &frame));
    ck_assert(frame.last == 7 && frame.ends_us == 9 && frame.body_sum == 11);
    encode_archive_record(BYTES("r"), record);
    ck_assert_mem_eq(record, "\1\0\0\0", 4);
}
END_TEST

START_TEST(a_passed_time_is_before_all_later_batches)
{
    struct hybrid_clock clock = {0};
    uint64_t closed = hybrid_clock_close(&clock, 100);
    uint64_t passed = hybrid_clock_pass(&clock, 90); /* the clock was set back */
    ck_assert_uint_ge(passed, closed);
    ck_assert_uint_gt(hybrid_clock_close(&clock, 50), passed);
    passed = hybrid_clock_pass(&clock, 500);
    ck_assert_uint_eq(passed, 500);
    ck_assert_uint_gt(hybrid_clock_close(&clock, 400), 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("archive");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, setup, teardown);
    tcase_set_timeout(files, 120);
    tcase_add_test(files, batches_are_read_once_and_in_order);
    tcase_add_test(files, a_log_that_rests_tells_its_time);
    tcase_add_test(files, a_gap_is_said);
    tcase_add_test(files, files_of_two_directories_may_overlap);
    tcase_add_test(files, files_of_all_copies_are_one_log);
    tcase_add_test(files, batches_of_two_histories_are_not_mixed);
    tcase_add_test(files, a_file_is_closed_while_it_is_read);
    tcase_add_test(files, a_second_writer_is_refused);
    tcase_add_test(files, a_file_cut_at_any_byte_is_a_prefix);
    tcase_add_test(files, a_changed_byte_is_never_taken_for_a_batch);
    suite_add_tcase(suite, files);
    TCase *bytes = tcase_create("bytes");
    tcase_add_test(bytes, frames_are_packed_again_after_random_ones);
    tcase_add_test(bytes, random_digits_take_half_in_every_frame);
    tcase_add_test(bytes, a_file_has_these_bytes);
    tcase_add_test(bytes, a_passed_time_is_before_all_later_batches);
    suite_add_tcase(suite, bytes);
    return suite_run(suite);
}
