/*
 * worker.h - one background thread that does blocking jobs for a loop, first in, first out.
 *
 *   loop thread: worker_submit(job) ──► worker thread: job->work() ──► loop thread: job->done()
 *
 * The commit thread is one (work = write and fsync). A door: tests/sim/ runs jobs in the one thread,
 * after a simulated delay.
 */
#pragma once

struct loop;
struct worker;

struct job {
    void (*work)(struct job *job); /* on the worker's thread; may block */
    void (*done)(struct job *job); /* on the loop's thread, in order */
    struct job *next;
};

struct worker *worker_new(struct loop *loop, const char *name);
/* The job's memory is the submitter's again in done(). */
void worker_submit(struct worker *worker, struct job *job);
/* Finishes submitted jobs (their done() is called before this returns), ends the thread, frees. */
void worker_free(struct worker *worker);
