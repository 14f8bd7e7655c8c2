/*
 * worker.h - state of one worker thread: its loop, clients, upstreams and free lists.
 *
 *   proxy ──► worker 0: loop, clients, pool     workers share only the snapshot (immutable)
 *         └─► worker 1: loop, clients, pool     and struct proxy (atomics and mutexes)
 *
 * A simulation makes workers on its own loop, without threads, and passes streams to them. (shared/net/worker.h is
 * something else: background threads for blocking jobs.)
 */
#pragma once

#include "config/reload.h"
#include "proxy/core/error_replies.h"
#include "proxy/core/keyspace.h"
#include "proxy/core/own_calls.h"
#include "proxy/core/route.h"
#include "proxy/core/script_notes.h"
#include "shared/command/command_cells.h"
#include "shared/list.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/resp.h"

struct client;
struct client_events;
struct cluster_backup;
struct entrance;
struct frame;
struct hotkeys;
struct listen_options;
struct next_turn;
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
    struct list closed;           /* freed at the end of the turn */
    struct list leaving_channels; /* of clients that have left; subscriptions.c */
    uint32_t count;
    uint32_t blocked;  /* clients whose command waits at a backend; blocked.h */
    uint32_t paused;   /* clients that wait for the end of CLIENT PAUSE */
    uint32_t tracking; /* clients with CLIENT TRACKING; tracking.c */
    struct list walks; /* struct client_walk that have not ended */
};

/* The parts of client->label that change for all clients at once. */
struct worker_label {
    uint32_t generation; /* number of maps so far */
    uint32_t replaced;   /* number of connections to busy shards that were replaced so far */
};

struct worker_requests {
    struct pipeline_link *free;
    uint32_t free_count;
    uint32_t free_least;         /* lowest value of free_count since the last decay */
    uint32_t count;              /* all requests, including free ones */
    struct next_turn *next_turn; /* NULL: none has work for the next turn. next_turn.h */
    uint64_t changes_us;         /* monotonic: the last round of SCREE CHANGES that is planned */
};

/* CLIENT PAUSE commands in force; pause.c */
struct worker_pauses {
    struct pause *items;
    uint32_t count;
};

/* MONITOR; monitor.c */
struct worker_monitoring {
    struct list clients;    /* MONITOR clients of this worker */
    struct out lines;       /* lines of this turn */
    _Atomic uint32_t count; /* number of `clients`; read by other workers */
    _Atomic uint64_t bytes; /* bytes of lines in the worker's mailbox */
    _Atomic bool is_cut;    /* the mailbox overflowed: the MONITOR clients are to be closed */
};

/* Ephemeral namespaces; ephemeral.h */
struct worker_ephemeral {
    bool keep_again;     /* a shard was lost: SCREE KEEP must be sent again */
    struct list leaving; /* keyspaces whose last client has left */
};

/* Samples of keys and slots; hotkeys.h, status/ */
struct worker_sampling {
    struct hotkeys *hotkeys; /* NULL: no key was sampled yet */
    uint32_t left;           /* requests until the next sample; UINT32_MAX: no sampling */
    uint32_t *slot_hits;     /* [SLOT_COUNT]: number of requested keys, modulo 2^32 */
    uint32_t slot_sample;    /* one key in slot_sample is counted, as slot_sample keys */
    uint32_t slot_chance;    /* pseudo-random state */
    uint64_t requests_seen;  /* value of the request counter when slot_sample was chosen */
    uint64_t rated_ms;       /* monotonic: when the request rates of namespaces were set */
};

/* Monotonic µs. */
struct worker_timing {
    uint64_t turn_us;       /* start of the turn that was measured last */
    uint64_t now_us;        /* time at which requests begin and end in this turn; worker_clock() */
    uint64_t slow_us;       /* requests that take at least this long are logged; slow_log.h */
    uint64_t large_request; /* requests and replies of at least so many bytes are logged */
    uint64_t large_reply;
    bool keeps_head; /* a log needs the arguments of requests */
};

/* Memory for the request that is being handled. */
struct worker_scratch {
    const struct frame *frame;    /* the frame that is being dispatched; NULL: none */
    const struct node *answering; /* shard whose reply is being handled; NULL: none */
    uint64_t answered_us;    /* when the previous reply on that connection arrived; monotonic µs */
    struct bytes *argv;      /* result of argv_of() */
    const struct span *made; /* argv is that of these spans already; NULL: of no frame. wide.h */
    struct block *block;     /* with `made`: holds the arguments; NULL: the scanner does */
    uint32_t argc;           /* number of arguments of the local command that runs */
    uint32_t argv_cap;
    struct route_keys *keys; /* result of route_plan(); own_keys, or those of a prepared request */
    struct route_keys own_keys;
    struct command_memo memo;
};

/* Memory of the worker's clients; memory.h */
struct worker_memory {
    size_t copied;      /* sum of client->bytes.copied and of similar counts */
    uint64_t published; /* the worker's part of proxy->memory.used */
    bool is_full;
    uint64_t full_ms; /* when is_full was set */
};

struct worker_metrics {
    struct metrics *process;
    struct metric_cell *cell; /* of the worker, in proxy->labelled */
    struct command_cells commands;
    struct own_cells own;
    struct error_replies errors;
};

struct worker_thread {
    struct timer *tick;        /* 20 ms: deadlines, backoff; runs only when needed */
    struct timer *slow;        /* once a second */
    struct timer *limits;      /* worker 0: limit_rounds.h */
    _Atomic uint64_t alive_ms; /* when `slow` ran last; monotonic. 0: not yet. Any thread */
    bool is_ticking;
    bool is_stopping;
    bool is_stopped;
    uint64_t stop_at_ms; /* when the clients that are left will be closed; loop_mono_ms */
    uint64_t quiet_ms;   /* while stopping: clients without requests for so long are closed */
    struct turn_hook hook;
    struct entrance **entrances; /* listeners */
    size_t entrance_count;
};

struct proxy_worker {
    struct loop *loop;
    struct proxy *proxy;
    uint32_t index;
    struct proxy_snapshot *snapshot;
    struct pool *pool;
    struct keyspaces keyspaces;
    /* no namespace, database 0: the keyspace of a new connection to a backend */
    struct keyspace *home;
    struct resp_limits limits;     /* for authenticated clients */
    struct list all_subscriptions; /* struct subscriptions of its namespaces; subscriptions.c */
    struct rate_waits *rate_waits; /* rate.h */
    struct cluster_backup *backup; /* the backup that this worker led last; NULL: none. backup.h */
    struct script_notes script_notes; /* which shards have which scripts; scripts.h */
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

/* The arguments of the frame as an array; valid until the next call. */
const struct bytes *argv_of(struct proxy_worker *worker, const struct frame *frame);
/* Starts the tick, which runs while something has a deadline. */
void proxy_worker_need_tick(struct proxy_worker *worker);
/* Counts the slot of a key that was requested. A busy worker counts one key in 16: the counters take 64 KB, and
 * touching another cache line for each request costs time when caches are contended. */
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
/* Low 32 bits of the turn's time. */
static inline uint32_t worker_now_ms(const struct proxy_worker *worker)
{
    return (uint32_t)loop_mono_ms(worker->loop);
}
/* Reads the time for the requests that begin or end in this event; to be called before they are handled. */
static inline void worker_clock(struct proxy_worker *worker)
{
    worker->timing.now_us = loop_mono_us(worker->loop);
}
