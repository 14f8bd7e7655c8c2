/*
 * admin.c - the admin port of the proxy: /metrics, /healthz, /readyz, /readyz/any, /shards, /config.
 *
 * Requests are served on the HTTP thread. It reads atomics and a reference of the snapshot, which the main thread
 * replaces (admin_publish); the mutex guards the pointer. No page waits for a shard: the main thread checks them
 * (health_checks.h).
 */
#include "proxy/status/admin.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/status/metrics_page.h"
#include "proxy/status/status.h"
#include "proxy/upstream/health_checks.h"
#include "proxy/upstream/pool.h"
#include "shared/clock.h"
#include "shared/json_writer.h"
#include "shared/log.h"
#include "shared/metric_text.h"
#include "shared/metrics.h"
#include "shared/net/http_route.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STUCK_AFTER_MS = 30 * 1000 };

struct admin {
    struct proxy *proxy;
    struct http_server *http;
    pthread_mutex_t mutex;
    struct proxy_snapshot *snapshot; /* guarded by mutex */
    struct health_checks *checks;
};

static struct proxy_snapshot *admin_snapshot(struct admin *admin)
{
    CHECK(pthread_mutex_lock(&admin->mutex) == 0);
    struct proxy_snapshot *snapshot = snapshot_ref(admin->snapshot);
    CHECK(pthread_mutex_unlock(&admin->mutex) == 0);
    return snapshot;
}

void admin_publish(struct proxy *proxy)
{
    struct admin *admin = proxy->admin;
    if (!admin)
        return;
    struct proxy_snapshot *snapshot = snapshot_ref(proxy->snapshot);
    CHECK(pthread_mutex_lock(&admin->mutex) == 0);
    struct proxy_snapshot *old = admin->snapshot;
    admin->snapshot = snapshot;
    CHECK(pthread_mutex_unlock(&admin->mutex) == 0);
    snapshot_unref(old);
    health_checks_configure(admin->checks, proxy->snapshot);
}

/* ---- health of shards ---- */

/* Posted to a worker when a shard is reachable again: ends the worker's backoff, so that it connects at once. */
struct back {
    struct task task;
    struct proxy_worker *worker;
    char shard[SHARD_NAME_MAX + 1];
};

static void on_back(struct task *task)
{
    struct back *back = container_of(task, struct back, task);
    pool_shard_back(back->worker->pool, bytes_of(back->shard));
    free(back);
}

/* shard_back_fn */
static void send_back(void *owner, const char *shard)
{
    struct proxy *proxy = owner;
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        struct back *back = calloc(1, sizeof *back);
        CHECK(back);
        back->task.run = on_back;
        back->worker = proxy->workers[i];
        (void)snprintf(back->shard, sizeof back->shard, "%s", shard);
        loop_post(proxy->workers[i]->loop, &back->task);
    }
}

/* The state of each shard of the visit's map; the caller frees it. */
static struct shard_health *health_of(const struct admin_visit *visit)
{
    const struct shard_map *map = visit->snapshot->map;
    struct shard_health *health = calloc(map->shard_count, sizeof *health);
    CHECK(health);
    admin_copy_health(visit->admin, map, health);
    return health;
}

void admin_copy_health(const struct admin *admin, const struct shard_map *map,
                       struct shard_health *to)
{
    health_checks_get(admin->checks, map, to);
}

/* ---- pages ---- */

/* At memory-limit the proxy reads from no client, so new clients should go to another one. */
static bool are_workers_full(const struct proxy *proxy)
{
    return atomic_load(&proxy->memory.workers_full) > 0;
}

/* Ready: every shard answers; with any_suffices one shard suffices, so that the failure of one takes no proxy out of
 * service. */
static void reply_readyz(const struct admin_visit *visit, bool any_suffices,
                         struct http_reply *reply)
{
    struct admin *admin = visit->admin;
    const struct shard_map *map = visit->snapshot->map;
    if (atomic_load(&admin->proxy->is_stopping)) {
        reply->status = 503;
        out_printf(&reply->body, "stopping\n");
        return;
    }
    if (are_workers_full(admin->proxy)) {
        reply->status = 503;
        out_printf(&reply->body, "memory-limit is reached: the proxy reads from no client\n");
    }
    struct shard_health *health = health_of(visit);
    size_t up = 0;
    size_t down = 0;
    for (size_t i = 0; i < map->shard_count; i++) {
        if (!map->shards[i].slot_count)
            continue;
        if (health[i].is_up) {
            up++;
            continue;
        }
        down++;
        out_printf(&reply->body, "shard %s does not answer: %s\n", map->shards[i].name,
                   health[i].reason);
    }
    free(health);
    if (any_suffices ? up == 0 : down > 0)
        reply->status = 503;
    if (reply->status == 200)
        out_printf(&reply->body, "ready\n");
}

void admin_print_health(const struct admin_visit *visit, struct out *out)
{
    static const char NAME[] = "scree_proxy_shard_up";
    const struct shard_map *map = visit->snapshot->map;
    bool is_ready = !atomic_load(&visit->proxy->is_stopping) && !are_workers_full(visit->proxy);
    struct shard_health *health = health_of(visit);
    metric_head(out, NAME, "gauge", "1 if the shard answered the last health check, else 0.");
    for (size_t i = 0; i < map->shard_count; i++) {
        char labels[METRIC_LABELS_MAX] = "";
        metric_label(labels, "shard", bytes_of(map->shards[i].name));
        metric_number(out, NAME, labels, health[i].is_up);
        is_ready &= health[i].is_up || !map->shards[i].slot_count;
    }
    free(health);
    metric_gauge(out, "scree_proxy_ready", "1 if /readyz succeeds, else 0.", is_ready);
}

/* Writes the output of `print` into the reply's body. */
static void reply_printed(struct http_reply *reply, void (*print)(const void *what, FILE *to),
                          const void *what)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    CHECK(to);
    print(what, to);
    CHECK(fclose(to) == 0);
    out_write(&reply->body, text, len);
    free(text);
}

/* Writes the shard's slots as "0-5460 7000". */
static void write_slots_json(const struct shard_map *map, size_t shard, struct json_writer *json)
{
    struct out out;
    unsigned slot = 0;
    unsigned first;
    unsigned last;
    out_init(&out);
    while (shard_map_next_range(map, (int)shard, &slot, &first, &last))
        if (first == last)
            out_printf(&out, "%s%u", out.bytes ? " " : "", first);
        else
            out_printf(&out, "%s%u-%u", out.bytes ? " " : "", first, last);
    struct bytes text = out_take(&out);
    json_put_text(json, "slots", text.data);
    free((char *)text.data);
}

/* Writes the result of the last check, and what the partition reported of itself. */
static void write_health(const struct shard_health *health, struct json_writer *json)
{
    json_put_text(json, "state", health->is_up ? "up" : "down");
    json_put_text(json, "reason", health->reason);
    json_put_text(json, "run_id", health->self.run_id);
    json_put_uint(json, "owned_slots", health->self.slots);
}

/* Writes what the workers have counted of the shard. */
static void write_counts(const struct admin_visit *visit, const char *name,
                         struct json_writer *json)
{
    struct shard_counts counts;
    proxy_metrics_shard(&visit->proxy->labelled, bytes_of(name), &counts);
    json_put_uint(json, "replies", counts.replies);
    json_put_double(json, "mean_latency_seconds", counts.mean_seconds);
    json_put_double(json, "p99_latency_seconds", counts.p99_seconds);
    json_put_uint(json, "in_flight", counts.in_flight);
    json_put_uint(json, "queue_bytes", counts.queue_bytes);
    json_put_uint(json, "connections", counts.connections);
    json_put_uint(json, "failures", counts.failures);
    json_put_uint(json, "held", counts.held);
    json_put_uint(json, "held_bytes", counts.held_bytes);
}

static void hide(char **secret)
{
    if (!**secret)
        return;
    free(*secret);
    CHECK((*secret = strdup("(hidden)")));
}

/* Writes the configuration in force; secrets are hidden. */
static void print_config(const void *config, FILE *to)
{
    struct proxy_config shown;
    char error[RELOAD_TEXT_MAX];
    size_t cursor = 0;
    const struct option *option;
    config_copy(&shown.head, &((const struct proxy_config *)config)->head);
    while ((option = config_next(&shown.head, BYTES("*"), &cursor))) {
        char buffer[OPTION_TEXT_MAX];
        if (strcmp(option->unit, "password") == 0 && config_get(&shown.head, option, buffer).len)
            CHECK(config_set(&shown.head, option, BYTES("(hidden)"), error, sizeof error));
    }
    for (size_t i = 0; i < shown.namespace_count; i++) {
        hide(&shown.namespaces[i].token);
        hide(&shown.namespaces[i].token_previous);
    }
    config_print(&shown.head, to);
    config_fini(&shown.head);
}

/* ---- routes ---- */

/* Has the worker's thread not run its tick for too long? */
static bool is_worker_stuck(const struct proxy *proxy, const struct proxy_worker *worker)
{
    uint64_t now_ms = clock_mono_us() / 1000;
    uint64_t alive_ms = atomic_load_explicit(&worker->thread.alive_ms, memory_order_relaxed);
    return alive_ms && !atomic_load(&proxy->is_stopping) && alive_ms + STUCK_AFTER_MS < now_ms;
}

static void answer_healthz(void *visit, struct http_reply *reply)
{
    const struct proxy *proxy = ((const struct admin_visit *)visit)->proxy;
    bool has_started = atomic_load(&proxy->status); /* then all workers exist */
    for (uint32_t i = 0; has_started && i < proxy->worker_count; i++) {
        if (!is_worker_stuck(proxy, proxy->workers[i]))
            continue;
        reply->status = 503;
        out_printf(&reply->body, "worker %u does not answer\n", i);
    }
    if (reply->status == 200)
        out_printf(&reply->body, "ok\n");
}

static void answer_readyz(void *visit, struct http_reply *reply)
{
    reply_readyz(visit, false, reply);
}

static void answer_readyz_any(void *visit, struct http_reply *reply)
{
    reply_readyz(visit, true, reply);
}

static void answer_shards(void *visit, struct http_reply *reply)
{
    const struct admin_visit *own = visit;
    const struct shard_map *map = own->snapshot->map;
    struct json_writer json;
    struct shard_health *health = health_of(own);
    json_writer_init(&json, &reply->body);
    json_put_object(&json, NULL);
    json_put_uint(&json, "epoch", map->epoch);
    json_put_list(&json, "shards");
    for (size_t i = 0; i < map->shard_count; i++) {
        json_put_object(&json, NULL);
        json_put_text(&json, "name", map->shards[i].name);
        json_put_text(&json, "address", map->shards[i].addresses[0]);
        write_slots_json(map, i, &json);
        write_health(&health[i], &json);
        write_counts(own, map->shards[i].name, &json);
        json_put_end(&json);
    }
    json_put_end(&json);
    json_put_end(&json);
    json_writer_fini(&json);
    free(health);
    out_printf(&reply->body, "\n");
}

static void answer_config(void *visit, struct http_reply *reply)
{
    reply_printed(reply, print_config, &((const struct admin_visit *)visit)->snapshot->config);
}

static void answer_status(void *visit, struct http_reply *reply)
{
    const struct admin_visit *own = visit;
    status_answer(atomic_load(&own->proxy->status), own->snapshot, own->path, reply);
}

/* One row per page; `visit` is a struct admin_visit. */
static const struct http_route routes[] = {
    {"/healthz", HTTP_HEALTH, HTTP_TEXT, answer_healthz},
    {"/readyz", HTTP_HEALTH, HTTP_TEXT, answer_readyz},
    {"/readyz/any", HTTP_HEALTH, HTTP_TEXT, answer_readyz_any},
    {"/metrics", HTTP_DATA, HTTP_METRICS, metrics_page_print},
    {"/shards", HTTP_DATA, HTTP_JSON, answer_shards},
    {"/config", HTTP_DATA, HTTP_TEXT, answer_config},
    {"/", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/page.css", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/page.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/slots.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/plots.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/tables.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/history.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status/text.js", HTTP_PAGE, HTTP_TEXT, answer_status},
    {"/status.json", HTTP_DATA, HTTP_JSON, answer_status},
    {"/status/namespaces.json", HTTP_DATA, HTTP_JSON, answer_status},
    {"/status/history.json", HTTP_DATA, HTTP_JSON, answer_status},
    {"/status/self", HTTP_DATA, HTTP_TEXT, answer_status},
};

/* http_fn */
static void on_request(void *owner, const struct http_request *request, struct http_reply *reply)
{
    struct admin *admin = owner;
    struct proxy_snapshot *snapshot = admin_snapshot(admin);
    struct admin_visit visit = {
        .proxy = admin->proxy, .admin = admin, .snapshot = snapshot, .path = request->path};
    struct http_gate gate = {snapshot->config.admin_token, snapshot->config.admin_hosts};
    http_route(routes, sizeof routes / sizeof routes[0], gate, request, &visit, reply);
    snapshot_unref(snapshot);
}

bool admin_port_start(struct proxy *proxy, char *error, size_t size)
{
    const char *address = proxy->snapshot->config.admin;
    char reason[256];
    if (!*address)
        return true;
    struct admin *admin = calloc(1, sizeof *admin);
    CHECK(admin);
    admin->proxy = proxy;
    admin->snapshot = snapshot_ref(proxy->snapshot);
    CHECK(pthread_mutex_init(&admin->mutex, NULL) == 0);
    admin->checks = health_checks_new(proxy->loop, send_back, proxy);
    proxy->admin = admin;
    admin->http = http_start(address, on_request, admin, reason, sizeof reason);
    if (!admin->http) {
        (void)snprintf(error, size, "admin %s: %s", address, reason);
        admin_port_stop(proxy);
        return false;
    }
    health_checks_configure(admin->checks, proxy->snapshot);
    log_event(LOG_INFO, "admin", "port=%d", http_port(admin->http));
    return true;
}

void admin_end_checks(struct proxy *proxy)
{
    if (proxy->admin)
        health_checks_stop(proxy->admin->checks);
}

void admin_port_stop(struct proxy *proxy)
{
    struct admin *admin = proxy->admin;
    if (!admin)
        return;
    proxy->admin = NULL;
    http_stop(admin->http);
    health_checks_free(admin->checks);
    snapshot_unref(admin->snapshot);
    (void)pthread_mutex_destroy(&admin->mutex);
    free(admin);
}
