/*
 * sim.h - a world of loops, workers, streams and clocks in one thread, generated from a seed.
 *
 *   sim_init(seed) ─► the test builds hosts and programs (loop_new, listen_bind, stream_connect …)
 *                 ─► sim_step / sim_run_until: one event at a time, in an order drawn from the seed
 *                 ─► faults between steps: cut, host down, crash
 *
 * The same seed gives the same history: nothing depends on addresses, hash order or real time. Time is virtual and
 * jumps from event to event. sim_loop.c, sim_stream.c and sim_world.c implement the interfaces loop.h, worker.h,
 * stream.h and clock.h; a program under test does not notice the difference.
 *
 * Loops and listeners belong to a host. `name` in the faults below is a host's name or an address that was bound on the
 * host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Properties of the world; may be changed at any time. Chances are in a million. */
struct sim_knobs {
    uint64_t delay_us_min; /* one-way delay of bytes on the network */
    uint64_t delay_us_max;
    uint64_t turn_us_max; /* events of one loop within this time share a turn */
    uint64_t job_us_min;  /* duration of a worker's job */
    uint64_t job_us_max;
    /* bytes in flight in one direction; further ones stay in the sender's output */
    size_t pipe_bytes;
    unsigned partial_ppm; /* a read or a write moves only some of the bytes */
    unsigned slow_ppm;    /* a delay is fifty times as long */
    unsigned cut_ppm;     /* a flush cuts the connection */
    unsigned refuse_ppm;  /* a connect is refused although there is a listener */
};

/* A new world; the previous one must be finished. */
void sim_init(uint64_t seed);
/* Of this world. */
uint64_t sim_seed(void);
/* Frees the world. All loops must be freed before; checks for leaks. */
void sim_fini(void);
struct sim_knobs *sim_knobs(void);
/* Draws random knobs within sensible limits, so that every seed has another kind of network. No cuts and refusals. */
void sim_knobs_shuffle(void);

/* Runs one event. False: no event is scheduled, so nothing can happen any more. */
bool sim_step(void);
/* Runs until the condition holds after a step. False: it did not hold within max_steps, or there is no further
 * event. */
bool sim_run_until(bool (*is_true)(void *owner), void *owner, uint64_t max_steps);
/* Runs all events of the next `us` of virtual time. */
void sim_run_for(uint64_t us);
uint64_t sim_now_us(void);
/* Moves the wall clocks of all hosts by this time, also backwards. */
void sim_wall_step(int64_t us);
/* From now on the system clock of this host differs by this time from the right one. */
void sim_clock_skew(const char *name, int64_t us);
/* The clock that never goes back runs faster on this host, by so many thousandths: what its loops read, not when their timers fire. To be
 * set before a program on the host has read it. */
void sim_clock_rate(const char *name, unsigned per_mille);
/* A random number for the test itself, 0 .. below-1; part of the history. */
uint64_t sim_random(uint64_t below);
bool sim_chance(unsigned ppm);
/* Hash of the history so far. */
uint64_t sim_hash(void);
/* Adds an event of the test to the history. */
void sim_note(const char *what, uint64_t value);

/* Loops and listeners created from now on belong to this host. */
void sim_set_host(const char *name);
/* Resets all streams from or to the host or address. The host stays reachable. */
void sim_cut(const char *name);
/* The host runs nothing for this time; its connections stay, and bytes to it wait. */
void sim_freeze(const char *name, uint64_t us);
/* The disk hangs: no job of a worker on the host ends within this time. */
void sim_hang_disk(const char *name, uint64_t us);
/* Resets the host's streams; connects to it are refused or hang until it is up. Its loops keep running. */
void sim_host_down(const char *name);
void sim_host_up(const char *name);
/* The process dies: timers, tasks, jobs and listeners of its loops are dropped without running, and its streams are
 * reset for the other side. Of the submitted jobs a random number ran work(), in order; done() is never called. The
 * test must still free the program's objects (stream_close, timer_free, worker_free, loop_free …); these calls have
 * no other effect any more. Afterwards a new program may be started on the host. */
void sim_crash_host(const char *name);

/* Calls the watches of the path, as if the file had changed. */
void sim_touch(const char *path);
/* Delivers a signal to the loops of a host. */
void sim_signal(const char *host, int signum);
