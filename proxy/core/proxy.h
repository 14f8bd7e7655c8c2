/*
 * proxy.h - what all workers of a proxy share: the snapshot in force, logs, counters and limits of the process.
 *
 * Fields belong to the main thread unless their comment names other threads. proxy_run.h makes and runs the proxy.
 */
#pragma once

#include "config/reload.h"
#include "proxy/core/proxy_metrics.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

#include <stdatomic.h>

struct proxy;
struct proxy_worker;

/* Owners of slots, from bounces; routes.h */
struct proxy_routes {
    struct routes *learned; /* any thread */
    struct zones *zones;    /* of copies, as they say; zones.h. Any thread */
    struct task task;       /* publishes a snapshot with new routes */
    _Atomic bool is_posted; /* the task is */
    uint64_t logged_ms;     /* when new routes were logged last; monotonic */
};

/* What all workers share about namespaces; any thread. */
struct proxy_tenants {
    struct rate_limiters *rate_limiters; /* rate_limiter.h */
    struct limits *limits;               /* limits.h */
    struct usages *usages;               /* usage.h */
    struct shares *shares;               /* shares.h; NULL: nothing is counted */
};

/* Memory of clients; any thread. memory.h */
struct proxy_memory {
    _Atomic uint64_t used;         /* bytes, as counted by the workers */
    _Atomic uint64_t login_used;   /* bytes of clients without a login */
    _Atomic uint32_t workers_full; /* workers that read from no client because of memory-limit */
};

/* Calls to the main thread's functions, which lie above the commands that use them. proxy_run.c has the functions. Main thread. */
struct proxy_calls {
    bool (*reload)(struct proxy *proxy, struct reload_report *report, char *error, size_t size);
    void (*publish)(struct proxy *proxy, struct proxy_snapshot *snapshot);
};

struct proxy {
    struct loop *loop;
    const struct proxy_calls *calls;
    struct proxy_snapshot *snapshot; /* the newest; main thread only */
    struct proxy_worker **workers;
    uint32_t worker_count;
    struct slow_log *slow_log;       /* slow requests; any thread. slow_log.h */
    struct admin *admin;             /* proxy/status/admin.c; NULL: off */
    _Atomic(struct status *) status; /* NULL: not started. Any thread. status/ */
    struct events *events;           /* any thread. events.h */
    struct metrics *metrics;         /* of the main thread */
    struct proxy_metrics labelled;   /* counters by label; any thread. proxy_metrics.h */
    struct proxy_tenants tenants;
    struct refusals *refusals; /* log of ACL refusals; any thread. users.h */
    struct proxy_routes routes;
    struct leaders *leaders; /* NULL: not started. proxy/upstream/leaders.h */
    char run_id[41];
    uint64_t started_ms;            /* wall clock */
    _Atomic uint64_t scripts_epoch; /* incremented by each SCRIPT FLUSH; scripts.h */
    _Atomic uint64_t next_client_id;
    _Atomic int64_t clients;               /* connected clients */
    _Atomic uint32_t monitors;             /* MONITOR clients */
    _Atomic int64_t dedicated_connections; /* dedicated connections to backends */
    struct proxy_memory memory;
    _Atomic bool is_stopping;
    struct proxy_run *run; /* threads, listeners, watches; proxy_run.c */
};
