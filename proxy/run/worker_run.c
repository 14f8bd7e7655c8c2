#include "proxy/run/worker_run.h"

#include "proxy/client/blocked.h"
#include "proxy/client/bounced.h"
#include "proxy/client/connection.h"
#include "proxy/client/ephemeral.h"
#include "proxy/client/login.h"
#include "proxy/client/memory.h"
#include "proxy/client/monitor.h"
#include "proxy/client/pause.h"
#include "proxy/client/rate.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/cluster/backup.h"
#include "proxy/cluster/limit_rounds.h"
#include "proxy/core/hot_keys.h"
#include "proxy/core/slow_log.h"
#include "proxy/run/proxy_run.h"
#include "proxy/run/worker_accept.h"
#include "proxy/run/worker_tick.h"
#include "proxy/upstream/pool.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOW_MS = 1000,
    INLINE_BYTES_MAX = 64 * 1024,
    QUIET_SHARE = 10, /* of drain-timeout */
};

/* ---- create and free ------------------------------------------------------------------------- */

static void set_limits(struct proxy_worker *worker)
{
    const struct proxy_config *config = &worker->snapshot->config;
    uint64_t bulk_bytes = config->proto_max_bulk_len_bytes;
    worker->limits = (struct resp_limits){
        .bulk_bytes_max = bulk_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bulk_bytes,
        .args_max = INT32_MAX,
        .inline_bytes_max = INLINE_BYTES_MAX};
    slow_log_configure(worker);
    hot_keys_configure(worker);
}

static void read_at_copies(const struct proxy_worker *worker)
{
    const struct proxy_config *config = worker_config(worker);
    bool is_on = config->upstream_replica_reads != REPLICA_READS_NO && *config->upstream_secret;
    bool is_fresh = is_on && config->upstream_replica_reads == REPLICA_READS_FRESH;
    char zone[ZONE_NAME_MAX + 1];
    (void)zone_expand(bytes_of(config->zone), zone);
    pool_set_zone(worker->pool, zone);
    pool_update_copies(worker->pool, worker->snapshot->map, is_on, is_fresh);
}

struct proxy_worker *proxy_worker_new(struct proxy *proxy, struct loop *loop, uint32_t index,
                                      struct proxy_snapshot *snapshot)
{
    struct proxy_worker *worker = calloc(1, sizeof(*worker));
    CHECK(worker);
    worker->proxy = proxy;
    worker->client_events = &connection_events;
    worker->loop = loop;
    worker->index = index;
    worker->snapshot = snapshot_ref(snapshot);
    worker->metrics.process = metrics_new();
    list_init(&worker->ephemeral.leaving);
    list_init(&worker->all_subscriptions);
    list_init(&worker->clients.leaving_channels);
    list_init(&worker->clients.all);
    list_init(&worker->clients.walks);
    list_init(&worker->clients.closed);
    list_init(&worker->monitoring.clients);
    out_init(&worker->monitoring.lines);
    route_keys_init(&worker->scratch.own_keys);
    worker->scratch.keys = &worker->scratch.own_keys;
    worker->sampling.slot_hits = calloc(SLOT_COUNT, sizeof *worker->sampling.slot_hits);
    CHECK(worker->sampling.slot_hits);
    worker->sampling.slot_sample = 1;
    worker->metrics.cell = proxy_metrics_worker(&proxy->labelled, index);
    worker->metrics.commands =
        (struct command_cells){.labels = proxy->labelled.commands, .thread = index};
    own_cells_init(&worker->metrics.own, proxy->labelled.own, index);
    error_replies_init(&worker->metrics.errors, proxy->labelled.errors, index);
    keyspaces_init(&worker->keyspaces, snapshot->namespaces, proxy->tenants.rate_limiters,
                   proxy->tenants.limits);
    worker->keyspaces.labelled = &proxy->labelled;
    worker->keyspaces.shares = proxy->tenants.shares;
    worker->keyspaces.thread = index;
    worker->rate_waits = rate_waits_new(worker);
    worker->home = keyspaces_get(&worker->keyspaces, (struct bytes){"", 0}, 0);
    worker->home->is_proven = true;
    worker->pool = pool_new(worker, snapshot->map);
    read_at_copies(worker);
    set_limits(worker);
    worker->thread.tick = timer_new(loop, worker_tick, worker);
    worker->thread.slow = timer_new(loop, worker_slow, worker);
    worker->thread.limits = timer_new(loop, limit_rounds_often, worker);
    if (index == 0)
        limit_rounds_serve(proxy->tenants.limits, worker);
    timer_start(worker->thread.slow, SLOW_MS, SLOW_MS);
    worker->thread.hook = (struct turn_hook){.run = worker_end_turn, .owner = worker};
    loop_add_hook(loop, &worker->thread.hook);
    return worker;
}

void proxy_worker_free(struct proxy_worker *worker)
{
    CHECK(worker->thread.is_stopped);
    CHECK(worker->requests.count == worker->requests.free_count);
    ephemeral_stop(worker);
    memory_stop(worker);
    monitor_stop(worker);
    pause_stop(worker);
    cluster_backup_free(worker);
    hot_keys_stop(worker);
    worker_free_requests(worker, worker->requests.free_count);
    timer_free(worker->thread.tick);
    timer_free(worker->thread.slow);
    timer_free(worker->thread.limits);
    if (worker->index == 0)
        limit_rounds_serve(worker->proxy->tenants.limits, NULL);
    rate_waits_free(worker->rate_waits);
    pool_free(worker->pool);
    keyspace_unref(&worker->keyspaces, worker->home);
    keyspaces_fini(&worker->keyspaces);
    route_keys_fini(&worker->scratch.own_keys);
    free(worker->scratch.argv);
    free(worker->sampling.slot_hits);
    snapshot_unref(worker->snapshot);
    free(worker);
}

/* ---- reload and stop ------------------------------------------------------------------------- */

static bool has_same_shards(const struct shard_map *a, const struct shard_map *b)
{
    if (a->shard_count != b->shard_count)
        return false;
    for (size_t i = 0; i < a->shard_count; i++) {
        const struct shard *x = &a->shards[i];
        const struct shard *y = &b->shards[i];
        if (strcmp(x->name, y->name) != 0 || x->address_count != y->address_count)
            return false;
        for (size_t n = 0; n < x->address_count; n++)
            if (strcmp(x->addresses[n], y->addresses[n]) != 0)
                return false;
    }
    return true;
}

/* Do the maps differ only by owners that backends have named in bounces? Then the old owners have sent invalidations of the keys in slots
 * that have moved, and other keys stay valid for tracking clients. */
static bool is_only_learned(const struct proxy_snapshot *before,
                            const struct proxy_snapshot *snapshot)
{
    return shard_map_equal(before->wish, snapshot->wish) &&
           has_same_shards(before->map, snapshot->map);
}

void proxy_worker_update(struct proxy_worker *worker, struct proxy_snapshot *snapshot)
{
    struct proxy_snapshot *before = worker->snapshot;
    worker->snapshot = snapshot;
    if (worker->pool->nodes && !shard_map_equal(before->map, snapshot->map)) {
        pool_update(worker->pool, snapshot->map);
        worker->label.generation++;
        pool_forget_keyspaces(
            worker->pool); /* so that each connection sends SCREE SLOTS before its next request */
        all_subscriptions_reloaded(worker);
        blocked_reloaded(worker);
        if (!is_only_learned(before, snapshot))
            tracking_reloaded(worker);
    }
    if (worker->pool->nodes)
        read_at_copies(worker);
    keyspaces_update(&worker->keyspaces, snapshot->namespaces);
    if (!namespaces_equal(before->namespaces, snapshot->namespaces))
        pool_forget_keyspaces(
            worker->pool); /* slot rules may have changed, and SCREE USE sends them */
    set_limits(worker);
    client_each(worker, login_reloaded);
    bounced_updated(worker);
    snapshot_unref(before);
}

/* Could a request of this client be on its way to the proxy? If the connection were closed now, that request would get no reply. */
static bool is_between_requests(const struct client *client)
{
    const struct proxy_worker *worker = client->worker;
    uint64_t quiet_ms = loop_mono_ms(worker->loop) - stream_active_ms(client->stream);
    bool is_waiting = client->pipeline.count > 0 || client->held_by || client_subscriptions(client);
    return quiet_ms < worker->thread.quiet_ms &&
           (!is_waiting || client_transaction_is_begun(&client->session.transaction));
}

static void drain_if_quiet(struct client *client)
{
    if (client->is_draining || is_between_requests(client))
        return;
    client->is_draining = true;
    /* a blocking command that was not sent yet is answered at once, which may close the client */
    (void)blocked_unblock(client, true);
    client_drain(client);
}

void proxy_worker_stop(struct proxy_worker *worker, uint64_t timeout_ms)
{
    worker->thread.stop_at_ms = loop_mono_ms(worker->loop) + timeout_ms;
    worker->thread.quiet_ms = timeout_ms / QUIET_SHARE;
    proxy_worker_need_tick(worker);
    if (worker->thread.is_stopping)
        return;
    worker->thread.is_stopping = true;
    worker_stop_listening(worker);
    worker_drain_quiet(worker);
    bounced_updated(worker);
}

void worker_drain_quiet(struct proxy_worker *worker)
{
    client_each(worker, drain_if_quiet);
}

void worker_kill_clients(struct proxy_worker *worker)
{
    while (!list_empty(&worker->clients.all))
        client_kill(container_of(worker->clients.all.next, struct client, links.all), NULL);
}

void worker_go_on_stopping(struct proxy_worker *worker)
{
    if (worker->thread.is_stopped || worker->clients.count > 0)
        return;
    all_subscriptions_fini(worker);
    if (worker->pool->nodes)
        pool_stop(worker->pool);
    if (worker->requests.count > worker->requests.free_count)
        return;
    worker->thread.is_stopped = true;
    timer_stop(worker->thread.tick);
    timer_stop(worker->thread.slow);
    proxy_worker_stopped(worker);
}
