/*
 * loop.h - one thread's event loop. Everything a loop owns is used on its thread only; the two
 * exceptions are loop_post and loop_stop.
 *
 *   poll ─► events (read, timer, posted tasks) ─► turn hooks, in order of registration ─► poll …
 *
 * Events only collect work; the turn hooks act on it once per turn (flush upstreams, submit the commit,
 * write replies), which is where batching comes from. Hooks run again as long as one returns true.
 *
 * Implementations: loop_uv.c runs on libuv; tests/sim/ has a seeded, single-threaded implementation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct timer;

struct loop *loop_new(void);
/* Everything opened on the loop must be closed; frees it. */
void loop_free(struct loop *loop);
/* Runs until loop_stop, then until every handle that is being closed is closed. */
void loop_run(struct loop *loop);
/* From any thread (and from a signal callback). */
void loop_stop(struct loop *loop);

/* Inside an event: handles the events that are there, without waiting and without the turn hooks. For work that
 * takes long; what runs must not mind being interrupted here. The simulation has nothing to handle. */
void loop_poll(struct loop *loop);

/* Times of the current turn; no system call. */
uint64_t loop_mono_ms(const struct loop *loop);
uint64_t loop_mono_us(const struct loop *loop);
uint64_t loop_wall_ms(const struct loop *loop);
uint64_t loop_wall_us(const struct loop *loop);

/* Called once per turn after all events. Returns true when it did something that earlier hooks should see. */
typedef bool turn_hook_fn(void *owner);
struct turn_hook {
    turn_hook_fn *run;
    void *owner;
    struct turn_hook *next;
};
void loop_add_hook(struct loop *loop, struct turn_hook *hook);

/* A message to another loop's thread: memory is the sender's until run() is called there. */
struct task {
    void (*run)(struct task *task);
    struct task *next;
};
/* Thread-safe; tasks of one sender run in order. Wakes the loop. */
void loop_post(struct loop *loop, struct task *task);

typedef void timer_fn(void *owner);
struct timer *timer_new(struct loop *loop, timer_fn *on_timer, void *owner);
/* First after `after_ms`, then every `repeat_ms` (0: once). Starting a running timer sets it anew. */
void timer_start(struct timer *timer, uint64_t after_ms, uint64_t repeat_ms);
void timer_stop(struct timer *timer);
/* Stops and frees; allowed inside its own callback. NULL is allowed. */
void timer_free(struct timer *timer);

/* Signals, on the main loop. on_signal runs on the loop's thread. */
typedef void signal_fn(void *owner, int signum);
void loop_on_signal(struct loop *loop, int signum, signal_fn *on_signal, void *owner);

/* Calls on_change (debounced) when the file at `path` changes, also when a directory or symlink on the way
 * is swapped (Kubernetes' ..data): watches the directory and compares the resolved file's identity and time,
 * and looks every few seconds where events are missing. */
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
