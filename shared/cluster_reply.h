/*
 * cluster_reply.h - CLUSTER replies in the form of Redis 7.0, from a view of the cluster.
 *
 *   view ─┬─ nodes: id, address, state          CLUSTER NODES, SLOTS, SHARDS, INFO, REPLICAS
 *         └─ runs:  first slot .. last slot ─► node
 *
 * A proxy, and a partition without a shard map, show themselves as the only node, which owns all slots: a client that knows
 * Redis Cluster then sends all commands to it. A partition of a shard map shows all shards, each with the slots that it
 * owns. Each copy of a shard is a node: the one that serves is a master, the others are its replicas.
 */
#pragma once

#include "shared/reply.h"

enum { CLUSTER_ID_LEN = 40, CLUSTER_HOST_MAX = 256 };
#define CLUSTER_NO_RUN    UINT32_MAX
#define CLUSTER_NO_MASTER UINT32_MAX

struct cluster_node {
    char id[CLUSTER_ID_LEN + 1];
    /* the address as clients see it; the host is empty for a client that came over a Unix socket */
    char host[CLUSTER_HOST_MAX];
    int port; /* 0: the address is not known */
    uint64_t epoch;
    uint32_t master; /* the node that it is a replica of; CLUSTER_NO_MASTER: it is a master */
    /* of its log; of a replica 0: it has no data yet, or none is known */
    uint64_t offset;
    bool is_self;
    bool is_lost;                 /* this node has no connection to it */
    bool has_failed;              /* a replica: its master has no connection to it */
    uint64_t heard_ms;            /* wall clock: its last message; 0: none, or this node itself */
    uint32_t first_run, last_run; /* of its runs, which `next` links; filled by cluster_view_add */
};

/* Consecutive slots of one node. */
struct cluster_run {
    uint16_t first, last;
    uint32_t node;
    uint32_t next; /* the next run of the same node; CLUSTER_NO_RUN: none */
};

/* A slot that this node is giving to another node, or receives from it. */
struct cluster_move {
    uint16_t slot;
    bool is_leaving;
    uint32_t node;
};

struct cluster_view {
    struct cluster_node *nodes; /* the replicas of a node come directly behind it */
    uint32_t node_count;
    struct cluster_run *runs; /* in the order of slots */
    uint32_t run_count;
    const struct cluster_move *moves;
    uint32_t move_count;
    uint64_t epoch; /* the highest one that is known */
    uint64_t messages_sent, messages_received;
};

/* A connection to another node. */
struct cluster_link {
    const char *node;  /* id */
    bool is_from;      /* the other node has opened it */
    uint64_t since_ms; /* wall clock */
    size_t unsent;     /* bytes */
};

/* The id of a shard, and of the node of a shard with one copy: it depends on the name alone, so every node computes it, and a restart
 * does not change it. */
void cluster_node_id(const char *shard, char id[CLUSTER_ID_LEN + 1]);
/* The id of one of several copies of a shard: it depends on the name and on the copy's address, ignoring case. */
void cluster_copy_id(const char *shard, const char *address, char id[CLUSTER_ID_LEN + 1]);
/* Takes host and port from an address, "host:port" or "[v6]:port". For the path of a Unix socket both stay unchanged. */
void cluster_node_at(struct cluster_node *node, const char *address);
/* Appends slots, whose numbers must increase, to the runs. There must be room for one run more. */
void cluster_view_add(struct cluster_view *view, uint32_t node, uint16_t first, uint16_t last);
/* A view of this node alone; `run` is the memory of its only run. */
void cluster_view_alone(struct cluster_view *view, struct cluster_node *node,
                        struct cluster_run *run);

void cluster_reply_info(struct reply *reply, const struct cluster_view *view);
void cluster_reply_nodes(struct reply *reply, const struct cluster_view *view);
void cluster_reply_slots(struct reply *reply, const struct cluster_view *view);
void cluster_reply_shards(struct reply *reply, const struct cluster_view *view);
/* CLUSTER REPLICAS id */
void cluster_reply_replicas(struct reply *reply, const struct cluster_view *view, struct bytes id);
/* CLUSTER COUNT-FAILURE-REPORTS id: nodes do not report each other, so there are none. */
void cluster_reply_failure_reports(struct reply *reply, const struct cluster_view *view,
                                   struct bytes id);
/* One element of CLUSTER LINKS. */
void cluster_reply_link(struct reply *reply, const struct cluster_link *link);
