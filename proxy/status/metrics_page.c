#include "proxy/status/metrics_page.h"

#include "proxy/core/client.h"
#include "proxy/core/hotkeys.h"
#include "proxy/core/worker.h"
#include "proxy/status/admin.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/command/command_cells.h"
#include "shared/metric_text.h"
#include "shared/table.h"
#include "shared/zone.h"

enum { HOT_SAMPLES_MIN = 32 }; /* with fewer samples a key's share is not reported */

static const struct label_family command_families[] = {
    {LABEL_COUNT, COMMAND_SECONDS, "scree_proxy_command_calls_total",
     "Requests of clients that were answered.", 0, 0, 0},
    {LABEL_COUNTER, COMMAND_ERRORS, "scree_proxy_command_errors_total",
     "Commands answered with an error.", 0, 0, 0},
    {LABEL_HISTOGRAM, COMMAND_SECONDS, "scree_proxy_command_duration_seconds",
     "From a request's arrival to its reply.", 1e6, 4, 24},
};

static const struct label_family error_families[] = {
    {LABEL_COUNTER, REPLY_ERRORS, "scree_proxy_error_replies_total",
     "Error replies that clients got, of shards and of the proxy, by the error's code.", 0, 0, 0},
};

static const struct label_family shard_families[] = {
    {LABEL_COUNT, SHARD_SECONDS, "scree_proxy_shard_replies_total", "Replies of the shard.", 0, 0,
     0},
    {LABEL_HISTOGRAM, SHARD_SECONDS, "scree_proxy_shard_duration_seconds",
     "From the arrival of a client's request to the shard's reply.", 1e6, 4, 24},
    {LABEL_COUNTER, SHARD_ERRORS, "scree_proxy_shard_errors_total",
     "Error replies of the shard, and requests that could not be sent to it.", 0, 0, 0},
    {LABEL_COUNTER, SHARD_CONNECTS, "scree_proxy_shard_connects_total",
     "Connections opened to the shard.", 0, 0, 0},
    {LABEL_COUNTER, SHARD_FAILURES, "scree_proxy_shard_failures_total",
     "Connections to the shard that broke or could not be opened.", 0, 0, 0},
    {LABEL_COUNTER, SHARD_TIMEOUTS, "scree_proxy_shard_timeouts_total",
     "Requests that exceeded upstream-timeout.", 0, 0, 0},
    {LABEL_GAUGE, SHARD_IN_FLIGHT, "scree_proxy_shard_inflight",
     "Requests that wait for the shard's reply.", 0, 0, 0},
    {LABEL_GAUGE, SHARD_QUEUE_BYTES, "scree_proxy_shard_queue_bytes",
     "Bytes of requests that were not sent to the shard yet.", 0, 0, 0},
    {LABEL_GAUGE, SHARD_CONNECTIONS, "scree_proxy_shard_connections",
     "Open connections to the shard.", 0, 0, 0},
    {LABEL_COUNTER, SHARD_HELD, "scree_proxy_shard_held_total",
     "Requests that waited for the shard to come back, and were sent.", 0, 0, 0},
    {LABEL_COUNTER, SHARD_HELD_FAILED, "scree_proxy_shard_held_failed_total",
     "Requests that waited for the shard to come back, and failed: it did not within hold.", 0, 0,
     0},
    {LABEL_COUNTER, SHARD_HELD_MS, "scree_proxy_shard_held_seconds_total",
     "How long these requests have waited, in sum.", 1e3, 0, 0},
    {LABEL_GAUGE, SHARD_HELD_NOW, "scree_proxy_shard_held",
     "Requests that wait for the shard to come back.", 0, 0, 0},
    {LABEL_GAUGE, SHARD_HELD_BYTES, "scree_proxy_shard_held_bytes", "Bytes of these requests.", 0,
     0, 0},
};

static const struct label_family tenant_families[] = {
    {LABEL_COUNTER, TENANT_REQUESTS, "scree_proxy_namespace_requests_total",
     "Requests of the namespace's clients.", 0, 0, 0},
    {LABEL_COUNTER, TENANT_ERRORS, "scree_proxy_namespace_errors_total",
     "Error replies to the namespace's clients.", 0, 0, 0},
    {LABEL_COUNTER, TENANT_BYTES_IN, "scree_proxy_namespace_bytes_in_total",
     "Bytes of the namespace's requests.", 0, 0, 0},
    {LABEL_COUNTER, TENANT_BYTES_OUT, "scree_proxy_namespace_bytes_out_total",
     "Bytes of replies to the namespace's clients.", 0, 0, 0},
    {LABEL_COUNTER, TENANT_RATE_REFUSED, "scree_proxy_namespace_rate_refused_total",
     "Requests refused at the namespace's rate limit.", 0, 0, 0},
    {LABEL_COUNTER, TENANT_OVER_SHARDS, "scree_proxy_namespace_over_shards_total",
     "Commands and transactions of the namespace with keys of several shards.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_MEMORY, "scree_proxy_namespace_memory_bytes",
     "Buffers and subscriptions of the namespace's clients.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_KEYS, "scree_proxy_namespace_keys",
     "Keys of the namespace, at all shards.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_MAX_KEYS, "scree_proxy_namespace_max_keys",
     "The option max-keys of a namespace with clients here; 0: no limit.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_BYTES, "scree_proxy_namespace_bytes",
     "Estimated bytes of the namespace, at all shards.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_MAX_BYTES, "scree_proxy_namespace_max_bytes",
     "The option max-bytes of a namespace with clients here; 0: no limit.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_ACROSS, "scree_proxy_namespace_across",
     "Connections that the namespace uses for commands with keys on several shards.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_ACROSS_WAITING, "scree_proxy_namespace_across_waiting",
     "Clients of the namespace that wait for such a connection.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_ACROSS_WAIT_MS, "scree_proxy_namespace_across_wait_seconds",
     "How long the first of them has waited; the sum of all threads.", 1e3, 0, 0},
    {LABEL_GAUGE, TENANT_DEDICATED, "scree_proxy_namespace_dedicated",
     "Connections to backends that belong to one client of the namespace each.", 0, 0, 0},
    {LABEL_GAUGE, TENANT_CLIENTS, "scree_proxy_namespace_clients", "Clients of the namespace.", 0,
     0, 0},
};

static const struct label_family worker_families[] = {
    {LABEL_HISTOGRAM, WORKER_TURN_SECONDS, "scree_proxy_loop_turn_seconds",
     "Duration of one turn of the worker's event loop; requests that arrive during it wait.", 1e6,
     4, 24},
    {LABEL_GAUGE, WORKER_CLIENTS, "scree_proxy_worker_clients", "Client connections of the worker.",
     0, 0, 0},
};

/* ---- gauges, on the worker's thread ---- */

static void set_shards(struct proxy_worker *worker)
{
    struct pool *pool = worker->pool;
    for (size_t i = 0; i < pool->count; i++) {
        pool->nodes[i]->sums = (struct node_sums){0};
    }
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next) {
        const struct upstream *upstream = container_of(link, struct upstream, links.pool);
        struct node_sums *sums = &upstream->node->sums;
        size_t bytes = upstream->out ? upstream->out->bytes : 0;
        bool holds = upstream->life.is_holding;
        sums->in_flight += upstream->queue.in_flight;
        sums->queue_bytes += bytes;
        sums->connections += upstream->state == UPSTREAM_UP;
        sums->held += holds ? upstream->queue.in_flight : 0;
        sums->held_bytes += holds ? bytes : 0;
    }
    for (size_t i = 0; i < pool->count; i++) {
        const struct node *node = pool->nodes[i];
        cell_set(node->cell, SHARD_IN_FLIGHT, node->sums.in_flight);
        cell_set(node->cell, SHARD_QUEUE_BYTES, node->sums.queue_bytes);
        cell_set(node->cell, SHARD_CONNECTIONS, node->sums.connections);
        cell_set(node->cell, SHARD_HELD_NOW, node->sums.held);
        cell_set(node->cell, SHARD_HELD_BYTES, node->sums.held_bytes);
    }
}

/* Adds what a namespace uses and waits for at one shard. */
static void add_across(const struct proxy_worker *worker, const struct fair_group *group,
                       struct metric_cell *cell)
{
    uint64_t waiting = 0;
    for (const struct list *link = group->waiting.next; link != &group->waiting; link = link->next)
        waiting++;
    cell_add(cell, TENANT_ACROSS, group->in_use);
    cell_add(cell, TENANT_ACROSS_WAITING, waiting);
    if (!waiting)
        return;
    const struct client *first = container_of(group->waiting.next, struct client, links.full);
    uint64_t waited_ms = loop_mono_ms(worker->loop) - first->flow.across_since_ms;
    uint64_t longest_ms =
        atomic_load_explicit(&cell->words[TENANT_ACROSS_WAIT_MS], memory_order_relaxed);
    if (waited_ms > longest_ms)
        cell_set(cell, TENANT_ACROSS_WAIT_MS, waited_ms);
}

static void set_across(const struct proxy_worker *worker)
{
    for (int pass = 0; pass < 2; pass++) /* clears the gauges of all shards' groups, then adds */
        for (size_t i = 0; i < worker->pool->count; i++) {
            size_t cursor = 0;
            struct bytes name;
            void *group;
            while (table_next(worker->pool->nodes[i]->across.groups, &cursor, &name, &group)) {
                struct metric_cell *cell =
                    proxy_metrics_space(&worker->proxy->labelled, name, worker->index);
                if (pass)
                    add_across(worker, group, cell);
                else
                    for (int word = TENANT_ACROSS; word <= TENANT_ACROSS_WAIT_MS; word++)
                        cell_set(cell, (uint32_t)word, 0);
            }
        }
}

void metrics_page_set_gauges(struct proxy_worker *worker)
{
    struct metric_cell *cell = worker->metrics.cell;
    if (worker->pool->nodes) {
        set_shards(worker);
        set_across(worker);
    }
    cell_set(cell, WORKER_CLIENTS, worker->clients.count);
    if (!worker->sampling.hotkeys)
        return;
    struct hot_share share;
    uint64_t now_ms = loop_mono_ms(worker->loop);
    hotkeys_close_windows(worker->sampling.hotkeys, now_ms);
    hotkeys_share(worker->sampling.hotkeys, &share);
    cell_set(cell, WORKER_HOT_HASH, share.hash);
    cell_set(cell, WORKER_HOT_COUNT, share.count);
    cell_set(cell, WORKER_HOT_TOTAL, share.total);
    cell_set(cell, WORKER_HOT_MS, hotkeys_covered_ms(worker->sampling.hotkeys, now_ms));
    cell_set(cell, WORKER_HOT_SAMPLE, (uint64_t)worker->snapshot->config.hotkeys_sample);
}

/* ---- the page, on the HTTP thread ---- */

/* The most frequent key of all workers: its share of the samples, and its rate. */
static void print_hot_key(struct proxy_metrics *labelled, struct out *out)
{
    uint64_t one[LABEL_WORDS_MAX];
    uint64_t two[LABEL_WORDS_MAX];
    uint64_t most = 0;
    uint64_t total = 0;
    double most_rate = 0;
    for (size_t i = 0; labels_read(labelled->workers, i, one); i++) {
        uint64_t count = 0;
        double rate = 0;
        total += one[WORKER_HOT_TOTAL];
        for (size_t k = 0; labels_read(labelled->workers, k, two); k++) {
            if (two[WORKER_HOT_HASH] != one[WORKER_HOT_HASH] || !two[WORKER_HOT_MS])
                continue;
            count += two[WORKER_HOT_COUNT];
            rate += (double)(two[WORKER_HOT_COUNT] * two[WORKER_HOT_SAMPLE]) * 1000 /
                    (double)two[WORKER_HOT_MS];
        }
        if (count > most) {
            most = count;
            most_rate = rate;
        }
    }
    double share = total >= HOT_SAMPLES_MIN ? (double)most / (double)total : 0;
    metric_gauge(out, "scree_proxy_hot_key_ratio",
                 "Share of the most requested key in all requested keys of the last 10 to 20 s.",
                 share);
    metric_gauge(out, "scree_proxy_hot_key_rate", "Requests per second for the most requested key.",
                 most_rate);
}

static void print_info(const struct admin_visit *visit, struct out *out)
{
    char labels[METRIC_LABELS_MAX] = "";
    char zone[ZONE_NAME_MAX + 1];
    (void)zone_expand(bytes_of(visit->snapshot->config.zone), zone);
    metric_label_build(labels, visit->proxy->run_id);
    metric_label(labels, "zone", bytes_of(zone));
    metric_head(out, "scree_proxy_build_info", "gauge",
                "Always 1; the labels have the version and the zone.");
    metric_number(out, "scree_proxy_build_info", labels, 1);
}

static void print_map(const struct admin_visit *visit, struct out *out)
{
    const struct shard_map *map = visit->snapshot->map;
    metric_gauge(out, "scree_proxy_map_hash",
                 "Hash of the shard map: equal at proxies and backends with the same map.",
                 (double)(shard_map_hash(visit->snapshot->wish) >> 16));
    metric_gauge(out, "scree_proxy_map_loaded_timestamp_seconds",
                 "When the proxy began to use this shard map, Unix time.",
                 (double)metrics_sum(METRIC_PROXY_MAP_LOADED_S));
    metric_gauge(out, "scree_proxy_map_shards", "Number of shards in the map.",
                 (double)map->shard_count);
    metric_gauge(out, "scree_proxy_memory_buffers_bytes",
                 "Memory of requests and replies in flight, and of TLS connections.",
                 (double)atomic_load(&visit->proxy->memory.used));
    metric_gauge(out, "scree_proxy_memory_limit_bytes", "memory-limit.",
                 (double)visit->snapshot->config.memory_limit_bytes);
}

void metrics_page_print(void *owner, struct http_reply *reply)
{
    const struct admin_visit *visit = owner;
    struct proxy_metrics *labelled = &visit->proxy->labelled;
    struct out *out = &reply->body;
    metrics_print(out, "scree_proxy");
    print_info(visit, out);
    print_map(visit, out);
    metric_certificates(out, "scree_proxy_tls_certificate_expiry_timestamp_seconds",
                        visit->snapshot->tls, visit->snapshot->upstream_tls);
    admin_print_health(visit, out);
    print_hot_key(labelled, out);
    labels_print(labelled->commands, out, "command", command_families, COUNT_OF(command_families),
                 COMMAND_COUNT);
    labels_print(labelled->errors, out, "code", error_families, COUNT_OF(error_families),
                 ERROR_CODES);
    labels_print(labelled->shards, out, "shard", shard_families, COUNT_OF(shard_families),
                 METRICS_SHARDS_MAX);
    labels_print(labelled->spaces, out, "tenant", tenant_families, COUNT_OF(tenant_families),
                 METRICS_TENANTS_SHOWN);
    labels_print(labelled->workers, out, "worker", worker_families, COUNT_OF(worker_families),
                 UINT16_MAX);
    metric_process(out);
}
