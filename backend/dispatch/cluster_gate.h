/*
 * cluster_gate.h - refuses what a node of a Redis Cluster refuses.
 *
 *   proxies (cluster secret)  ──────────────────────────────────────────────►  keys of any slots
 *   other clients ─► keys of one slot? ─► yes: is the slot here? ─► yes ────►  run, or queue
 *                       └─► no: CROSSSLOT     └─► no: MOVED, or CLUSTERDOWN
 *
 * A client that is no proxy and connects to a partition of a shard map talks to a node of a cluster, as in Redis Cluster: it finds
 * the nodes by CLUSTER SLOTS (cluster_nodes.h), sends each command to the node of its slot, and follows MOVED. All keys of a command,
 * and all keys of a transaction, must be in one slot, because otherwise a command would work until one of its slots moves. Databases
 * need no such rule: a slot moves with all its databases.
 */
#pragma once

#include "backend/context/call.h"

#include <stdbool.h>
#include <stdint.h>

/* Is the partition a node of a cluster for this client? NULL: no client. */
bool cluster_client(const struct session *session);
/* False: the keys or shard channels of the request cannot be used here, and the error was replied. EXEC is checked with its
 * queue. */
bool cluster_gate(struct call *call);
/* Replies the error as it is, also to EXEC, whose queue is discarded. */
void cluster_reject(struct call *call, const char *text);
/* The slot of the call's first key; negative: it has no keys, or the client's is no client of a cluster. */
int32_t cluster_slot(struct call *call);
/* Why a command of a script must not run; NULL: it may. *only_slot is the slot that the script may use, negative: it has used none
 * so far; NULL: any slot of this node. */
const char *cluster_refuse_nested(struct call *call, int32_t *only_slot);
