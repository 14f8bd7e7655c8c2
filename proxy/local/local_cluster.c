/*
 * local_cluster.c - CLUSTER: the proxy replies as the only node of a Redis Cluster, which owns all slots.
 *
 * Replies are made by shared/cluster_reply.h. Key counts come from the shard that owns the slot.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/check.h"
#include "shared/cluster_reply.h"
#include "shared/number.h"
#include "shared/slot_stats.h"

#include <stdio.h>
#include <stdlib.h>

/* The proxy as the only node. */
struct alone {
    struct cluster_node node;
    struct cluster_run run;
    struct cluster_view view;
};

static const struct cluster_view *view_alone_of(const struct client *client, struct alone *alone)
{
    struct cluster_node *node = &alone->node;
    *node = (struct cluster_node){.epoch = client->worker->snapshot->map->epoch};
    (void)snprintf(node->id, sizeof node->id, "%s", client->worker->proxy->run_id);
    cluster_node_at(node, stream_local(client->stream));
    cluster_view_alone(&alone->view, node, &alone->run);
    return &alone->view;
}

void local_cluster_myid(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_bulk_text(reply, client->worker->proxy->run_id);
}

void local_cluster_myshardid(struct client *client, struct request *request, struct reply *reply)
{
    local_cluster_myid(client, request, reply);
}

void local_cluster_keyslot(struct client *client, struct request *request, struct reply *reply)
{
    const struct keyspace *keyspace = client->session.keyspace;
    struct bytes key = request_argv(request)[2];
    reply_int(reply, namespace_slot(keyspace->entry, key));
}

void local_cluster_info(struct client *client, struct request *request, struct reply *reply)
{
    struct alone alone;
    (void)request;
    cluster_reply_info(reply, view_alone_of(client, &alone));
}

void local_cluster_nodes(struct client *client, struct request *request, struct reply *reply)
{
    struct alone alone;
    (void)request;
    cluster_reply_nodes(reply, view_alone_of(client, &alone));
}

void local_cluster_slots(struct client *client, struct request *request, struct reply *reply)
{
    struct alone alone;
    (void)request;
    cluster_reply_slots(reply, view_alone_of(client, &alone));
}

void local_cluster_shards(struct client *client, struct request *request, struct reply *reply)
{
    struct alone alone;
    (void)request;
    cluster_reply_shards(reply, view_alone_of(client, &alone));
}

void local_cluster_replicas(struct client *client, struct request *request, struct reply *reply)
{
    struct alone alone;
    cluster_reply_replicas(reply, view_alone_of(client, &alone), request_argv(request)[2]);
}

void local_cluster_slaves(struct client *client, struct request *request, struct reply *reply)
{
    local_cluster_replicas(client, request, reply);
}

void local_cluster_count_failure_reports(struct client *client, struct request *request,
                                         struct reply *reply)
{
    struct alone alone;
    cluster_reply_failure_reports(reply, view_alone_of(client, &alone), request_argv(request)[2]);
}

/* The only node has no links. */
void local_cluster_links(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_array(reply, 0);
}

static void pass_through(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    (void)client;
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* Forwards the command to the shard that owns the slot in argument 2. */
static void ask_owner(struct client *client, struct request *request, struct reply *reply)
{
    int64_t slot;
    if (!number_parse_int64(request_argv(request)[2], &slot)) {
        reply_code(reply, ERR_NOT_INTEGER);
    } else if (slot < 0 || slot >= SLOT_COUNT) {
        reply_error(reply, "ERR Invalid slot");
    } else {
        request_fan_out(request, NULL,
                        shard_map_find(client->worker->snapshot->map, (uint16_t)slot),
                        request_argv(request), request_argc(request), pass_through);
    }
}

void local_cluster_countkeysinslot(struct client *client, struct request *request,
                                   struct reply *reply)
{
    ask_owner(client, request, reply);
}

void local_cluster_getkeysinslot(struct client *client, struct request *request,
                                 struct reply *reply)
{
    ask_owner(client, request, reply);
}

/* ---- SLOT-STATS ---- */

/* request_done_fn: merges the figures of all shards. */
static void slot_stats_done(struct client *client, struct request *request, struct reply *reply)
{
    struct slot_stats_query query;
    struct slot_stats *all = malloc(SLOT_COUNT * sizeof *all);
    uint32_t count = 0;
    (void)client;
    CHECK(all);
    CHECK(!slot_stats_parse(&query, request_argv(request), request_argc(request)));
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (slot_stats_read(answer->frame, all, &count))
            continue;
        free(all);
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
        return;
    }
    slot_stats_reply(&query, all, count, reply);
    free(all);
}

void local_cluster_slot_stats(struct client *client, struct request *request, struct reply *reply)
{
    struct slot_stats_query query;
    (void)client;
    const char *error = slot_stats_parse(&query, request_argv(request), request_argc(request));
    if (error) {
        reply_error(reply, error);
        return;
    }
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request),
                    slot_stats_done);
}
