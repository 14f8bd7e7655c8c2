/*
 * pool.h - one worker's connections to the backends.
 *
 *   map's shard i ──► nodes[i] {name, address} ──► shared[lane][resp] ──► upstream
 *                                              ├─► waits: clients that wait at the shard (upstream_waits.c)
 *                                              └─► spare: private connections that are not in use
 *
 * Lane 0 carries normal commands, lane 1 long ones, so that a KEYS does not delay GETs, lane 2 scripts: while one is
 * slow its connection gets no replies, and requests on other connections are answered BUSY. Lane 3 has the proxy's own
 * commands while shards hold writes (backup.h), SCRIPT KILL, and a PING when a reply is late: they do not wait behind
 * other requests. While the shard answers that PING with BUSY (node_is_busy), replies have no deadline, and connections
 * that wait for a reply are replaced by new ones: what is in flight on the old ones is answered when the script ends.
 * Connections are made when first needed and kept. Private connections to a shard are opened some at a time, so that a
 * burst of waiting clients does not overflow the queue of a backend that accepts them. A node whose address is no
 * longer in the map drains, then goes.
 */
#pragma once

#include "proxy/upstream/node.h"
#include "shared/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy_worker;
struct shard_map;
struct upstream;

extern const char dedicated_limit_error[];

struct pool {
    struct proxy_worker *worker;
    struct node **nodes; /* by index in the snapshot's map */
    size_t count;
    uint32_t any;          /* next shard for commands that may go to any */
    struct list upstreams; /* all; those that are closed leave it at the turn's end */
    bool has_closed;
};

struct pool *pool_new(struct proxy_worker *worker, const struct shard_map *map);
/* Closes every upstream at once; from then on `nodes` is NULL. */
void pool_stop(struct pool *pool);
/* After pool_stop. */
void pool_free(struct pool *pool);
void pool_update(struct pool *pool, const struct shard_map *map);

/* Every connection tells its backend anew where the next request belongs. */
void pool_forget_keyspaces(struct pool *pool);

/* The shared connection for a lane and protocol (2 or 3); opened by the first send. */
struct upstream *pool_make(struct pool *pool, struct node *node, unsigned lane, uint8_t resp);
static inline struct upstream *pool_pick(struct pool *pool, uint32_t shard, unsigned lane,
                                         uint8_t resp)
{
    struct node *node = pool->nodes[shard];
    struct upstream *upstream = node->shared[lane][resp == 3];
    return upstream ? upstream : pool_make(pool, node, lane, resp);
}
/* The connection for commands that wait; for backends that have the secret. */
struct upstream *pool_waits(struct pool *pool, uint32_t shard);
/* A private connection; given back with upstream_release() or gone when it broke. NULL: dedicated-limit of them
 * are out, in the whole proxy; `beyond_limit`: one more than that. */
struct upstream *pool_dedicated(struct pool *pool, uint32_t shard, uint8_t resp, bool beyond_limit);
/* A shard that is not known to be down, each time another one. */
uint32_t pool_any(struct pool *pool);
/* Deadlines, backoff. True: something has one. */
bool pool_tick(struct pool *pool);
/* Once a second: keepalive. */
void pool_slow(struct pool *pool);
/* Frees what was closed in this turn. */
void pool_turn_end(struct pool *pool);
