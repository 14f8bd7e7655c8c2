/*
 * test_worker.c - jobs run in order, also when the worker is freed while jobs are waiting.
 */
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>

enum { JOBS = 1000 };

struct numbered {
    struct job job;
    int number;
    int worked_at; /* position in the order of work() */
    pthread_t worked_on;
};

static struct loop *loop;
static struct await await;
static struct worker *worker;
static struct numbered jobs[JOBS];
static int worked; /* jobs done; changed by the worker's thread */
static int finished;
static bool all_finished;

static void setup(void)
{
    loop = loop_new();
    await_init(&await, loop);
    worker = worker_new(loop, "test");
}

static void teardown(void)
{
    loop_free(loop);
}

static void work(struct job *job)
{
    struct numbered *numbered = (struct numbered *)job;
    numbered->worked_at = worked++;
    numbered->worked_on = pthread_self();
}

static void done(struct job *job)
{
    struct numbered *numbered = (struct numbered *)job;
    ck_assert_int_eq(numbered->number, finished);
    ck_assert_int_eq(numbered->worked_at, finished);
    all_finished = ++finished == JOBS;
}

static void submit(int from, int to)
{
    for (int i = from; i < to; i++) {
        jobs[i] = (struct numbered){.job.work = work, .job.done = done, .number = i};
        worker_submit(worker, &jobs[i].job);
    }
}

START_TEST(jobs_are_worked_and_done_in_order)
{
    submit(0, JOBS);
    ck_assert(await_until(&await, await_flag, &all_finished));
    ck_assert(!pthread_equal(jobs[0].worked_on, pthread_self()));
    worker_free(worker);
}
END_TEST

START_TEST(free_finishes_what_was_submitted)
{
    submit(0, JOBS);
    worker_free(worker);
    ck_assert_int_eq(finished, JOBS);
}
END_TEST

START_TEST(an_idle_worker_can_be_freed)
{
    worker_free(worker);
}
END_TEST

/* Like a commit: submits the next job when one has finished. */
static void done_and_submit(struct job *job)
{
    if (++finished < 5)
        worker_submit(worker, job);
    else
        all_finished = true;
}

START_TEST(done_may_submit_again)
{
    jobs[0] = (struct numbered){.job.work = work, .job.done = done_and_submit};
    worker_submit(worker, &jobs[0].job);
    ck_assert(await_until(&await, await_flag, &all_finished));
    worker_free(worker);
    ck_assert_int_eq(worked, 5);
}
END_TEST

START_TEST(done_may_submit_again_while_the_worker_is_freed)
{
    jobs[0] = (struct numbered){.job.work = work, .job.done = done_and_submit};
    worker_submit(worker, &jobs[0].job);
    worker_free(worker);
    ck_assert_int_eq(finished, 5);
}
END_TEST

/* Two jobs wait for each other on their threads. */
static pthread_barrier_t barrier;

static void work_meet(struct job *job)
{
    (void)job;
    (void)pthread_barrier_wait(&barrier);
}

static void done_met(struct job *job)
{
    (void)job;
    all_finished = ++finished == 2;
}

START_TEST(jobs_of_a_pool_run_at_the_same_time_and_come_back_to_their_workers)
{
    struct worker_pool *pool = worker_pool_new("pool", 2);
    struct worker *other = worker_new_in(loop, pool);
    struct worker *mine = worker_new_in(loop, pool);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct numbered){.job.work = work_meet, .job.done = done_met};
        worker_submit(i ? mine : other, &jobs[i].job);
    }
    ck_assert(await_until(&await, await_flag, &all_finished));
    worker_free(mine);
    worker_free(other);
    worker_free(worker);
    worker_pool_free(pool);
    pthread_barrier_destroy(&barrier);
}
END_TEST

START_TEST(a_worker_of_a_pool_is_freed_while_another_one_is_busy)
{
    struct worker_pool *pool = worker_pool_new("pool", 3);
    struct worker *mine = worker_new_in(loop, pool);
    struct worker *other = worker_new_in(loop, pool);
    pthread_barrier_init(&barrier, NULL, 2);
    jobs[0] = (struct numbered){.job.work = work_meet, .job.done = done_met};
    jobs[1] = (struct numbered){.job.work = work_meet, .job.done = done_met};
    worker_submit(mine, &jobs[0].job);
    worker_free(other);
    worker_submit(mine, &jobs[1].job);
    worker_free(mine);
    ck_assert_int_eq(finished, 2);
    worker_free(worker);
    worker_pool_free(pool);
    pthread_barrier_destroy(&barrier);
}
END_TEST

/* Many jobs meet in groups: a thread that waits in its job must have woken others. */
enum { MEETING = 4, MEETINGS = 50 };

static void done_meetings(struct job *job)
{
    (void)job;
    all_finished = ++finished == MEETING * MEETINGS;
}

START_TEST(a_job_that_blocks_does_not_hold_up_those_behind_it)
{
    struct worker_pool *pool = worker_pool_new("pool", MEETING);
    struct worker *mine = worker_new_in(loop, pool);
    pthread_barrier_init(&barrier, NULL, MEETING);
    for (int i = 0; i < MEETING * MEETINGS; i++) {
        jobs[i] = (struct numbered){.job.work = work_meet, .job.done = done_meetings};
        worker_submit(mine, &jobs[i].job);
    }
    ck_assert(await_until(&await, await_flag, &all_finished));
    worker_free(mine);
    worker_free(worker);
    worker_pool_free(pool);
    pthread_barrier_destroy(&barrier);
}
END_TEST

static void done_alone(struct job *job)
{
    (void)job;
    all_finished = true;
}

/* One job at a time, each after a pause in which the threads fall asleep or are about to. */
START_TEST(no_wake_up_is_lost)
{
    struct worker_pool *pool = worker_pool_new("pool", 3);
    struct worker *mine = worker_new_in(loop, pool);
    for (int i = 0; i < JOBS; i++) {
        all_finished = false;
        jobs[0] = (struct numbered){.job.work = work, .job.done = done_alone};
        worker_submit(mine, &jobs[0].job);
        ck_assert(await_until(&await, await_flag, &all_finished));
    }
    worker_free(mine);
    worker_free(worker);
    worker_pool_free(pool);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("worker");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, jobs_are_worked_and_done_in_order);
    tcase_add_test(tests, jobs_of_a_pool_run_at_the_same_time_and_come_back_to_their_workers);
    tcase_add_test(tests, a_worker_of_a_pool_is_freed_while_another_one_is_busy);
    tcase_add_test(tests, a_job_that_blocks_does_not_hold_up_those_behind_it);
    tcase_add_test(tests, no_wake_up_is_lost);
    tcase_add_test(tests, free_finishes_what_was_submitted);
    tcase_add_test(tests, an_idle_worker_can_be_freed);
    tcase_add_test(tests, done_may_submit_again);
    tcase_add_test(tests, done_may_submit_again_while_the_worker_is_freed);
    Suite *suite = suite_create("worker");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
