/*
 * sim_partition.h - a simulated backend process with one partition, and connections to it: what most simulations
 * begin and end with.
 *
 *   sim_partition_init ─► world.config ─► sim_partition_start ─► sim_connection_begin …
 *                      ─► the test runs the world, makes the store fail, crashes the process
 *                      ─► sim_partition_stop ─► what must hold in the end ─► sim_partition_fini
 */
#pragma once

#include "config/config.h"
#include "shared/bytes.h"
#include "shared/list.h"
#include "shared/resp.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_partition {
    struct backend_config config;
    struct process *process;
    struct partition *partition;
    struct loop *loop;        /* the partition's */
    struct loop *client_loop; /* NULL: it does not listen */
    struct list connections;
    bool is_listening;
    bool has_stopped;
};

/* A new world and a new store, both made of the seed, and the configuration's defaults, which the test may change. */
void sim_partition_init(struct sim_partition *world, uint64_t seed);
/* Without `is_listening` the test calls functions of the partition itself. */
void sim_partition_start(struct sim_partition *world, bool is_listening);
/* The process dies, the store loses what was not synced, and a new process begins with what is left. */
void sim_partition_crash(struct sim_partition *world);
/* Connections do no more on their own: no requests, no new connects. */
void sim_partition_quiet(struct sim_partition *world);
/* Stops the partition, and returns when it has stopped and all connections have ended. */
void sim_partition_stop(struct sim_partition *world);
/* Frees everything, and the world. */
void sim_partition_fini(struct sim_partition *world);

/* What a connection does; `owner` is the test's. on_connect and on_lost may be NULL. */
struct sim_connection_events {
    void (*on_connect)(
        void *owner); /* begins anew: may write what is sent when the connection is there */
    void (*on_frame)(void *owner, struct bytes frame); /* one whole reply or push message */
    void (*on_turn)(void *owner); /* every few milliseconds: may write requests */
    void (*on_lost)(
        void *owner); /* it has ended: what was asked for and not answered never will be */
};

/* A connection of the test to the partition. When it is lost it connects again at its next turn. */
struct sim_connection {
    struct list link; /* in sim_partition.connections */
    struct sim_partition *world;
    const struct sim_connection_events *events;
    void *owner;
    struct stream *stream; /* NULL: none */
    struct timer *timer;
    struct resp_skip skip;
};

void sim_connection_begin(struct sim_connection *connection, struct sim_partition *world,
                          const struct sim_connection_events *events, void *owner);
/* The client resets it, perhaps with requests that have no replies yet. */
void sim_connection_drop(struct sim_connection *connection);

/* main of a simulation: `program [seed]` runs one seed, without an argument 1 to `seeds`. Returns the exit code. */
int sim_run_seeds(int argc, char **argv, uint64_t seeds, void (*run)(uint64_t seed));
