/*
 * test_watcher.c - WATCH: a change marks all watchers of the key, and no others.
 */
#include "backend/keyspace/watch.h"

#include "backend/keyspace/space.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static struct space shop = {.name = {"shop", 4}};
static struct space test = {.name = {"test", 4}};
static struct watch_set *set;
static struct watcher a;
static struct watcher b;
static uint16_t slot_of_key;

static void setup(void)
{
    set = watch_set_new();
    watcher_init(&a);
    watcher_init(&b);
}

static void teardown(void)
{
    watch_clear(set, &a);
    watch_clear(set, &b);
    watch_set_free(set);
}

START_TEST(a_change_marks_every_watcher_of_the_key)
{
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_add(set, &b, &shop, 7, BYTES("k"));
    watch_touch(set, &shop, BYTES("k"), 0, &slot_of_key);
    ck_assert(a.dirty && b.dirty);
}
END_TEST

START_TEST(other_keys_and_namespaces_mark_no_watcher)
{
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_touch(set, &shop, BYTES("kk"), 0, &slot_of_key);
    watch_touch(set, &test, BYTES("k"), 0, &slot_of_key);
    watch_touch(set, &shop, BYTES(""), 0, &slot_of_key);
    ck_assert(!a.dirty);
}
END_TEST

START_TEST(watching_twice_and_clearing_leaves_nothing)
{
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_clear(set, &a);
    watch_touch(set, &shop, BYTES("k"), 0, &slot_of_key);
    ck_assert(!a.dirty);
}
END_TEST

START_TEST(clearing_one_watcher_keeps_the_other)
{
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_add(set, &b, &shop, 7, BYTES("k"));
    watch_clear(set, &a);
    watch_touch(set, &shop, BYTES("k"), 0, &slot_of_key);
    ck_assert(!a.dirty && b.dirty);
}
END_TEST

START_TEST(keys_may_be_empty_and_binary)
{
    watch_add(set, &a, &shop, 7, BYTES(""));
    watch_add(set, &b, &shop, 7, BYTES("\0\xff"));
    watch_touch(set, &shop, BYTES("\0\xff"), 0, &slot_of_key);
    ck_assert(!a.dirty && b.dirty);
    watch_touch(set, &shop, BYTES(""), 0, &slot_of_key);
    ck_assert(a.dirty);
}
END_TEST

/* watch_key_fn: joins the first bytes of the keys. */
static void join(void *owner, uint16_t slot, struct bytes key)
{
    (void)slot;
    char *joined = owner;
    size_t len = strlen(joined);
    joined[len] = key.data[0];
    joined[len + 1] = 0;
}

START_TEST(each_watched_key_of_a_storage_namespace_is_visited_once)
{
    char joined[8] = "";
    watch_add(set, &a, &shop, 7, BYTES("x1"));
    watch_add(set, &b, &shop, 7, BYTES("x1"));
    watch_add(set, &b, &test, 7, BYTES("y1"));
    watch_each_of(set, &shop, join, joined);
    ck_assert_str_eq(joined, "x");
    watch_each_of(set, &test, join, joined);
    ck_assert_str_eq(joined, "xy");
}
END_TEST

START_TEST(a_swap_moves_watches_to_the_other_storage)
{
    watch_add(set, &a, &shop, 7, BYTES("k"));
    watch_swap(set, &shop, &test);
    watch_touch(set, &shop, BYTES("k"), 0, &slot_of_key);
    ck_assert(!a.dirty);
    watch_touch(set, &test, BYTES("k"), 0, &slot_of_key);
    ck_assert(a.dirty);
}
END_TEST

static void count_visit(void *owner, struct space *space, struct bytes key)
{
    ck_assert_ptr_eq(space, &shop);
    ck_assert_uint_eq(key.len, 2);
    ++*(int *)owner;
}

START_TEST(each_watched_key_is_visited_once)
{
    int visits = 0;
    watch_add(set, &a, &shop, 7, BYTES("k1"));
    watch_add(set, &a, &shop, 7, BYTES("k2"));
    watch_add(set, &b, &shop, 7, BYTES("k3"));
    watch_each(&a, count_visit, &visits);
    ck_assert_int_eq(visits, 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("watcher");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_change_marks_every_watcher_of_the_key);
    tcase_add_test(tests, other_keys_and_namespaces_mark_no_watcher);
    tcase_add_test(tests, watching_twice_and_clearing_leaves_nothing);
    tcase_add_test(tests, clearing_one_watcher_keeps_the_other);
    tcase_add_test(tests, keys_may_be_empty_and_binary);
    tcase_add_test(tests, each_watched_key_of_a_storage_namespace_is_visited_once);
    tcase_add_test(tests, a_swap_moves_watches_to_the_other_storage);
    tcase_add_test(tests, each_watched_key_is_visited_once);
    Suite *suite = suite_create("watcher");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
