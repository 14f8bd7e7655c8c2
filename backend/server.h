/*
 * server.h - the server: partitions with a thread each, signals, the admin port, start and stop.
 *
 *   main thread: signals, admin port          partition i: own thread, loop, listeners, store
 *        │  process_stop                                │
 *        ├──── task: partition_stop ──────────────────►│ replies, commits, closes
 *        │◄──────────────────────── task: stopped ─────┘
 *        └─ when all have stopped: joins threads, closes stores
 */
#pragma once

#include "backend/context/process.h"
#include "config/tls_files.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

struct http_server;
struct partition;
struct watch;

/* One partition with its thread. */
struct member {
    struct server *server;
    struct partition *partition;
    struct loop *loop;
    struct loop_thread *thread;
    struct task stop;    /* posted to the partition's loop */
    struct task stopped; /* posted back to the main thread */
};

/* A partition whose files are damaged: it does not run, the others do. */
struct failed_partition {
    uint32_t index;
    char reason[512];
};

/* files for clients, then files for other backends */
enum { WATCHED_TLS_FILES_MAX = 2 * TLS_FILES_MAX };

struct server {
    struct process *process;
    struct loop *loop; /* the main thread's */
    struct http_server *admin;
    struct watch *tls_watches[WATCHED_TLS_FILES_MAX]; /* NULL: no file */
    struct watch *shards_watch;                       /* NULL: there is no shard map */
    struct metrics *metrics;                          /* of the main thread */
    struct member members[PARTITIONS_MAX]; /* in the order of their partitions' indexes */
    uint32_t members_count;
    struct failed_partition failed[PARTITIONS_MAX];
    uint32_t failed_count;
    uint32_t members_running;
    struct task stop;
    struct task watch;           /* posted when the snapshot names other TLS files */
    atomic_bool watches_are_old; /* `watch` has been posted */
};

struct server *server_new(const struct backend_config *config);
void server_free(struct server *server);
/* Are all partitions open, and is the server not stopping? Any thread. */
bool server_is_ready(const struct server *server);
/* Opens the stores and serves until process_stop or a signal. Returns the exit code. */
int server_run(struct server *server);
