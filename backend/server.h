/*
 * server.h - the process: its partitions and their threads, the settings they share, start and stop.
 *
 *   main thread: signals, admin port          partition i: own thread, loop, listeners, store
 *        │  server_stop                                │
 *        ├──── task: partition_stop ──────────────────►│ answers, commits, closes
 *        │◄──────────────────────── task: stopped ─────┘
 *        └─ when all have: threads are joined, stores closed
 *
 * server_new makes everything that needs no thread, so a simulation can run partitions on loops of its own.
 */
#pragma once

#include "backend/partition/measures.h"
#include "backend/partition/settings.h"
#include "config/tls_files.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

#include <pthread.h>
#include <stdatomic.h>

struct http_server;
struct pace;
struct partition;
struct watch;
struct store_env;
struct worker_pool;

enum { PARTITIONS_MAX = 64, RUN_ID_LEN = 40 };

/* One partition with what the process keeps for it. */
struct member {
    struct server *server;
    struct partition *partition;
    struct loop *loop;
    struct loop_thread *thread;
    struct task stop;    /* to the partition's loop */
    struct task stopped; /* back */
};

struct server {
    struct loop *loop; /* the main thread's */
    struct pace *pace; /* of compactions */
    struct store_env *env;
    struct worker_pool *readers; /* reader-threads; NULL: partitions read by themselves */
    struct http_server *admin;
    struct watch *tls_watches[TLS_FILES_MAX]; /* NULL where there is no file */
    struct measures measures;                 /* any thread */
    struct metrics *metrics;                  /* of the main thread */
    struct member members[PARTITIONS_MAX];
    uint32_t members_count;
    uint32_t members_running;
    char run_id[RUN_ID_LEN + 1];
    uint64_t started_wall_ms;
    uint64_t started_mono_ms;
    struct task stop;
    struct task watch;           /* the TLS files that are watched are others now, */
    atomic_bool watches_are_old; /* and it is posted */
    atomic_bool is_stopping;
    atomic_bool is_ready;
    _Atomic uint32_t clients; /* of all partitions */
    _Atomic uint64_t settings_epoch;
    pthread_mutex_t settings_lock; /* guards `settings` and lets one change at a time through */
    struct settings *settings;
};

struct server *server_new(const struct backend_config *config);
void server_free(struct server *server);
/* Opens the stores, listens, serves until server_stop or a signal. Returns the exit code. */
int server_run(struct server *server);
/* From any thread: stops everything cleanly. */
void server_stop(struct server *server);
bool server_is_stopping(const struct server *server); /* any thread */

/* maxclients: may one more connect? Counts it. */
bool server_client_joined(struct server *server);
void server_client_left(struct server *server);

/* The settings in force; the caller drops the reference. */
struct settings *server_settings(struct server *server);
/* A private copy to change. No other change runs until server_settings_publish, which puts it in force and
 * takes it, or server_settings_drop. */
struct settings *server_settings_edit(struct server *server);
void server_settings_publish(struct server *server, struct settings *settings);
void server_settings_drop(struct server *server, struct settings *settings);
