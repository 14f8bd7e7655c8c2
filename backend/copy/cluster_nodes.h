/*
 * cluster_nodes.h - what a node of a Redis Cluster says about all nodes: the reply to CLUSTER NODES.
 *
 *   07c37df… 10.0.0.7:6379@16379,db7.example myself,master - 0 0 3 connected 0-5460 [77->-292f8b…]
 *   id       address            hostname     flags  its master        slots  and one that is being moved
 */
#pragma once

#include "backend/copy/options.h"
#include "shared/slot.h"

enum { CLUSTER_ID_BYTES = 40, CLUSTER_NODES_MAX = 2000 };

/* The slots of a master. */
struct cluster_slots {
    uint64_t words[SLOT_COUNT / 64];
    uint64_t sum; /* see shared/slot.h */
    unsigned count;
};

static inline bool cluster_slots_have(const struct cluster_slots *slots, uint16_t slot)
{
    return slots->words[slot / 64] >> slot % 64 & 1;
}

struct cluster_node {
    char id[CLUSTER_ID_BYTES + 1];
    char master[CLUSTER_ID_BYTES + 1]; /* of a replica */
    char address[COPY_ADDRESS_MAX];    /* empty: not known */
    bool is_master;
    bool is_myself; /* the node that was asked */
    bool is_moving; /* slots to it, or from it */
    struct cluster_slots slots;
};

struct cluster_nodes {
    struct cluster_node *all;
    size_t count;
};

/* Reads the reply of the node at `asked`. False: it is not valid, or has more than CLUSTER_NODES_MAX lines. The result must be freed in
 * any case. */
bool cluster_nodes_read(struct cluster_nodes *nodes, struct bytes text, const char *asked,
                        bool prefers_names);
void cluster_nodes_free(struct cluster_nodes *nodes);
/* The master that has exactly these slots; NULL: none. */
const struct cluster_node *cluster_nodes_owner(const struct cluster_nodes *nodes,
                                               const struct cluster_slots *slots);
