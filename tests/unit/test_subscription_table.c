/*
 * test_subscription_table.c - pairs of a subscriber and a subject are found once, from both sides, and all are removed.
 */
#include "shared/subscription_table.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct subscription_table *set;
static struct follower a;
static struct follower b;

static void setup(void)
{
    set = subscription_table_new();
    follower_init(&a);
    follower_init(&b);
}

static void teardown(void)
{
    subscription_clear(&a);
    subscription_clear(&b);
    subscription_table_free(set); /* checks that it is empty */
}

START_TEST(joining_twice_is_one_interest)
{
    ck_assert(subscription_add(set, &a, BYTES("x")));
    ck_assert(!subscription_add(set, &a, BYTES("x")));
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(subscription_find(set, BYTES("x"))->count, 1);
}
END_TEST

START_TEST(a_topic_is_removed_with_its_last_follower)
{
    subscription_add(set, &a, BYTES("x"));
    subscription_add(set, &b, BYTES("x"));
    ck_assert(subscription_remove(set, &a, BYTES("x")));
    ck_assert(!subscription_remove(set, &a, BYTES("x")));
    ck_assert(!subscription_has(set, &a, BYTES("x")));
    ck_assert(subscription_has(set, &b, BYTES("x")));
    ck_assert(subscription_remove(set, &b, BYTES("x")));
    ck_assert_ptr_null(subscription_find(set, BYTES("x")));
    ck_assert_uint_eq(subscription_topics(set), 0);
}
END_TEST

START_TEST(names_are_bytes)
{
    subscription_add(set, &a, BYTES("x\0y"));
    subscription_add(set, &a, BYTES(""));
    ck_assert_ptr_null(subscription_find(set, BYTES("x")));
    ck_assert_ptr_nonnull(subscription_find(set, BYTES("")));
    ck_assert(bytes_equal(topic_name(subscription_find(set, BYTES("x\0y"))), BYTES("x\0y")));
}
END_TEST

START_TEST(iterations_follow_the_order_of_joining)
{
    subscription_add(set, &b, BYTES("x"));
    subscription_add(set, &a, BYTES("x"));
    subscription_add(set, &a, BYTES("y"));
    const struct topic *topic = subscription_find(set, BYTES("x"));
    struct subscription *first = topic_subscription_next(topic, NULL);
    ck_assert_ptr_eq(first->follower, &b);
    ck_assert_ptr_eq(topic_subscription_next(topic, first)->follower, &a);
    ck_assert_ptr_null(topic_subscription_next(topic, topic_subscription_next(topic, first)));
    ck_assert_ptr_eq(topic_next(set, NULL), topic);
    ck_assert(bytes_equal(topic_name(topic_next(set, topic)), BYTES("y")));
    ck_assert_ptr_eq(follower_subscription_next(&a, NULL)->topic, topic);
}
END_TEST

START_TEST(clearing_a_topic_or_a_follower_leaves_the_others)
{
    subscription_add(set, &a, BYTES("x"));
    subscription_add(set, &b, BYTES("x"));
    subscription_add(set, &a, BYTES("y"));
    subscription_add(set, &b, BYTES("z"));
    topic_clear(subscription_find(set, BYTES("x")));
    ck_assert_uint_eq(a.count, 1);
    subscription_clear(&a);
    ck_assert_uint_eq(subscription_topics(set), 1);
    ck_assert_uint_eq(subscription_pairs(set), 1);
    ck_assert(subscription_has(set, &b, BYTES("z")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subscription");
    TCase *cases = tcase_create("subscription");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, joining_twice_is_one_interest);
    tcase_add_test(cases, a_topic_is_removed_with_its_last_follower);
    tcase_add_test(cases, names_are_bytes);
    tcase_add_test(cases, iterations_follow_the_order_of_joining);
    tcase_add_test(cases, clearing_a_topic_or_a_follower_leaves_the_others);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
