/*
 * proxy.h - what all workers of a proxy share: the snapshot in force, logs, counters and limits of the process.
 *
 * Fields belong to the main thread unless their comment names other threads. proxy_run.h makes it and runs it.
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
    struct rate_limiters *rate_limiters; /* rate_limiter.h; any thread */
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
    struct proxy_run *run; /* threads, listeners, watches; proxy_run.c */
};
