/*
 * test_slot_record.c - pages of slot records: golden rows written out by hand, random pages, and refusal of everything
 * that is not a whole page.
 */
#include "backend/format/slot_record.h"
#include "tests/unit/suite.h"

#include <string.h>

enum { ROUNDS = 300 };

static struct arena arena;
static struct slot_record page[SLOT_PAGE_SLOTS];

static void setup(void)
{
    arena_init(&arena);
    memset(page, 0, sizeof page);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static void check_bytes(struct bytes row, struct bytes expected)
{
    ck_assert_uint_eq(row.len, expected.len);
    ck_assert_mem_eq(row.data, expected.data, expected.len);
}

static void set(unsigned first, unsigned last, struct slot_record record)
{
    for (unsigned slot = first; slot <= last; slot++)
        page[slot] = record;
}

/* Encodes the page, compares it with the expected bytes, and decodes it again. */
static void check_page(struct bytes expected)
{
    struct slot_record read[SLOT_PAGE_SLOTS];
    struct bytes value = encode_slot_page(&arena, page);
    check_bytes(value, expected);
    ck_assert(decode_slot_page(value, read));
    for (unsigned slot = 0; slot < SLOT_PAGE_SLOTS; slot++)
        ck_assert(slot_record_equal(&read[slot], &page[slot]));
}

START_TEST(keys_have_these_bytes)
{
    unsigned number;
    check_bytes(encode_slot_page_key(&arena, 0), BYTES("s\0"));
    check_bytes(encode_slot_page_key(&arena, 63), BYTES("s\x3f"));
    ck_assert(decode_slot_page_key(BYTES("s\x3f"), &number));
    ck_assert_uint_eq(number, 63);
    ck_assert(!decode_slot_page_key(BYTES("s\x40"), &number));
    ck_assert(!decode_slot_page_key(BYTES("s"), &number));
    ck_assert(!decode_slot_page_key(BYTES("s\0\0"), &number));
    ck_assert(!decode_slot_page_key(BYTES("t\0"), &number));
    check_bytes(slot_pages_from(), BYTES("s"));
    check_bytes(moves_paused_key(), BYTES("m"));
    check_bytes(slot_pages_to(), BYTES("t"));
}
END_TEST

START_TEST(an_owned_page_has_these_bytes)
{
    set(0, 255, (struct slot_record){.state = SLOT_OWNED, .epoch = 1});
    check_page(BYTES("\2"
                     "\xff\1"
                     "\0\0\0\0\0\0\0\1"
                     "\0\0\0\0\0\0\0\0"
                     "\0\0\0\0\0\0\0\0"
                     "\0"));
}
END_TEST

START_TEST(a_page_of_several_states_has_these_bytes)
{
    set(1, 100, (struct slot_record){1, 0, 0, "", SLOT_OWNED});
    set(101, 101, (struct slot_record){0x0102, 0x0304, 0x0506, "b", SLOT_RELEASED});
    set(102, 102, (struct slot_record){3, 4, 5, "shop", SLOT_EXPORTING});
    set(103, 103, (struct slot_record){3, 4, 5, "shop", SLOT_FROZEN});
    set(104, 104, (struct slot_record){3, 4, 5, "shop", SLOT_IMPORTING});
    set(105, 105, (struct slot_record){3, 4, 5, "shop", SLOT_STAGED});
    check_page(BYTES("\2"
                     "\0\0"
                     "\x63\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                     "\0\2\0\0\0\0\0\0\1\2\0\0\0\0\0\0\3\4\0\0\0\0\0\0\5\6\1b"
                     "\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\4shop"
                     "\0\4\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\4shop"
                     "\0\5\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\4shop"
                     "\0\6\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\4shop"
                     "\x95\0"));
}
END_TEST

START_TEST(a_page_of_the_old_format_is_read)
{
    struct slot_record read[SLOT_PAGE_SLOTS];
    ck_assert(decode_slot_page(BYTES("\1"
                                     "\x63\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\7\0"
                                     "\0\2\0\0\0\0\0\0\1\2\0\0\0\0\0\0\3\4\1b"
                                     "\x9a\0"),
                               read));
    ck_assert(slot_record_equal(&read[99], &(struct slot_record){1, 7, 0, "", SLOT_OWNED}));
    ck_assert(slot_record_equal(&read[100],
                                &(struct slot_record){0x0102, 0x0304, 0, "b", SLOT_RELEASED}));
    ck_assert(slot_record_equal(&read[101], &(struct slot_record){0}));
}
END_TEST

START_TEST(a_page_without_records_is_empty)
{
    ck_assert_uint_eq(encode_slot_page(&arena, page).len, 0);
    ck_assert(!decode_slot_page(BYTES(""), page));
}
END_TEST

static struct slot_record random_record(void)
{
    struct slot_record record = {.state = (uint8_t)(rand() % SLOT_STATES)};
    if (record.state == SLOT_NONE)
        return record;
    record.epoch = 1 + (uint64_t)rand();
    record.migration = (uint64_t)rand() << 33;
    record.wish = (uint64_t)rand() % 3;
    for (int i = 0, len = rand() % (SHARD_NAME_MAX + 1); i < len; i++)
        record.peer[i] = (char)('a' + rand() % 26);
    return record;
}

START_TEST(random_pages_are_read_as_they_were_written)
{
    struct slot_record read[SLOT_PAGE_SLOTS];
    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned run_max = 1 + (unsigned)rand() % SLOT_PAGE_SLOTS;
        for (unsigned slot = 0; slot < SLOT_PAGE_SLOTS;) {
            unsigned last = slot + (unsigned)rand() % run_max;
            last = last < SLOT_PAGE_SLOTS ? last : SLOT_PAGE_SLOTS - 1;
            set(slot, last, random_record());
            slot = last + 1;
        }
        struct bytes value = encode_slot_page(&arena, page);
        if (!value.len)
            continue;
        ck_assert(decode_slot_page(value, read));
        for (unsigned slot = 0; slot < SLOT_PAGE_SLOTS; slot++)
            ck_assert(slot_record_equal(&read[slot], &page[slot]));
        for (size_t len = 0; len < value.len; len++)
            ck_assert(!decode_slot_page((struct bytes){value.data, len}, read));
        arena_reset(&arena);
    }
}
END_TEST

START_TEST(damaged_pages_are_refused)
{
    const struct bytes values[] = {
        BYTES("\3\xff\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0"),     /* another format */
        BYTES("\1\xff\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),     /* epoch 0 */
        BYTES("\1\xff\7\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0"),     /* an unknown state */
        BYTES("\1\xfe\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0"),     /* 255 slots */
        BYTES("\1\xff\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0?"),    /* a byte too many */
        BYTES("\1\xfe\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\1\0"), /* 257 slots */
        BYTES("\1\xff\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\2a\0"),  /* a name with a zero byte */
        BYTES(
            "\1\xff\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\x41"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), /* a long name */
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        ck_assert(!decode_slot_page(values[i], page));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot_record");
    TCase *tests = tcase_create("pages");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, keys_have_these_bytes);
    tcase_add_test(tests, an_owned_page_has_these_bytes);
    tcase_add_test(tests, a_page_of_several_states_has_these_bytes);
    tcase_add_test(tests, a_page_of_the_old_format_is_read);
    tcase_add_test(tests, a_page_without_records_is_empty);
    tcase_add_test(tests, random_pages_are_read_as_they_were_written);
    tcase_add_test(tests, damaged_pages_are_refused);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
