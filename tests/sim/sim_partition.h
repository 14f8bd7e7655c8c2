/*
 * sim_partition.h - a simulated backend process with one partition, and connections to it: the start and the end of
 * most simulations.
 *
 *   sim_partition_init ─► world.config ─► sim_partition_start ─► sim_connection_begin …
 *                      ─► the test runs the world, makes the store fail, crashes the process
 *                      ─► sim_partition_stop ─► final checks ─► sim_partition_fini
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
    struct loop *loop;        /* the partition's loop */
    struct loop *client_loop; /* NULL: the partition does not listen */
    struct list connections;
    unsigned reader_threads; /* before the start; 0: the partition reads from the store itself */
    bool is_listening;
    bool has_stopped;
};

/* Makes a new world and a new store from the seed, and sets the default configuration, which the test may change. */
void sim_partition_init(struct sim_partition *world, uint64_t seed);
/* With `is_listening` false, the test calls functions of the partition directly. */
void sim_partition_start(struct sim_partition *world, bool is_listening);
/* The process dies, the store loses unsynced writes, and a new process starts with the rest. */
void sim_partition_crash(struct sim_partition *world);
/* From now on connections send no requests and do not connect again. */
void sim_partition_quiet(struct sim_partition *world);
/* Stops the partition; returns when it has stopped and all connections have ended. */
void sim_partition_stop(struct sim_partition *world);
/* Frees the partition, its connections and the world. */
void sim_partition_fini(struct sim_partition *world);

/* The behaviour of a connection; `owner` belongs to the test. on_connect and on_lost may be NULL. */
struct sim_connection_events {
    void (*on_connect)(void *owner); /* before each connect: may write the first requests */
    void (*on_frame)(void *owner, struct bytes frame); /* one whole reply or push message */
    void (*on_turn)(void *owner); /* every few milliseconds: may write requests */
    void (*on_lost)(
        void *owner); /* the connection has ended: outstanding requests get no replies */
};

/* A connection of the test to the partition. A lost one connects again at its next turn. */
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
/* Resets the connection from the client's side, perhaps with outstanding requests. */
void sim_connection_drop(struct sim_connection *connection);

/* main() of a simulation: `program [seed]` runs one seed; without an argument, the seeds 1 to `seeds`. Returns the
 * exit code. */
int sim_run_seeds(int argc, char **argv, uint64_t seeds, void (*run)(uint64_t seed));
