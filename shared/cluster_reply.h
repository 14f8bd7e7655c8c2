/*
 * cluster_reply.h - CLUSTER's answers of one node that owns every slot: what a proxy is to its clients, and a partition
 * to those that talk to it directly. Whatever a cluster-aware client sends then comes to that node.
 */
#pragma once

#include "shared/reply.h"

enum { CLUSTER_ID_LEN = 40, CLUSTER_HOST_MAX = 256 };

/* The node as a client reaches it. */
struct cluster_node {
    char id[CLUSTER_ID_LEN + 1];
    char host[CLUSTER_HOST_MAX]; /* empty: reached over a Unix socket */
    int port;
    uint64_t epoch;
};

/* Takes host and port from the client's end of the connection: "host:port", "[v6]:port"; a Unix socket's path leaves
 * both as they are. */
void cluster_node_at(struct cluster_node *node, const char *local_address);

void cluster_reply_info(struct reply *reply, const struct cluster_node *node);
void cluster_reply_nodes(struct reply *reply, const struct cluster_node *node);
void cluster_reply_slots(struct reply *reply, const struct cluster_node *node);
void cluster_reply_shards(struct reply *reply, const struct cluster_node *node);
