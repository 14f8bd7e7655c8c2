/*
 * test_members_row.c - members_row.h: golden bytes written out by hand, the largest row, and refusal of everything that is not one.
 */
#include "backend/format/members_row.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

#define ROW                                                                                        \
    "\1\0\0\0\2\0\0\0\0\0\0\3\4\0\0\0\0\0\0\0\5\2"                                                 \
    "\0\0\0\0\0\0\0\x11\1\6b0:740"                                                                 \
    "\0\0\0\0\0\0\0\x12\2\1x"

static const struct members two = {
    .generation = 2,
    .group = 0x0304,
    .epoch = 5,
    .count = 2,
    .list =
        {
            {.id = 0x11, .kind = MEMBER_VOTER, .address = {"b0:740", 6}},
            {.id = 0x12, .kind = MEMBER_LEARNER, .address = {"x", 1}},
        },
};

static void check_same(const struct members *a, const struct members *b)
{
    ck_assert_uint_eq(a->generation, b->generation);
    ck_assert_uint_eq(a->group, b->group);
    ck_assert_uint_eq(a->epoch, b->epoch);
    ck_assert_uint_eq(a->count, b->count);
    for (unsigned i = 0; i < a->count; i++) {
        ck_assert_uint_eq(a->list[i].id, b->list[i].id);
        ck_assert_int_eq(a->list[i].kind, b->list[i].kind);
        ck_assert(bytes_equal(a->list[i].address, b->list[i].address));
    }
}

START_TEST(a_row_has_these_bytes)
{
    struct members read;
    struct bytes row = members_row_write(&arena, &two);
    ck_assert_uint_eq(row.len, sizeof ROW - 1);
    ck_assert_mem_eq(row.data, ROW, row.len);
    ck_assert(members_row_read(row, &read));
    check_same(&read, &two);
}
END_TEST

START_TEST(the_largest_row_is_read)
{
    static char address[MEMBER_ADDRESS_MAX];
    struct members members = {.group = UINT64_MAX, .count = MEMBERS_MAX}, read;
    memset(address, 'a', sizeof address);
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        members.list[i] = (struct member){.id = UINT64_MAX - i,
                                          .kind = (enum member_kind)(MEMBER_VOTER + i % 3),
                                          .address = {address, sizeof address}};
    ck_assert(members_row_read(members_row_write(&arena, &members), &read));
    check_same(&read, &members);
}
END_TEST

static bool read_changed(size_t at, int byte)
{
    struct members read;
    char *changed = arena_alloc(&arena, sizeof ROW - 1);
    memcpy(changed, ROW, sizeof ROW - 1);
    changed[at] = (char)byte;
    return members_row_read((struct bytes){changed, sizeof ROW - 1}, &read);
}

START_TEST(other_bytes_are_refused)
{
    struct members read;
    for (size_t len = 0; len < sizeof ROW - 1; len++) {
        char *part = malloc(len + 1);
        memcpy(part, ROW, len);
        ck_assert(!members_row_read((struct bytes){part, len}, &read));
        free(part);
    }
    ck_assert(!members_row_read(BYTES(ROW "x"), &read));
    ck_assert(read_changed(4, 3));
    ck_assert(!read_changed(0, 2));  /* a newer format */
    ck_assert(!read_changed(21, 0)); /* no member */
    ck_assert(!read_changed(21, 1)); /* bytes are left */
    ck_assert(!read_changed(21, 9)); /* too many */
    ck_assert(!read_changed(30, 0)); /* a kind that does not exist */
    ck_assert(!read_changed(30, 4));
    ck_assert(!read_changed(31, 0)); /* no address */
    ck_assert(!read_changed(31, 255));
    ck_assert(!read_changed(45, 0x11)); /* an id twice */
    ck_assert(!read_changed(45, 0));    /* no id */
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("members_row");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_row_has_these_bytes);
    tcase_add_test(tests, the_largest_row_is_read);
    tcase_add_test(tests, other_bytes_are_refused);
    Suite *suite = suite_create("members_row");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
