/*
 * partition_host.h - one partition of the process, with its loop, its thread and its ports.
 *
 *   main thread          open ─► listen ─► start        stop                  on_stopped ─► join ─► close
 *                                            │            │                        ▲
 *   partition's thread                       └─► serves ──┴─► replies, commits ────┘
 *
 * All functions are called on the main thread.
 */
#pragma once

#include "shared/net/loop.h"

#include <stddef.h>

struct partition;
struct process;

struct partition_host_options {
    struct process *process;
    struct loop *main; /* of the main thread */
    uint32_t index;    /* of the partition */
    /* The partition has stopped; its thread ends. */
    void (*on_stopped)(void *owner);
    void *owner;
};

struct partition_host {
    struct partition_host_options options;
    struct partition *partition;
    struct loop *loop;
    struct loop_thread *thread;
    struct task stop;    /* posted to the partition's loop */
    struct task stopped; /* posted back to the main thread */
};

/* Opens the partition. False and a reason; `is_damaged`: its files are the cause, so another attempt cannot succeed. */
bool partition_host_open(struct partition_host *host, const struct partition_host_options *options,
                         bool *is_damaged, char *error, size_t size);
/* Opens its ports. False and a reason. */
bool partition_host_listen(struct partition_host *host, char *error, size_t size);
/* Starts its thread, which serves. */
void partition_host_start(struct partition_host *host);
/* Begins to stop it (partition_stop). Once, after partition_host_start. */
void partition_host_stop(struct partition_host *host);
/* After on_stopped: waits for the end of the thread. */
void partition_host_join(struct partition_host *host);
/* Frees a partition that was joined, or not started, and its loop. */
void partition_host_close(struct partition_host *host);
