#include "backend/admin.h"

#include "backend/partition.h"
#include "backend/server.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

enum { STUCK_AFTER_MS = 30 * 1000 };

static const char hidden[] = "(hidden)";

/* A thread that has not ticked for long hangs. */
static bool is_stuck(const struct server *server, const struct partition *partition)
{
    uint64_t alive_ms = atomic_load_explicit(&partition->alive_ms, memory_order_relaxed);
    if (alive_ms == 0)
        alive_ms = server->started_mono_ms;
    return alive_ms + STUCK_AFTER_MS < clock_mono_us() / 1000;
}

static void reply_healthz(const struct server *server, struct http_reply *reply)
{
    for (uint32_t i = 0; i < server->members_count; i++) {
        if (is_stuck(server, server->members[i].partition)) {
            reply->status = 503;
            out_printf(&reply->body, "partition %u does not answer\n", i);
        }
    }
    if (reply->status == 200)
        out_printf(&reply->body, "ok\n");
}

static void reply_readyz(const struct server *server, struct http_reply *reply)
{
    bool ready = atomic_load(&server->is_ready) && !atomic_load(&server->is_stopping);
    uint64_t readonly = metrics_sum(METRIC_BACKEND_READONLY);
    reply->status = ready ? 200 : 503;
    out_printf(&reply->body, ready ? "ready\n" : "not ready\n");
    if (readonly)
        out_printf(&reply->body, "%llu partitions refuse writes: see the log\n",
                   (unsigned long long)readonly);
}

static void hide(struct backend_config *config, const char *key)
{
    const struct option *option = config_find(&config->head, bytes_of(key));
    char buffer[OPTION_TEXT_MAX];
    char error[OPTION_REASON_MAX];
    CHECK(option);
    if (config_get(&config->head, option, buffer).len)
        CHECK(config_set(&config->head, option, bytes_of(hidden), error, sizeof error));
}

static void reply_config(struct server *server, struct http_reply *reply)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    CHECK(to);
    struct settings *settings = server_settings(server);
    struct backend_config shown;
    config_copy(&shown.head, &settings->config.head);
    settings_unref(settings);
    hide(&shown, "requirepass");
    hide(&shown, "secret");
    config_print(&shown.head, to);
    config_fini(&shown.head);
    CHECK(fclose(to) == 0);
    out_write(&reply->body, text, len);
    free(text);
}

/* http_fn */
static bool on_request(void *owner, const char *path, struct http_reply *reply)
{
    struct server *server = owner;
    reply->status = 200;
    reply->content_type = "text/plain; charset=utf-8";
    if (strcmp(path, "/healthz") == 0)
        reply_healthz(server, reply);
    else if (strcmp(path, "/readyz") == 0)
        reply_readyz(server, reply);
    else if (strcmp(path, "/config") == 0)
        reply_config(server, reply);
    else if (strcmp(path, "/metrics") == 0) {
        reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_print(&reply->body, "scree_backend");
    } else
        return false;
    return true;
}

bool admin_start(struct server *server, char *error, size_t size)
{
    const char *address = server->settings->config.admin;
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
