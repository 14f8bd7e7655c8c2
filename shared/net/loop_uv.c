/*
 * loop_uv.c - loop.h with libuv: turns, mail, timers, signals, threads. net_uv.h has a drawing of the turn.
 *
 * The mail of a loop, its posted tasks, is a lock-free stack: every sender pushes; only the loop pops, always the whole
 * stack, which it reverses. A sender wakes the loop only if the stack was empty. A task that is posted after the loop has
 * ended is not run.
 */
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/crash.h"
#include "shared/net/net_uv.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* then the loop polls once without waiting before the hooks continue */
enum { HOOK_ROUNDS_MAX = 64 };

struct timer {
    uv_timer_t uv;
    struct list link; /* in loop->soon */
    struct loop *loop;
    timer_fn *on_timer;
    void *owner;
};

struct signal {
    uv_signal_t uv;
    struct list link; /* in loop->signals */
    signal_fn *on_signal;
    void *owner;
};

struct loop_thread {
    pthread_t thread;
    struct loop *loop;
    char name[16];
    void (*setup)(void *owner);
    void (*teardown)(void *owner);
    void *owner;
};

/* ---- the turn --------------------------------------------------------------------------------- */

/* True when the hooks must run again in the next turn. */
static bool hooks_run(struct loop *loop)
{
    for (int round = 0; round < HOOK_ROUNDS_MAX; round++) {
        bool again = false;
        for (struct turn_hook *hook = loop->hooks; hook; hook = hook->next)
            again |= hook->run(hook->owner);
        if (!again)
            return false;
    }
    return true;
}

static void last_steps_run(struct loop *loop)
{
    for (struct list *link; (link = list_pop(&loop->last));) {
        struct last_step *step = container_of(link, struct last_step, link);
        step->run(step);
    }
}

static void on_again(uv_idle_t *idle)
{
    (void)idle;
}

static void on_uv_timer(uv_timer_t *uv)
{
    struct timer *timer = container_of(uv, struct timer, uv);
    timer->on_timer(timer->owner);
}

/* Lets the timers fire that were started with 0 ms, after the next poll. libuv 1.44 itself would call a timer that its callback
 * starts with 0 ms again and again, before it polls. */
static void soon_timers_start(struct loop *loop)
{
    for (struct list *link; (link = list_pop(&loop->soon));)
        uv_timer_start(&container_of(link, struct timer, link)->uv, on_uv_timer, 0, 0);
}

static void turn_end(struct loop *loop)
{
    bool again = false;
    for (int round = 0; round < HOOK_ROUNDS_MAX; round++) {
        streams_deliver(loop);
        again = hooks_run(loop);
        if (again || list_empty(&loop->streams.telling))
            break;
    }
    streams_flush(loop);
    /* handshakes are slow: they run last, so that finished replies are sent before */
    again |= handshakes_run(loop);
    again |= streams_bury(loop);
    linger_slim(loop);
    last_steps_run(loop);
    streams_flush(loop); /* what a last step sends does not wait for an event */
    soon_timers_start(loop);
    if (again || !list_empty(&loop->streams.telling))
        uv_idle_start(&loop->again, on_again);
    else
        uv_idle_stop(&loop->again);
    loop->time.turns++;
}

static void on_uv_prepare(uv_prepare_t *prepare)
{
    struct loop *loop = prepare->data;
    if (loop->is_polling) {
        streams_deliver(loop);
        streams_flush(loop);
        last_steps_run(loop);
        return;
    }
    turn_end(loop);
    if (!wake_sleep(loop))
        uv_idle_start(&loop->again, on_again);
    if (atomic_load_explicit(&loop->is_stopping, memory_order_acquire))
        uv_stop(&loop->uv);
}

/* ---- posted tasks ----------------------------------------------------------------------------- */

static void mail_pop(struct loop *loop)
{
    struct task *task = atomic_exchange_explicit(&loop->mail, NULL, memory_order_acquire);
    struct task *oldest = NULL;
    while (task) {
        struct task *next = task->next;
        task->next = oldest;
        oldest = task;
        task = next;
    }
    *loop->tasks_end = oldest;
    while (*loop->tasks_end)
        loop->tasks_end = &(*loop->tasks_end)->next;
}

static void mail_run(struct loop *loop)
{
    mail_pop(loop);
    while (loop->tasks) {
        struct task *task = loop->tasks;
        loop->tasks = task->next;
        if (!loop->tasks)
            loop->tasks_end = &loop->tasks;
        task->run(task);
    }
}

static void on_wake(struct loop *loop)
{
    pipes_deliver(loop);
    if (!loop->is_polling)
        mail_run(loop);
}

void loop_post(struct loop *loop, struct task *task)
{
    struct task *head = atomic_load_explicit(&loop->mail, memory_order_relaxed);
    do {
        task->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&loop->mail, &head, task, memory_order_release,
                                                    memory_order_relaxed));
    if (!head)
        wake_call(loop);
}

void loop_unpost(struct loop *loop, struct task *task)
{
    mail_pop(loop);
    struct task **link = &loop->tasks;
    while (*link && *link != task)
        link = &(*link)->next;
    CHECK(*link);
    *link = task->next;
    if (!*link)
        loop->tasks_end = link;
}

/* ---- the loop --------------------------------------------------------------------------------- */

struct loop *loop_new(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    CHECK(loop);
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK(uv_loop_init(&loop->uv) == 0);
    uv_prepare_init(&loop->uv, &loop->turn);
    uv_idle_init(&loop->uv, &loop->again);
    wake_init(loop, on_wake);
    loop->turn.data = loop;
    loop->tasks_end = &loop->tasks;
    list_init(&loop->last);
    list_init(&loop->soon);
    list_init(&loop->streams.dirty);
    list_init(&loop->streams.telling);
    list_init(&loop->streams.delivering);
    list_init(&loop->streams.dead);
    list_init(&loop->signals);
    list_init(&loop->handshakes.all);
    list_init(&loop->handshakes.ready);
    linger_init(loop);
    pipes_init(loop);
    loop->time.turns = 1;
    uv_prepare_start(&loop->turn, on_uv_prepare);
    return loop;
}

static void run_until_closed(struct loop *loop)
{
    while (loop->closing > 0)
        uv_run(&loop->uv, UV_RUN_ONCE);
}

void loop_drain(struct loop *loop)
{
    loop->hooks = NULL;
    run_until_closed(loop);
    block_unref(loop->shared);
    loop->shared = NULL;
}

static void on_signal_closed(uv_handle_t *handle)
{
    free(container_of((uv_signal_t *)handle, struct signal, uv));
}

static void ignore_if_unhandled(int signum)
{
    struct sigaction now;
    CHECK(sigaction(signum, NULL, &now) == 0);
    if (now.sa_handler == SIG_DFL)
        (void)signal(signum, SIG_IGN);
}

/* Closes the handlers, and has the process ignore their signals from now on, unless another loop handles them, too. When the last handler is
 * closed, libuv gives its signal the default action again, which ends the process. A second SIGTERM would then end a process that is about
 * to exit with code 0, as if it had failed. All signals are blocked here, so that none comes between the two steps. */
static void close_signals(struct loop *loop)
{
    sigset_t all;
    sigset_t before;
    CHECK(sigfillset(&all) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    for (struct list *link; (link = list_pop(&loop->signals));) {
        uv_signal_t *uv = &container_of(link, struct signal, link)->uv;
        int signum = uv->signum;
        uv_close((uv_handle_t *)uv, on_signal_closed);
        ignore_if_unhandled(signum);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

void loop_free(struct loop *loop)
{
    CHECK(loop->opened == 0);
    loop_drain(loop);
    close_signals(loop);
    uv_close((uv_handle_t *)&loop->turn, NULL);
    uv_close((uv_handle_t *)&loop->again, NULL);
    uv_close((uv_handle_t *)&loop->lingering.timer, NULL);
    wake_close(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop->uv) == 0);
    pipes_fini(loop);
    free(loop);
}

void loop_run(struct loop *loop)
{
    CHECK(!loop->is_running);
    loop->is_running = true;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    mail_run(loop);
    turn_end(loop);
    run_until_closed(loop);
    turn_end(loop);
    atomic_store(&loop->is_stopping, false);
    loop->is_running = false;
}

/* Streams that are closed during this call are freed at the end of the turn, because callers may still use them. */
void loop_poll(struct loop *loop)
{
    CHECK(!loop->is_polling);
    /* the event that called this function may be using bytes of this block */
    struct block *shared = loop->shared;
    loop->shared = NULL;
    loop->is_polling = true;
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    streams_deliver(loop);
    streams_flush(loop);
    loop->is_polling = false;
    block_unref(loop->shared);
    loop->shared = shared;
    wake_call(loop); /* tasks may wait */
}

bool loop_is_polling(const struct loop *loop)
{
    return loop->is_polling;
}

void loop_stop(struct loop *loop)
{
    atomic_store_explicit(&loop->is_stopping, true, memory_order_release);
    wake_call(loop);
}

uint64_t loop_mono_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}

/* Like loop_mono_ms, but in µs; read on first use in a turn. */
uint64_t loop_mono_us(const struct loop *loop)
{
    struct loop *mutable = (struct loop *)loop;
    if (loop->time.mono_turn != loop->time.turns) {
        mutable->time.mono_us = clock_mono_us();
        mutable->time.mono_turn = loop->time.turns;
    }
    return loop->time.mono_us;
}

static uint64_t shift_of(const struct loop *loop)
{
    return loop->time.shift_us ? (uint64_t)atomic_load(loop->time.shift_us) : 0;
}

/* Read on first use in a turn. */
uint64_t loop_wall_us(const struct loop *loop)
{
    struct loop *mutable = (struct loop *)loop;
    if (loop->time.wall_turn != loop->time.turns) {
        mutable->time.wall_us = clock_wall_us() + shift_of(loop);
        mutable->time.wall_turn = loop->time.turns;
    }
    return loop->time.wall_us;
}

void loop_shift_wall(struct loop *loop, const _Atomic int64_t *shift_us)
{
    loop->time.shift_us = shift_us;
    loop->time.wall_turn = loop->time.turns - 1; /* it is read anew */
}

uint64_t loop_wall_ms(const struct loop *loop)
{
    return loop_wall_us(loop) / 1000;
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
}

/* ---- timers ----------------------------------------------------------------------------------- */

struct timer *timer_new(struct loop *loop, timer_fn *on_timer, void *owner)
{
    struct timer *timer = calloc(1, sizeof(*timer));
    CHECK(timer);
    timer->loop = loop;
    timer->on_timer = on_timer;
    timer->owner = owner;
    list_init(&timer->link);
    uv_timer_init(&loop->uv, &timer->uv);
    loop->opened++;
    return timer;
}

void timer_start(struct timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    timer_stop(timer);
    if (after_ms == 0 && repeat_ms == 0) {
        list_push(&timer->loop->soon, &timer->link);
        return;
    }
    if (!timer->loop->is_running)
        uv_update_time(&timer->loop->uv); /* the loop's cached time may be old */
    uv_timer_start(&timer->uv, on_uv_timer, after_ms, repeat_ms);
}

void timer_stop(struct timer *timer)
{
    list_remove(&timer->link);
    uv_timer_stop(&timer->uv);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct timer *timer = container_of((uv_timer_t *)handle, struct timer, uv);
    timer->loop->closing--;
    free(timer);
}

void timer_free(struct timer *timer)
{
    if (!timer)
        return;
    timer_stop(timer);
    timer->loop->opened--;
    timer->loop->closing++;
    uv_close((uv_handle_t *)&timer->uv, on_timer_closed);
}

/* ---- signals ---------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *uv, int signum)
{
    struct signal *entry = container_of(uv, struct signal, uv);
    entry->on_signal(entry->owner, signum);
}

void loop_on_signal(struct loop *loop, int signum, signal_fn *callback, void *owner)
{
    struct signal *entry = calloc(1, sizeof(*entry));
    CHECK(entry);
    entry->on_signal = callback;
    entry->owner = owner;
    list_push(&loop->signals, &entry->link);
    CHECK(uv_signal_init(&loop->uv, &entry->uv) == 0);
    CHECK(uv_signal_start(&entry->uv, on_signal, signum) == 0);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *thread_main(void *argument)
{
    struct loop_thread *thread = argument;
    pthread_setname_np(pthread_self(), thread->name);
    crash_thread_begin(thread->name);
    uv_update_time(&thread->loop->uv);
    if (thread->setup)
        thread->setup(thread->owner);
    loop_run(thread->loop);
    if (thread->teardown)
        thread->teardown(thread->owner);
    loop_drain(thread->loop);
    crash_thread_end();
    return NULL;
}

struct loop_thread *loop_thread_start(struct loop *loop, const char *name,
                                      void (*setup)(void *owner), void (*teardown)(void *owner),
                                      void *owner)
{
    struct loop_thread *thread = calloc(1, sizeof(*thread));
    CHECK(thread);
    thread->loop = loop;
    thread->setup = setup;
    thread->teardown = teardown;
    thread->owner = owner;
    strncpy(thread->name, name, sizeof(thread->name) - 1);
    CHECK(pthread_create(&thread->thread, NULL, thread_main, thread) == 0);
    return thread;
}

void loop_thread_join(struct loop_thread *thread)
{
    CHECK(pthread_join(thread->thread, NULL) == 0);
    free(thread);
}
