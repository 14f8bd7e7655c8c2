/*
 * cluster_nodes.h - the nodes of the cluster and their slots, for CLUSTER commands and MOVED.
 *
 *   shard map ──► names, hosts ─┐
 *   links     ──► ports, state ─┼─► view (shared/cluster_reply.h) of this partition
 *   owners    ──► slots, epochs ┤
 *   figures   ──► own copies ───┘
 *
 * Slots are shown at the shard that owns them (slot_owners.h), not at that of the map. Hosts are those of the map. A client with TLS
 * is shown the nodes' ports with TLS, a client without it the others; nodes tell each other these ports (peer/frame.h). A node that
 * has no such port, or was not connected so far, is shown with the port of the map.
 *
 * Each copy of a shard is a node. Which copy of another shard leads is known from the link to it, and which others are up, and how far they
 * are, is what that leader says; of the own shard it is what its copies say to each other (replica_figures.h).
 */
#pragma once

#include "backend/context/call.h"
#include "shared/cluster_reply.h"

/* The view, in the arena. Without a shard map, the only node is this partition. */
void cluster_nodes_view(struct call *call, struct cluster_view *view);
/* The partition itself. */
void cluster_nodes_self(struct call *call, struct cluster_node *node);
/* The id of the partition's node, and of its shard, for the client of the call. */
void cluster_nodes_own_id(struct call *call, char id[CLUSTER_ID_LEN + 1]);
void cluster_nodes_shard_id(struct call *call, char id[CLUSTER_ID_LEN + 1]);
/* The address of a shard of the map, for the client of the call. False: the map does not have the shard. */
bool cluster_nodes_find(const struct call *call, const char *shard, struct cluster_node *node);
