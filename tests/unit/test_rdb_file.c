/*
 * test_rdb_file.c - RDB files: items are found whatever pieces the bytes arrive in, in one or in parts; files that are cut or changed
 * anywhere are refused, without reading behind their bytes.
 */
#include "backend/copy/rdb_input.h"
#include "backend/format/rdb_file.h"
#include "shared/byte_order.h"
#include "tests/unit/guard.h"
#include "tests/unit/rdb_example.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXAMPLE_KEYS = 12, CHECKSUM_BYTES = 8, ALL_IN_ONE = 1 << 20 };

/* What was found in a file. */
struct found {
    enum rdb_result result; /* of the last call */
    unsigned keys;
    unsigned elements; /* of collections */
    unsigned functions;
    bool has_ended;
};

static struct arena arena;
static char folder[64];

static void setup(void)
{
    arena_init(&arena);
    (void)snprintf(folder, sizeof folder, "/tmp/scree-rdb-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/file.rdb", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    arena_fini(&arena);
}

/* Counts the elements of a collection, or of a part, which are not decoded well if the result is 0. */
static unsigned count_elements(struct rdb_elements *elements)
{
    struct rdb_element element;
    enum rdb_pack result;
    unsigned count = 0;
    while ((result = rdb_elements_next(elements, &element)) == RDB_PACK_ELEMENT)
        count++;
    return result == RDB_PACK_END ? count : 0;
}

static unsigned elements_of_key(const struct rdb_file *file, const struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = &arena, .rest = item->value, .version = file->version};
    const struct rdb_form *form = rdb_form_of(file->type, file->version);
    struct rdb_elements elements;
    return form && rdb_elements_begin(&elements, &reader, form) ? count_elements(&elements) : 0;
}

static unsigned elements_of_part(const struct rdb_file *file, const struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = &arena, .rest = item->value, .version = file->version};
    struct rdb_elements elements;
    if (!rdb_form_of(file->type, file->version))
        return 0;
    rdb_elements_part(&elements, &reader, &file->parts, item->units);
    return count_elements(&elements);
}

static void note(struct found *found, const struct rdb_file *file, const struct rdb_item *item)
{
    found->keys += item->kind == RDB_KEY || item->kind == RDB_KEY_END;
    found->functions += item->kind == RDB_FUNCTION;
    found->has_ended |= item->kind == RDB_END;
    if (item->kind == RDB_KEY)
        found->elements += elements_of_key(file, item);
    if (item->kind == RDB_KEY_PART)
        found->elements += elements_of_part(file, item);
}

/* Reads all items of `len` bytes; the reader sees at first `step` bytes behind each item, and more only when it asks. */
static struct found read_all(const char *data, size_t len, size_t step, size_t part_max)
{
    struct rdb_file file;
    struct rdb_item item;
    struct found found = {.keys = 0};
    size_t at = 0;
    size_t seen = 0;
    rdb_file_init(&file, &arena, part_max);
    while (!found.has_ended) {
        size_t rest = len - at < seen ? len - at : seen;
        found.result = rdb_file_next(&file, (struct bytes){data + at, rest}, &item);
        if (found.result == RDB_BAD || (found.result == RDB_MORE && rest == len - at))
            break;
        if (found.result == RDB_MORE) {
            seen += step;
            continue;
        }
        note(&found, &file, &item);
        at += item.size;
        seen = step;
    }
    return found;
}

static void check_example(struct found found)
{
    ck_assert(found.has_ended);
    ck_assert_uint_eq(found.keys, EXAMPLE_KEYS);
    ck_assert_uint_eq(found.functions, 1);
    ck_assert_uint_eq(found.elements, 6 + 2 + 6 + 3 + 5 + 2 + 6);
}

static const char *const example = (const char *)rdb_example;

START_TEST(a_file_is_read_in_pieces_of_any_size)
{
    for (size_t step = 1; step < 100; step++)
        check_example(read_all(example, sizeof rdb_example, step, ALL_IN_ONE));
    check_example(read_all(example, sizeof rdb_example, sizeof rdb_example, ALL_IN_ONE));
}
END_TEST

START_TEST(long_values_are_read_in_parts_of_any_size)
{
    for (size_t part_max = 1; part_max < 200; part_max++) {
        check_example(read_all(example, sizeof rdb_example, sizeof rdb_example, part_max));
        check_example(read_all(example, sizeof rdb_example, 7, part_max));
    }
}
END_TEST

/* The units of the longest part of a list of `count` nodes, each a text of `size` equal bytes, which is compressed. */
static uint64_t longest_part(unsigned count, size_t size, size_t part_max)
{
    struct rdb_writer writer;
    struct rdb_file file;
    struct rdb_item item;
    uint64_t longest = 0;
    char *text = arena_alloc(&arena, size);
    memset(text, 'x', size);
    rdb_writer_init(&writer, &arena);
    rdb_write_raw(&writer, BYTES("REDIS0011\x12\x01k"));
    rdb_write_length(&writer, count);
    for (unsigned i = 0; i < count; i++) {
        rdb_write_length(&writer, 1);
        rdb_write_string(&writer, (struct bytes){text, size});
    }
    struct bytes rest = {writer.data, writer.len};
    rdb_file_init(&file, &arena, part_max);
    while (rdb_file_next(&file, rest, &item) == RDB_ITEM && item.kind != RDB_KEY_END) {
        longest = item.units > longest ? item.units : longest;
        rest = (struct bytes){rest.data + item.size, rest.len - item.size};
    }
    return longest;
}

START_TEST(parts_of_compressed_values_are_bounded_by_their_unfolded_size)
{
    ck_assert_uint_eq(longest_part(100, 1000, 10000), 10);
    ck_assert_uint_eq(longest_part(100, 1000, 1), 1);
}
END_TEST

/* Reads a file with one string in parts; the bytes come in steps. Returns the number of parts. */
static unsigned read_string_parts(struct bytes all, size_t step, struct bytes expected)
{
    struct rdb_file file;
    struct rdb_item item;
    unsigned parts = 0;
    size_t done = 0;
    size_t seen = 0;
    rdb_file_init(&file, &arena, 1);
    for (;;) {
        struct bytes rest = {all.data, all.len < seen ? all.len : seen};
        if (rdb_file_next(&file, rest, &item) == RDB_MORE) {
            ck_assert_uint_lt(seen, all.len);
            seen += step;
            continue;
        }
        all = (struct bytes){all.data + item.size, all.len - item.size};
        if (item.kind == RDB_KEY_END)
            break;
        if (item.kind != RDB_KEY_PART)
            continue;
        struct rdb_reader reader = {.arena = &arena, .rest = item.value};
        struct bytes text = item.value;
        ck_assert(!item.is_packed || rdb_read_string(&reader, &text));
        ck_assert_uint_eq(item.offset, done);
        ck_assert_uint_eq(done % RDB_STRING_UNIT, 0);
        ck_assert(memcmp(expected.data + done, text.data, text.len) == 0);
        done += text.len;
        ck_assert_int_eq(item.is_last, done == expected.len);
        parts++;
    }
    ck_assert_uint_eq(done, expected.len);
    return parts;
}

START_TEST(long_strings_are_read_in_parts)
{
    enum { SIZE = 3 * RDB_STRING_UNIT + 17 };
    static char text[SIZE];
    struct bytes whole = {text, SIZE};
    struct rdb_writer plain;
    struct rdb_writer packed;
    for (size_t i = 0; i < SIZE; i++)
        text[i] = (char)(i * i >> 9);
    rdb_writer_init(&plain, &arena);
    rdb_write_raw(&plain, BYTES("REDIS0011\x00\x01k"));
    rdb_write_length(&plain, SIZE);
    rdb_write_raw(&plain, whole);
    for (size_t step = 1000; step < 2 * (size_t)SIZE; step = 3 * step - 7)
        ck_assert_uint_eq(read_string_parts((struct bytes){plain.data, plain.len}, step, whole), 4);
    rdb_writer_init(&packed, &arena);
    rdb_write_raw(&packed, BYTES("REDIS0011\x00\x01k"));
    rdb_write_string(&packed, whole);
    ck_assert_uint_lt(packed.len, SIZE);
    ck_assert_uint_eq(read_string_parts((struct bytes){packed.data, packed.len}, 1000, whole), 1);
}
END_TEST

START_TEST(a_file_that_is_cut_anywhere_has_no_end)
{
    for (size_t len = 0; len < sizeof rdb_example - CHECKSUM_BYTES; len++) {
        struct guard guard;
        guard_init(&guard, example, len);
        ck_assert(!read_all(guard.data, len, len + 1, ALL_IN_ONE).has_ended);
        ck_assert(!read_all(guard.data, len, len + 1, 5).has_ended);
        guard_fini(&guard);
    }
}
END_TEST

START_TEST(changed_bytes_never_make_it_read_too_far)
{
    for (size_t at = 0; at < sizeof rdb_example; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct guard guard;
            guard_init(&guard, example, sizeof rdb_example);
            guard.data[at] ^= (char)(1 << bit);
            (void)read_all(guard.data, guard.len, guard.len, ALL_IN_ONE);
            (void)read_all(guard.data, guard.len, guard.len, 5);
            guard_fini(&guard);
            arena_reset(&arena);
        }
    }
}
END_TEST

/* ---- files ---- */

static enum input_result read_file(const char *data, size_t len, char error[INPUT_ERROR_MAX])
{
    char path[128];
    struct rdb_input input;
    struct rdb_item item;
    enum input_result result;
    (void)snprintf(path, sizeof path, "%s/file.rdb", folder);
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(data, 1, len, file) == len && fclose(file) == 0);
    ck_assert(rdb_input_open(&input, path, ALL_IN_ONE));
    while ((result = rdb_input_next(&input, &item)) == INPUT_ITEM)
        continue;
    (void)snprintf(error, INPUT_ERROR_MAX, "%s", input.error);
    rdb_input_close(&input);
    return result;
}

START_TEST(a_file_with_a_changed_or_missing_byte_is_refused)
{
    char error[INPUT_ERROR_MAX];
    char copy[sizeof rdb_example];
    ck_assert_int_eq(read_file(example, sizeof copy, error), INPUT_END);
    for (size_t at = 0; at < sizeof copy; at++) {
        memcpy(copy, example, sizeof copy);
        copy[at] ^= 1;
        ck_assert_msg(read_file(copy, sizeof copy, error) == INPUT_BAD, "byte %zu", at);
        ck_assert_msg(read_file(example, at, error) == INPUT_BAD, "cut at %zu", at);
        ck_assert_ptr_nonnull(strstr(error, "file.rdb, at byte "));
    }
}
END_TEST

START_TEST(a_file_without_a_checksum_is_read)
{
    char error[INPUT_ERROR_MAX];
    char copy[sizeof rdb_example];
    memcpy(copy, example, sizeof copy);
    put_le64(copy + sizeof copy - CHECKSUM_BYTES, 0); /* rdbchecksum no */
    ck_assert_int_eq(read_file(copy, sizeof copy, error), INPUT_END);
}
END_TEST

START_TEST(commands_behind_the_end_are_not_lost_silently)
{
    char error[INPUT_ERROR_MAX];
    char copy[sizeof rdb_example + 1];
    memcpy(copy, example, sizeof rdb_example);
    copy[sizeof rdb_example] = '*';
    ck_assert_int_eq(read_file(copy, sizeof copy, error), INPUT_BAD);
    ck_assert_ptr_nonnull(strstr(error, "append-only"));
}
END_TEST

static void check_refused(const char *data, size_t len, const char *reason)
{
    char error[INPUT_ERROR_MAX];
    ck_assert_int_eq(read_file(data, len, error), INPUT_BAD);
    ck_assert_msg(strstr(error, reason) != NULL, "%s", error);
}
#define REFUSED(literal, reason) check_refused(literal, sizeof(literal) - 1, reason)

START_TEST(what_is_not_known_is_refused_with_its_name)
{
    REFUSED("PK\x03\x04 no RDB", "does not begin with REDIS");
    REFUSED("REDIS0013\xff........", "RDB version 13 is not known");
    REFUSED("REDIS0008\xff........", "RDB version 8 is not known");
    REFUSED("VALKEY081\xff........", "RDB version 81 of Valkey is not known");
    REFUSED("REDIS00xy\xff........", "its version is no number");
    REFUSED("REDIS0012\x1a\x01k\x01v\xff........", "type 26");
    REFUSED("REDIS0012\xf3\x01k\x01v\xff........", "type 243");
    REFUSED("REDIS0010\xf6\x01k\x01v\xff........", "release candidate");
    REFUSED("REDIS0010\xfc........\xff........", "not by a key");
    REFUSED("REDIS0010\x00\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff", "a length in it is damaged");
    REFUSED("REDIS0010\x00\x01k\xc3\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff"
            "12345",
            "not valid");
}
END_TEST

/* One key of each type that Redis 7.0 does not write. */
static const char later[] = "REDIS0012"
                            "\xf4\x05\x01\x00"                    /* slot info */
                            "\xf8\x05\x14\x01s\x0a\x0a\0\0\0\1\0" /* idle time, a set as listpack */
                            "\x81"
                            "a\x02\xff"
                            "\x18\x01h\xe8\x03\0\0\0\0\0\0\x02\x00\x01"
                            "a\x01"
                            "A\x05\x01"
                            "b\x01"
                            "B" /* a hash with times to live */
                            "\xff\0\0\0\0\0\0\0\0";
static const char valkey[] = "VALKEY080"
                             "\xf3\x02jo\x01\x00\x05" /* import of slots */
                             "\x16\x01h\x01\x01"
                             "f\x01v\xe8\x03\0\0\0\0\0\0"
                             "\xff\0\0\0\0\0\0\0\0";

START_TEST(files_of_later_servers_are_read)
{
    struct found found = read_all(later, sizeof later - 1, 3, ALL_IN_ONE);
    ck_assert(found.has_ended && found.keys == 2 && found.elements == 3);
    found = read_all(valkey, sizeof valkey - 1, 3, ALL_IN_ONE);
    ck_assert(found.has_ended && found.keys == 1 && found.elements == 1);
}
END_TEST

START_TEST(times_to_live_of_fields_are_absolute)
{
    static const char redis[] = "\xe8\x03\0\0\0\0\0\0\x02\x00\x01"
                                "a\x01"
                                "A\x05\x01"
                                "b\x01"
                                "B";
    struct rdb_reader reader = {.arena = &arena, .rest = BYTES(redis), .version = 12};
    struct rdb_elements elements;
    struct rdb_element element;
    ck_assert(rdb_elements_begin(&elements, &reader, rdb_form_of(RDB_TYPE_HASH_TTL, 12)));
    ck_assert_int_eq(rdb_elements_next(&elements, &element), RDB_PACK_ELEMENT);
    ck_assert_uint_eq(element.expire_ms, 0);
    ck_assert_int_eq(rdb_elements_next(&elements, &element), RDB_PACK_ELEMENT);
    ck_assert(bytes_equal(element.name, BYTES("b")) && bytes_equal(element.value, BYTES("B")));
    ck_assert_uint_eq(element.expire_ms, 1000 + 5 - 1);
    ck_assert_int_eq(rdb_elements_next(&elements, &element), RDB_PACK_END);
}
END_TEST

START_TEST(modules_are_skipped_and_named)
{
    static const char file_bytes[] = "REDIS0010\x07\x01k"
                                     "\x81\x4d\x20\xc1\xf9\x36\x0f\x10\x03" /* an id */
                                     "\x01\x05\x02\x06\x03\x66\x66\x66\x66"
                                     "\x04\x38\x38\x38\x38\x38\x38\x38\x38\x05\x01"
                                     "t\x00"
                                     "\xff\0\0\0\0\0\0\0\0";
    struct rdb_file file;
    struct rdb_item item;
    struct bytes rest = BYTES(file_bytes);
    rdb_file_init(&file, &arena, ALL_IN_ONE);
    ck_assert_int_eq(rdb_file_next(&file, rest, &item), RDB_ITEM);
    rest = (struct bytes){rest.data + item.size, rest.len - item.size};
    ck_assert_int_eq(rdb_file_next(&file, rest, &item), RDB_ITEM);
    ck_assert_int_eq(item.kind, RDB_KEY);
    ck_assert_str_eq(rdb_item_type(&file, &item), "TSDB-TYPE");
    ck_assert_uint_eq((uint8_t)rest.data[item.size], 0xff);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rdb_file");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_file_is_read_in_pieces_of_any_size);
    tcase_add_test(tests, long_values_are_read_in_parts_of_any_size);
    tcase_add_test(tests, long_strings_are_read_in_parts);
    tcase_add_test(tests, parts_of_compressed_values_are_bounded_by_their_unfolded_size);
    tcase_add_test(tests, a_file_that_is_cut_anywhere_has_no_end);
    tcase_add_test(tests, changed_bytes_never_make_it_read_too_far);
    tcase_add_test(tests, a_file_with_a_changed_or_missing_byte_is_refused);
    tcase_add_test(tests, a_file_without_a_checksum_is_read);
    tcase_add_test(tests, commands_behind_the_end_are_not_lost_silently);
    tcase_add_test(tests, what_is_not_known_is_refused_with_its_name);
    tcase_add_test(tests, files_of_later_servers_are_read);
    tcase_add_test(tests, times_to_live_of_fields_are_absolute);
    tcase_add_test(tests, modules_are_skipped_and_named);
    Suite *suite = suite_create("rdb_file");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
