#include "proxy/core/proxy_metrics.h"

#include "proxy/core/error_replies.h"
#include "proxy/core/own_calls.h"
#include "shared/command/command_cells.h"

#include <stdio.h>

void proxy_metrics_init(struct proxy_metrics *labelled)
{
    labelled->commands = labels_new(COMMAND_WORDS, COMMAND_COUNT);
    labelled->own = own_calls_new();
    labelled->errors = labels_new(REPLY_WORDS, ERROR_CODES);
    labelled->shards = labels_new(SHARD_WORDS, METRICS_SHARDS_MAX);
    labelled->spaces = labels_new(TENANT_WORDS, METRICS_TENANTS_MAX);
    labelled->workers = labels_new(WORKER_WORDS, UINT16_MAX);
}

void proxy_metrics_fini(struct proxy_metrics *labelled)
{
    labels_free(labelled->commands);
    own_calls_free(labelled->own);
    labels_free(labelled->errors);
    labels_free(labelled->shards);
    labels_free(labelled->spaces);
    labels_free(labelled->workers);
}

struct metric_cell *proxy_metrics_space(struct proxy_metrics *labelled, struct bytes name,
                                        uint32_t thread)
{
    return labels_cell(labelled->spaces, name.len ? name : BYTES("default"), thread);
}

struct metric_cell *proxy_metrics_worker(struct proxy_metrics *labelled, uint32_t index)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", index);
    return labels_cell(labelled->workers, bytes_of(name), index);
}

void proxy_metrics_shard(struct proxy_metrics *labelled, struct bytes name,
                         struct shard_counts *counts)
{
    uint64_t sums[LABEL_WORDS_MAX];
    *counts = (struct shard_counts){0};
    if (!labels_find(labelled->shards, name, sums))
        return;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts->replies += sums[SHARD_SECONDS + i];
    if (counts->replies)
        counts->mean_seconds =
            (double)sums[SHARD_SECONDS + HISTOGRAM_BUCKETS] / 1e6 / (double)counts->replies;
    counts->p99_seconds = histogram_quantile(sums + SHARD_SECONDS, 0.99) / 1e6;
    counts->in_flight = sums[SHARD_IN_FLIGHT];
    counts->queue_bytes = sums[SHARD_QUEUE_BYTES];
    counts->connections = sums[SHARD_CONNECTIONS];
    counts->failures = sums[SHARD_FAILURES];
    counts->held = sums[SHARD_HELD_NOW];
    counts->held_bytes = sums[SHARD_HELD_BYTES];
}
