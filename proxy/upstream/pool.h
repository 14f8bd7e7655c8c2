/*
 * pool.h - one worker's connections to the backends.
 *
 *   map's shard i ──► nodes[i] {name, address} ──► shared[lane][resp] ──► upstream
 *                                              ├─► waits: clients that wait at the shard (upstream_waits.c)
 *                                              └─► spare: private connections that are not in use
 *
 * LANE_NORMAL  most commands
 * LANE_LONG    commands that may run long, so that a KEYS does not delay GETs
 * LANE_SCRIPT  scripts: while a slow script runs, this connection gets no replies, but other connections get BUSY
 * LANE_HEAVY   requests of 1 MB and more: while such a request is sent, later requests on its connection wait
 * LANE_WAITING requests that must wait (backend/dispatch/line.h), while there are too few connections of which each has one of them
 * LANE_CONTROL commands that must not wait behind others: backups (backup.h), SCRIPT KILL, and a PING when a reply is late
 *
 * While a shard answers that PING with BUSY (node_is_busy), replies have no deadline. Connections that wait for a reply
 * are replaced by new ones; requests in flight on the old ones are answered when the script ends. Connections are opened
 * when first needed, and kept. Only some private connections to a shard are opened at a time, so that a burst of waiting
 * clients does not overflow the backend's listen backlog. A node whose address is no longer in the map is drained and freed.
 * If its shard has copies, the node goes to the address of the copy that leads instead (node_retarget). The other copies have nodes of their
 * own, for reads (copy_reads.h) and for backups (copy_control.h).
 */
#pragma once

#include "proxy/core/node.h"
#include "shared/bytes.h"
#include "shared/list.h"
#include "shared/zone.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct proxy_worker;
struct shard_map;
struct upstream;

extern const char dedicated_limit_error[];

struct pool {
    struct proxy_worker *worker;
    struct node **nodes; /* by index in the snapshot's map */
    size_t count;
    uint32_t any;                 /* the shard that pool_any() returns next */
    struct list upstreams;        /* all; closed ones leave the list at the end of the turn */
    bool reads_fresh;             /* copies answer reads of all clients, with fresh data */
    char zone[ZONE_NAME_MAX + 1]; /* of the proxy; "": none */
    uint64_t zones_version; /* of zones.h, by which copies are in order; 0: they are in none */
    bool has_closed;
    bool reads_at_copies; /* copy_reads.h */
    bool has_full;        /* clients wait for room in a connection's output; upstream_room.c */
};

struct pool *pool_new(struct proxy_worker *worker, const struct shard_map *map);
/* Closes every upstream and sets `nodes` to NULL. */
void pool_stop(struct pool *pool);
/* To be called after pool_stop. */
void pool_free(struct pool *pool);
void pool_update(struct pool *pool, const struct shard_map *map);
/* The zone of the proxy: reads go to copies of that zone first. */
void pool_set_zone(struct pool *pool, const char *zone);
/* After pool_update, or when the options have changed: the nodes of the copies that do not lead. may_read: they serve reads; is_fresh: only
 * with fresh data, and those of all clients. */
void pool_update_copies(struct pool *pool, const struct shard_map *map, bool may_read,
                        bool is_fresh);

/* Makes every connection send SCREE USE or SELECT before its next request. */
void pool_forget_keyspaces(struct pool *pool);

/* Makes the shared connection of a lane and protocol (2 or 3); its first request opens it. */
struct upstream *pool_make(struct pool *pool, struct node *node, unsigned lane, uint8_t resp);
static inline struct upstream *pool_pick(struct pool *pool, uint32_t shard, unsigned lane,
                                         uint8_t resp)
{
    struct node *node = pool->nodes[shard];
    struct upstream *upstream = node->shared[lane][resp == 3];
    return upstream ? upstream : pool_make(pool, node, lane, resp);
}
/* The connection for blocking commands, to backends that have the secret. */
struct upstream *pool_waits(struct pool *pool, uint32_t shard);
/* A dedicated connection; the caller returns it with upstream_release(). NULL: the proxy has dedicated-limit of
 * them, or its namespace has its share (shares.h). `beyond_limit`: ignores that limit. */
struct upstream *pool_dedicated(const struct client *client, uint32_t shard, uint8_t resp,
                                bool beyond_limit);
/* A connection for one request with keys on several shards: the shard may suspend it, so other requests must not be
 * behind it. The reply releases it. NULL: across-limit are in use, or of the last eighth the client's namespace gets none
 * (fair_queue.h); the client is held until one is free. */
struct upstream *pool_across(struct pool *pool, uint32_t shard, struct client *client);
/* Such a connection beyond across-limit. */
struct upstream *pool_across_at_once(struct pool *pool, uint32_t shard, const struct client *client,
                                     uint8_t resp);
/* A connection for one request that must wait at the shard: such a connection, as long as half of across-limit are not in use, or else
 * that of LANE_WAITING. */
struct upstream *pool_patient(struct pool *pool, uint32_t shard, const struct client *client,
                              uint8_t resp);
/* Resumes as many clients that wait for such a connection as may have one now. */
void pool_wake_across(const struct pool *pool, struct node *node);
/* Another copy of the shard leads, at this address: what is in flight fails, and what was not sent yet goes there. */
void node_retarget(const struct pool *pool, struct node *node, const char *address);
/* Could a shared connection not be opened? */
bool node_is_down(const struct node *node);
/* A shard that is not known to be down; each call returns the next such shard. */
uint32_t pool_any(struct pool *pool);
/* The shard is reachable again: ends the backoff of all connections to it. */
void pool_shard_back(struct pool *pool, struct bytes shard);
/* Handles deadlines and backoff of all upstreams. True: an upstream has a deadline. */
bool pool_tick(struct pool *pool);
/* Called once a second: keepalive of all upstreams. */
void pool_slow(struct pool *pool);
/* Frees the upstreams that were closed in this turn. */
void pool_turn_end(struct pool *pool);
