/*
 * local_cluster.c - CLUSTER: the proxy replies as the only node of a Redis Cluster, which owns all slots.
 *
 * Replies are made by shared/cluster_reply.h. Key counts come from the shard that owns the slot.
 */
#include "proxy/fan_out.h"
#include "proxy/local/local.h"
#include "proxy/proxy.h"
#include "proxy/request.h"
#include "proxy/worker.h"
#include "shared/cluster_reply.h"
#include "shared/number.h"

#include <stdio.h>

static struct cluster_node proxy_node(const struct client *client)
{
    struct cluster_node node = {.epoch = client->worker->snapshot->map->epoch};
    (void)snprintf(node.id, sizeof node.id, "%s", client->worker->proxy->run_id);
    cluster_node_at(&node, stream_local(client->stream));
    return node;
}

void local_cluster_myid(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_node node = proxy_node(client);
    (void)request;
    reply_bulk_text(reply, node.id);
}

void local_cluster_keyslot(struct client *client, struct request *request, struct reply *reply)
{
    const struct keyspace *keyspace = client->session.keyspace;
    struct bytes key = request_argv(request)[2];
    reply_int(reply, namespace_slot(keyspace->entry, key));
}

void local_cluster_info(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_node node = proxy_node(client);
    (void)request;
    cluster_reply_info(reply, &node);
}

void local_cluster_nodes(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_node node = proxy_node(client);
    (void)request;
    cluster_reply_nodes(reply, &node);
}

void local_cluster_slots(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_node node = proxy_node(client);
    (void)request;
    cluster_reply_slots(reply, &node);
}

void local_cluster_shards(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_node node = proxy_node(client);
    (void)request;
    cluster_reply_shards(reply, &node);
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
