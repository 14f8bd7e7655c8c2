/*
 * cluster_nodes.h - the nodes of the cluster and their slots, for CLUSTER commands and MOVED.
 *
 *   shard map ──► names, hosts ─┐
 *   links     ──► ports, state ─┼─► view (shared/cluster_reply.h) of this partition
 *   owners    ──► slots, epochs ┘
 *
 * Slots are shown at the shard that owns them (slot_owners.h), not at that of the map. Hosts are those of the map. A client with TLS
 * is shown the nodes' ports with TLS, a client without it the others; nodes tell each other these ports (peer/frame.h). A node that
 * has no such port, or was not connected so far, is shown with the port of the map.
 */
#pragma once

#include "backend/context/call.h"
#include "shared/cluster_reply.h"

/* The view, in the arena. Without a shard map, the only node is this partition. */
void cluster_nodes_view(struct call *call, struct cluster_view *view);
/* The partition itself. */
void cluster_nodes_self(struct call *call, struct cluster_node *node);
/* The address of a shard of the map, for the client of the call. False: the map does not have the shard. */
bool cluster_nodes_find(const struct call *call, const char *shard, struct cluster_node *node);
