/*
 * sim_world.h - what the simulated interfaces share: events, hosts, and the structs of loops and streams.
 *
 * An event is a member of its object. All events are in one heap, ordered by time, then at random, then by the order of
 * scheduling. The events of a dead loop leave the heap, and none is scheduled for it.
 */
#pragma once

#include "shared/list.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "tests/sim/sim.h"

enum { SIM_NAME_MAX = 64, SIM_ADDRESS_MAX = 128 };

struct sim_host {
    char name[SIM_NAME_MAX];
    unsigned number;
    bool is_down;
    uint64_t frozen_until_us;
    uint64_t hung_until_us; /* its disk */
    int64_t skew_us;        /* of its system clock */
    unsigned rate;          /* sim_clock_rate */
    int64_t wall_offset_us; /* of clock_set_wall; 0: it was not called since the host started */
};

struct sim_event {
    uint64_t at_us;
    uint64_t tie;
    size_t place;      /* index in the heap, from 1; 0: not scheduled */
    struct loop *loop; /* the loop of the event's process; NULL: it belongs to no process */
    bool is_callback;  /* it calls functions of the loop's users: a turn ends after it */
    const char *name;
    uint64_t id;
    void (*run)(struct sim_event *event);
};

void sim_event_init(struct sim_event *event, const char *name, struct loop *loop,
                    void (*run)(struct sim_event *event));
/* Schedules the event in `after_us`, or moves it there. Does nothing for a dead loop. */
void sim_schedule(struct sim_event *event, uint64_t after_us);
void sim_unschedule(struct sim_event *event);
static inline bool sim_is_scheduled(const struct sim_event *event)
{
    return event->place > 0;
}
/* Removes all events of the loop from the heap. */
void sim_unschedule_all(const struct loop *loop);
/* No event is running, so the test may call any function. */
bool sim_is_between_steps(void);

/* A random time from min to max; with a chance of slow_ppm many times as long. */
uint64_t sim_delay(uint64_t min_us, uint64_t max_us);
uint64_t sim_wire_delay(void);
/* The next number of the world: for names that do not depend on addresses. */
uint64_t sim_number(void);

struct sim_host *sim_host_now(void);
/* Finds a host by its name or by an address bound on it. */
struct sim_host *sim_host_find(const char *name);

struct loop {
    struct list link; /* in all loops */
    struct sim_host *host;
    uint64_t number;
    bool is_dead; /* its host crashed */
    bool is_stopping;
    bool is_stopped;
    unsigned opened;
    struct turn_hook *hooks;
    struct list last; /* struct last_step */
    struct task *tasks;
    struct task **tasks_end;
    struct sim_event turn;
    struct sim_event mail;
    struct list dirty;
    struct list workers;
    struct list signals;
    struct block *shared;
    struct loop_thread *thread;
    const _Atomic int64_t *shift_us; /* loop_shift_wall */
};

/* All loops and streams; sim_world.c owns the lists. */
extern struct list sim_loops;
extern struct list sim_streams;
extern struct list sim_listeners;

/* Implemented in sim_stream.c; called at the end of a turn, when a loop dies or is freed, and to free closed
 * streams. */
void sim_streams_flush(struct loop *loop);
void sim_streams_crash(struct loop *loop);
void sim_streams_orphan(struct loop *loop);
void sim_streams_bury(void);
/* Resets the streams of a host. */
void sim_streams_reset(const struct sim_host *host);
/* The host on which the address was bound; NULL: none. */
struct sim_host *sim_bound_host(const char *address);
void sim_bound_reset(void);

/* Implemented in sim_loop.c: what a crash does to workers and tasks. */
void sim_loop_crash(struct loop *loop);
/* Frees all watches and dropped tasks. */
void sim_loop_fini(void);
