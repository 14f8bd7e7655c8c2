/*
 * test_note.c - note.h: golden bytes written out by hand, and refusal of everything that is not a note.
 */
#include "backend/format/note.h"
#include "tests/unit/suite.h"

#include <string.h>

static void check_note(const struct note *note, struct bytes expected)
{
    char bytes[NOTE_BYTES_MAX];
    char longer[NOTE_BYTES_MAX + 1] = {0};
    struct note read;
    struct bytes value = note_write(note, bytes);
    ck_assert_uint_eq(value.len, expected.len);
    ck_assert_mem_eq(value.data, expected.data, expected.len);
    ck_assert(note_read(value, &read));
    ck_assert_mem_eq(&read, note, sizeof read);
    memcpy(longer, bytes, value.len);
    for (size_t len = 0; len <= value.len + 1; len++)
        ck_assert(note_read((struct bytes){longer, len}, &read) == (len == value.len));
}

START_TEST(notes_have_these_bytes)
{
    check_note(&(struct note){.kind = NOTE_NEW}, BYTES("\1"));
    check_note(&(struct note){.kind = NOTE_LIST, .head = 0x0102, .tail = UINT64_MAX},
               BYTES("\2\2\1\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"));
    check_note(&(struct note){.kind = NOTE_TRANSACTION, .shards = 3}, BYTES("\3\3\0\0\0"));
}
END_TEST

START_TEST(other_bytes_are_refused)
{
    struct note note;
    ck_assert(!note_read(BYTES(""), &note));
    ck_assert(!note_read(BYTES("\0"), &note));
    ck_assert(!note_read(BYTES("\4"), &note));
    /* the list ends before its beginning */
    ck_assert(!note_read(BYTES("\2\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"), &note));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("note");
    tcase_add_test(tests, notes_have_these_bytes);
    tcase_add_test(tests, other_bytes_are_refused);
    Suite *suite = suite_create("note");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
