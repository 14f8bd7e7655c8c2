/*
 * local_scree.c - SCREE: the proxy's own view of shards and namespaces, and reload.
 */
#include "proxy/local/local.h"
#include "proxy/proxy.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "proxy/worker.h"
#include "shared/command_reply.h"

#include <stdio.h>

/* Writes a connection of this worker for SHARDS: its state, and why it is down. */
static void describe_upstream(const struct upstream *upstream, struct reply *reply)
{
    reply_bulk_text(reply, "state");
    reply_bulk_text(reply, upstream ? upstream_state_name(upstream) : "idle");
    reply_bulk_text(reply, "in-flight");
    reply_int(reply, upstream ? upstream->queue.in_flight : 0);
    reply_bulk_text(reply, "reason");
    reply_bulk_text(reply, upstream ? upstream->failure.reason : "");
}

void local_scree_shards(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_map *map = client->worker->snapshot->map;
    const struct pool *pool = client->worker->pool;
    (void)request;
    reply_array(reply, (int64_t)pool->count);
    for (size_t i = 0; i < pool->count; i++) {
        const struct node *node = pool->nodes[i];
        reply_map(reply, 6);
        reply_bulk_text(reply, "name");
        reply_bulk_text(reply, node->name);
        reply_bulk_text(reply, "address");
        reply_bulk_text(reply, node->address);
        reply_bulk_text(reply, "slots");
        reply_int(reply, map->shards[i].slot_count);
        describe_upstream(node->shared[LANE_NORMAL][client->session.resp == 3], reply);
    }
}

static void describe_namespace(const struct namespace *item, struct reply *reply)
{
    char rule[SLOT_RULE_TEXT_MAX];
    size_t len = slot_rule_format(&item->slot_rule, rule);
    reply_map(reply, 6);
    reply_bulk_text(reply, "name");
    reply_bulk_text(reply, item->name);
    reply_bulk_text(reply, "pattern");
    reply_bulk_text(reply, item->is_pattern ? "yes" : "no");
    reply_bulk_text(reply, "ephemeral");
    reply_bulk_text(reply, item->ephemeral ? "yes" : "no");
    reply_bulk_text(reply, "slot-rule");
    reply_bulk(reply, (struct bytes){rule, len});
    reply_bulk_text(reply, "max-keys");
    reply_int(reply, (int64_t)item->max_keys);
    reply_bulk_text(reply, "max-bytes");
    reply_int(reply, (int64_t)item->max_bytes);
}

static bool is_tenant(const struct client *client)
{
    return client->session.keyspace->name.len > 0;
}

/* A client in a namespace sees only that one. */
void local_scree_namespaces(struct client *client, struct request *request, struct reply *reply)
{
    const struct namespaces *namespaces = client->worker->snapshot->namespaces;
    const struct namespace *own = client->session.keyspace->entry;
    (void)request;
    if (is_tenant(client)) {
        reply_array(reply, own != NULL);
        if (own)
            describe_namespace(own, reply);
        return;
    }
    reply_array(reply, (int64_t)namespaces->count);
    for (size_t i = 0; i < namespaces->count; i++)
        describe_namespace(&namespaces->items[i], reply);
}

void local_namespace_current(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_bulk(reply,
               is_tenant(client) ? client->session.keyspace->name : BYTES(NAMESPACE_DEFAULT_NAME));
}

/* Kvrocks replies the tokens here; Scree never shows them. */
void local_namespace_get(struct client *client, struct request *request, struct reply *reply)
{
    static const char HIDDEN[] = "(redacted)";
    const struct namespaces *namespaces = client->worker->snapshot->namespaces;
    struct bytes name = request_argv(request)[2];
    if (bytes_equal(name, BYTES("*"))) {
        reply_array(reply, 2 * (int64_t)namespaces->count);
        for (size_t i = 0; i < namespaces->count; i++) {
            reply_bulk_text(reply, namespaces->items[i].name);
            reply_bulk_text(reply, HIDDEN);
        }
        return;
    }
    for (size_t i = 0; i < namespaces->count; i++)
        if (bytes_equal(name, bytes_of(namespaces->items[i].name))) {
            reply_bulk_text(reply, HIDDEN);
            return;
        }
    reply_null(reply);
}

void local_namespace_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}

/* ---- RELOAD ---- */

/* On the main thread. Writes '+' or '-' and the line to reply. */
static void reload_work(struct proxy *proxy, const void *data, struct out *out)
{
    struct reload_report report = {0};
    char error[RELOAD_TEXT_MAX];
    (void)data;
    if (!proxy->calls->reload(proxy, &report, error, sizeof error)) {
        out_printf(out, "-ERR reload refused, the old configuration stays: %s", error);
        return;
    }
    out_printf(
        out, "+OK epoch=%llu map=%s namespaces=%s", (unsigned long long)proxy->snapshot->map->epoch,
        report.map_changed ? "changed" : "same", report.namespaces_changed ? "changed" : "same");
    if (report.slots_moved)
        out_printf(out, " slots-moved=%u", report.slots_moved);
    if (*report.changed)
        out_printf(out, " options=%s", report.changed);
    if (*report.needs_restart)
        out_printf(out, " needs-restart=%s", report.needs_restart);
}

static void reload_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct out *out = request_gathered(request, 0);
    char text[RELOAD_TEXT_MAX * 3 + 128] =
        "-ERR the result of the reload is not known: see the log of the proxy";
    (void)client;
    if (out->bytes < sizeof text) {
        out_copy(out, text);
        text[out->bytes] = 0;
    }
    if (text[0] == '+')
        reply_status(reply, text + 1);
    else
        reply_error(reply, text + 1);
}

void local_scree_reload(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    request_on_main(request, reload_work, NULL, 0, reload_done);
}
