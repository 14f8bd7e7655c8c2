/*
 * worker_uv.c - worker.h with a thread: two lists under one lock.
 *
 *   worker_submit ─► waiting ─► thread: work() ─► finished ─► one task in the loop's mail ─► done() of all
 *
 * However many jobs finish before the loop gets to it, the mail carries the worker's task once.
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

struct worker {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, up to `task` */
    pthread_cond_t changed;
    struct job_list waiting;
    struct job_list finished;
    bool is_posted; /* `task` is in the loop's mail */
    bool is_ending;
    struct task task;
    char name[16];
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

/* The next job to do; NULL: the thread shall end. */
static struct job *job_wait(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (!worker->waiting.first && !worker->is_ending)
        pthread_cond_wait(&worker->changed, &worker->lock);
    struct job *job = job_list_pop(&worker->waiting);
    pthread_mutex_unlock(&worker->lock);
    return job;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    pthread_setname_np(pthread_self(), worker->name);
    for (struct job *job; (job = job_wait(worker));) {
        job->work(job);
        pthread_mutex_lock(&worker->lock);
        job_list_push(&worker->finished, job);
        bool post = !worker->is_posted;
        worker->is_posted = true;
        pthread_mutex_unlock(&worker->lock);
        if (post)
            loop_post(worker->loop, &worker->task);
    }
    return NULL;
}

static void finish_jobs(struct job *job)
{
    while (job) {
        struct job *next = job->next;
        job->done(job);
        job = next;
    }
}

static struct job *take_finished(struct worker *worker)
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
    finish_jobs(take_finished(container_of(task, struct worker, task)));
}

struct worker *worker_new(struct loop *loop, const char *name)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    CHECK(worker);
    worker->loop = loop;
    worker->task.run = on_finished;
    strncpy(worker->name, name, sizeof(worker->name) - 1);
    job_list_init(&worker->waiting);
    job_list_init(&worker->finished);
    CHECK(pthread_mutex_init(&worker->lock, NULL) == 0);
    CHECK(pthread_cond_init(&worker->changed, NULL) == 0);
    CHECK(pthread_create(&worker->thread, NULL, worker_main, worker) == 0);
    loop->opened++;
    return worker;
}

void worker_submit(struct worker *worker, struct job *job)
{
    pthread_mutex_lock(&worker->lock);
    job_list_push(&worker->waiting, job);
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

void worker_free(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->is_ending = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    CHECK(pthread_join(worker->thread, NULL) == 0);
    if (worker->is_posted)
        loop_unpost(worker->loop, &worker->task);
    finish_jobs(take_finished(worker));
    for (struct job *job; (job = job_list_pop(&worker->waiting));) { /* submitted by a done() */
        job->work(job);
        job->done(job);
    }
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    worker->loop->opened--;
    free(worker);
}
