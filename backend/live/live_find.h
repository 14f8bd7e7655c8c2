/*
 * live_find.h - where the source is. It is asked before each connection, so that a failover of the source is followed.
 *
 *   Sentinel 1: no reply ─► Sentinel 2: SENTINEL GET-MASTER-ADDR-BY-NAME name ─► 10.0.0.7:6379: ROLE ─► "master" ─► found
 *                                                                                                  └─► "slave": the next Sentinel
 *
 * In a Redis Cluster one node after the other is asked by CLUSTER NODES, until one names the master of this source's slots.
 *
 * After a failover an old Sentinel may give the old master, so the server itself is asked for its role.
 */
#pragma once

#include "backend/copy/cluster_nodes.h"
#include "backend/copy/wire.h"

/* Writes the address of the source. False: it was not found, and error says why; it may be later. Runs the loop, so it is not called by
 * callbacks of the loop. */
bool find_source(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                 char address[COPY_ADDRESS_MAX], char error[WIRE_ERROR_MAX]);

/* Servers of one master: all that may become master. */
struct found_servers {
    char (*all)[COPY_ADDRESS_MAX]; /* owned */
    size_t count;
};

/* Writes the address of the master that most Sentinels agree on, and of its replicas, for a cut-over. False: error says why. */
bool find_servers(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                  struct found_servers *servers, char error[WIRE_ERROR_MAX]);

/* Writes what the first node that answers says about the cluster. False: none does, and error says why. Both free `nodes`. */
bool find_nodes(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                struct cluster_nodes *nodes, char error[WIRE_ERROR_MAX]);
/* Writes what the master at this address has sent to its replicas, in bytes. False: it is not a master, does not answer, or has no contact
 * with most masters of its cluster, which may have replaced it: error says which. */
bool find_sent(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
               const char *address, uint64_t *sent, char error[WIRE_ERROR_MAX]);
/* Asks the node at this address itself. */
bool find_nodes_at(struct loop *loop, const struct copy_options *options, const bool *is_stopped,
                   const char *address, struct cluster_nodes *nodes, char error[WIRE_ERROR_MAX]);
