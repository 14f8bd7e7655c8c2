/*
 * partition_host.h - one partition of the process, with its loop, its thread and its ports.
 *
 *   main thread          open ─► listen ─► begin ─► start   stop                  on_stopped ─► join ─► close
 *                                                     │       │                        ▲
 *   partition's thread                                └─► serves ─► replies, commits ──┘
 *
 * One of several copies has another thread, that of its replica (replica.h). When it has fetched a snapshot, the partition stops, and goes
 * on with other files and at the same ports; the process and its other partitions do not notice:
 *
 *   partition's thread   on_install ──► stops                                  ┌─► serves
 *   main thread             └─► stop ────┴─► join, close ─► snapshot_install ─► open, listen, begin, start
 *
 * A copy that has lost its promises goes on in the same way, without files: its own are set aside (snapshot_install.h).
 *
 * All functions are called on the main thread. Other threads may use `partition` while they hold the lock.
 */
#pragma once

#include "backend/format/replica_record.h"
#include "shared/net/loop.h"

#include <pthread.h>
#include <stddef.h>

struct partition;
struct metrics;
struct partition_host;
struct process;
struct snapshot_join;

struct partition_host_options {
    struct process *process;
    struct loop *main;      /* of the main thread */
    pthread_rwlock_t *lock; /* held while `partition` changes */
    uint32_t index;         /* of the partition */
    /* The partition has stopped; its thread ends. */
    void (*on_stopped)(void *owner, struct partition_host *host);
    /* The partition runs no more: it had stopped to go on with other files, and cannot be opened. `is_damaged`: these are the cause. */
    void (*on_failed)(void *owner, struct partition_host *host, bool is_damaged,
                      const char *reason);
    void *owner;
};

/* What the partition's replica needs, if its data have several copies; else all is zero. */
struct partition_host_replica {
    struct loop *loop;
    struct loop_thread *thread;
    struct task end; /* posted to the replica's loop, when the replica has stopped */
    struct snapshot_join *files;
    struct metrics *metrics; /* stay for the next replica; NULL: there was none */
};

struct partition_host {
    struct partition_host_options options;
    struct partition *partition; /* NULL: it goes on with other files, or has failed */
    struct loop *loop;
    struct loop_thread *thread;
    struct task stop;    /* posted to the partition's loop */
    struct task stopped; /* posted back to the main thread */
    struct partition_host_replica replica;
    int port;         /* the TCP port that it has; 0: none yet */
    bool is_stopping; /* partition_host_stop was called */
    bool has_failed;
    /* of other files: */
    struct task leave;            /* posted to the main thread */
    bool has_asked_to_leave;      /* `leave` was posted: not again before it has run */
    bool is_leaving;              /* the partition stops to go on with them */
    bool is_lost;                 /* … with none at all: those that it has are set aside */
    bool keeps_lost;              /* that has failed, and is not tried again */
    struct replica_record record; /* their file `replica` */
};

/* Opens the partition. False and a reason; `is_damaged`: its files are the cause, so another attempt cannot succeed. */
bool partition_host_open(struct partition_host *host, const struct partition_host_options *options,
                         bool *is_damaged, char *error, size_t size);
/* Opens its ports. False and a reason. */
bool partition_host_listen(struct partition_host *host, char *error, size_t size);
/* The shard map is loaded: begins what the partition does with other shards and copies. False and a reason. */
bool partition_host_begin(struct partition_host *host, char *error, size_t size);
/* Starts its thread, which serves. */
void partition_host_start(struct partition_host *host);
/* Begins to stop it (partition_stop). Once, after partition_host_start. */
void partition_host_stop(struct partition_host *host);
/* After on_stopped: waits for the end of the thread. */
void partition_host_join(struct partition_host *host);
/* Frees a partition that was joined, or not started, and its loop. */
void partition_host_close(struct partition_host *host);
