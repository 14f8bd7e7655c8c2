/*
 * sim_loop.c - loop.h and worker.h in a simulated world.
 *
 *   event with a callback ─► a turn is scheduled ─► (more events of the loop) ─► hooks ─► streams are flushed
 *
 * A loop works from loop_new on, whether loop_run is called or not. A loop thread is not a real thread: its setup runs
 * at once, its teardown in the turn that finds it stopped. A job's work() and its done() are two events, so that a
 * crash may come between them.
 */
#include "tests/sim/sim_world.h"

#include "shared/block.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/worker.h"
#include "tests/sim/sim_break.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOST_DONE_ONE_IN = 40,
    HOOK_ROUNDS_MAX = 10000,
    MAIL_DELAY_US_MAX = 100,
    WATCH_DELAY_US_MAX = 3000000
};

struct timer {
    struct sim_event event;
    uint64_t repeat_ms;
    timer_fn *on_timer;
    void *owner;
};

struct signal {
    struct list link; /* in loop->signals */
    struct sim_event event;
    int signum;
    signal_fn *on_signal;
    void *owner;
};

struct watch {
    struct list link; /* in watches */
    struct sim_event event;
    char *path;
    watch_fn *on_change;
    void *owner;
};

struct loop_thread {
    struct loop *loop;
    void (*teardown)(void *owner);
    void *owner;
};

struct worker {
    struct list link; /* in loop->workers */
    struct loop *loop;
    bool is_pooled;      /* several threads: jobs end in any order */
    struct job *waiting; /* oldest first */
    struct job **waiting_end;
    struct job *finished;
    struct job **finished_end;
    struct sim_event work;
    struct sim_event done;
};

static struct list watches = {&watches, &watches};

/* Tasks that a crash has dropped, of all worlds. They never run; this list keeps the leak sanitizer from reporting them. */
static struct task **lost;
static size_t lost_count;

/* Does nothing: simulated time does not advance within an event. */
void loop_poll(struct loop *loop)
{
    (void)loop;
}

bool loop_is_polling(const struct loop *loop)
{
    (void)loop;
    return false;
}

/* ---- turns ------------------------------------------------------------------------------------ */

static void hooks_run(struct loop *loop)
{
    int rounds = 0;
    for (bool again = true; again;) {
        again = false;
        for (struct turn_hook *hook = loop->hooks; hook; hook = hook->next)
            again |= hook->run(hook->owner);
        CHECK(++rounds < HOOK_ROUNDS_MAX);
    }
}

static void last_steps_run(struct loop *loop)
{
    for (struct list *link; (link = list_pop(&loop->last));) {
        struct last_step *step = container_of(link, struct last_step, link);
        step->run(step);
    }
}

static void turn_end(struct loop *loop)
{
    hooks_run(loop);
    sim_streams_flush(loop);
    last_steps_run(loop);
    if (!loop->is_stopping)
        return;
    loop->is_stopping = false;
    loop->is_stopped = true;
    if (loop->thread && loop->thread->teardown) {
        loop->thread->teardown(loop->thread->owner);
        sim_streams_flush(loop);
    }
}

static void schedule_turn(struct loop *loop)
{
    if (!sim_is_scheduled(&loop->turn))
        sim_schedule(&loop->turn, sim_random(sim_knobs()->turn_us_max + 1));
}

static void on_turn(struct sim_event *event)
{
    struct loop *loop = container_of(event, struct loop, turn);
    if (!loop->is_stopped)
        turn_end(loop);
}

/* ---- mail ------------------------------------------------------------------------------------- */

static struct task *task_take(struct loop *loop)
{
    struct task *task = loop->tasks;
    loop->tasks = task->next;
    if (!loop->tasks)
        loop->tasks_end = &loop->tasks;
    return task;
}

static void task_lose(struct task *task)
{
    struct task **more = realloc(lost, (lost_count + 1) * sizeof(struct task *));
    CHECK(more);
    lost = more;
    lost[lost_count++] = task;
}

/* Runs one task, and at random some of the next ones. */
static void on_mail(struct sim_event *event)
{
    struct loop *loop = container_of(event, struct loop, mail);
    do {
        struct task *task = task_take(loop);
        task->run(task);
    } while (loop->tasks && sim_random(2));
    if (loop->tasks)
        sim_schedule(&loop->mail, sim_random(MAIL_DELAY_US_MAX));
    else
        sim_unschedule(&loop->mail); /* the loop has also run the tasks that this task posted */
}

void loop_post(struct loop *loop, struct task *task)
{
    if (loop->is_dead) {
        task_lose(task);
        return;
    }
    task->next = NULL;
    *loop->tasks_end = task;
    loop->tasks_end = &task->next;
    if (!sim_is_scheduled(&loop->mail))
        sim_schedule(&loop->mail, sim_random(MAIL_DELAY_US_MAX));
}

/* ---- the loop --------------------------------------------------------------------------------- */

struct loop *loop_new(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    CHECK(loop);
    loop->host = sim_host_now();
    loop->number = sim_number();
    loop->tasks_end = &loop->tasks;
    sim_event_init(&loop->turn, "turn", loop, on_turn);
    sim_event_init(&loop->mail, "mail", loop, on_mail);
    loop->mail.is_callback = true;
    list_init(&loop->last);
    list_init(&loop->dirty);
    list_init(&loop->workers);
    list_init(&loop->signals);
    list_push(&sim_loops, &loop->link);
    return loop;
}

void loop_free(struct loop *loop)
{
    CHECK(loop->opened == 0);
    sim_streams_flush(loop);
    sim_streams_orphan(loop);
    for (struct list *link; (link = list_pop(&loop->signals));)
        free(container_of(link, struct signal, link));
    while (loop->tasks)
        task_lose(task_take(loop));
    sim_unschedule_all(loop);
    list_remove(&loop->link);
    block_unref(loop->shared);
    free(loop);
}

static bool is_stopped(void *owner)
{
    return ((struct loop *)owner)->is_stopped;
}

void loop_run(struct loop *loop)
{
    loop->is_stopped = false;
    CHECK(sim_run_until(is_stopped, loop, UINT64_MAX));
}

void loop_stop(struct loop *loop)
{
    loop->is_stopping = true;
    schedule_turn(loop);
}

uint64_t loop_mono_ms(const struct loop *loop)
{
    (void)loop;
    return clock_mono_us() / 1000;
}

uint64_t loop_mono_us(const struct loop *loop)
{
    (void)loop;
    return clock_mono_us();
}

uint64_t loop_wall_ms(const struct loop *loop)
{
    return loop_wall_us(loop) / 1000;
}

uint64_t loop_wall_us(const struct loop *loop)
{
    return clock_wall_us() + (loop->shift_us ? (uint64_t)atomic_load(loop->shift_us) : 0);
}

void loop_shift_wall(struct loop *loop, const _Atomic int64_t *shift_us)
{
    loop->shift_us = shift_us;
}

void loop_add_hook(struct loop *loop, struct turn_hook *hook)
{
    struct turn_hook **end = &loop->hooks;
    while (*end)
        end = &(*end)->next;
    hook->next = NULL;
    *end = hook;
}

void loop_at_last(struct loop *loop, struct last_step *step)
{
    list_push(&loop->last, &step->link);
    schedule_turn(loop);
}

void sim_loop_crash(struct loop *loop)
{
    for (struct list *link = loop->workers.next; link != &loop->workers; link = link->next) {
        struct worker *worker = container_of(link, struct worker, link);
        for (struct job *job = worker->waiting; job && sim_random(2);) {
            struct job *next = job->next;
            job->work(job);
            job = next;
        }
    }
    while (loop->tasks)
        task_lose(task_take(loop));
    loop->is_dead = true;
}

void sim_loop_fini(void)
{
    CHECK(list_empty(&watches));
}

/* ---- timers ----------------------------------------------------------------------------------- */

static void on_timer(struct sim_event *event)
{
    struct timer *timer = container_of(event, struct timer, event);
    if (timer->repeat_ms)
        timer_start(timer, timer->repeat_ms, timer->repeat_ms);
    timer->on_timer(timer->owner);
}

struct timer *timer_new(struct loop *loop, timer_fn *callback, void *owner)
{
    struct timer *timer = calloc(1, sizeof(*timer));
    CHECK(timer);
    timer->on_timer = callback;
    timer->owner = owner;
    sim_event_init(&timer->event, "timer", loop, on_timer);
    timer->event.is_callback = true;
    loop->opened++;
    return timer;
}

void timer_start(struct timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    timer->repeat_ms = repeat_ms;
    sim_schedule(&timer->event, after_ms * 1000 + sim_random(500));
}

void timer_stop(struct timer *timer)
{
    sim_unschedule(&timer->event);
}

void timer_free(struct timer *timer)
{
    if (!timer)
        return;
    sim_unschedule(&timer->event);
    timer->event.loop->opened--;
    free(timer);
}

/* ---- signals and watches ---------------------------------------------------------------------- */

static void on_signal(struct sim_event *event)
{
    struct signal *entry = container_of(event, struct signal, event);
    entry->on_signal(entry->owner, entry->signum);
}

void loop_on_signal(struct loop *loop, int signum, signal_fn *callback, void *owner)
{
    struct signal *entry = calloc(1, sizeof(*entry));
    CHECK(entry);
    entry->signum = signum;
    entry->on_signal = callback;
    entry->owner = owner;
    sim_event_init(&entry->event, "signal", loop, on_signal);
    entry->event.is_callback = true;
    list_push(&loop->signals, &entry->link);
}

static void loop_signal(struct loop *loop, int signum)
{
    for (struct list *link = loop->signals.next; link != &loop->signals; link = link->next) {
        struct signal *entry = container_of(link, struct signal, link);
        if (entry->signum == signum)
            sim_schedule(&entry->event, sim_random(MAIL_DELAY_US_MAX));
    }
}

void sim_signal(const char *name, int signum)
{
    struct sim_host *host = sim_host_find(name);
    for (struct list *link = sim_loops.next; link != &sim_loops; link = link->next) {
        struct loop *loop = container_of(link, struct loop, link);
        if (loop->host == host)
            loop_signal(loop, signum);
    }
}

static void on_touched(struct sim_event *event)
{
    struct watch *watch = container_of(event, struct watch, event);
    watch->on_change(watch->owner);
}

struct watch *watch_new(struct loop *loop, const char *path, watch_fn *on_change, void *owner)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    CHECK(watch);
    watch->path = strdup(path);
    CHECK(watch->path);
    watch->on_change = on_change;
    watch->owner = owner;
    sim_event_init(&watch->event, "watch", loop, on_touched);
    watch->event.is_callback = true;
    list_push(&watches, &watch->link);
    loop->opened++;
    return watch;
}

void watch_free(struct watch *watch)
{
    sim_unschedule(&watch->event);
    list_remove(&watch->link);
    watch->event.loop->opened--;
    free(watch->path);
    free(watch);
}

void sim_touch(const char *path)
{
    for (struct list *link = watches.next; link != &watches; link = link->next) {
        struct watch *watch = container_of(link, struct watch, link);
        if (strcmp(watch->path, path) == 0)
            sim_schedule(&watch->event, sim_random(WATCH_DELAY_US_MAX));
    }
}

/* ---- threads ---------------------------------------------------------------------------------- */

struct loop_thread *loop_thread_start(struct loop *loop, const char *name,
                                      void (*setup)(void *owner), void (*teardown)(void *owner),
                                      void *owner)
{
    struct loop_thread *thread = calloc(1, sizeof(*thread));
    CHECK(thread);
    (void)name;
    thread->loop = loop;
    thread->teardown = teardown;
    thread->owner = owner;
    loop->thread = thread;
    if (setup)
        setup(owner);
    return thread;
}

/* After a crash the teardown runs as well, because it frees the program's memory. */
void loop_thread_join(struct loop_thread *thread)
{
    struct loop *loop = thread->loop;
    if (!loop->is_stopped) {
        CHECK(loop->is_stopping || loop->is_dead);
        loop->is_stopping = true;
        if (loop->is_dead)
            loop->hooks = NULL;
        sim_unschedule(&loop->turn);
        turn_end(loop);
    }
    loop->thread = NULL;
    free(thread);
}

/* ---- workers ---------------------------------------------------------------------------------- */

static struct job *job_pop(struct job **first, struct job ***end)
{
    struct job *job = *first;
    if (!job)
        return NULL;
    *first = job->next;
    if (!*first)
        *end = first;
    return job;
}

static void job_push(struct job **end[static 1], struct job *job)
{
    job->next = NULL;
    **end = job;
    *end = &job->next;
}

static uint64_t job_delay(void)
{
    return sim_delay(sim_knobs()->job_us_min, sim_knobs()->job_us_max);
}

static void on_work(struct sim_event *event)
{
    struct worker *worker = container_of(event, struct worker, work);
    uint64_t hung_until_us = worker->loop->host->hung_until_us;
    if (hung_until_us > sim_now_us()) {
        sim_schedule(&worker->work, hung_until_us - sim_now_us());
        return;
    }
    while (worker->is_pooled && sim_random(2)) /* at random, a later job is done first */
        job_push(&worker->waiting_end, job_pop(&worker->waiting, &worker->waiting_end));
    struct job *job = job_pop(&worker->waiting, &worker->waiting_end);
    if (sim_broken == BREAK_EARLY_ACK)
        job->done(job);
    job->work(job);
    job_push(&worker->finished_end, job);
    if (!sim_is_scheduled(&worker->done))
        sim_schedule(&worker->done, sim_random(MAIL_DELAY_US_MAX));
    if (worker->waiting)
        sim_schedule(&worker->work, job_delay());
}

static void on_done(struct sim_event *event)
{
    struct worker *worker = container_of(event, struct worker, done);
    struct job *job = worker->finished;
    worker->finished = NULL;
    worker->finished_end = &worker->finished;
    for (struct job *next; job; job = next) { /* done() may free the worker */
        next = job->next;
        bool is_lost = sim_broken == BREAK_EARLY_ACK ||
                       (sim_broken == BREAK_LOST_DONE && sim_random(LOST_DONE_ONE_IN) == 0);
        if (!is_lost)
            job->done(job);
    }
}

struct worker *worker_new(struct loop *loop, const char *name)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    CHECK(worker);
    (void)name;
    worker->loop = loop;
    worker->waiting_end = &worker->waiting;
    worker->finished_end = &worker->finished;
    sim_event_init(&worker->work, "work", loop, on_work);
    sim_event_init(&worker->done, "done", loop, on_done);
    worker->done.is_callback = true;
    list_push(&loop->workers, &worker->link);
    loop->opened++;
    return worker;
}

struct worker_pool {
    unsigned threads;
};

struct worker_pool *worker_pool_new(const char *name, unsigned threads)
{
    struct worker_pool *pool = calloc(1, sizeof *pool);
    CHECK(pool);
    (void)name;
    pool->threads = threads;
    return pool;
}

void worker_pool_free(struct worker_pool *pool)
{
    free(pool);
}

struct worker *worker_new_in(struct loop *loop, struct worker_pool *pool)
{
    struct worker *worker = worker_new(loop, "");
    worker->is_pooled = pool->threads > 1;
    return worker;
}

void worker_submit(struct worker *worker, struct job *job)
{
    job_push(&worker->waiting_end, job);
    if (!sim_is_scheduled(&worker->work))
        sim_schedule(&worker->work, job_delay());
}

void worker_free(struct worker *worker)
{
    while (!worker->loop->is_dead && (worker->waiting || worker->finished)) {
        if (!worker->finished)
            on_work(&worker->work);
        on_done(&worker->done);
    }
    sim_unschedule(&worker->work);
    sim_unschedule(&worker->done);
    list_remove(&worker->link);
    worker->loop->opened--;
    free(worker);
}
