/*
 * cluster_reply.c - CLUSTER INFO, NODES, SLOTS and SHARDS in the form of Redis 7.0.
 */
#include "shared/cluster_reply.h"

#include "shared/slot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void cluster_node_at(struct cluster_node *node, const char *local_address)
{
    const char *colon = strrchr(local_address, ':');
    if (*local_address == '/' || !colon)
        return;
    bool is_v6 = *local_address == '[';
    int len = (int)(colon - local_address) - 2 * is_v6;
    (void)snprintf(node->host, sizeof node->host, "%.*s", len, local_address + is_v6);
    node->port = (int)strtol(colon + 1, NULL, 10);
}

void cluster_reply_info(struct reply *reply, const struct cluster_node *node)
{
    char text[640];
    int len = snprintf(text, sizeof text,
                       "cluster_state:ok\r\n"
                       "cluster_slots_assigned:%d\r\n"
                       "cluster_slots_ok:%d\r\n"
                       "cluster_slots_pfail:0\r\n"
                       "cluster_slots_fail:0\r\n"
                       "cluster_known_nodes:1\r\n"
                       "cluster_size:1\r\n"
                       "cluster_current_epoch:%" PRIu64 "\r\n"
                       "cluster_my_epoch:%" PRIu64 "\r\n"
                       "cluster_stats_messages_sent:0\r\n"
                       "cluster_stats_messages_received:0\r\n"
                       "total_cluster_links_buffer_limit_exceeded:0\r\n",
                       SLOT_COUNT, SLOT_COUNT, node->epoch, node->epoch);
    reply_verbatim(reply, "txt", (struct bytes){text, (size_t)len});
}

void cluster_reply_nodes(struct reply *reply, const struct cluster_node *node)
{
    char line[512];
    int len =
        snprintf(line, sizeof line, "%s %s:%d@%d myself,master - 0 0 %" PRIu64 " connected 0-%d\n",
                 node->id, node->host, node->port, node->port, node->epoch, SLOT_COUNT - 1);
    reply_verbatim(reply, "txt", (struct bytes){line, (size_t)len});
}

void cluster_reply_slots(struct reply *reply, const struct cluster_node *node)
{
    reply_array(reply, 1);
    reply_array(reply, 3);
    reply_int(reply, 0);
    reply_int(reply, SLOT_COUNT - 1);
    reply_array(reply, 4);
    reply_bulk_text(reply, node->host);
    reply_int(reply, node->port);
    reply_bulk_text(reply, node->id);
    reply_map(reply, 0);
}

static void reply_text_pair(struct reply *reply, const char *name, const char *value)
{
    reply_bulk_text(reply, name);
    reply_bulk_text(reply, value);
}

static void reply_int_pair(struct reply *reply, const char *name, int64_t value)
{
    reply_bulk_text(reply, name);
    reply_int(reply, value);
}

void cluster_reply_shards(struct reply *reply, const struct cluster_node *node)
{
    reply_array(reply, 1);
    reply_map(reply, 2);
    reply_bulk_text(reply, "slots");
    reply_array(reply, 2);
    reply_int(reply, 0);
    reply_int(reply, SLOT_COUNT - 1);
    reply_bulk_text(reply, "nodes");
    reply_array(reply, 1);
    reply_map(reply, 7);
    reply_text_pair(reply, "id", node->id);
    reply_int_pair(reply, "port", node->port);
    reply_text_pair(reply, "ip", node->host);
    reply_text_pair(reply, "endpoint", node->host);
    reply_text_pair(reply, "role", "master");
    reply_int_pair(reply, "replication-offset", 0);
    reply_text_pair(reply, "health", "online");
}
