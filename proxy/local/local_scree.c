/*
 * local_scree.c - SCREE: the proxy's own view of shards and namespaces, and reload.
 */
#include "proxy/cluster/usage.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/command/command_reply.h"

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

/* What the namespaces of a pattern have together. */
struct pattern_usage {
    const struct namespaces *namespaces;
    const struct namespace *pattern;
    struct usage_figures sum;
    uint64_t rate; /* requests a second */
};

static bool has_pattern(const struct pattern_usage *own, struct bytes name)
{
    struct namespace_match match;
    return namespaces_find(own->namespaces, name, &match) && match.entry == own->pattern;
}

/* usages_fn */
static void add_if_matching(void *owner, struct bytes name, const struct usage_figures *figures)
{
    struct pattern_usage *own = owner;
    if (!has_pattern(own, name))
        return;
    own->sum.keys += figures->keys;
    own->sum.bytes += figures->bytes;
}

/* labels_fn. Clients without a namespace count under the name NAMESPACE_DEFAULT_NAME. */
static void add_rate_if_matching(void *owner, struct bytes name, const uint64_t *sums)
{
    struct pattern_usage *own = owner;
    if (!bytes_equal(name, BYTES(NAMESPACE_DEFAULT_NAME)) && has_pattern(own, name))
        own->rate += sums[TENANT_RATE];
}

/* What the namespace of an entry has, or those of a pattern together. False: nothing was counted yet. */
static bool find_usage(const struct proxy_worker *worker, const struct namespace *item,
                       struct usage_figures *usage)
{
    struct usages *usages = worker->proxy->tenants.usages;
    struct pattern_usage own = {.namespaces = worker->snapshot->namespaces, .pattern = item};
    if (!usages_find(usages, bytes_of(item->name), usage))
        return false;
    if (!item->is_pattern)
        return true;
    usages_each(usages, add_if_matching, &own);
    *usage = own.sum;
    return true;
}

/* Requests that this proxy got from clients of the namespace in the last second. */
static uint64_t rate_of(const struct proxy_worker *worker, struct bytes name)
{
    uint64_t sums[LABEL_WORDS_MAX];
    return labels_find(worker->proxy->labelled.spaces, name, sums) ? sums[TENANT_RATE] : 0;
}

static uint64_t rate_of_entry(const struct proxy_worker *worker, const struct namespace *item)
{
    struct pattern_usage own = {.namespaces = worker->snapshot->namespaces, .pattern = item};
    if (!item->is_pattern)
        return rate_of(worker, bytes_of(item->name));
    labels_each(worker->proxy->labelled.spaces, add_rate_if_matching, &own);
    return own.rate;
}

/* A number that may be unknown: null. */
static void reply_known(struct reply *reply, bool is_known, uint64_t number)
{
    if (is_known)
        reply_int(reply, (int64_t)number);
    else
        reply_null(reply);
}

/* `usage` NULL: nothing was counted yet. */
static void describe_usage(const struct usage_figures *usage, uint64_t rate, struct reply *reply)
{
    reply_bulk_text(reply, "keys");
    reply_known(reply, usage, usage ? usage->keys : 0);
    reply_bulk_text(reply, "bytes");
    reply_known(reply, usage, usage ? usage->bytes : 0);
    reply_pair_int(reply, "requests-per-second", (int64_t)rate);
}

/* Limits of a namespace; 0: none, or that of the shards. */
static void describe_limits(const struct namespace *item, struct reply *reply)
{
    reply_pair_int(reply, "max-keys", (int64_t)item->max_keys);
    reply_pair_int(reply, "max-bytes", (int64_t)item->max_bytes);
    reply_pair_int(reply, "rate-limit", (int64_t)item->rate_limit);
    reply_pair_int(reply, "bandwidth-limit", (int64_t)item->bandwidth_limit_bytes);
    reply_pair_int(reply, "command-memory", (int64_t)item->command_memory);
    reply_pair_int(reply, "command-time-limit", (int64_t)item->command_time_ms);
}

static void describe_namespace(const struct namespace *item, const struct usage_figures *usage,
                               uint64_t rate, struct reply *reply)
{
    char rule[SLOT_RULE_TEXT_MAX];
    size_t len = slot_rule_format(&item->slot_rule, rule);
    reply_map(reply, 13);
    reply_pair_text(reply, "name", item->name);
    reply_pair_text(reply, "pattern", item->is_pattern ? "yes" : "no");
    reply_pair_text(reply, "ephemeral", item->ephemeral ? "yes" : "no");
    reply_bulk_text(reply, "slot-rule");
    reply_bulk(reply, (struct bytes){rule, len});
    describe_usage(usage, rate, reply);
    describe_limits(item, reply);
}

static bool is_tenant(const struct client *client)
{
    return client->session.keyspace->name.len > 0;
}

/* A client in a namespace sees only that one, also of those that a pattern covers. */
void local_scree_namespaces(struct client *client, struct request *request, struct reply *reply)
{
    const struct namespaces *namespaces = client->worker->snapshot->namespaces;
    const struct namespace *own = client->session.keyspace->entry;
    const struct proxy_worker *worker = client->worker;
    struct usage_figures usage;
    bool is_known;
    (void)request;
    if (is_tenant(client)) {
        is_known =
            usages_find(worker->proxy->tenants.usages, client->session.keyspace->name, &usage);
        reply_array(reply, own != NULL);
        if (own)
            describe_namespace(own, is_known ? &usage : NULL,
                               rate_of(worker, client->session.keyspace->name), reply);
        return;
    }
    reply_array(reply, (int64_t)namespaces->count);
    for (size_t i = 0; i < namespaces->count; i++) {
        is_known = find_usage(worker, &namespaces->items[i], &usage);
        describe_namespace(&namespaces->items[i], is_known ? &usage : NULL,
                           rate_of_entry(worker, &namespaces->items[i]), reply);
    }
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

struct reload_line {
    char text[RELOAD_TEXT_MAX * 3 + 128];
};

/* All workers have the new snapshot. */
static void reload_published(struct client *client, struct request *request, struct reply *reply)
{
    const struct reload_line *line = request_state(request, sizeof(*line));
    (void)client;
    reply_status(reply, line->text + 1);
}

static void reload_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct out *out = request_gathered(request, 0);
    struct reload_line *line = request_state(request, sizeof(*line));
    (void)client;
    (void)snprintf(line->text, sizeof line->text,
                   "-ERR the result of the reload is not known: see the log of the proxy");
    if (out->bytes < sizeof line->text) {
        out_copy(out, line->text);
        line->text[out->bytes] = 0;
    }
    if (line->text[0] == '+')
        local_when_published(request, reload_published);
    else
        reply_error(reply, line->text + 1);
}

void local_scree_reload(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    request_on_main(request, reload_work, NULL, 0, reload_done);
}
