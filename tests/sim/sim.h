/*
 * sim.h - a world of loops, workers, streams and clocks in one thread, made of a seed.
 *
 *   sim_init(seed) ─► the test builds hosts and programs (loop_new, listen_bind, stream_connect …)
 *                 ─► sim_step / sim_run_until: one event at a time, in an order drawn from the seed
 *                 ─► faults in between: cut, host down, crash
 *
 * Same seed, same history: nothing depends on addresses, hash order or real time. Time is virtual and
 * jumps from event to event. The interfaces after loop.h, worker.h, stream.h and clock.h are sim_loop.c,
 * sim_stream.c and sim_world.c; a program under test does not see the difference.
 *
 * A host is a name that loops and listeners are tagged with. `name` of the faults below is a host's name
 * or an address that was bound on it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the world is like; may be changed at any time. Chances are in a million. */
struct sim_knobs {
    uint64_t delay_us_min; /* of bytes on the wire, one way */
    uint64_t delay_us_max;
    uint64_t turn_us_max; /* events of one loop that come within this time share a turn */
    uint64_t job_us_min;  /* of a worker's job */
    uint64_t job_us_max;
    size_t pipe_bytes;    /* in flight one way, before the sender's out fills */
    unsigned partial_ppm; /* a read or a write moves only some of the bytes */
    unsigned slow_ppm;    /* a delay is fifty times as long */
    unsigned cut_ppm;     /* a flush cuts the connection */
    unsigned refuse_ppm;  /* a connect is refused although somebody listens */
};

/* A new world; the old one must be finished. */
void sim_init(uint64_t seed);
/* All loops must be freed; checks that nothing is left and frees the world. */
void sim_fini(void);
struct sim_knobs *sim_knobs(void);
/* Draws other knobs, as long as they make sense: every seed another kind of network. No cuts and refusals. */
void sim_knobs_shuffle(void);

/* One event. False: there is none, nothing would ever happen again. */
bool sim_step(void);
/* Until the condition holds after a step; false: it did not within max_steps, or nothing is left to do. */
bool sim_run_until(bool (*is_true)(void *owner), void *owner, uint64_t max_steps);
/* All events of the next `us` of virtual time. */
void sim_run_for(uint64_t us);
uint64_t sim_now_us(void);
/* The wall clock jumps, back too. */
void sim_wall_step(int64_t us);
/* Chance for the test itself, 0 .. below-1; part of the history. */
uint64_t sim_random(uint64_t below);
bool sim_chance(unsigned ppm);
/* Hash of the history so far. */
uint64_t sim_hash(void);
/* Makes something of the test part of the history. */
void sim_note(const char *what, uint64_t value);

/* Loops and listeners made from now on are this host's. */
void sim_set_host(const char *name);
/* Resets all streams from or to it. The host stays reachable. */
void sim_cut(const char *name);
/* The host does nothing for this long; connections to it stay, bytes wait. */
void sim_freeze(const char *name, uint64_t us);
/* Resets its streams; connects to it are refused or hang until it is up. Its loops go on. */
void sim_host_down(const char *name);
void sim_host_up(const char *name);
/* The process dies: timers, tasks, jobs and listeners of its loops are dropped without being run, its
 * streams are reset for the other side. For jobs that were submitted, in order, chance says up to where
 * work() was done; done() is never called. What the program owns must still be freed by the test as
 * usual (stream_close, timer_free, worker_free, loop_free …); these calls do nothing else any more.
 * Afterwards a new program may be started on the host. */
void sim_crash_host(const char *name);

/* As if the file was changed: calls the watches of the path. */
void sim_touch(const char *path);
/* Delivers a signal to the loops of a host. */
void sim_signal(const char *host, int signum);
