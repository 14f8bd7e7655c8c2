/*
 * loop.h - event loop of one thread. Everything that belongs to a loop is used on its thread only, except loop_post and
 * loop_stop.
 *
 *   poll ─► events (read, timer, posted tasks) ─► turn hooks, in order of registration ─► poll …
 *
 * Events only collect work; the turn hooks process it once per turn (flush upstreams, submit the commit, write
 * replies), which forms batches. The hooks run again as long as one of them returns true.
 *
 * Implementations: loop_uv.c uses libuv; tests/sim/ has a seeded, single-threaded implementation.
 */
#pragma once

#include "shared/list.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct timer;

struct loop *loop_new(void);
/* Frees the loop. Everything opened on it must have been closed. */
void loop_free(struct loop *loop);
/* Runs until loop_stop, then until all closing handles are closed. */
void loop_run(struct loop *loop);
/* May be called on any thread, and in a signal callback. */
void loop_stop(struct loop *loop);

/* For an event that takes long (a slow command): handles pending events without waiting and without the turn hooks. Tasks that were
 * posted wait, so nothing that other threads have done for this one takes effect. Does nothing in the simulation. */
void loop_poll(struct loop *loop);
/* Is the loop inside loop_poll? Timers fire there, too. */
bool loop_is_polling(const struct loop *loop);

/* Time of the current turn; no system call. */
uint64_t loop_mono_ms(const struct loop *loop);
uint64_t loop_mono_us(const struct loop *loop);
uint64_t loop_wall_ms(const struct loop *loop);
uint64_t loop_wall_us(const struct loop *loop);
/* From now on loop_wall_us is clock_wall_us + *shift_us, which any thread may change; NULL: clock_wall_us. */
void loop_shift_wall(struct loop *loop, const _Atomic int64_t *shift_us);

/* Called once per turn after all events. Returns true when its work may concern other hooks, which then run again. */
typedef bool turn_hook_fn(void *owner);
struct turn_hook {
    turn_hook_fn *run;
    void *owner;
    struct turn_hook *next;
};
void loop_add_hook(struct loop *loop, struct turn_hook *hook);

/* A function that the loop calls once, in the last step before it waits for events: after the hooks, and after everything
 * else that may give the function more work. So what has been collected by then, also by a hook, does not wait for the
 * next event. list_init(&step->link) comes first; list_remove cancels the call. */
struct last_step {
    struct list link;
    void (*run)(struct last_step *step);
};
void loop_at_last(struct loop *loop, struct last_step *step);

/* A message to another loop's thread; its memory belongs to the loop until run() is called there. */
struct task {
    void (*run)(struct task *task);
    struct task *next;
};
/* Thread-safe; wakes the loop. Tasks of one sender run in order. */
void loop_post(struct loop *loop, struct task *task);

typedef void timer_fn(void *owner);
struct timer *timer_new(struct loop *loop, timer_fn *on_timer, void *owner);
/* Fires after `after_ms`, then every `repeat_ms` (0: once). A running timer is restarted. With 0 and 0 it fires once in the next turn,
 * after that turn's events: work in steps, each of which starts the timer again, does not delay other events by more than a step. */
void timer_start(struct timer *timer, uint64_t after_ms, uint64_t repeat_ms);
void timer_stop(struct timer *timer);
/* Stops and frees the timer; allowed inside its own callback. NULL is allowed. */
void timer_free(struct timer *timer);

/* Calls on_signal on the loop's thread whenever the process gets the signal. Only for loops of the main thread. loop_free ends this, and has
 * the process ignore the signal from then on, unless another loop handles it, too. */
typedef void signal_fn(void *owner, int signum);
void loop_on_signal(struct loop *loop, int signum, signal_fn *on_signal, void *owner);

/* Calls on_change (debounced) when the file at `path` changes, or a directory or symlink on its way is replaced
 * (Kubernetes' ..data). Watches the directory, compares identity and time of the resolved file, and also checks
 * every few seconds, in case events are missing. */
struct watch;
typedef void watch_fn(void *owner);
struct watch *watch_new(struct loop *loop, const char *path, watch_fn *on_change, void *owner);
void watch_free(struct watch *watch);

/* A thread that runs a loop: `setup` runs on the new thread before loop_run, `teardown` after it. */
struct loop_thread;
struct loop_thread *loop_thread_start(struct loop *loop, const char *name,
                                      void (*setup)(void *owner), void (*teardown)(void *owner),
                                      void *owner);
/* Waits for the thread's end (after loop_stop) and frees the record, not the loop. */
void loop_thread_join(struct loop_thread *thread);
