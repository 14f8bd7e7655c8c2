#include "proxy/run/worker_tick.h"

#include "proxy/client/bounced.h"
#include "proxy/client/ephemeral.h"
#include "proxy/client/memory.h"
#include "proxy/client/monitor.h"
#include "proxy/client/pause.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/cluster/limit_rounds.h"
#include "proxy/cluster/usage.h"
#include "proxy/core/proxy.h"
#include "proxy/core/slow_log.h"
#include "proxy/run/worker_run.h"
#include "proxy/status/metrics_page.h"
#include "proxy/status/status.h"
#include "proxy/upstream/pool.h"
#include "shared/clock.h"

#include <stdlib.h>

enum {
    SCRATCH_KEEP = 4096,        /* entries */
    SLOT_BUSY_REQUESTS = 20000, /* requests per second; a busier worker samples slots */
};

void worker_free_requests(struct proxy_worker *worker, uint32_t count)
{
    for (; count > 0; count--) {
        struct request *request = container_of(worker->requests.free, struct request, link);
        worker->requests.free = request->link.next;
        worker->requests.free_count--;
        worker->requests.count--;
        free(request);
    }
}

void worker_tick(void *owner)
{
    struct proxy_worker *worker = owner;
    worker_clock(worker);
    bool needed = worker->pool->nodes && pool_tick(worker->pool);
    needed |= pause_tick(worker);
    slow_log_release_blocks(worker);
    memory_check(worker);
    if (worker->thread.is_stopping)
        worker_drain_quiet(worker);
    if (worker->thread.is_stopping && loop_mono_ms(worker->loop) >= worker->thread.stop_at_ms)
        worker_kill_clients(worker);
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
    if (worker->scratch.own_keys.shards_cap > SCRATCH_KEEP)
        route_keys_fini(&worker->scratch.own_keys);
}

/* Frees half of the requests that were unused since the last call. */
static void decay(struct proxy_worker *worker)
{
    drop_scratch(worker);
    uint32_t spare = worker->requests.free_least < worker->requests.free_count
                         ? worker->requests.free_least
                         : worker->requests.free_count;
    worker_free_requests(worker, (spare + 1) / 2);
    worker->requests.free_least = worker->requests.free_count;
    block_cache_decay();
}

/* Once a second: decides whether every requested slot is counted, or one in SLOT_SAMPLE_BUSY. */
static void choose_slot_sample(struct proxy_worker *worker)
{
    uint64_t requests = atomic_load_explicit(
        &worker->metrics.process->values[METRIC_PROXY_REQUESTS], memory_order_relaxed);
    bool is_busy = requests - worker->sampling.requests_seen > SLOT_BUSY_REQUESTS;
    worker->sampling.slot_sample = is_busy ? SLOT_SAMPLE_BUSY : 1;
    worker->sampling.requests_seen = requests;
}

/* Once a second. */
static void set_tenant_rates(struct proxy_worker *worker)
{
    uint64_t now_ms = loop_mono_ms(worker->loop);
    uint64_t elapsed_ms = now_ms - worker->sampling.rated_ms;
    if (elapsed_ms > 0)
        labels_set_rates(worker->proxy->labelled.spaces, worker->index, TENANT_REQUESTS,
                         TENANT_RATED, TENANT_RATE, elapsed_ms);
    worker->sampling.rated_ms = now_ms;
}

void worker_slow(void *owner)
{
    struct proxy_worker *worker = owner;
    atomic_store_explicit(&worker->thread.alive_ms, loop_mono_ms(worker->loop),
                          memory_order_relaxed);
    client_each(worker, close_if_idle);
    client_each(worker, client_look_stalled);
    client_each(worker, client_count);
    memory_check(worker);
    memory_slow(worker);
    if (worker->pool->nodes)
        pool_slow(worker->pool);
    all_subscriptions_slow(worker);
    if (worker->pool->nodes) {
        tracking_slow(worker);
        bounced_slow(worker);
    }
    ephemeral_slow(worker);
    if (worker->index == 0) {
        limit_rounds_tick(worker->proxy->tenants.limits, worker);
        usages_tick(worker->proxy->tenants.usages, worker);
    }
    script_notes_clear(&worker->script_notes);
    choose_slot_sample(worker);
    set_tenant_rates(worker);
    status_slow(atomic_load(&worker->proxy->status), worker);
    metrics_page_set_gauges(worker);
    decay(worker);
}

static void set_gauges(struct proxy_worker *worker)
{
    metric_set(worker->metrics.process, METRIC_PROXY_CLIENTS, worker->clients.count);
    metric_set(worker->metrics.process, METRIC_PROXY_CLIENTS_BLOCKED,
               worker->clients.blocked + worker->clients.paused);
    metric_set(worker->metrics.process, METRIC_PROXY_CLIENTS_TRACKING, worker->clients.tracking);
    metric_set(worker->metrics.process, METRIC_PROXY_INFLIGHT,
               worker->requests.count - worker->requests.free_count);
}

/* Measures the time of the turn until its hooks run. Hooks may run several times per turn: only the first run counts. */
static void time_turn(struct proxy_worker *worker)
{
    uint64_t begun_us = loop_mono_us(worker->loop);
    if (worker->timing.turn_us == begun_us)
        return;
    worker->timing.turn_us = begun_us;
    cell_observe(worker->metrics.cell, WORKER_TURN_SECONDS, clock_mono_us() - begun_us);
}

bool worker_end_turn(void *owner)
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
        worker_go_on_stopping(worker);
    return false;
}
