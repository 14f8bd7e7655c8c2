/*
 * test_rdb_output.c - RDB files that are written: random keys are read again as they were, in one and in parts; a file has its name only when
 * it is whole.
 */
#include "backend/copy/rdb_input.h"
#include "backend/format/rdb_elements.h"
#include "backend/rdb/rdb_output.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/path.h"
#include "tests/sized.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS_MAX = 200, ELEMENTS_MAX = 400, TEXT_MAX = 300, ROUNDS = 30 };

static struct arena arena;
static char folder[64];
static char path[96];
static char part[104];

static void setup(void)
{
    arena_init(&arena);
    (void)snprintf(folder, sizeof folder, "/tmp/scree-rdb-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/file.rdb", folder);
    (void)snprintf(part, sizeof part, "%s.part", path);
}

static void teardown(void)
{
    (void)path_remove(folder);
    arena_fini(&arena);
}

/* ---- random keys ---- */

/* A generator that begins again at a seed: the file is compared with the same numbers. */
static uint64_t state;

static unsigned pick(unsigned limit)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % limit;
}

static struct bytes pick_text(void)
{
    char *data = arena_alloc(&arena, TEXT_MAX);
    unsigned len = pick(TEXT_MAX);
    unsigned letters = pick(2) ? 2 : 256; /* few letters are compressed */
    if (pick(4) == 0) {
        len = (unsigned)snprintf(data, TEXT_MAX, "%d", (int)pick(70000) - 100);
    } else {
        for (unsigned i = 0; i < len; i++)
            data[i] = (char)pick(letters);
    }
    return (struct bytes){data, len};
}

static const enum type TYPES[] = {TYPE_STRING, TYPE_HASH, TYPE_LIST, TYPE_SET, TYPE_ZSET};

struct random_key {
    enum type type;
    uint64_t expire_ms;
    struct bytes name;
    unsigned count;
};

static struct random_key pick_key(void)
{
    return (struct random_key){.type = TYPES[pick(COUNT_OF(TYPES))],
                               .expire_ms = pick(2) ? 1 + pick(UINT32_MAX) : 0,
                               .name = pick_text(),
                               .count = 1 + pick(ELEMENTS_MAX)};
}

static struct bytes pick_value(enum type type)
{
    char *score = arena_alloc(&arena, 8);
    if (type != TYPE_ZSET)
        return pick_text();
    put_be64(score, encode_score((double)pick(1000) / 7));
    return (struct bytes){score, 8};
}

static void write_key(struct rdb_output *output)
{
    struct random_key key = pick_key();
    if (key.type == TYPE_STRING) {
        rdb_output_key(output, key.expire_ms, RDB_TYPE_STRING, key.name);
        rdb_write_string(&output->writer, pick_text());
        return;
    }
    rdb_output_key(output, key.expire_ms, (uint8_t)rdb_plain_type(key.type), key.name);
    rdb_write_length(&output->writer, key.count);
    for (unsigned i = 0; i < key.count; i++) {
        struct bytes sub = pick_text();
        rdb_write_element(&output->writer, key.type, sub, pick_value(key.type));
    }
}

static void write_file(uint64_t seed, unsigned keys)
{
    struct rdb_output output;
    state = seed;
    (void)unlink(path);
    ck_assert_msg(rdb_output_open(&output, path, RDB_VERSION), "%s", output.error);
    rdb_output_aux(&output, "redis-ver", BYTES("7.0.15"));
    rdb_output_database(&output, 3);
    rdb_output_sizes(&output, keys, 0);
    for (unsigned i = 0; i < keys; i++) {
        write_key(&output);
        ck_assert(rdb_output_go_on(&output));
        ck_assert(!path_exists(path));
    }
    ck_assert_msg(rdb_output_end(&output, false), "%s", output.error);
    rdb_output_close(&output);
    ck_assert(path_exists(path) && !path_exists(part));
}

/* ---- reading ---- */

struct reading {
    struct rdb_input input;
    struct rdb_item item;
    struct random_key key; /* that is expected */
    unsigned seen;         /* elements read */
};

static void check_element(struct reading *reading, const struct rdb_element *element)
{
    enum type type = reading->key.type;
    struct bytes sub = pick_text();
    struct bytes value = pick_value(type);
    ck_assert(bytes_equal(element->name, type == TYPE_LIST ? value : sub));
    ck_assert(type != TYPE_HASH || bytes_equal(element->value, value));
    ck_assert(type != TYPE_ZSET || encode_score(element->score) == get_be64(value.data));
    reading->seen++;
}

static void check_elements(struct reading *reading, struct rdb_elements *elements)
{
    struct rdb_element element;
    enum rdb_pack found;
    while ((found = rdb_elements_next(elements, &element)) == RDB_PACK_ELEMENT)
        check_element(reading, &element);
    ck_assert_int_eq(found, RDB_PACK_END);
}

static void check_whole(struct reading *reading, struct rdb_reader *reader)
{
    struct rdb_elements elements;
    struct bytes text;
    if (reading->key.type == TYPE_STRING) {
        ck_assert(rdb_read_string(reader, &text) && bytes_equal(text, pick_text()));
        return;
    }
    ck_assert(
        rdb_elements_begin(&elements, reader, rdb_form_of(reading->input.file.type, RDB_VERSION)));
    check_elements(reading, &elements);
    ck_assert_uint_eq(reading->seen, reading->key.count);
}

/* Reads an item of the file. */
static void check_item(struct reading *reading)
{
    const struct rdb_item *item = &reading->item;
    const struct rdb_file *file = &reading->input.file;
    struct rdb_reader reader = {.arena = &arena, .rest = item->value, .version = RDB_VERSION};
    struct rdb_elements elements;
    if (item->kind == RDB_KEY || item->kind == RDB_KEY_BEGIN) {
        reading->key = pick_key();
        reading->seen = 0;
        ck_assert(bytes_equal(item->key, reading->key.name) && file->db == 3);
        ck_assert_uint_eq(file->expire_ms, reading->key.expire_ms);
    }
    if (item->kind == RDB_KEY)
        check_whole(reading, &reader);
    if (item->kind == RDB_KEY_PART) {
        rdb_elements_part(&elements, &reader, &file->parts, item->units);
        check_elements(reading, &elements);
    }
    ck_assert(item->kind != RDB_KEY_END || reading->seen == reading->key.count);
}

static void check_file(uint64_t seed, unsigned keys, size_t part_max)
{
    struct reading reading = {.seen = 0};
    enum input_result found;
    unsigned count = 0;
    state = seed;
    ck_assert(rdb_input_open(&reading.input, path, part_max));
    while ((found = rdb_input_next(&reading.input, &reading.item)) == INPUT_ITEM) {
        check_item(&reading);
        count += reading.item.kind == RDB_KEY || reading.item.kind == RDB_KEY_BEGIN;
    }
    ck_assert_msg(found == INPUT_END, "%s", reading.input.error);
    ck_assert_uint_eq(count, keys);
    rdb_input_close(&reading.input);
}

START_TEST(random_keys_are_read_as_they_were_written)
{
    for (uint64_t seed = 1; seed <= sized(ROUNDS); seed++) {
        state = seed * 977;
        unsigned keys = pick(KEYS_MAX);
        write_file(seed, keys);
        check_file(seed, keys, 1 << 20);
        check_file(seed, keys, TEXT_MAX * 17 + 1); /* strings come whole, collections in parts */
        arena_reset(&arena);
    }
}
END_TEST

START_TEST(a_changed_byte_is_noticed)
{
    struct rdb_input input;
    struct rdb_item item;
    enum input_result found;
    char byte = 0;
    write_file(7, 50);
    int fd = open(path, O_RDWR);
    ck_assert(pread(fd, &byte, 1, 1000) == 1);
    byte ^= 1;
    ck_assert(pwrite(fd, &byte, 1, 1000) == 1 && close(fd) == 0);
    ck_assert(rdb_input_open(&input, path, 1 << 20));
    while ((found = rdb_input_next(&input, &item)) == INPUT_ITEM)
        ;
    ck_assert_int_eq(found, INPUT_BAD);
    rdb_input_close(&input);
}
END_TEST

START_TEST(a_file_that_is_given_up_is_removed_and_the_old_one_stays)
{
    struct rdb_output output;
    write_file(1, 10);
    ck_assert(rdb_output_open(&output, path, RDB_VERSION));
    rdb_output_database(&output, 0);
    rdb_output_close(&output);
    ck_assert(!path_exists(part));
    check_file(1, 10, 1 << 20);
}
END_TEST

START_TEST(a_file_that_came_while_it_was_written_is_kept_unless_it_may_be_replaced)
{
    struct rdb_output output;
    struct stat found;
    for (unsigned replaces = 0; replaces < 2; replaces++) {
        (void)unlink(path);
        ck_assert(rdb_output_open(&output, path, RDB_VERSION));
        ck_assert(close(open(path, O_WRONLY | O_CREAT, 0600)) == 0);
        ck_assert(rdb_output_end(&output, replaces) == (bool)replaces);
        rdb_output_close(&output);
        ck_assert(stat(path, &found) == 0 && (found.st_size > 0) == (bool)replaces);
        ck_assert(!path_exists(part));
    }
}
END_TEST

START_TEST(a_whole_file_that_still_has_the_first_name_too_is_not_written_again)
{
    struct rdb_output output;
    write_file(1, 10);
    ck_assert(link(path, part) == 0); /* as if it was killed between link and unlink */
    ck_assert(rdb_output_open(&output, path, RDB_VERSION));
    rdb_output_close(&output);
    check_file(1, 10, 1 << 20);
}
END_TEST

START_TEST(two_tools_do_not_write_one_file)
{
    struct rdb_output output;
    struct rdb_output other;
    ck_assert(rdb_output_open(&output, path, RDB_VERSION));
    ck_assert(!rdb_output_open(&other, path, RDB_VERSION));
    ck_assert_ptr_nonnull(strstr(other.error, "another tool"));
    rdb_output_close(&other);
    ck_assert(path_exists(part) && rdb_output_end(&output, false));
    rdb_output_close(&output);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rdb_output");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, random_keys_are_read_as_they_were_written);
    tcase_add_test(tests, a_changed_byte_is_noticed);
    tcase_add_test(tests, a_file_that_is_given_up_is_removed_and_the_old_one_stays);
    tcase_add_test(tests, a_file_that_came_while_it_was_written_is_kept_unless_it_may_be_replaced);
    tcase_add_test(tests, a_whole_file_that_still_has_the_first_name_too_is_not_written_again);
    tcase_add_test(tests, two_tools_do_not_write_one_file);
    Suite *suite = suite_create("rdb_output");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
