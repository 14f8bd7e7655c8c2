/*
 * worker.h - background threads that do blocking jobs for a loop.
 *
 *   loop thread: worker_submit(job) ──► a thread: job->work() ──► loop thread: job->done()
 *
 * A worker without a pool has its own thread, which runs jobs one after the other: for example the commit thread, whose
 * jobs write and fsync a batch. Workers of a pool share its threads: jobs begin in order, run concurrently and end in any
 * order. The readers of all partitions share a pool. Implementations: worker_uv.c; tests/sim/ runs jobs in its one thread,
 * after a simulated delay.
 */
#pragma once

struct loop;
struct worker;
struct worker_pool;

struct job {
    void (*work)(struct job *job); /* called on the worker's thread; may block */
    void (*done)(struct job *job); /* called on the loop's thread */
    struct job *next;
    struct worker *worker; /* to which it was submitted */
};

struct worker *worker_new(struct loop *loop, const char *name);
/* A pool of threads for workers of several loops. */
struct worker_pool *worker_pool_new(const char *name, unsigned threads);
/* Call after all its workers have been freed. NULL is allowed. */
void worker_pool_free(struct worker_pool *pool);
struct worker *worker_new_in(struct loop *loop, struct worker_pool *pool);
/* The job's memory belongs to the worker until done() is called. */
void worker_submit(struct worker *worker, struct job *job);
/* Waits for the submitted jobs (calls their done() before returning), ends the worker's own thread, frees the
 * worker. */
void worker_free(struct worker *worker);
