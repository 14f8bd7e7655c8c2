/*
 * process.h - what all partitions of the process share: settings, counters, start time, pace of compactions.
 *
 *   server (main thread)  ──makes──►  process  ◄──reads── partition 0, 1, … (a thread each)
 *
 * Everything here may be used from any thread. The server (backend/server.h) adds the partitions and their threads;
 * a simulation makes a process without a server, and runs partitions on loops of its own.
 */
#pragma once

#include "backend/context/backend_metrics.h"
#include "backend/context/settings.h"

#include <pthread.h>
#include <stdatomic.h>

struct pace;
struct store_env;
struct worker_pool;

enum { PARTITIONS_MAX = 64, RUN_ID_LEN = 40 };

/* What the server does when partitions ask for it; NULL where there is no server. */
struct process_events {
    /* SHUTDOWN: everything is to stop. Called once. */
    void (*on_stop)(void *owner);
    /* New settings are in force. Called with settings_lock held. */
    void (*on_settings)(void *owner, const struct settings *old, const struct settings *now);
};

struct process {
    const struct process_events *events;
    void *owner; /* of the events */
    struct pace *pace;
    struct store_env *env;
    struct worker_pool *readers; /* reader-threads; NULL: partitions read by themselves */
    struct backend_metrics labelled;
    uint32_t partitions;
    char run_id[RUN_ID_LEN + 1];
    uint64_t started_mono_ms;
    atomic_bool is_stopping;
    atomic_bool is_ready;
    _Atomic uint32_t clients; /* of all partitions */
    _Atomic uint64_t settings_epoch;
    pthread_mutex_t settings_lock; /* guards `settings` and lets one change at a time through */
    struct settings *settings;
};

struct process *process_new(const struct backend_config *config,
                            const struct process_events *events, void *owner);
void process_free(struct process *process);

/* Stops everything cleanly. */
void process_stop(struct process *process);
bool process_is_stopping(const struct process *process);

/* maxclients: counts one more client; false: there are too many, and it is not counted. */
bool process_client_joined(struct process *process);
void process_client_left(struct process *process);

/* The settings in force; the caller drops the reference. */
struct settings *process_settings(struct process *process);
/* A private copy to change. No other change runs until process_settings_publish, which puts it in force and
 * takes it, or process_settings_drop. */
struct settings *process_settings_edit(struct process *process);
void process_settings_publish(struct process *process, struct settings *settings);
void process_settings_drop(struct process *process, struct settings *settings);
