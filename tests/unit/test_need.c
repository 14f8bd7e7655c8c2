/*
 * test_need.c - needs of an attempt: each once, oldest first, with the strongest lock mode, also when they are many.
 */
#include "backend/keyspace/need.h"
#include "tests/unit/suite.h"

#include <stdio.h>

static void add(struct need_set *set, enum need_kind kind, enum lock_mode mode, const char *row_key,
                const char *row)
{
    need_set_add(
        set, &(struct need){
                 .kind = kind, .mode = mode, .row_key = bytes_of(row_key), .row = bytes_of(row)});
}

START_TEST(equal_needs_become_one)
{
    struct need_set set = {0};
    add(&set, NEED_BARE, LOCK_READ, "a", "");
    add(&set, NEED_MEMBER, 0, "a", "m");
    add(&set, NEED_KEY, LOCK_WRITE, "a", "");
    add(&set, NEED_MEMBER, 0, "a", "m");
    add(&set, NEED_MEMBER, 0, "a", "n");
    add(&set, NEED_BARE, LOCK_READ, "a", "");
    ck_assert_uint_eq(set.count, 3);
    struct need *needs = need_set_take(&set);
    ck_assert_int_eq(needs->kind, NEED_KEY);
    ck_assert_int_eq(needs->mode, LOCK_WRITE);
    ck_assert(bytes_equal(needs->next->row, bytes_of("m")));
    ck_assert(bytes_equal(needs->next->next->row, bytes_of("n")));
    ck_assert_ptr_null(needs->next->next->next);
    ck_assert_uint_eq(set.count, 0);
    needs_free(needs, NULL);
}
END_TEST

START_TEST(needs_are_counted_until_they_are_freed)
{
    struct tally tally = {.max = 1000};
    struct need_set set = {.tally = &tally};
    add(&set, NEED_KEY, LOCK_READ, "a", "");
    size_t one = tally.bytes;
    ck_assert_uint_ge(one, sizeof(struct need));
    add(&set, NEED_KEY, LOCK_WRITE, "a", "");
    ck_assert_uint_eq(tally.bytes, one);
    ck_assert(!tally.is_over);
    while (!tally.is_over) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", set.count);
        add(&set, NEED_KEY, LOCK_READ, key, "");
    }
    ck_assert_uint_gt(tally.bytes, tally.max);
    needs_free(need_set_take(&set), set.tally);
    ck_assert_uint_eq(tally.bytes, 0);
    ck_assert(tally.is_over);
}
END_TEST

START_TEST(many_needs_keep_their_order)
{
    enum { COUNT = 100000 };
    char key[16];
    struct need_set set = {0};
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < COUNT; i++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            add(&set, NEED_KEY, round ? LOCK_WRITE : LOCK_READ, key, "");
        }
    ck_assert_uint_eq(set.count, COUNT);
    unsigned i = 0;
    for (const struct need *need = set.first; need; need = need->next, i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        ck_assert(bytes_equal(need->row_key, bytes_of(key)));
        ck_assert_int_eq(need->mode, LOCK_WRITE);
    }
    ck_assert_uint_eq(i, COUNT);
    need_set_clear(&set);
    ck_assert_ptr_null(set.first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("need");
    TCase *tests = tcase_create("set");
    tcase_add_test(tests, equal_needs_become_one);
    tcase_add_test(tests, needs_are_counted_until_they_are_freed);
    tcase_add_test(tests, many_needs_keep_their_order);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
