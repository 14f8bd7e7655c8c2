/*
 * test_effects.c - effects.h: golden bytes written out by hand, reading back what was written, positions of rows and
 * ranges, and refusal of everything that is not a whole batch.
 */
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "shared/slot.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct arena arena;
static struct effects *effects;

static void setup(void)
{
    arena_init(&arena);
    effects = effects_new();
}

static void teardown(void)
{
    effects_free(effects);
    arena_fini(&arena);
}

static void check_bytes(struct bytes bytes, struct bytes expected)
{
    ck_assert_uint_eq(bytes.len, expected.len);
    ck_assert_mem_eq(bytes.data, expected.data, expected.len);
}

/* The effects after the header. */
static struct bytes body(void)
{
    struct bytes all = effects_bytes(effects);
    return (struct bytes){all.data + EFFECTS_HEADER_BYTES, all.len - EFFECTS_HEADER_BYTES};
}

static void begin(void)
{
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
}

/* ---- golden bytes ---- */

START_TEST(a_header_has_these_bytes)
{
    const struct effects_header header = {
        .type = EFFECTS_PROBE,
        .index = 0x0102030405060708,
        .term = 2,
        .commit = 3,
        .origin_ms = 0x0190,
        .version = 5,
        .hybrid = 0x0601,
    };
    effects_begin(effects, &header);
    check_bytes(effects_bytes(effects), BYTES("\2\2\0\0\0\0\0\0"
                                              "\x8\7\6\5\4\3\2\1"
                                              "\2\0\0\0\0\0\0\0"
                                              "\3\0\0\0\0\0\0\0"
                                              "\x90\1\0\0\0\0\0\0"
                                              "\5\0\0\0\0\0\0\0"
                                              "\1\6\0\0\0\0\0\0"));
}
END_TEST

START_TEST(effects_have_these_bytes)
{
    struct bytes row = encode_metadata_key(&arena, BYTES(""), slot_of(BYTES("k")), BYTES("k"));
    struct metadata metadata = {.type = TYPE_STRING, .payload = BYTES("v")};
    effects_put(effects, CF_METADATA, row, encode_metadata(&arena, &metadata));
    check_bytes(body(), BYTES("\x81\0\xcd\x1d\4\0\x1d\xcdk\x0a\x81\0\0\0\0\0\0\0\0v"));

    begin();
    effects_delete_range(effects, CF_DATA, BYTES("\1s\0\1"), BYTES("\1s\0\4"));
    effects_put(effects, CF_METADATA, BYTES("\1s\0\1k"), BYTES("v"));
    effects_delete(effects, CF_DATA, BYTES("\1s\0\1k-"));
    effects_delete(effects, CF_SYSTEM, BYTES("v"));
    effects_delete_range(effects, CF_EXPIRE, BYTES(""), BYTES(""));
    check_bytes(body(), BYTES("\xe2\1s\1\0\3\0\4\1s\0\1\4\1s\0\4"
                              "\x81\1s\1\0\5\1s\0\1k\1v"
                              "\x12\6\1s\0\1k-"
                              "\x90\0\xff\xff\1v"
                              "\xe6\xff\0\0\xff\x3f\0\0"));
    ck_assert_uint_eq(effects_count(effects), 5);
    ck_assert_uint_eq((uint8_t)effects_bytes(effects).data[4], 5);
}
END_TEST

START_TEST(notes_and_internal_changes_have_these_bytes)
{
    effects_set_internal(effects, true);
    effects_put(effects, CF_DATA, BYTES("\0\0\7k"), BYTES("v"));
    effects_delete_range(effects, CF_DATA, BYTES("\0\0\7a"), BYTES("\0\0\7b"));
    effects_set_internal(effects, false);
    effects_note(effects, CF_METADATA, BYTES("\0\0\7k"), BYTES("\1"));
    check_bytes(body(), BYTES("\x8a\0\7\0\4\0\0\7k\1v"
                              "\x2a\4\0\0\7a\4\0\0\7b"
                              "\x31\4\0\0\7k\1\1"));
    ck_assert_uint_eq(effects_count(effects), 3);
    effects_set_internal(effects, true);
    begin();
    effects_delete(effects, CF_SYSTEM, BYTES("v"));
    check_bytes(body(), BYTES("\x90\0\xff\xff\1v"));
}
END_TEST

/* ---- places ---- */

static struct effect_place place_of_first(void)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
    return effect.place;
}

static void check_place(struct bytes space, int first, int last)
{
    struct effect_place place = place_of_first();
    ck_assert(!place.is_any_space);
    ck_assert(bytes_equal(place.space, space));
    ck_assert_int_eq(place.first_slot, first);
    ck_assert_int_eq(place.last_slot, last);
}

static void check_put_place(enum cf cf, struct bytes key, struct bytes space, int slot)
{
    begin();
    effects_put(effects, cf, key, BYTES(""));
    check_place(space, slot, slot);
}

START_TEST(a_row_has_the_place_of_its_key)
{
    struct bytes space = BYTES("shop\0\3");
    struct bytes row = encode_metadata_key(&arena, space, 16383, BYTES("k"));
    struct bytes prefix = encode_collection_prefix(&arena, space, 258, BYTES("k"), 7);
    check_put_place(CF_METADATA, row, space, 16383);
    check_put_place(CF_EXPIRE, encode_expire_key(&arena, 99, row), space, 16383);
    check_put_place(CF_DATA, encode_sub_key(&arena, prefix, BYTES("f")), space, 258);
    check_put_place(CF_RANK, prefix, space, 258);
    check_put_place(CF_SYSTEM, encode_counter_key(&arena, space, 1024), BYTES(""), EFFECT_NO_SLOT);
    check_put_place(CF_DATA, BYTES(""), BYTES(""), EFFECT_NO_SLOT);
    check_put_place(CF_DATA, BYTES("\0\x40\0"), BYTES(""), EFFECT_NO_SLOT);
    check_put_place(CF_DATA, BYTES("\0\1"), BYTES(""), EFFECT_NO_SLOT);
    check_put_place(CF_EXPIRE, BYTES("1234567"), BYTES(""), EFFECT_NO_SLOT);
}
END_TEST

static void check_range_place(struct bytes from, struct bytes space, int first, int last)
{
    begin();
    effects_delete_range(effects, CF_DATA, from, encode_prefix_end(&arena, from));
    check_place(space, first, last);
}

static void check_anywhere(enum cf cf, struct bytes from, struct bytes to)
{
    begin();
    effects_delete_range(effects, cf, from, to);
    struct effect_place place = place_of_first();
    ck_assert(place.is_any_space);
    ck_assert_int_eq(place.first_slot, 0);
    ck_assert_int_eq(place.last_slot, SLOT_COUNT - 1);
}

START_TEST(a_range_has_all_slots_it_may_touch)
{
    struct bytes space = BYTES("shop\xff"), none = BYTES("");
    check_range_place(encode_space_prefix(&arena, space), space, 0, SLOT_COUNT - 1);
    check_range_place(encode_space_prefix(&arena, none), none, 0, SLOT_COUNT - 1);
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        struct bytes prefix = encode_slot_prefix(&arena, space, (uint16_t)slot);
        check_range_place(prefix, space, slot, slot);
        prefix = encode_collection_prefix(&arena, space, (uint16_t)slot, BYTES("k"), 255);
        check_range_place(prefix, space, slot, slot);
        arena_reset(&arena);
    }
    begin();
    effects_delete_range(effects, CF_DATA, BYTES("\0\0\5"), BYTES("\0\0\7x"));
    check_place(none, 5, 7);
    check_anywhere(CF_DATA, BYTES("\0\0\5"), BYTES("\1s\0\7x"));
    check_anywhere(CF_DATA, BYTES("\0\0\5"), BYTES(""));
    check_anywhere(CF_DATA, BYTES("\xff"), BYTES(""));
    check_anywhere(CF_EXPIRE, BYTES("\0\0\5"), BYTES("\0\0\7x"));
    begin();
    effects_delete_range(effects, CF_SYSTEM, BYTES("c"), BYTES("d"));
    check_place(none, EFFECT_NO_SLOT, EFFECT_NO_SLOT);
}
END_TEST

/* ---- read again ---- */

START_TEST(written_values_are_read)
{
    enum { EFFECTS = 3000, BIG = 100000 };
    static char big[BIG];
    struct effects_header header = {EFFECTS_BATCH, 0, 12, 3, 11, 4, 5, 6}, found;
    struct effects_reader reader;
    struct effect effect;
    effects_begin(effects, &header);
    for (int i = 0; i < EFFECTS; i++) {
        char key[5] = {1, (char)(i % 7), 0, (char)(i % 3), (char)i};
        struct bytes row = {key, sizeof key}, value = {big, (size_t)(i % 500 ? i % 300 : BIG)};
        if (i % 5 == 0)
            effects_delete(effects, CF_STREAM, row);
        else if (i % 11 == 0)
            effects_delete_range(effects, CF_RANK, row, value);
        else
            effects_put(effects, CF_DATA, row, value);
    }
    ck_assert_int_eq(effects_open(effects_bytes(effects), &found, &reader), EFFECTS_READ);
    header.count = EFFECTS;
    ck_assert_mem_eq(&found, &header, sizeof header);
    for (int i = 0; i < EFFECTS; i++) {
        char key[5] = {1, (char)(i % 7), 0, (char)(i % 3), (char)i};
        struct bytes value = {big, (size_t)(i % 500 ? i % 300 : BIG)}, none = BYTES("");
        ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
        bool is_delete = i % 5 == 0, is_range = !is_delete && i % 11 == 0;
        ck_assert_int_eq(effect.kind, is_delete  ? EFFECT_DELETE
                                      : is_range ? EFFECT_DELETE_RANGE
                                                 : EFFECT_PUT);
        ck_assert_int_eq(effect.cf, is_delete ? CF_STREAM : is_range ? CF_RANK : CF_DATA);
        check_bytes(effect.key, (struct bytes){key, sizeof key});
        check_bytes(effect.value, is_delete || is_range ? none : value);
        check_bytes(effect.to, is_range ? value : none);
        if (!is_range) {
            check_bytes(effect.place.space, (struct bytes){key + 1, 1});
            ck_assert_int_eq(effect.place.first_slot, i % 3);
        }
    }
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_END);
    begin();
    ck_assert_uint_eq(effects_bytes(effects).len, EFFECTS_HEADER_BYTES);
}
END_TEST

START_TEST(numbers_are_set_later)
{
    struct effects_header header;
    struct effects_reader reader;
    effects_set_index(effects, 7);
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_uint_eq(header.index, 7);
    ck_assert_uint_eq(header.commit, 7);
    ck_assert_uint_eq(header.term, 0);
    effects_set_numbers(effects, 9, 4, 8);
    effects_set_version(effects, 12);
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_uint_eq(header.index, 9);
    ck_assert_uint_eq(header.term, 4);
    ck_assert_uint_eq(header.commit, 8);
    ck_assert_uint_eq(header.version, 12);
}
END_TEST

/* effects_next passes over notes; effects_next_or_note does not. */
START_TEST(notes_are_no_effects)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    effects_note(effects, CF_METADATA, BYTES("\0\0\7k"), BYTES("\1"));
    effects_set_internal(effects, true);
    effects_delete(effects, CF_METADATA, BYTES("\0\0\7k"));
    effects_set_internal(effects, false);
    effects_note(effects, CF_METADATA, BYTES("\1s\0\7l"), BYTES("xyz"));
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
    ck_assert_int_eq(effect.kind, EFFECT_DELETE);
    ck_assert(effect.is_internal);
    ck_assert_int_eq(effect.place.first_slot, 7);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_END);
    ck_assert_int_eq(effects_open(effects_bytes(effects), &header, &reader), EFFECTS_READ);
    ck_assert_int_eq(effects_next_or_note(&reader, &effect), EFFECTS_READ);
    ck_assert_int_eq(effect.kind, EFFECT_NOTE);
    check_bytes(effect.value, BYTES("\1"));
    ck_assert(!effect.is_internal);
    ck_assert_int_eq(effects_next_or_note(&reader, &effect), EFFECTS_READ);
    ck_assert_int_eq(effects_next_or_note(&reader, &effect), EFFECTS_READ);
    ck_assert_int_eq(effect.kind, EFFECT_NOTE);
    check_bytes(effect.place.space, BYTES("s"));
    check_bytes(effect.value, BYTES("xyz"));
    ck_assert_int_eq(effects_next_or_note(&reader, &effect), EFFECTS_END);
}
END_TEST

/* A batch of format 1: SET k v, then the end of namespace "s" deleted. */
#define FORMAT_1                                                                                   \
    "\1\1\0\0\2\0\0\0\x0c\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\0\0\0" \
    "\0\0\0\0"                                                                                     \
    "\x81\0\xcd\x1d\4\0\x1d\xcdk\x0a\x81\0\0\0\0\0\0\0\0v"                                         \
    "\xe2\1s\1\0\3\0\4\1s\0\1\4\1s\0\4"

START_TEST(format_1_is_read)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    ck_assert_int_eq(effects_open(BYTES(FORMAT_1), &header, &reader), EFFECTS_READ);
    const struct effects_header expected = {EFFECTS_BATCH, 2, 12, 3, 11, 4, 5, 0};
    ck_assert_mem_eq(&header, &expected, sizeof header);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
    check_bytes(effect.key, BYTES("\0\x1d\xcdk"));
    ck_assert_int_eq(effect.place.first_slot, 7629);
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_READ);
    ck_assert_int_eq(effect.kind, EFFECT_DELETE_RANGE);
    check_bytes(effect.to, BYTES("\1s\0\4"));
    ck_assert_int_eq(effects_next(&reader, &effect), EFFECTS_END);
}
END_TEST

/* ---- refused ---- */

static enum effects_read read_all(struct bytes batch)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(batch, &header, &reader);
    while (result == EFFECTS_READ)
        result = effects_next(&reader, &effect);
    return result;
}

static void some_effects(void)
{
    begin();
    effects_put(effects, CF_METADATA, BYTES("\1s\0\1k"), BYTES("v"));
    effects_delete_range(effects, CF_DATA, BYTES("\1s\0\1"), BYTES("\1s\0\4"));
    effects_delete(effects, CF_DATA, BYTES("\1s\0\1k-"));
}

START_TEST(parts_of_a_batch_are_refused)
{
    some_effects();
    struct bytes batch = effects_bytes(effects);
    ck_assert_int_eq(read_all(batch), EFFECTS_END);
    for (size_t len = 0; len < batch.len; len++) {
        /* allocated with the exact size, so that the sanitizer reports a read beyond it */
        char *part = malloc(len + 1);
        memcpy(part, batch.data, len);
        ck_assert_int_eq(read_all((struct bytes){part, len}), EFFECTS_DAMAGED);
        free(part);
    }
    char *longer = malloc(batch.len + 1);
    memcpy(longer, batch.data, batch.len);
    longer[batch.len] = 0;
    ck_assert_int_eq(read_all((struct bytes){longer, batch.len + 1}), EFFECTS_DAMAGED);
    free(longer);
}
END_TEST

/* The batch with one byte changed. */
static enum effects_read read_changed(size_t at, int byte)
{
    struct bytes batch = effects_bytes(effects);
    char *changed = arena_alloc(&arena, batch.len);
    memcpy(changed, batch.data, batch.len);
    changed[at] = (char)byte;
    return read_all((struct bytes){changed, batch.len});
}

START_TEST(unknown_formats_and_types_are_newer)
{
    some_effects();
    ck_assert_int_eq(read_changed(0, EFFECTS_FORMAT + 1), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(1, 3), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(1, 0), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(2, 1), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(1, 4), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(1, 6), EFFECTS_NEWER);
    ck_assert_int_eq(read_changed(1, EFFECTS_MEMBERS), EFFECTS_END);
    ck_assert_int_eq(read_changed(1, EFFECTS_PROBE), EFFECTS_END);
    ck_assert_int_eq(read_changed(0, 0), EFFECTS_DAMAGED);
}
END_TEST

/* What only format 2 has is damage in format 1. */
static enum effects_read read_format_1(size_t at, int byte)
{
    struct bytes batch = BYTES(FORMAT_1);
    char *changed = arena_alloc(&arena, batch.len);
    memcpy(changed, batch.data, batch.len);
    changed[at] = (char)byte;
    return read_all((struct bytes){changed, batch.len});
}

START_TEST(format_1_has_no_notes)
{
    size_t head = 48;
    ck_assert_int_eq(read_format_1(head, 0x81), EFFECTS_END);
    ck_assert_int_eq(read_format_1(head, 0x89), EFFECTS_DAMAGED); /* internal */
    ck_assert_int_eq(read_format_1(head, 0xb1), EFFECTS_DAMAGED); /* a note */
    ck_assert_int_eq(read_format_1(1, EFFECTS_MEMBERS), EFFECTS_NEWER);
    for (size_t len = 0; len < sizeof FORMAT_1 - 1; len++) {
        char *part = malloc(len + 1);
        memcpy(part, FORMAT_1, len);
        ck_assert_int_eq(read_all((struct bytes){part, len}), EFFECTS_DAMAGED);
        free(part);
    }
}
END_TEST

START_TEST(impossible_numbers_are_refused)
{
    size_t head = EFFECTS_HEADER_BYTES, slot = head + 3, key_len = head + 5;
    some_effects();
    ck_assert_int_eq(read_changed(4, 2), EFFECTS_DAMAGED); /* a count too low */
    ck_assert_int_eq(read_changed(4, 4), EFFECTS_DAMAGED); /* a count too high */
    /* it commits a batch with a higher index than its own */
    ck_assert_int_eq(read_changed(24, 1), EFFECTS_DAMAGED);
    ck_assert_int_eq(read_changed(head, 0x80 | CF_COUNT), EFFECTS_DAMAGED);
    ck_assert_int_eq(read_changed(head, 0x01),
                     EFFECTS_DAMAGED); /* the effect refers to an earlier one, but there is none */
    ck_assert_int_eq(read_changed(head + 1, 203), EFFECTS_DAMAGED);  /* a space that is too long */
    ck_assert_int_eq(read_changed(slot + 1, 0x40), EFFECTS_DAMAGED); /* slot 16385 */
    ck_assert_int_eq(read_changed(key_len, 0x7f), EFFECTS_DAMAGED);
    ck_assert_int_eq(read_changed(key_len, 0xff), EFFECTS_DAMAGED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("effects");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_header_has_these_bytes);
    tcase_add_test(tests, effects_have_these_bytes);
    tcase_add_test(tests, notes_and_internal_changes_have_these_bytes);
    tcase_add_test(tests, a_row_has_the_place_of_its_key);
    tcase_add_test(tests, a_range_has_all_slots_it_may_touch);
    tcase_add_test(tests, written_values_are_read);
    tcase_add_test(tests, numbers_are_set_later);
    tcase_add_test(tests, notes_are_no_effects);
    tcase_add_test(tests, format_1_is_read);
    tcase_add_test(tests, parts_of_a_batch_are_refused);
    tcase_add_test(tests, unknown_formats_and_types_are_newer);
    tcase_add_test(tests, format_1_has_no_notes);
    tcase_add_test(tests, impossible_numbers_are_refused);
    Suite *suite = suite_create("effects");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
