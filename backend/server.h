/*
 * server.h - the server: its partitions (partition_host.h), signals, the admin port, start and stop.
 *
 *   main thread: signals, admin port          partition i: own thread, loop, listeners, store
 *        │  process_stop                                │
 *        ├──── partition_host_stop ───────────────────►│ replies, commits, closes
 *        │◄──────────────────────── on_stopped ────────┘
 *        └─ when all have stopped: joins threads, closes stores
 */
#pragma once

#include "backend/context/process.h"
#include "backend/partition_host.h"
#include "config/tls_files.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

struct http_server;
struct watch;

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
    /* held while a partition, or the list of damaged ones, changes: the admin port shows them */
    pthread_rwlock_t lock;
    struct partition_host hosts[PARTITIONS_MAX]; /* in the order of their partitions' indexes */
    uint32_t hosts_count;
    struct failed_partition failed[PARTITIONS_MAX];
    uint32_t failed_count;
    uint32_t hosts_running;
    bool has_failed; /* a partition could not go on: the exit code says so */
    struct task stop;
    struct task watch;           /* posted when the snapshot names other TLS files */
    atomic_bool watches_are_old; /* `watch` has been posted */
};

struct server *server_new(const struct backend_config *config);
void server_free(struct server *server);
/* Are all partitions open, and is the server not stopping? With the lock. */
bool server_is_ready(const struct server *server);
/* The next open partition; *at is 0 for the first. NULL: there is none. With the lock. */
const struct partition *server_next(const struct server *server, uint32_t *at);
/* Opens the stores and serves until process_stop or a signal. Returns the exit code. */
int server_run(struct server *server);
