/*
 * test_loop.c - the passes of a loop (turns), hooks, messages from other threads, timers, signals and threads.
 */
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct loop *loop;
static struct await await;

static void setup(void)
{
    loop = loop_new();
    await_init(&await, loop);
}

static void teardown(void)
{
    loop_free(loop);
}

static void set_flag(void *owner)
{
    *(bool *)owner = true;
}

static void count_up(void *owner)
{
    ++*(int *)owner;
}

static bool is_three(void *owner)
{
    return *(int *)owner >= 3;
}

/* ---- timers ---- */

START_TEST(a_timer_fires_once)
{
    bool fired = false;
    struct timer *timer = timer_new(loop, set_flag, &fired);
    timer_start(timer, 1, 0);
    ck_assert(await_until(&await, await_flag, &fired));
    timer_free(timer);
}
END_TEST

START_TEST(a_timer_repeats_and_can_be_set_anew)
{
    int count = 0;
    struct timer *timer = timer_new(loop, count_up, &count);
    timer_start(timer, 100000, 0);
    timer_start(timer, 1, 1);
    ck_assert(await_until(&await, is_three, &count));
    timer_stop(timer);
    timer_free(timer);
}
END_TEST

static void free_own_timer(void *owner)
{
    struct timer **timer = owner;
    timer_free(*timer);
    *timer = NULL;
}

static bool is_null(void *owner)
{
    return *(void **)owner == NULL;
}

START_TEST(a_timer_may_free_itself)
{
    struct timer *timer = timer_new(loop, free_own_timer, &timer);
    timer_start(timer, 0, 1);
    ck_assert(await_until(&await, is_null, &timer));
    timer_free(NULL);
}
END_TEST

enum { STEPS_MAX = 100 };

/* Work in steps, and a task that is posted by the first step. */
struct stepwise {
    struct task task;
    struct timer *timer;
    int steps;
    int steps_before_task;
};

static void note_task(struct task *task)
{
    struct stepwise *work = container_of(task, struct stepwise, task);
    work->steps_before_task = work->steps;
}

static void make_step(void *owner)
{
    struct stepwise *work = owner;
    if (++work->steps == 1)
        loop_post(loop, &work->task);
    if (work->steps < STEPS_MAX)
        timer_start(work->timer, 0, 0);
}

static bool are_all_done(void *owner)
{
    return ((struct stepwise *)owner)->steps == STEPS_MAX;
}

START_TEST(events_do_not_wait_for_work_in_steps)
{
    struct stepwise work = {.task.run = note_task};
    work.timer = timer_new(loop, make_step, &work);
    timer_start(work.timer, 0, 0);
    ck_assert(await_until(&await, are_all_done, &work));
    ck_assert_int_gt(work.steps_before_task, 0);
    ck_assert_int_lt(work.steps_before_task, 3);
    timer_free(work.timer);
}
END_TEST

/* A slow command polls the loop until the other timer has fired. */
struct polling {
    struct timer *slow;
    struct timer *other;
    bool was_polling;
    bool is_done;
};

static void note_polling(void *owner)
{
    struct polling *polling = owner;
    polling->was_polling = loop_is_polling(loop);
    polling->is_done = true;
}

static void poll_slowly(void *owner)
{
    struct polling *polling = owner;
    timer_start(polling->other, 1, 0);
    while (!polling->is_done)
        loop_poll(loop);
}

START_TEST(a_timer_that_fires_while_the_loop_is_polled_can_see_it)
{
    struct polling polling = {0};
    polling.slow = timer_new(loop, poll_slowly, &polling);
    polling.other = timer_new(loop, note_polling, &polling);
    timer_start(polling.slow, 1, 0);
    ck_assert(await_until(&await, await_flag, &polling.is_done));
    ck_assert(polling.was_polling && !loop_is_polling(loop));
    timer_free(polling.slow);
    timer_free(polling.other);
}
END_TEST

START_TEST(a_timer_of_0_ms_can_be_stopped)
{
    bool fired = false;
    struct timer *timer = timer_new(loop, set_flag, &fired);
    struct stepwise work = {.task.run = note_task};
    work.timer = timer_new(loop, make_step, &work);
    timer_start(timer, 0, 0);
    timer_stop(timer);
    timer_start(work.timer, 0, 0);
    ck_assert(await_until(&await, are_all_done, &work));
    ck_assert(!fired);
    timer_start(timer, 0, 0);
    timer_free(timer);
    timer_free(work.timer);
}
END_TEST

/* ---- hooks ---- */

struct chain {
    struct turn_hook first;
    struct turn_hook second;
    bool timer_fired;
    int work; /* 1 after the timer has expired */
    int first_saw;
    int second_saw;
};

static bool first_hook(void *owner)
{
    struct chain *chain = owner;
    if (chain->work)
        chain->first_saw++;
    return false;
}

static bool second_hook(void *owner)
{
    struct chain *chain = owner;
    if (chain->work == 0 || chain->second_saw == 3)
        return false;
    chain->second_saw++;
    return true;
}

static void make_work(void *owner)
{
    struct chain *chain = owner;
    chain->work = 1;
    chain->timer_fired = true;
}

START_TEST(hooks_run_again_until_none_did_anything)
{
    struct chain chain = {.first = {.run = first_hook, .owner = &chain},
                          .second = {.run = second_hook, .owner = &chain}};
    loop_add_hook(loop, &chain.first);
    loop_add_hook(loop, &chain.second);
    struct timer *timer = timer_new(loop, make_work, &chain);
    timer_start(timer, 1, 0);
    ck_assert(await_until(&await, await_flag, &chain.timer_fired));
    ck_assert_int_eq(chain.second_saw, 3);
    ck_assert_int_ge(chain.first_saw, 4);
    timer_free(timer);
}
END_TEST

/* A timer that expires during the hooks is followed by another run of the hooks before the loop waits. */
static bool slow_hook(void *owner)
{
    (void)owner;
    for (uint64_t start = clock_mono_us(); clock_mono_us() < start + 3000;) {
    }
    return false;
}

START_TEST(work_of_a_timer_is_never_left_for_the_next_event)
{
    int count = 0;
    struct turn_hook slow = {.run = slow_hook};
    loop_add_hook(loop, &slow);
    for (int i = 0; i < 20; i++) {
        struct timer *timer = timer_new(loop, count_up, &count);
        timer_start(timer, 2, 0);
        count = 2;
        /* a timeout means that the hooks did not run again */
        ck_assert(await_until(&await, is_three, &count));
        timer_free(timer);
    }
}
END_TEST

/* ---- last steps ---- */

struct last_steps {
    struct last_step first, second;
    struct turn_hook hook;
    int turns;
    int runs[3]; /* of the first, of the second, and of the hook at that time */
};

static bool register_both(void *owner)
{
    struct last_steps *steps = owner;
    if (steps->turns++ == 0)
        loop_at_last(loop, &steps->first);
    return steps->turns < 3; /* the hooks run three times in this turn */
}

static void run_first(struct last_step *step)
{
    struct last_steps *steps = container_of(step, struct last_steps, first);
    steps->runs[0]++;
    loop_at_last(loop, &steps->second);
}

static void run_second(struct last_step *step)
{
    struct last_steps *steps = container_of(step, struct last_steps, second);
    steps->runs[1]++;
    steps->runs[2] = steps->turns;
    loop_stop(loop);
}

START_TEST(last_steps_run_once_after_all_hooks)
{
    struct last_steps steps = {.first = {.run = run_first}, .second = {.run = run_second}};
    steps.hook = (struct turn_hook){.run = register_both, .owner = &steps};
    list_init(&steps.first.link);
    list_init(&steps.second.link);
    loop_add_hook(loop, &steps.hook);
    loop_run(loop);
    ck_assert_int_eq(steps.runs[0], 1);
    ck_assert_int_eq(steps.runs[1], 1);
    ck_assert_int_eq(steps.runs[2], 3);
}
END_TEST

/* ---- mail ---- */

enum { SENDERS = 4, LETTERS = 20000 };

struct letter {
    struct task task;
    int sender;
    int number;
};

static int next_number[SENDERS];
static int letters_read;
static bool all_read;

static void read_letter(struct task *task)
{
    struct letter *letter = (struct letter *)task;
    ck_assert_int_eq(letter->number, next_number[letter->sender]);
    next_number[letter->sender]++;
    free(letter);
    all_read = ++letters_read == SENDERS * LETTERS;
}

static void *send_letters(void *owner)
{
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter = malloc(sizeof(*letter));
        *letter =
            (struct letter){.task.run = read_letter, .sender = (int)(intptr_t)owner, .number = i};
        loop_post(loop, &letter->task);
    }
    return NULL;
}

START_TEST(tasks_of_one_sender_run_in_order)
{
    pthread_t senders[SENDERS];
    for (intptr_t i = 0; i < SENDERS; i++)
        pthread_create(&senders[i], NULL, send_letters, (void *)i);
    ck_assert(await_until(&await, await_flag, &all_read));
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
}
END_TEST

/* ---- threads ---- */

struct echo_thread {
    struct loop *loop;
    struct task ping;
    struct task pong;
    atomic_int set_up;
    atomic_int torn_down;
    struct timer *timer;
    bool ponged;
};

static void thread_setup(void *owner)
{
    struct echo_thread *echo = owner;
    echo->timer = timer_new(echo->loop, set_flag, &echo->ponged);
    timer_start(echo->timer, 100000, 0);
    atomic_store(&echo->set_up, 1);
}

static void thread_teardown(void *owner)
{
    struct echo_thread *echo = owner;
    timer_free(echo->timer);
    atomic_store(&echo->torn_down, 1);
}

static void on_pong(struct task *task)
{
    struct echo_thread *echo =
        (struct echo_thread *)((char *)task - offsetof(struct echo_thread, pong));
    echo->ponged = true;
}

static void on_ping(struct task *task)
{
    struct echo_thread *echo =
        (struct echo_thread *)((char *)task - offsetof(struct echo_thread, ping));
    ck_assert_int_eq(atomic_load(&echo->set_up), 1);
    loop_post(loop, &echo->pong);
}

START_TEST(two_loops_exchange_tasks)
{
    struct echo_thread echo = {.ping.run = on_ping, .pong.run = on_pong};
    echo.loop = loop_new();
    struct loop_thread *thread =
        loop_thread_start(echo.loop, "echo", thread_setup, thread_teardown, &echo);
    loop_post(echo.loop, &echo.ping);
    ck_assert(await_until(&await, await_flag, &echo.ponged));
    loop_stop(echo.loop);
    loop_thread_join(thread);
    ck_assert_int_eq(atomic_load(&echo.torn_down), 1);
    loop_free(echo.loop);
}
END_TEST

/* Each loop answers every task at once, now when it is about to sleep, and now while it works. */
enum { BALLS = 3, PASSES = 30000 };

struct ball {
    struct task task;
    struct loop *other;
    int passes;
    bool is_there; /* on the other loop */
};

static int balls_left;

static void hit_ball(struct task *task)
{
    struct ball *ball = container_of(task, struct ball, task);
    ball->is_there = !ball->is_there;
    for (volatile int i = 0; i < ball->passes % 300; i++)
        ;
    if (ball->passes++ < PASSES || ball->is_there)
        loop_post(ball->is_there ? loop : ball->other, task);
    else
        balls_left--;
}

static bool are_balls_back(void *owner)
{
    (void)owner;
    return balls_left == 0;
}

START_TEST(no_task_is_left_while_a_loop_falls_asleep)
{
    struct ball balls[BALLS];
    struct loop *other = loop_new();
    struct loop_thread *thread = loop_thread_start(other, "other", NULL, NULL, NULL);
    balls_left = BALLS;
    for (int i = 0; i < BALLS; i++) {
        balls[i] = (struct ball){.task.run = hit_ball, .other = other, .passes = i};
        loop_post(other, &balls[i].task);
    }
    ck_assert(await_until(&await, are_balls_back, NULL));
    loop_stop(other);
    loop_thread_join(thread);
    loop_free(other);
}
END_TEST

START_TEST(a_stop_before_the_run_is_not_lost)
{
    struct loop *other = loop_new();
    loop_stop(other);
    loop_thread_join(loop_thread_start(other, "short", NULL, NULL, NULL));
    loop_free(other);
}
END_TEST

/* ---- signals ---- */

static void on_signal(void *owner, int signum)
{
    *(bool *)owner = signum == SIGUSR1;
    loop_stop(loop);
}

START_TEST(a_signal_reaches_the_loop_and_may_stop_it)
{
    bool came = false;
    loop_on_signal(loop, SIGUSR1, on_signal, &came);
    raise(SIGUSR1);
    loop_run(loop);
    ck_assert(came);
}
END_TEST

START_TEST(a_signal_reaches_the_loop_when_another_one_that_handled_it_has_ended)
{
    bool came = false, other_came = false;
    struct loop *other = loop_new();
    loop_on_signal(loop, SIGUSR1, on_signal, &came);
    loop_on_signal(other, SIGUSR1, on_signal, &other_came);
    loop_free(other);
    raise(SIGUSR1);
    loop_run(loop);
    ck_assert(came && !other_came);
}
END_TEST

static bool is_later(void *owner)
{
    return loop_mono_ms(loop) > *(uint64_t *)owner;
}

START_TEST(time_passes_between_turns)
{
    uint64_t start = loop_mono_ms(loop);
    int count = 0;
    struct timer *tick = timer_new(loop, count_up, &count);
    timer_start(tick, 1, 1);
    ck_assert(await_until(&await, is_later, &start));
    ck_assert_uint_gt(loop_wall_ms(loop), 1700000000000u);
    ck_assert_uint_eq(loop_wall_us(loop), loop_wall_us(loop));
    timer_free(tick);
}
END_TEST

START_TEST(a_loop_with_an_open_timer_cannot_be_freed)
{
    struct loop *other = loop_new();
    (void)timer_new(other, set_flag, NULL);
    loop_free(other);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("loop");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_timer_fires_once);
    tcase_add_test(tests, a_timer_repeats_and_can_be_set_anew);
    tcase_add_test(tests, a_timer_may_free_itself);
    tcase_add_test(tests, events_do_not_wait_for_work_in_steps);
    tcase_add_test(tests, a_timer_of_0_ms_can_be_stopped);
    tcase_add_test(tests, a_timer_that_fires_while_the_loop_is_polled_can_see_it);
    tcase_add_test(tests, hooks_run_again_until_none_did_anything);
    tcase_add_test(tests, last_steps_run_once_after_all_hooks);
    tcase_add_test(tests, work_of_a_timer_is_never_left_for_the_next_event);
    tcase_add_test(tests, tasks_of_one_sender_run_in_order);
    tcase_add_test(tests, two_loops_exchange_tasks);
    tcase_add_test(tests, no_task_is_left_while_a_loop_falls_asleep);
    tcase_add_test(tests, a_stop_before_the_run_is_not_lost);
    tcase_add_test(tests, a_signal_reaches_the_loop_and_may_stop_it);
    tcase_add_test(tests, a_signal_reaches_the_loop_when_another_one_that_handled_it_has_ended);
    tcase_add_test(tests, time_passes_between_turns);
    tcase_add_test_raise_signal(tests, a_loop_with_an_open_timer_cannot_be_freed, SIGABRT);
    Suite *suite = suite_create("loop");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
