#include "backend/admin.h"

#include "backend/context/partition.h"
#include "backend/metrics_page.h"
#include "backend/server.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"
#include "shared/log.h"
#include "shared/net/http_route.h"

#include <stdio.h>
#include <stdlib.h>

enum { STUCK_AFTER_MS = 30 * 1000 };

/* Has the partition's thread not run its tick for too long? */
static bool is_stuck(const struct server *server, const struct partition *partition)
{
    uint64_t alive_ms = atomic_load_explicit(&partition->thread.alive_ms, memory_order_relaxed);
    if (alive_ms == 0)
        alive_ms = server->process->started_mono_ms;
    return alive_ms + STUCK_AFTER_MS < clock_mono_us() / 1000;
}

static void reply_healthz(void *visit, struct http_reply *reply)
{
    const struct server *server = visit;
    const struct partition *partition;
    for (uint32_t at = 0; (partition = server_next(server, &at));) {
        if (is_stuck(server, partition)) {
            reply->status = 503;
            out_printf(&reply->body, "partition %u does not answer\n", partition->index);
        }
    }
    if (reply->status == 200)
        out_printf(&reply->body, "ok\n");
}

/* Does the partition own none of its slots, and does no other shard own them? Then it serves no key. Prints the reason. */
static bool has_lost_slots(const struct server *server, const struct partition *partition,
                           struct out *reason)
{
    uint64_t sums[LABEL_WORDS_MAX];
    bool is_found = labels_read(server->process->labelled.partitions, partition->index, sums);
    if (!is_found || !sums[PARTITION_SLOTS_ORPHANED] || sums[PARTITION_SLOTS_OWNED])
        return false;
    if (reason)
        out_printf(reason,
                   "partition %u owns none of the slots that the shard map gives it, and no other "
                   "shard does: is its disk empty?\n",
                   partition->index);
    return true;
}

/* Does another backend serve the partition's shard? Then this one serves no key. Prints the reason. */
static bool is_displaced(const struct server *server, const struct partition *partition,
                         struct out *reason)
{
    uint64_t sums[LABEL_WORDS_MAX];
    bool is_found = labels_read(server->process->labelled.partitions, partition->index, sums);
    if (!is_found || !sums[PARTITION_IS_ELSEWHERE])
        return false;
    if (reason)
        out_printf(reason,
                   "partition %u: the shard map has its shard at another address, so it serves no "
                   "key\n",
                   partition->index);
    return true;
}

/* Is it a copy of a shard that neither serves nor follows, or that has not caught up yet? Prints the reason. */
static bool is_idle_copy(const struct server *server, const struct partition *partition,
                         struct out *reason)
{
    uint64_t sums[LABEL_WORDS_MAX];
    bool is_found = labels_read(server->process->labelled.partitions, partition->index, sums);
    if (!is_found || !sums[PARTITION_COPY_IS_IDLE])
        return false;
    if (reason)
        out_printf(
            reason,
            "partition %u is a copy of its shard that neither serves nor follows, or has not "
            "caught up yet: see SCREE REPLICAS, and its log\n",
            partition->index);
    return true;
}

bool admin_is_ready(const struct server *server, struct out *reasons)
{
    bool is_ready = server_is_ready(server);
    const struct partition *partition;
    for (uint32_t at = 0; (partition = server_next(server, &at));) {
        is_ready &= !is_stuck(server, partition) && !has_lost_slots(server, partition, reasons) &&
                    !is_displaced(server, partition, reasons) &&
                    !is_idle_copy(server, partition, reasons);
    }
    return is_ready;
}

static void write_readyz(void *visit, struct http_reply *reply)
{
    const struct server *server = visit;
    bool ready = admin_is_ready(server, &reply->body);
    for (uint32_t i = 0; i < server->failed_count; i++)
        out_printf(&reply->body, "not served: %s\n", server->failed[i].reason);
    uint64_t readonly = metrics_sum(METRIC_BACKEND_READONLY);
    reply->status = ready ? 200 : 503;
    out_printf(&reply->body, ready ? "ready\n" : "not ready\n");
    if (readonly)
        out_printf(&reply->body, "%llu partitions refuse writes: see the log\n",
                   (unsigned long long)readonly);
}

static void hide_secrets(struct config *config)
{
    const struct option *option;
    size_t cursor = 0;
    while ((option = config_next(config, BYTES("*"), &cursor))) {
        char buffer[OPTION_TEXT_MAX];
        char error[OPTION_REASON_MAX];
        if (strcmp(option->unit, "password") == 0 && config_get(config, option, buffer).len)
            CHECK(config_set(config, option, BYTES("(hidden)"), error, sizeof error));
    }
}

static void reply_config(void *visit, struct http_reply *reply)
{
    struct server *server = visit;
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    CHECK(to);
    struct config_snapshot *snapshot = process_settings(server->process);
    struct backend_config shown;
    config_copy(&shown.head, &snapshot->config.head);
    config_snapshot_unref(snapshot);
    hide_secrets(&shown.head);
    config_print(&shown.head, to);
    config_fini(&shown.head);
    CHECK(fclose(to) == 0);
    out_write(&reply->body, text, len);
    free(text);
}

static const char *partition_state(const struct server *server, const struct partition *partition)
{
    uint64_t sums[LABEL_WORDS_MAX];
    if (is_stuck(server, partition))
        return "stuck";
    bool found = labels_read(server->process->labelled.partitions, partition->index, sums);
    if (has_lost_slots(server, partition, NULL))
        return "empty";
    if (is_displaced(server, partition, NULL))
        return "elsewhere";
    if (is_idle_copy(server, partition, NULL))
        return "idle";
    return found && sums[PARTITION_READONLY] ? "read-only" : "up";
}

static void write_partition(const struct server *server, const struct partition *partition,
                            struct json_writer *json)
{
    uint64_t sums[LABEL_WORDS_MAX] = {0};
    (void)labels_read(server->process->labelled.partitions, partition->index, sums);
    json_put_object(json, NULL);
    json_put_uint(json, "partition", partition->index);
    json_put_uint(json, "port", (uint64_t)partition->listeners.port);
    json_put_text(json, "state", partition_state(server, partition));
    json_put_uint(json, "keys", sums[PARTITION_KEYS]);
    json_put_uint(json, "clients", sums[PARTITION_CLIENTS]);
    json_put_end(json);
}

/* A copy that goes on with the files of a snapshot is closed for a moment. */
static void write_installing(const struct partition_host *host, struct json_writer *json)
{
    json_put_object(json, NULL);
    json_put_uint(json, "partition", host->options.index);
    json_put_uint(json, "port", (uint64_t)host->port);
    json_put_text(json, "state", "installing");
    json_put_end(json);
}

static void write_failed(const struct failed_partition *failed, struct json_writer *json)
{
    json_put_object(json, NULL);
    json_put_uint(json, "partition", failed->index);
    json_put_text(json, "state", "damaged");
    json_put_text(json, "reason", failed->reason);
    json_put_end(json);
}

static void reply_shards(void *visit, struct http_reply *reply)
{
    const struct server *server = visit;
    struct json_writer json;
    json_writer_init(&json, &reply->body);
    json_put_object(&json, NULL);
    json_put_list(&json, "partitions");
    for (uint32_t i = 0; i < server->hosts_count; i++) {
        const struct partition_host *host = &server->hosts[i];
        if (host->partition)
            write_partition(server, host->partition, &json);
        else if (!host->has_failed)
            write_installing(host, &json);
    }
    for (uint32_t i = 0; i < server->failed_count; i++)
        write_failed(&server->failed[i], &json);
    json_put_end(&json);
    json_put_end(&json);
    json_writer_fini(&json);
    out_printf(&reply->body, "\n");
}

/* The argument `visit` of the pages is the server. */
static const struct http_route routes[] = {
    {"/healthz", HTTP_HEALTH, HTTP_TEXT, reply_healthz},
    {"/readyz", HTTP_HEALTH, HTTP_TEXT, write_readyz},
    {"/config", HTTP_DATA, HTTP_TEXT, reply_config},
    {"/shards", HTTP_DATA, HTTP_JSON, reply_shards},
    {"/metrics", HTTP_DATA, HTTP_METRICS, metrics_page},
};

/* http_fn */
static void on_request(void *owner, const struct http_request *request, struct http_reply *reply)
{
    struct server *server = owner;
    struct config_snapshot *snapshot = process_settings(server->process);
    struct http_gate gate = {snapshot->config.admin_token, snapshot->config.admin_hosts};
    CHECK(pthread_rwlock_rdlock(&server->lock) == 0);
    http_route(routes, sizeof routes / sizeof routes[0], gate, request, server, reply);
    CHECK(pthread_rwlock_unlock(&server->lock) == 0);
    config_snapshot_unref(snapshot);
}

bool admin_start(struct server *server, char *error, size_t size)
{
    const char *address = server->process->snapshot->config.admin;
    char reason[256];
    if (!*address)
        return true;
    server->admin = http_start(address, on_request, server, reason, sizeof reason);
    if (!server->admin) {
        (void)snprintf(error, size, "admin %s: %s", address, reason);
        return false;
    }
    log_event(LOG_INFO, "admin", "port=%d", http_port(server->admin));
    return true;
}
