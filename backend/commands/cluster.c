/*
 * cluster.c - a partition seen as a cluster of one node that owns all slots, so that cluster-aware clients can
 * talk to it directly.
 */
#include "backend/handlers.h"
#include "backend/keyspace.h"
#include "backend/partition.h"
#include "backend/server.h"
#include "backend/session.h"
#include "shared/command_reply.h"
#include "shared/slot.h"

#include <stdio.h>
#include <stdlib.h>

/* The node as this client reaches it. */
struct node {
    char id[RUN_ID_LEN + 1];
    char host[256];
    int port;
};

/* "host:port", "[v6]:port"; a Unix socket's path gives no host. */
static void node_of(const struct call *call, struct node *node)
{
    const struct partition *partition = call->partition;
    const char *local = stream_local(call->session->stream);
    const char *colon = strrchr(local, ':');
    const char *port = strrchr(partition->address, ':');
    *node = (struct node){.port = port ? atoi(port + 1) : 0};
    snprintf(node->id, sizeof node->id, "%.38s%02x", partition->server->run_id, partition->index);
    if (!colon || *local == '/')
        return;
    bool is_v6 = *local == '[';
    int len = (int)(colon - local) - (is_v6 ? 2 : 0);
    snprintf(node->host, sizeof node->host, "%.*s", len, local + is_v6);
}

void cmd_cluster_myid(struct call *call)
{
    struct node node;
    node_of(call, &node);
    reply_bulk_text(&call->reply, node.id);
}

void cmd_cluster_keyslot(struct call *call)
{
    struct bytes key = call->argv[2];
    reply_int(&call->reply, call->slot_rule ? slot_rule_slot(call->slot_rule, key) : slot_of(key));
}

void cmd_cluster_info(struct call *call)
{
    reply_verbatim(&call->reply, "txt",
                   BYTES("cluster_state:ok\r\n"
                         "cluster_slots_assigned:16384\r\n"
                         "cluster_slots_ok:16384\r\n"
                         "cluster_slots_pfail:0\r\n"
                         "cluster_slots_fail:0\r\n"
                         "cluster_known_nodes:1\r\n"
                         "cluster_size:1\r\n"
                         "cluster_current_epoch:0\r\n"
                         "cluster_my_epoch:0\r\n"
                         "cluster_stats_messages_sent:0\r\n"
                         "cluster_stats_messages_received:0\r\n"
                         "total_cluster_links_buffer_limit_exceeded:0\r\n"));
}

void cmd_cluster_nodes(struct call *call)
{
    struct node node;
    char line[512];
    node_of(call, &node);
    int len = snprintf(line, sizeof line, "%s %s:%d@%d myself,master - 0 0 0 connected 0-%d\n", node.id, node.host,
                       node.port, node.port, SLOT_COUNT - 1);
    reply_verbatim(&call->reply, "txt", (struct bytes){line, (size_t)len});
}

void cmd_cluster_slots(struct call *call)
{
    struct reply *reply = &call->reply;
    struct node node;
    node_of(call, &node);
    reply_array(reply, 1);
    reply_array(reply, 3);
    reply_int(reply, 0);
    reply_int(reply, SLOT_COUNT - 1);
    reply_array(reply, 4);
    reply_bulk_text(reply, node.host);
    reply_int(reply, node.port);
    reply_bulk_text(reply, node.id);
    reply_map(reply, 0);
}

void cmd_cluster_shards(struct call *call)
{
    struct reply *reply = &call->reply;
    struct node node;
    node_of(call, &node);
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
    reply_bulk_text(reply, node.id);
    reply_bulk_text(reply, "port");
    reply_int(reply, node.port);
    reply_bulk_text(reply, "ip");
    reply_bulk_text(reply, node.host);
    reply_bulk_text(reply, "endpoint");
    reply_bulk_text(reply, node.host);
    reply_bulk_text(reply, "role");
    reply_bulk_text(reply, "master");
    reply_bulk_text(reply, "replication-offset");
    reply_int(reply, 0);
    reply_bulk_text(reply, "health");
    reply_bulk_text(reply, "online");
}

void cmd_cluster_countkeysinslot(struct call *call)
{
    int64_t slot;
    if (!call_int64(call, 2, &slot))
        return;
    if (slot < 0 || slot >= SLOT_COUNT)
        call_error_text(call, "ERR Invalid slot");
    else
        reply_int(&call->reply, (int64_t)space_slot_keys(call->partition->spaces, call->space, (uint16_t)slot));
}

/* Keys that have expired and not gone yet are skipped, so they are counted before they are replied. */
static bool count_keys(struct call *call, uint16_t slot, int64_t *count)
{
    struct key_iter it;
    int64_t found = 0;
    key_iter_init(call, call->space, slot, BYTES(""), &it);
    while (found < *count && key_iter_next(&it) && it.slot == slot)
        found++;
    *count = found;
    return key_iter_fini(&it);
}

void cmd_cluster_getkeysinslot(struct call *call)
{
    int64_t slot;
    int64_t count;
    struct key_iter it;
    if (!call_int64(call, 2, &slot) || !call_int64(call, 3, &count))
        return;
    if (slot < 0 || slot >= SLOT_COUNT || count < 0) {
        call_error_text(call, "ERR Invalid slot or number of keys");
        return;
    }
    if (!count_keys(call, (uint16_t)slot, &count))
        return;
    reply_array(&call->reply, count);
    key_iter_init(call, call->space, (uint16_t)slot, BYTES(""), &it);
    for (; count > 0 && key_iter_next(&it); count--)
        reply_bulk(&call->reply, it.key);
    (void)key_iter_fini(&it);
}

void cmd_cluster_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(COMMAND_cluster), HANDLER_BACKEND);
}
