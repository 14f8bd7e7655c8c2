/*
 * test_interest.c - who follows what: pairs are found once, from both sides, and nothing is left behind.
 */
#include "shared/interest.h"

#include <check.h>
#include <stdlib.h>

static struct interest_set *set;
static struct follower a;
static struct follower b;

static void setup(void)
{
    set = interest_set_new();
    follower_init(&a);
    follower_init(&b);
}

static void teardown(void)
{
    interest_clear(&a);
    interest_clear(&b);
    interest_set_free(set); /* checks that it is empty */
}

START_TEST(joining_twice_is_one_interest)
{
    ck_assert(interest_add(set, &a, BYTES("x")));
    ck_assert(!interest_add(set, &a, BYTES("x")));
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(interest_find(set, BYTES("x"))->count, 1);
}
END_TEST

START_TEST(a_topic_is_gone_with_its_last_follower)
{
    interest_add(set, &a, BYTES("x"));
    interest_add(set, &b, BYTES("x"));
    ck_assert(interest_remove(set, &a, BYTES("x")));
    ck_assert(!interest_remove(set, &a, BYTES("x")));
    ck_assert(!interest_has(set, &a, BYTES("x")));
    ck_assert(interest_has(set, &b, BYTES("x")));
    ck_assert(interest_remove(set, &b, BYTES("x")));
    ck_assert_ptr_null(interest_find(set, BYTES("x")));
    ck_assert_uint_eq(interest_topics(set), 0);
}
END_TEST

START_TEST(names_are_bytes)
{
    interest_add(set, &a, BYTES("x\0y"));
    interest_add(set, &a, BYTES(""));
    ck_assert_ptr_null(interest_find(set, BYTES("x")));
    ck_assert_ptr_nonnull(interest_find(set, BYTES("")));
    ck_assert(bytes_equal(topic_name(interest_find(set, BYTES("x\0y"))), BYTES("x\0y")));
}
END_TEST

START_TEST(walks_follow_the_order_of_joining)
{
    interest_add(set, &b, BYTES("x"));
    interest_add(set, &a, BYTES("x"));
    interest_add(set, &a, BYTES("y"));
    const struct topic *topic = interest_find(set, BYTES("x"));
    struct interest *first = topic_interest_next(topic, NULL);
    ck_assert_ptr_eq(first->follower, &b);
    ck_assert_ptr_eq(topic_interest_next(topic, first)->follower, &a);
    ck_assert_ptr_null(topic_interest_next(topic, topic_interest_next(topic, first)));
    ck_assert_ptr_eq(topic_next(set, NULL), topic);
    ck_assert(bytes_equal(topic_name(topic_next(set, topic)), BYTES("y")));
    ck_assert_ptr_eq(follower_interest_next(&a, NULL)->topic, topic);
}
END_TEST

START_TEST(clearing_a_topic_or_a_follower_leaves_the_others)
{
    interest_add(set, &a, BYTES("x"));
    interest_add(set, &b, BYTES("x"));
    interest_add(set, &a, BYTES("y"));
    interest_add(set, &b, BYTES("z"));
    topic_clear(interest_find(set, BYTES("x")));
    ck_assert_uint_eq(a.count, 1);
    interest_clear(&a);
    ck_assert_uint_eq(interest_topics(set), 1);
    ck_assert_uint_eq(interest_pairs(set), 1);
    ck_assert(interest_has(set, &b, BYTES("z")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interest");
    TCase *cases = tcase_create("interest");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, joining_twice_is_one_interest);
    tcase_add_test(cases, a_topic_is_gone_with_its_last_follower);
    tcase_add_test(cases, names_are_bytes);
    tcase_add_test(cases, walks_follow_the_order_of_joining);
    tcase_add_test(cases, clearing_a_topic_or_a_follower_leaves_the_others);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
