/*
 * proxy_metrics.h - what the proxy counts by command, shard, namespace and worker (metric_labels.h).
 *
 *   worker's thread: cell_add(node->cell, SHARD_FAILURES, 1) ─► the cell's own words ◄─ metrics_page.h, status/
 */
#pragma once

#include "shared/metric_labels.h"

enum {
    METRICS_SHARDS_MAX = 1024,
    METRICS_TENANTS_MAX = 4096,
    METRICS_TENANTS_SHOWN = 50,
};

enum shard_word {
    SHARD_SECONDS = 0, /* from the arrival of the client's request to the shard's reply */
    SHARD_ERRORS = HISTOGRAM_WORDS,
    SHARD_CONNECTS,
    SHARD_FAILURES,
    SHARD_TIMEOUTS,
    SHARD_IN_FLIGHT,
    SHARD_QUEUE_BYTES,
    SHARD_CONNECTIONS,
    SHARD_HELD,        /* requests that were held and sent */
    SHARD_HELD_FAILED, /* requests that were held and failed */
    SHARD_HELD_MS,     /* how long both have waited */
    SHARD_HELD_NOW,
    SHARD_HELD_BYTES,
    SHARD_WORDS,
};

enum tenant_word {
    TENANT_REQUESTS,
    TENANT_ERRORS,
    TENANT_BYTES_IN,
    TENANT_BYTES_OUT,
    TENANT_RATE_REFUSED,
    TENANT_OVER_SHARDS,
    TENANT_MEMORY,
    TENANT_KEYS, /* at all shards, usage.h */
    TENANT_MAX_KEYS,
    TENANT_BYTES, /* at all shards */
    TENANT_MAX_BYTES,
    TENANT_ACROSS, /* this and the next two: connections for keys on several shards, pool_across() */
    TENANT_ACROSS_WAITING,
    TENANT_ACROSS_WAIT_MS,
    TENANT_DEDICATED, /* dedicated connections to backends */
    TENANT_CLIENTS,
    TENANT_RATE,  /* requests a second, in the last second */
    TENANT_RATED, /* TENANT_REQUESTS when TENANT_RATE was set */
    TENANT_WORDS,
};

enum worker_word {
    WORKER_TURN_SECONDS = 0,
    WORKER_CLIENTS = HISTOGRAM_WORDS,
    WORKER_HOT_HASH,  /* hash of the most frequent key */
    WORKER_HOT_COUNT, /* samples of that key in the last 10 to 20 s */
    WORKER_HOT_TOTAL, /* all samples in that time */
    WORKER_HOT_MS,    /* length of that time */
    WORKER_HOT_SAMPLE,
    WORKER_WORDS,
};

struct proxy_metrics {
    struct labels *commands;
    struct own_calls *own;
    struct labels *errors; /* error_replies.h */
    struct labels *shards;
    struct labels *spaces;
    struct labels *workers;
};

void proxy_metrics_init(struct proxy_metrics *labelled);
void proxy_metrics_fini(struct proxy_metrics *labelled);
/* The counters of a namespace; an empty name is shown as "default". */
struct metric_cell *proxy_metrics_space(struct proxy_metrics *labelled, struct bytes name,
                                        uint32_t thread);
struct metric_cell *proxy_metrics_worker(struct proxy_metrics *labelled, uint32_t index);
/* What all workers have counted for a shard. */
struct shard_counts {
    uint64_t replies;
    double mean_seconds;
    double p99_seconds;
    uint64_t in_flight;
    uint64_t queue_bytes;
    uint64_t connections;
    uint64_t failures;
    uint64_t held; /* requests that wait for the shard to come back */
    uint64_t held_bytes;
};
void proxy_metrics_shard(struct proxy_metrics *labelled, struct bytes name,
                         struct shard_counts *counts);
