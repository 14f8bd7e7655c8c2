/*
 * worker.h - one thread's share of the proxy: its loop, clients, upstreams, free lists.
 *
 *   proxy ──► worker 0: loop, clients, pool     nothing is shared between workers but the snapshot
 *         └─► worker 1: loop, clients, pool     (immutable) and a few atomic counters of the proxy
 *
 * (The name `worker` alone is shared/net/worker.h's.) A simulation makes one with its own loop and hands it
 * streams; it needs no threads.
 */
#pragma once

#include "config/reload.h"
#include "proxy/keyspace.h"
#include "proxy/route.h"
#include "proxy/script_notes.h"
#include "shared/command_cells.h"
#include "shared/list.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/resp.h"

struct client;
struct client_events;
struct client_iter;
struct cluster_backup;
struct entrance;
struct frame;
struct hotkeys;
struct listen_options;
struct pause;
struct keyspace;
struct pool;
struct proxy;
struct rate_waits;
struct request;
struct stream;
struct upstream;

/* All clients of the worker. */
struct worker_clients {
    struct list all;
    struct list closed; /* freed at the turn's end */
    uint32_t count;
    uint32_t blocked;          /* those whose command waits at a backend; blocked.h */
    uint32_t paused;           /* those that wait for the end of CLIENT PAUSE */
    struct client_iter *iters; /* unfinished client_each() calls, innermost first */
};

/* The two parts of a client's label that belong to the worker. */
struct worker_label {
    uint32_t generation; /* of the map */
    uint32_t replaced;   /* connections to busy shards that were replaced */
};

struct worker_requests {
    struct pipeline_link *free;
    uint32_t free_count;
    uint32_t free_least; /* fewest that were free since the last decay */
    uint32_t count;      /* all that exist */
};

/* CLIENT PAUSE: those in force. pause.c */
struct worker_pauses {
    struct pause *items;
    uint32_t count;
};

/* MONITOR; monitor.c */
struct worker_monitoring {
    struct list clients;    /* of this worker that monitor */
    struct out lines;       /* what they are to get of this turn */
    _Atomic uint32_t count; /* of `clients`, for other workers */
    _Atomic uint64_t bytes; /* in the worker's mailbox */
    _Atomic bool is_cut;    /* lines are missing: the clients are to be closed */
};

/* Ephemeral namespaces; local_ephemeral.c */
struct worker_ephemeral {
    bool keep_again;     /* SCREE KEEP must be sent again, since a shard was lost */
    struct list leaving; /* those that the last client left */
};

/* Keys and slots by how often they are asked for; hotkeys.h, status/ */
struct worker_sampling {
    struct hotkeys *hotkeys; /* NULL: no sample yet */
    uint32_t left;           /* requests until the next sample; UINT32_MAX: none */
    uint32_t *slot_hits;     /* [SLOT_COUNT]: keys asked for, ever, modulo 2^32 */
    uint32_t slot_sample;    /* one key in so many is counted, for so many */
    uint32_t slot_chance;    /* decides which */
    uint64_t requests_seen;  /* when slot_sample was chosen */
};

/* Monotonic µs. */
struct worker_timing {
    uint64_t turn_us; /* the turn that was timed last */
    uint64_t now_us;  /* when requests began or ended last; slow_log.h */
    uint64_t slow_us; /* requests that take so long are noted (slow_log.h) */
};

/* Of the request that is being handled. */
struct worker_scratch {
    const struct frame *frame;    /* the client's frame */
    const struct node *answering; /* the shard whose reply is being handled; NULL: none */
    uint64_t answered_us;         /* when the reply before it came on its connection; monotonic */
    struct bytes *argv;           /* of argv_of() */
    uint32_t argc;                /* of the local command that runs */
    uint32_t argv_cap;
    struct route_keys keys; /* of routing */
};

/* Of clients; memory.h */
struct worker_memory {
    size_t copied;      /* sum of client->bytes.copied and the like */
    uint64_t published; /* our share of proxy->memory_used */
    bool is_full;
    uint64_t full_ms; /* since when */
};

struct worker_metrics {
    struct metrics *process;
    struct metric_cell *cell; /* of the worker in proxy->labelled */
    struct command_cells commands;
};

struct worker_thread {
    struct timer *tick; /* coarse: deadlines, backoff */
    struct timer *slow; /* idle clients, decay */
    bool is_ticking;
    bool is_stopping;
    bool is_stopped;
    uint64_t stop_at_ms; /* clients that are still there are closed */
    struct turn_hook hook;
    struct entrance **entrances; /* where it accepts */
    size_t entrance_count;
};

struct proxy_worker {
    struct loop *loop;
    struct proxy *proxy;
    uint32_t index;
    struct proxy_snapshot *snapshot;
    struct pool *pool;
    struct keyspaces keyspaces;
    struct keyspace *home;         /* no namespace, database 0: where a backend's session begins */
    struct resp_limits limits;     /* of authenticated clients */
    struct list all_subscriptions; /* of its clients to channels; subscriptions.c */
    struct rate_waits *rate_waits; /* rate.h */
    struct cluster_backup *backup; /* that this worker led last; NULL: none. backup.h */
    struct script_notes script_notes; /* what shards were seen to know; scripts.h */
    struct worker_label label;
    const struct client_events *client_events; /* client.h */
    struct worker_clients clients;
    struct worker_requests requests;
    struct worker_pauses pauses;
    struct worker_monitoring monitoring;
    struct worker_ephemeral ephemeral;
    struct worker_sampling sampling;
    struct worker_timing timing;
    struct worker_scratch scratch;
    struct worker_memory memory;
    struct worker_metrics metrics;
    struct worker_thread thread;
};

/* The frame's arguments as an array, valid until the next call. */
const struct bytes *argv_of(struct proxy_worker *worker, const struct frame *frame);
/* The tick runs while something has a deadline. */
void proxy_worker_need_tick(struct proxy_worker *worker);
/* A request that was taken has a key in this slot. A busy worker counts one key in 16: the counters are 64 KB, and to
 * touch another line of them for each request is not free when caches are contended. */
enum { SLOT_SAMPLE_BUSY = 16, SLOT_CHANCE_SHIFT = 28 /* 2^32 / 16 */ };
static inline void proxy_worker_count_slot(struct proxy_worker *worker, uint16_t slot)
{
    if (worker->sampling.slot_sample > 1) {
        worker->sampling.slot_chance = worker->sampling.slot_chance * 1664525 + 1013904223;
        if (worker->sampling.slot_chance >> SLOT_CHANCE_SHIFT)
            return;
    }
    worker->sampling.slot_hits[slot] += worker->sampling.slot_sample;
}
static inline const struct proxy_config *worker_config(const struct proxy_worker *worker)
{
    return &worker->snapshot->config;
}
/* Low bits of the turn's time. */
static inline uint32_t worker_now_ms(const struct proxy_worker *worker)
{
    return (uint32_t)loop_mono_ms(worker->loop);
}
/* Whatever begins or ends requests takes the turn's time first. */
static inline void worker_clock(struct proxy_worker *worker)
{
    worker->timing.now_us = loop_mono_us(worker->loop);
}
