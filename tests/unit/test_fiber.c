/*
 * fibers: functions that stop in the middle, in turns, deep, inside each other, and after jumps; ones that are dropped.
 */
#include "shared/fiber.h"
#include "tests/unit/suite.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct counter {
    struct fiber *fiber;
    unsigned steps;
    unsigned count;
};

static void count_steps(void *data)
{
    struct counter *counter = data;
    for (unsigned i = 0; i < counter->steps; i++) {
        counter->count += i;
        fiber_leave();
    }
}

START_TEST(functions_go_on_where_they_stand)
{
    struct counter counters[8] = {{.steps = 0}};
    for (unsigned i = 0; i < 8; i++) {
        counters[i] = (struct counter){.fiber = fiber_new(), .steps = i};
        ck_assert(fiber_begin(counters[i].fiber, count_steps, &counters[i]) == (i > 0));
    }
    for (unsigned turn = 1; turn < 8; turn++)
        for (unsigned i = turn; i < 8; i++)
            ck_assert(fiber_go_on(counters[i].fiber) == (turn < i));
    for (unsigned i = 0; i < 8; i++) {
        ck_assert(counters[i].count == (i ? i * (i - 1) / 2 : 0));
        fiber_free(counters[i].fiber);
    }
}
END_TEST

static unsigned dive(unsigned depth)
{
    volatile char frame[1024];
    memset((char *)frame, (int)depth, sizeof frame);
    if (depth == 0)
        fiber_leave();
    unsigned below = depth ? dive(depth - 1) : 0;
    return below + (unsigned char)frame[depth % sizeof frame];
}

static void run_deep(void *data)
{
    *(unsigned *)data = dive(2000);
}

START_TEST(deep_stacks_keep_their_frames_and_begin_again)
{
    struct fiber *fiber = fiber_new();
    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned sum = 0;
        unsigned want = 0;
        for (unsigned depth = 0; depth <= 2000; depth++)
            want += (unsigned char)depth;
        ck_assert(fiber_begin(fiber, run_deep, &sum));
        ck_assert(!fiber_go_on(fiber) && sum == want);
        fiber_trim(fiber);
    }
    fiber_free(fiber);
}
END_TEST

static void jump_between_leaves(void *data)
{
    jmp_buf here;
    volatile unsigned *jumps = data;
    if (setjmp(here) == 0) {
        fiber_leave();
        longjmp(here, 1);
    }
    ++*jumps;
    fiber_leave();
    ++*jumps;
}

START_TEST(jumps_over_frames_that_have_left)
{
    struct fiber *fiber = fiber_new();
    unsigned jumps = 0;
    ck_assert(fiber_begin(fiber, jump_between_leaves, &jumps) && jumps == 0);
    ck_assert(fiber_go_on(fiber) && jumps == 1);
    ck_assert(!fiber_go_on(fiber) && jumps == 2);
    fiber_free(fiber);
}
END_TEST

static void run_inner(void *data)
{
    struct counter *counter = data;
    struct counter inner = {.fiber = fiber_new(), .steps = 3};
    bool stands = fiber_begin(inner.fiber, count_steps, &inner);
    while (stands) {
        fiber_leave();
        stands = fiber_go_on(inner.fiber);
    }
    counter->count = inner.count;
    fiber_free(inner.fiber);
}

START_TEST(fibers_inside_fibers)
{
    struct counter counter = {.fiber = fiber_new()};
    unsigned turns = 1;
    for (bool stands = fiber_begin(counter.fiber, run_inner, &counter); stands; turns++)
        stands = fiber_go_on(counter.fiber);
    ck_assert(turns == 4 && counter.count == 3);
    fiber_free(counter.fiber);
}
END_TEST

START_TEST(one_that_stands_is_dropped)
{
    for (unsigned turn = 0; turn < 100; turn++) {
        unsigned sum = 0;
        struct fiber *fiber = fiber_new();
        ck_assert(fiber_begin(fiber, run_deep, &sum));
        fiber_free(fiber);
        ck_assert(sum == 0);
    }
    fiber_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fiber");
    TCase *tests = tcase_create("fiber");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, functions_go_on_where_they_stand);
    tcase_add_test(tests, deep_stacks_keep_their_frames_and_begin_again);
    tcase_add_test(tests, jumps_over_frames_that_have_left);
    tcase_add_test(tests, fibers_inside_fibers);
    tcase_add_test(tests, one_that_stands_is_dropped);
    return suite_run(suite);
}
