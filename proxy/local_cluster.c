/*
 * local_cluster.c - CLUSTER as one Redis Cluster node would tell it, when that node owns everything.
 *
 * A client that asks for the slots gets the proxy's own address for all of them: whatever it sends comes here, and
 * the proxy knows where the data is. Key counts are asked from the shard that owns the slot.
 */
#include "proxy/local.h"
#include "proxy/proxy.h"
#include "proxy/worker.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

/* The address the client used, taken apart. */
struct endpoint {
    char host[256];
    int port;
};

static struct endpoint endpoint_of(const struct client *client)
{
    const char *local = stream_local(client->stream);
    const char *colon = strrchr(local, ':');
    struct endpoint endpoint = {.host = "127.0.0.1", .port = 0};
    if (local[0] == '/' || !colon) /* a Unix socket has no address to tell */
        return endpoint;
    int len = (int)(colon - local);
    bool is_v6 = local[0] == '[' && len >= 2;
    (void)snprintf(endpoint.host, sizeof endpoint.host, "%.*s", is_v6 ? len - 2 : len, local + is_v6);
    endpoint.port = (int)strtol(colon + 1, NULL, 10);
    return endpoint;
}

/* The proxy's node id: 40 hexadecimal digits, as its run id. */
static const char *node_id(const struct client *client)
{
    return client->worker->proxy->run_id;
}

void local_cluster_myid(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_bulk_text(reply, node_id(client));
}

void local_cluster_keyslot(struct client *client, struct request *request, struct reply *reply)
{
    const struct place *place = client->session.place;
    struct bytes key = request_argv(request)[2];
    reply_int(reply, namespace_slot(place->entry, key));
}

void local_cluster_info(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_map *map = client->worker->snapshot->map;
    char text[512];
    (void)request;
    int len = snprintf(text, sizeof text,
                       "cluster_enabled:0\r\ncluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"
                       "cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n"
                       "cluster_current_epoch:%llu\r\ncluster_my_epoch:%llu\r\n"
                       "cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n"
                       "total_cluster_links_buffer_limit_exceeded:0\r\n",
                       SLOT_COUNT, SLOT_COUNT, (unsigned long long)map->epoch, (unsigned long long)map->epoch);
    reply_verbatim(reply, "txt", (struct bytes){text, (size_t)len});
}

void local_cluster_slots(struct client *client, struct request *request, struct reply *reply)
{
    struct endpoint endpoint = endpoint_of(client);
    (void)request;
    reply_array(reply, 1);
    reply_array(reply, 3);
    reply_int(reply, 0);
    reply_int(reply, SLOT_COUNT - 1);
    reply_array(reply, 4);
    reply_bulk_text(reply, endpoint.host);
    reply_int(reply, endpoint.port);
    reply_bulk_text(reply, node_id(client));
    reply_array(reply, 0);
}

void local_cluster_shards(struct client *client, struct request *request, struct reply *reply)
{
    struct endpoint endpoint = endpoint_of(client);
    (void)request;
    reply_array(reply, 1);
    reply_map(reply, 2);
    reply_bulk_text(reply, "slots");
    reply_array(reply, 2);
    reply_int(reply, 0);
    reply_int(reply, SLOT_COUNT - 1);
    reply_bulk_text(reply, "nodes");
    reply_array(reply, 1);
    reply_map(reply, 7);
    reply_bulk_text(reply, "id");
    reply_bulk_text(reply, node_id(client));
    reply_bulk_text(reply, "port");
    reply_int(reply, endpoint.port);
    reply_bulk_text(reply, "ip");
    reply_bulk_text(reply, endpoint.host);
    reply_bulk_text(reply, "endpoint");
    reply_bulk_text(reply, endpoint.host);
    reply_bulk_text(reply, "role");
    reply_bulk_text(reply, "master");
    reply_bulk_text(reply, "replication-offset");
    reply_int(reply, 0);
    reply_bulk_text(reply, "health");
    reply_bulk_text(reply, "online");
}

void local_cluster_nodes(struct client *client, struct request *request, struct reply *reply)
{
    struct endpoint endpoint = endpoint_of(client);
    char text[512];
    (void)request;
    int len = snprintf(text, sizeof text, "%s %s:%d@0 myself,master - 0 0 %llu connected 0-%d\n", node_id(client),
                       endpoint.host, endpoint.port, (unsigned long long)client->worker->snapshot->map->epoch,
                       SLOT_COUNT - 1);
    reply_verbatim(reply, "txt", (struct bytes){text, (size_t)len});
}

static void pass_through(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    (void)client;
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* Asks the shard that owns the slot in argument 2. */
static void ask_owner(struct client *client, struct request *request, struct reply *reply)
{
    int64_t slot;
    if (!number_parse_int64(request_argv(request)[2], &slot)) {
        reply_code(reply, ERR_NOT_INTEGER);
    } else if (slot < 0 || slot >= SLOT_COUNT) {
        reply_error(reply, "ERR Invalid slot");
    } else {
        request_fan_out(request, NULL, shard_map_find(client->worker->snapshot->map, (uint16_t)slot),
                        request_argv(request), request_argc(request), pass_through);
    }
}

void local_cluster_countkeysinslot(struct client *client, struct request *request, struct reply *reply)
{
    ask_owner(client, request, reply);
}

void local_cluster_getkeysinslot(struct client *client, struct request *request, struct reply *reply)
{
    ask_owner(client, request, reply);
}
