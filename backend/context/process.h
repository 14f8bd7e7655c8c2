/*
 * process.h - what all partitions of the process share: snapshot, counters, start time, pace of compactions.
 *
 *   server (main thread)  ──makes──►  process  ◄──reads── partition 0, 1, … (a thread each)
 *
 * Everything here may be used from any thread. The server (backend/server.h) adds the partitions and their threads;
 * a simulation makes a process without a server, and runs partitions on loops of its own.
 */
#pragma once

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"

#include <pthread.h>
#include <stdatomic.h>

struct cluster_clock;
struct pace;
struct store_env;
struct worker_pool;

enum { PARTITIONS_MAX = 64, RUN_ID_LEN = 40 };

/* Callbacks to the server; NULL when there is no server, as in simulations. */
struct process_events {
    /* SHUTDOWN: the server stops all partitions. Called once. */
    void (*on_stop)(void *owner);
    /* A new snapshot is in force. Called with config_lock held. */
    void (*on_settings)(void *owner, const struct config_snapshot *old,
                        const struct config_snapshot *now);
};

struct process {
    const struct process_events *events;
    void *owner; /* argument of the events */
    struct pace *pace;
    struct cluster_clock *clock; /* the time that all shards agree on */
    struct store_env *env;
    struct worker_pool *readers; /* reader-threads; NULL: partitions read on their own threads */
    struct backend_metrics labelled;
    /* of the partitions' threads; one that is opened again goes on with its own */
    struct metrics *metrics[PARTITIONS_MAX];
    uint32_t partitions;
    char run_id[RUN_ID_LEN + 1];
    uint64_t started_mono_ms;
    atomic_bool is_stopping;
    atomic_bool is_ready;
    _Atomic uint32_t clients;   /* of all partitions */
    _Atomic uint32_t undrained; /* partitions that still have work (stopping.h) */
    /* of the calls that run, at all partitions (budget.h); in steps, and short calls do not count */
    _Atomic size_t calls_memory;
    _Atomic uint64_t config_snapshot_epoch;
    pthread_mutex_t config_lock; /* guards `snapshot`; held during a change of the configuration */
    struct config_snapshot *snapshot;
    /* held while CONFIG REWRITE writes the file, which all partitions share */
    pthread_mutex_t rewrite_lock;
};

struct process *process_new(const struct backend_config *config,
                            const struct process_events *events, void *owner);
void process_free(struct process *process);

/* Begins an orderly stop of the whole process. */
void process_stop(struct process *process);
bool process_is_stopping(const struct process *process);

/* Counts one more client. False: there are maxclients clients, and this one was not counted. */
bool process_client_joined(struct process *process);
/* Descriptors that are needed besides those of clients: for data files, and connections that were closed a moment ago. */
uint64_t process_other_files(const struct backend_config *config);
void process_client_left(struct process *process);

/* Logs the sizes of caches and buffers, and warns when they are more than [store] memory. */
void process_log_memory(const struct memory_plan *plan);
/* The snapshot in force; the caller drops the reference. */
struct config_snapshot *process_settings(struct process *process);
/* Begins a change: a private copy of the snapshot. Other changes wait until it ends with process_config_publish, which
 * puts the copy in force and takes ownership, or with process_config_drop. */
struct config_snapshot *process_config_edit(struct process *process);
void process_config_publish(struct process *process, struct config_snapshot *snapshot);
void process_config_drop(struct process *process, struct config_snapshot *snapshot);
