#include "proxy/worker_run.h"

#include "proxy/connection.h"
#include "proxy/metrics_page.h"
#include "proxy/proxy_run.h"
#include "proxy/tracking.h"
#include "proxy/upstream/pool.h"

#include "proxy/backup.h"
#include "proxy/blocked.h"
#include "proxy/client.h"
#include "proxy/hotkeys.h"
#include "proxy/local/local.h"
#include "proxy/memory.h"
#include "proxy/monitor.h"
#include "proxy/pause.h"
#include "proxy/proxy.h"
#include "proxy/rate.h"
#include "proxy/request.h"
#include "proxy/slow_log.h"
#include "proxy/status/status.h"
#include "proxy/subscriptions.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/net/stream.h"

#include <stdlib.h>

enum {
    SLOW_MS = 1000,
    INLINE_BYTES_MAX = 64 * 1024,
    SCRATCH_KEEP = 4096,        /* entries */
    SLOT_BUSY_REQUESTS = 20000, /* requests per second; a busier worker samples slots */
};

static const char maxclients_error[] = "-ERR max number of clients reached\r\n";
static const char tls_memory_error[] =
    "-ERR too many TLS connections: their buffers take half of memory-limit\r\n";

/* Redis' text. */
static const char protected_error[] =
    "-DENIED Redis is running in protected mode because protected mode is enabled "
    "and no password is set for the default user. In this mode connections are only "
    "accepted from the loopback interface. If you want to connect from external "
    "computers to Redis you may adopt one of the following solutions: 1) Just "
    "disable protected mode sending the command 'CONFIG SET protected-mode no' from "
    "the loopback interface by connecting to Redis from the same host the server is "
    "running, however MAKE SURE Redis is not publicly accessible from internet if "
    "you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively "
    "you can just disable the protected mode by editing the Redis configuration "
    "file, and setting the protected mode option to 'no', and then restarting the "
    "server. 3) If you started the server manually just for testing, restart it with "
    "the '--protected-mode no' option. 4) Setup a an authentication password for the "
    "default user. NOTE: You only need to do one of the above things in order for "
    "the server to start accepting connections from the outside.\r\n";

static void on_tick(void *owner);
static void on_slow(void *owner);
static bool on_turn_end(void *owner);

/* A bound address and the namespace of its clients. */
struct entrance {
    struct listener *listener;
    struct proxy_worker *worker;
    char *name;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void set_limits(struct proxy_worker *worker)
{
    const struct proxy_config *config = &worker->snapshot->config;
    uint64_t bulk_bytes = config->proto_max_bulk_len_bytes;
    worker->limits = (struct resp_limits){
        .bulk_bytes_max = bulk_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bulk_bytes,
        .args_max = INT32_MAX,
        .inline_bytes_max = INLINE_BYTES_MAX};
    slow_log_configure(worker);
    local_hotkeys_configure(worker);
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
    list_init(&worker->clients.all);
    list_init(&worker->clients.closed);
    list_init(&worker->monitoring.clients);
    out_init(&worker->monitoring.lines);
    route_keys_init(&worker->scratch.keys);
    worker->sampling.slot_hits = calloc(SLOT_COUNT, sizeof *worker->sampling.slot_hits);
    CHECK(worker->sampling.slot_hits);
    worker->sampling.slot_sample = 1;
    worker->metrics.cell = proxy_metrics_worker(&proxy->labelled, index);
    worker->metrics.commands =
        (struct command_cells){.labels = proxy->labelled.commands, .thread = index};
    keyspaces_init(&worker->keyspaces, snapshot->namespaces, proxy->rate_limiters);
    worker->keyspaces.labelled = &proxy->labelled;
    worker->keyspaces.thread = index;
    worker->rate_waits = rate_waits_new(worker);
    worker->home = keyspaces_get(&worker->keyspaces, (struct bytes){"", 0}, 0);
    worker->home->is_proven = true;
    worker->pool = pool_new(worker, snapshot->map);
    set_limits(worker);
    worker->thread.tick = timer_new(loop, on_tick, worker);
    worker->thread.slow = timer_new(loop, on_slow, worker);
    timer_start(worker->thread.slow, SLOW_MS, SLOW_MS);
    worker->thread.hook = (struct turn_hook){.run = on_turn_end, .owner = worker};
    loop_add_hook(loop, &worker->thread.hook);
    return worker;
}

static void free_requests(struct proxy_worker *worker, uint32_t count)
{
    for (; count > 0; count--) {
        struct request *request = container_of(worker->requests.free, struct request, link);
        worker->requests.free = request->link.next;
        worker->requests.free_count--;
        worker->requests.count--;
        free(request);
    }
}

void proxy_worker_free(struct proxy_worker *worker)
{
    CHECK(worker->thread.is_stopped);
    CHECK(worker->requests.count == worker->requests.free_count);
    local_stop(worker);
    memory_stop(worker);
    monitor_stop(worker);
    pause_stop(worker);
    cluster_backup_free(worker);
    hotkeys_free(worker->sampling.hotkeys);
    free_requests(worker, worker->requests.free_count);
    timer_free(worker->thread.tick);
    timer_free(worker->thread.slow);
    rate_waits_free(worker->rate_waits);
    pool_free(worker->pool);
    keyspace_unref(&worker->keyspaces, worker->home);
    keyspaces_fini(&worker->keyspaces);
    route_keys_fini(&worker->scratch.keys);
    free(worker->scratch.argv);
    free(worker->sampling.slot_hits);
    snapshot_unref(worker->snapshot);
    free(worker);
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* Ignores the data of a refused connection. */
static size_t drop_data(void *owner, struct block *block, const char *data, size_t len,
                        size_t *need)
{
    (void)owner;
    (void)block;
    (void)data;
    (void)need;
    return len;
}

static void drop_end(void *owner, int err)
{
    (void)owner;
    (void)err;
}

static void refuse_client(struct proxy_worker *worker, struct stream *stream, const char *error)
{
    static const struct stream_events refused = {drop_data, drop_end, NULL};
    metric_add(worker->metrics.process, METRIC_PROXY_CLIENTS_REFUSED, 1);
    stream_set_owner(stream, &refused, NULL);
    out_write(stream_out(stream), error, strlen(error));
    stream_close(stream);
}

static bool is_tls_full(const struct proxy_worker *worker, const struct stream *stream)
{
    size_t bytes = stream_tls_bytes(stream); /* equal for all connections */
    return bytes && metrics_sum(METRIC_PROCESS_TLS_CONNECTIONS) * bytes > memory_tls_share(worker);
}

void proxy_worker_accept(struct proxy_worker *worker, struct stream *stream, struct bytes name)
{
    int64_t limit = worker->snapshot->config.maxclients;
    if (atomic_fetch_add(&worker->proxy->clients, 1) < limit && !worker->thread.is_stopping) {
        bool is_full = is_tls_full(worker, stream);
        if (is_full || local_is_protected(worker, stream, name)) {
            atomic_fetch_sub(&worker->proxy->clients, 1);
            refuse_client(worker, stream, is_full ? tls_memory_error : protected_error);
            return;
        }
        metric_add(worker->metrics.process, METRIC_PROXY_CLIENTS_ACCEPTED, 1);
        (void)client_new(worker, stream, name);
        return;
    }
    atomic_fetch_sub(&worker->proxy->clients, 1);
    refuse_client(worker, stream, maxclients_error);
}

static void on_accept(void *owner, struct stream *stream)
{
    struct entrance *entrance = owner;
    proxy_worker_accept(entrance->worker, stream, bytes_of(entrance->name));
}

static struct tls_context *tls_of(void *owner)
{
    struct entrance *entrance = owner;
    return entrance->worker->snapshot->tls;
}

void proxy_worker_listen(struct proxy_worker *worker, int fd, const struct listen_options *options,
                         const char *name, bool tls)
{
    size_t size = (worker->thread.entrance_count + 1) * sizeof(struct entrance *);
    struct entrance *entrance = calloc(1, sizeof(*entrance));
    CHECK(entrance);
    worker->thread.entrances = realloc(worker->thread.entrances, size);
    CHECK(worker->thread.entrances);
    entrance->worker = worker;
    entrance->name = strdup(name);
    CHECK(entrance->name);
    entrance->listener = listener_new(worker->loop, fd, options, on_accept, entrance);
    if (tls)
        listener_secure(entrance->listener, tls_of,
                        worker->snapshot->config.tls_handshake_timeout_ms);
    worker->thread.entrances[worker->thread.entrance_count++] = entrance;
}

static void stop_listening(struct proxy_worker *worker)
{
    for (size_t i = 0; i < worker->thread.entrance_count; i++) {
        listener_free(worker->thread.entrances[i]->listener);
        free(worker->thread.entrances[i]->name);
        free(worker->thread.entrances[i]);
    }
    free(worker->thread.entrances);
    worker->thread.entrances = NULL;
    worker->thread.entrance_count = 0;
}

/* ---- reload and stop ------------------------------------------------------------------------- */

void proxy_worker_update(struct proxy_worker *worker, struct proxy_snapshot *snapshot)
{
    struct proxy_snapshot *before = worker->snapshot;
    worker->snapshot = snapshot;
    if (worker->pool->nodes && !shard_map_equal(before->map, snapshot->map)) {
        pool_update(worker->pool, snapshot->map);
        worker->label.generation++;
        pool_forget_keyspaces(
            worker->pool); /* so that the next request sends the shard its slots */
        all_subscriptions_reloaded(worker);
        blocked_reloaded(worker);
        tracking_reloaded(worker);
    }
    keyspaces_update(&worker->keyspaces, snapshot->namespaces);
    if (!namespaces_equal(before->namespaces, snapshot->namespaces))
        pool_forget_keyspaces(worker->pool); /* slot rules may have changed */
    set_limits(worker);
    client_each(worker, local_reloaded);
    snapshot_unref(before);
}

static void drain(struct client *client)
{
    client->is_draining = true;
    (void)blocked_unblock(
        client,
        true); /* commands that were not sent are answered at once, which may close the client */
    client_drain(client);
}

void proxy_worker_stop(struct proxy_worker *worker, uint64_t timeout_ms)
{
    worker->thread.stop_at_ms = loop_mono_ms(worker->loop) + timeout_ms;
    proxy_worker_need_tick(worker);
    if (worker->thread.is_stopping)
        return;
    worker->thread.is_stopping = true;
    stop_listening(worker);
    client_each(worker, drain);
}

static void kill_clients(struct proxy_worker *worker, const char *reason)
{
    while (!list_empty(&worker->clients.all))
        client_kill(container_of(worker->clients.all.next, struct client, links.all), reason);
}

/* When all clients are gone: closes the upstreams, then waits for calls to other threads. */
static void go_on_stopping(struct proxy_worker *worker)
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

/* ---- time ------------------------------------------------------------------------------------ */

static void on_tick(void *owner)
{
    struct proxy_worker *worker = owner;
    worker_clock(worker);
    bool needed = worker->pool->nodes && pool_tick(worker->pool);
    needed |= pause_tick(worker);
    memory_check(worker);
    if (worker->thread.is_stopping && loop_mono_ms(worker->loop) >= worker->thread.stop_at_ms)
        kill_clients(worker, NULL);
    if (needed || worker->memory.is_full || worker->thread.is_stopping)
        return;
    worker->thread.is_ticking = false;
    timer_stop(worker->thread.tick);
}

static void close_if_idle(struct client *client)
{
    uint64_t timeout_ms = client->worker->snapshot->config.idle_timeout_ms;
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    if (timeout_ms > 0 && client->pipeline.count == 0 && !client->held_by &&
        !client_subscriptions(client) && now_ms - stream_active_ms(client->stream) >= timeout_ms)
        client_end(client);
}

/* Frees scratch memory that a huge request needed. */
static void drop_scratch(struct proxy_worker *worker)
{
    if (worker->scratch.argv_cap > SCRATCH_KEEP) {
        free(worker->scratch.argv);
        worker->scratch.argv = NULL;
        worker->scratch.argv_cap = 0;
    }
    if (worker->scratch.keys.shards_cap > SCRATCH_KEEP)
        route_keys_fini(&worker->scratch.keys);
}

/* Frees half of what was unused since the last call. */
static void decay(struct proxy_worker *worker)
{
    drop_scratch(worker);
    uint32_t spare = worker->requests.free_least < worker->requests.free_count
                         ? worker->requests.free_least
                         : worker->requests.free_count;
    free_requests(worker, (spare + 1) / 2);
    worker->requests.free_least = worker->requests.free_count;
    block_cache_decay();
}

/* Once a second. */
static void choose_slot_sample(struct proxy_worker *worker)
{
    uint64_t requests = atomic_load_explicit(
        &worker->metrics.process->values[METRIC_PROXY_REQUESTS], memory_order_relaxed);
    bool is_busy = requests - worker->sampling.requests_seen > SLOT_BUSY_REQUESTS;
    worker->sampling.slot_sample = is_busy ? SLOT_SAMPLE_BUSY : 1;
    worker->sampling.requests_seen = requests;
}

static void on_slow(void *owner)
{
    struct proxy_worker *worker = owner;
    client_each(worker, close_if_idle);
    client_each(worker, client_look_stalled);
    client_each(worker, client_count);
    memory_check(worker);
    memory_slow(worker);
    if (worker->pool->nodes)
        pool_slow(worker->pool);
    all_subscriptions_slow(worker);
    if (worker->pool->nodes)
        tracking_slow(worker);
    local_slow(worker);
    script_notes_clear(&worker->script_notes);
    choose_slot_sample(worker);
    status_slow(atomic_load(&worker->proxy->status), worker);
    metrics_page_set_gauges(worker);
    decay(worker);
}

static void set_gauges(struct proxy_worker *worker)
{
    metric_set(worker->metrics.process, METRIC_PROXY_CLIENTS, worker->clients.count);
    metric_set(worker->metrics.process, METRIC_PROXY_CLIENTS_BLOCKED,
               worker->clients.blocked + worker->clients.paused);
    metric_set(worker->metrics.process, METRIC_PROXY_INFLIGHT,
               worker->requests.count - worker->requests.free_count);
}

/* Hooks may run several times per turn: the first one counts. */
static void time_turn(struct proxy_worker *worker)
{
    uint64_t begun_us = loop_mono_us(worker->loop);
    if (worker->timing.turn_us == begun_us)
        return;
    worker->timing.turn_us = begun_us;
    cell_observe(worker->metrics.cell, WORKER_TURN_SECONDS, clock_mono_us() - begun_us);
}

static bool on_turn_end(void *owner)
{
    struct proxy_worker *worker = owner;
    time_turn(worker);
    for (struct list *link; (link = list_pop(&worker->clients.closed));) {
        struct client *client = container_of(link, struct client, links.all);
        client_channels_free(client);
        client_free(client);
    }
    monitor_flush(worker);
    pool_turn_end(worker->pool);
    set_gauges(worker);
    if (worker->thread.is_stopping)
        go_on_stopping(worker);
    return false;
}
