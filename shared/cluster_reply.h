/*
 * cluster_reply.h - CLUSTER replies of a cluster whose only node owns all slots. Proxies send them to their clients, and
 * partitions to clients that connect directly: a cluster-aware client then sends all commands to this node.
 */
#pragma once

#include "shared/reply.h"

enum { CLUSTER_ID_LEN = 40, CLUSTER_HOST_MAX = 256 };

/* The node's address as its clients see it. */
struct cluster_node {
    char id[CLUSTER_ID_LEN + 1];
    char host[CLUSTER_HOST_MAX]; /* empty for a client that came over a Unix socket */
    int port;
    uint64_t epoch;
};

/* Takes host and port from the local address of the client's connection: "host:port" or "[v6]:port". For the path of
 * a Unix socket both stay unchanged. */
void cluster_node_at(struct cluster_node *node, const char *local_address);

void cluster_reply_info(struct reply *reply, const struct cluster_node *node);
void cluster_reply_nodes(struct reply *reply, const struct cluster_node *node);
void cluster_reply_slots(struct reply *reply, const struct cluster_node *node);
void cluster_reply_shards(struct reply *reply, const struct cluster_node *node);
