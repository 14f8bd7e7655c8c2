/*
 * proxy.h - the whole proxy: its workers, the snapshot in force, what is counted over all threads.
 *
 *   main loop: signals, file watches, reload ──loop_post──► each worker: new snapshot, stop
 *                                              ◄─loop_post── each worker: stopped, calls (request_on_main)
 *
 * Main thread unless said otherwise.
 */
#pragma once

#include "config/reload.h"
#include "proxy/proxy_metrics.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

#include <stdatomic.h>

struct proxy_worker;

struct proxy {
    struct loop *loop;
    struct proxy_snapshot *snapshot; /* the newest; main thread only */
    struct proxy_worker **workers;
    uint32_t worker_count;
    struct slow_log *slow_log;           /* of slow requests; any thread. slow_log.h */
    struct admin *admin;                 /* proxy/local/local_admin.c; NULL: off */
    _Atomic(struct status *) status;     /* of the status page; NULL: not started. status/ */
    struct events *events;               /* what happened lately; any thread. events.h */
    struct metrics *metrics;             /* of the main thread */
    struct proxy_metrics labelled;       /* any thread */
    struct rate_limiters *rate_limiters; /* proxy/rate.h; any thread */
    struct refusals *refusals;           /* proxy/users.h; any thread */
    char run_id[41];
    uint64_t started_ms;            /* wall clock */
    _Atomic uint64_t scripts_epoch; /* grows with each SCRIPT FLUSH; scripts.h */
    _Atomic uint64_t next_client_id;
    _Atomic int64_t clients;   /* connections now */
    _Atomic uint32_t monitors; /* clients that monitor now */
    _Atomic int64_t
        dedicated_connections;          /* connections to backends that belong to one client now */
    _Atomic uint64_t memory_used;       /* as counted by the workers, bytes */
    _Atomic uint32_t workers_full;      /* workers that read from no client, at memory-limit */
    _Atomic uint64_t login_memory_used; /* by clients without a login, bytes */
    _Atomic bool is_stopping;
    struct proxy_run *run; /* threads, listeners, watches; proxy.c */
};

/* Takes over the reference of the snapshot. Workers are added by proxy_run or, in a simulation, by
 * proxy_add_worker. */
struct proxy *proxy_new(struct loop *loop, struct proxy_snapshot *snapshot);
void proxy_free(struct proxy *proxy);
/* A worker on a loop of the caller's. */
struct proxy_worker *proxy_add_worker(struct proxy *proxy, struct loop *loop);

/* Binds, starts worker threads, watches the files. False: one line in error[size]. */
bool proxy_start(struct proxy *proxy, char *error, size_t size);
/* Begins to stop; loop_stop(proxy->loop) is called when all workers are done. */
void proxy_stop(struct proxy *proxy);
/* Joins the threads; after loop_run has returned. */
void proxy_join(struct proxy *proxy);

/* Reads all files anew; a line in the log. False: the old snapshot stays, one line in error[size]. */
bool proxy_reload(struct proxy *proxy, struct reload_report *report, char *error, size_t size);
/* Puts a snapshot in force everywhere; takes over the reference. */
void proxy_publish(struct proxy *proxy, struct proxy_snapshot *snapshot);
/* From a worker's thread: it has no clients any more. */
void proxy_worker_stopped(struct proxy_worker *worker);
