/*
 * worker_uv.c - worker.h with threads: jobs wait in a queue of the pool, finished jobs in a list of their worker.
 *
 *   worker_submit ─► pool's waiting ─► a thread: work() ─► worker's finished ─► one task in the loop's mail
 *                                                                                         │
 *                                                                          done() of all ◄┘
 *
 * Threads are woken one after the other: worker_submit wakes one, and a thread that begins a job wakes the next one if more
 * jobs wait. So few threads do many short jobs, which saves most of the wake-ups; and a thread that blocks in its job has woken
 * another one before. Whenever jobs wait, a thread has been woken (`is_waking`) or all are busy.
 *
 * A worker with its own thread is the only worker of a pool with one thread. The task is posted once for all jobs that
 * finish before the loop runs it. The threads of a pool start with its first job: a process with many partitions has many workers that
 * seldom have one (a backup, a compaction of the whole store).
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"
#include "shared/net/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct job_list {
    struct job *first;
    struct job **end;
};

struct worker_pool {
    pthread_mutex_t lock; /* guards the following fields, up to `is_ending` */
    pthread_cond_t changed;
    struct job_list waiting;
    unsigned idle;  /* threads that wait for `changed` */
    bool is_waking; /* `changed` was signalled, and no idle thread runs yet */
    bool is_ending;
    bool is_started; /* the threads run */
    char name[16];
    unsigned count; /* of the threads */
    pthread_t threads[];
};

struct worker {
    struct loop *loop;
    struct worker_pool *pool;
    bool owns_pool;
    pthread_mutex_t lock; /* guards the following fields, up to `is_posted` */
    pthread_cond_t idle;
    struct job_list finished;
    unsigned under_way; /* submitted and not finished */
    bool is_posted;     /* `task` is in the loop's mail, or about to be */
    struct task task;
};

static void job_list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void job_list_push(struct job_list *list, struct job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct job *job_list_pop(struct job_list *list)
{
    struct job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->end = &list->first;
    return job;
}

/* ---- a pool's threads ---- */

/* Releases the lock, and wakes a thread if jobs wait and no woken thread has begun yet. */
static void unlock_and_wake(struct worker_pool *pool)
{
    bool wakes = pool->waiting.first && pool->idle && !pool->is_waking;
    pool->is_waking |= wakes;
    pthread_mutex_unlock(&pool->lock);
    if (wakes)
        pthread_cond_signal(&pool->changed);
}

/* Waits for the next job; NULL: the thread must end. */
static struct job *job_wait(struct worker_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->waiting.first && !pool->is_ending) {
        pool->idle++;
        pthread_cond_wait(&pool->changed, &pool->lock);
        pool->idle--;
        pool->is_waking = false;
    }
    struct job *job = job_list_pop(&pool->waiting);
    unlock_and_wake(pool);
    return job;
}

/* True: `task` is to be posted. */
static bool push_finished(struct worker *worker, struct job *job)
{
    pthread_mutex_lock(&worker->lock);
    bool must_post = !worker->is_posted;
    job_list_push(&worker->finished, job);
    worker->is_posted = true;
    pthread_mutex_unlock(&worker->lock);
    return must_post;
}

/* The loop, which takes the lock, is woken outside it. Once `under_way` is 0 and the lock is released, another thread may free the
 * worker. */
static void job_finish(struct job *job)
{
    struct worker *worker = job->worker;
    if (push_finished(worker, job))
        loop_post(worker->loop, &worker->task);
    pthread_mutex_lock(&worker->lock);
    if (--worker->under_way == 0)
        pthread_cond_signal(&worker->idle);
    pthread_mutex_unlock(&worker->lock);
}

static void *pool_main(void *argument)
{
    struct worker_pool *pool = argument;
    pthread_setname_np(pthread_self(), pool->name);
    for (struct job *job; (job = job_wait(pool));) {
        job->work(job);
        job_finish(job);
    }
    return NULL;
}

/* The caller holds the lock. */
static void start_threads(struct worker_pool *pool)
{
    pool->is_started = true;
    for (unsigned i = 0; i < pool->count; i++)
        CHECK(pthread_create(&pool->threads[i], NULL, pool_main, pool) == 0);
}

struct worker_pool *worker_pool_new(const char *name, unsigned threads)
{
    CHECK(threads > 0);
    struct worker_pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->threads[0]);
    CHECK(pool);
    strncpy(pool->name, name, sizeof(pool->name) - 1);
    pool->count = threads;
    job_list_init(&pool->waiting);
    CHECK(pthread_mutex_init(&pool->lock, NULL) == 0);
    CHECK(pthread_cond_init(&pool->changed, NULL) == 0);
    return pool;
}

void worker_pool_free(struct worker_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    CHECK(!pool->waiting.first);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; pool->is_started && i < pool->count; i++)
        CHECK(pthread_join(pool->threads[i], NULL) == 0);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* ---- a loop's worker ---- */

static void finish_jobs(struct job *job)
{
    while (job) {
        struct job *next = job->next;
        job->done(job);
        job = next;
    }
}

static struct job *pop_finished(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    struct job *first = worker->finished.first;
    job_list_init(&worker->finished);
    worker->is_posted = false;
    pthread_mutex_unlock(&worker->lock);
    return first;
}

static void on_finished(struct task *task)
{
    finish_jobs(pop_finished(container_of(task, struct worker, task)));
}

struct worker *worker_new_in(struct loop *loop, struct worker_pool *pool)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    CHECK(worker);
    worker->loop = loop;
    worker->pool = pool;
    worker->task.run = on_finished;
    job_list_init(&worker->finished);
    CHECK(pthread_mutex_init(&worker->lock, NULL) == 0);
    CHECK(pthread_cond_init(&worker->idle, NULL) == 0);
    loop->opened++;
    return worker;
}

struct worker *worker_new(struct loop *loop, const char *name)
{
    struct worker *worker = worker_new_in(loop, worker_pool_new(name, 1));
    worker->owns_pool = true;
    return worker;
}

void worker_submit(struct worker *worker, struct job *job)
{
    struct worker_pool *pool = worker->pool;
    job->worker = worker;
    pthread_mutex_lock(&worker->lock);
    worker->under_way++;
    pthread_mutex_unlock(&worker->lock);
    pthread_mutex_lock(&pool->lock);
    if (!pool->is_started)
        start_threads(pool);
    job_list_push(&pool->waiting, job);
    unlock_and_wake(pool);
}

/* Waits until no job is under way; returns the finished jobs, NULL when there are none. */
static struct job *wait_finished(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->under_way)
        pthread_cond_wait(&worker->idle, &worker->lock);
    bool is_posted = worker->is_posted;
    pthread_mutex_unlock(&worker->lock);
    if (is_posted)
        loop_unpost(worker->loop, &worker->task);
    return pop_finished(worker);
}

void worker_free(struct worker *worker)
{
    for (struct job *job; (job = wait_finished(worker));)
        finish_jobs(job); /* done() may submit more jobs */
    if (worker->owns_pool)
        worker_pool_free(worker->pool);
    pthread_cond_destroy(&worker->idle);
    pthread_mutex_destroy(&worker->lock);
    worker->loop->opened--;
    free(worker);
}
