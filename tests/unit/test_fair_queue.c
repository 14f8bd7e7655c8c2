/*
 * test_fair_queue.c - who is next for a free thing: the group with least in use, and within a group the first to wait.
 */
#include "shared/fair_queue.h"

#include "shared/table.h"

#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

struct waiter {
    struct list link;
    const char *name; /* of its group */
    int number;
};

static struct fair_queue queue;
static const struct fair_limit eight = {.count = 8, .percent = 50};

static void setup(void)
{
    fair_queue_init(&queue);
}

static void teardown(void)
{
    fair_queue_fini(&queue);
}

static struct fair_group *group_of(const char *name)
{
    return fair_queue_group(&queue, bytes_of(name));
}

static void take(const char *name, int count)
{
    while (count-- > 0)
        fair_queue_take(&queue, group_of(name));
}

static void give_back(const char *name, int count)
{
    while (count-- > 0)
        fair_queue_give_back(&queue, group_of(name));
}

static bool has_room(const char *name)
{
    return fair_queue_has_room(&queue, group_of(name), eight);
}

static void add(struct waiter *waiter, const char *name, int number)
{
    *waiter = (struct waiter){.name = name, .number = number};
    fair_queue_wait(&queue, group_of(name), &waiter->link, false);
}

/* Gives the next waiter one more. "" when none may have it. */
static const char *serve(void)
{
    static char text[20];
    struct list *link = fair_queue_next(&queue, eight);
    if (!link)
        return "";
    const struct waiter *waiter = container_of(link, struct waiter, link);
    fair_queue_take(&queue, group_of(waiter->name));
    (void)snprintf(text, sizeof text, "%s%d", waiter->name, waiter->number);
    return text;
}

START_TEST(one_group_may_have_all_but_an_eighth)
{
    take("a", 7);
    ck_assert(!has_room("a"));
    ck_assert(has_room("b"));
    take("b", 1);
    ck_assert(!has_room("b"));
    give_back("a", 4);
    ck_assert(has_room("a"));
    give_back("a", 3);
    give_back("b", 1);
}
END_TEST

START_TEST(the_group_with_least_in_use_is_next)
{
    struct waiter waiters[6];
    take("a", 7);
    take("b", 1);
    for (int i = 0; i < 4; i++)
        add(&waiters[i], "a", i);
    add(&waiters[4], "b", 4);
    add(&waiters[5], "c", 5);
    ck_assert_str_eq(serve(), "");
    give_back("a", 1);
    ck_assert_str_eq(serve(), "c5");
    give_back("a", 1);
    ck_assert_str_eq(serve(), "b4");
    give_back("a", 1);
    ck_assert_str_eq(serve(), "a0"); /* four of eight: not more than half */
    give_back("b", 1);
    ck_assert_str_eq(serve(), "");
    give_back("b", 1);
    ck_assert_str_eq(serve(), "a1");
    give_back("c", 1);
    ck_assert_str_eq(serve(), "a2");
    list_remove(&waiters[3].link); /* it leaves */
    give_back("a", 7);
    ck_assert_str_eq(serve(), "");
}
END_TEST

START_TEST(equal_groups_take_turns_in_order_of_arrival)
{
    struct waiter waiters[6];
    take("x", 7);
    for (int i = 0; i < 6; i++)
        add(&waiters[i], i < 3 ? "a" : "b", i);
    for (int i = 0; i < 6; i++) {
        static const char *const order[] = {"a0", "b3", "a1", "b4", "a2", "b5"};
        ck_assert_str_eq(serve(), order[i]);
        give_back("x", 1);
    }
    give_back("x", 1);
    give_back("a", 3);
    give_back("b", 3);
}
END_TEST

START_TEST(a_waiter_may_be_first_again)
{
    struct waiter waiters[2];
    take("x", 8);
    add(&waiters[0], "a", 0);
    waiters[1] = (struct waiter){.name = "a", .number = 1};
    fair_queue_wait(&queue, group_of("a"), &waiters[1].link, true);
    give_back("x", 8);
    ck_assert_str_eq(serve(), "a1");
    ck_assert_str_eq(serve(), "a0");
    give_back("a", 2);
}
END_TEST

START_TEST(groups_without_anything_are_forgotten_when_there_are_many)
{
    char name[20];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        take(name, 1);
        give_back(name, 1);
    }
    ck_assert_uint_lt(table_count(queue.groups), 1100);
}
END_TEST

/* Any order of taking, waiting, leaving and giving back: the next one has least in use of those that wait. */
START_TEST(random_orders)
{
    enum { GROUPS = 70, WAITERS = 200, STEPS = 200000 };
    static char names[GROUPS][12];
    static struct waiter waiters[WAITERS];
    struct fair_group *groups[GROUPS];
    uint32_t waiting[GROUPS] = {0};
    const struct fair_limit limit = {.count = 100, .percent = 30};
    srand(7);
    for (int i = 0; i < GROUPS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%d", i);
        groups[i] = group_of(names[i]);
    }
    for (int i = 0; i < WAITERS; i++)
        list_init(&waiters[i].link);
    for (int step = 0; step < STEPS; step++) {
        int g = rand() % (rand() % GROUPS + 1);
        struct waiter *waiter = &waiters[rand() % WAITERS];
        int what = rand() % 4;
        if (what == 0 && groups[g]->in_use) {
            fair_queue_give_back(&queue, groups[g]);
        } else if (what == 1 && !list_empty(&waiter->link)) {
            list_remove(&waiter->link);
            waiting[waiter->number]--;
        } else if (what == 2 && list_empty(&waiter->link)) {
            waiter->number = g;
            waiting[g]++;
            fair_queue_wait(&queue, groups[g], &waiter->link, rand() % 2);
        } else if (what == 3) {
            uint32_t least = UINT32_MAX;
            for (int i = 0; i < GROUPS; i++)
                if (waiting[i] && groups[i]->in_use < least)
                    least = groups[i]->in_use;
            struct list *link = fair_queue_next(&queue, limit);
            if (!link) {
                ck_assert(least == UINT32_MAX || queue.in_use >= limit.count - limit.count / 8);
                continue;
            }
            int number = container_of(link, struct waiter, link)->number;
            ck_assert_uint_eq(
                groups[number]->in_use < FAIR_LEVELS - 1 ? groups[number]->in_use : least, least);
            ck_assert_uint_lt(queue.in_use, limit.count);
            waiting[number]--;
            fair_queue_take(&queue, groups[number]);
        }
    }
    for (int i = 0; i < GROUPS; i++)
        while (groups[i]->in_use)
            fair_queue_give_back(&queue, groups[i]);
    while (fair_queue_pop(&queue)) {
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fair_queue");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, setup, teardown);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, one_group_may_have_all_but_an_eighth);
    tcase_add_test(tests, the_group_with_least_in_use_is_next);
    tcase_add_test(tests, equal_groups_take_turns_in_order_of_arrival);
    tcase_add_test(tests, a_waiter_may_be_first_again);
    tcase_add_test(tests, groups_without_anything_are_forgotten_when_there_are_many);
    tcase_add_test(tests, random_orders);
    return suite_run(suite);
}
