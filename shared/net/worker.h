/*
 * worker.h - background threads that do blocking jobs for a loop.
 *
 *   loop thread: worker_submit(job) ──► a thread: job->work() ──► loop thread: job->done()
 *
 * A worker of its own has one thread: first in, first out. The commit thread is one (work = write and fsync).
 * Workers of a pool share its threads: jobs begin in order, run at the same time and end in any order. The readers
 * of all partitions do. Implementations: tests/sim/ runs jobs in the one thread, after a simulated delay.
 */
#pragma once

struct loop;
struct worker;
struct worker_pool;

struct job {
    void (*work)(struct job *job); /* on the worker's thread; may block */
    void (*done)(struct job *job); /* on the loop's thread */
    struct job *next;
    struct worker *worker; /* it was submitted to */
};

struct worker *worker_new(struct loop *loop, const char *name);
/* Threads for workers of any loops. */
struct worker_pool *worker_pool_new(const char *name, unsigned threads);
/* When all its workers have been freed. NULL is allowed. */
void worker_pool_free(struct worker_pool *pool);
struct worker *worker_new_in(struct loop *loop, struct worker_pool *pool);
/* The job's memory is the submitter's again in done(). */
void worker_submit(struct worker *worker, struct job *job);
/* Finishes submitted jobs (their done() is called before this returns), ends a thread of its own, frees. */
void worker_free(struct worker *worker);
