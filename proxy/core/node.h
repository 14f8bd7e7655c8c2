/*
 * node.h - a worker's record of one shard: name, address, and the worker's connections to it.
 */
#pragma once

#include "shared/fair_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct metric_cell;
struct proxy_worker;
struct shard;
struct upstream;

enum { LANE_NORMAL, LANE_LONG, LANE_SCRIPT, LANE_CONTROL, LANE_HEAVY, LANE_WAITING, LANES };

/* The shard cannot be reached; upstream_hold.c. */
struct node_outage {
    /* Until then requests wait for the shard; monotonic. 0: it is reachable, or was not tried yet. */
    uint64_t hold_until_ms;
    bool is_restarting; /* the shard has sent STOPPING_FRAME */
    bool is_leaderless; /* its copy has said that it does not lead */
    bool is_silent;     /* it has not answered a request within upstream-timeout */
};

/* Sums over the worker's connections to the shard, for the gauges. */
struct node_sums {
    uint64_t in_flight;
    uint64_t queue_bytes;
    uint64_t connections;
    uint64_t held;
    uint64_t held_bytes;
};

/* The copies of a shard that follow: those of the proxy's zone first (upstream/near_copies.h). */
struct node_copies {
    struct node **nodes; /* each with a reference */
    uint32_t count;
    uint32_t near_count;
    bool is_leader_near; /* the leader is of the proxy's zone */
};

struct node {
    /* references of the pool, of upstreams, and of requests with replies of this shard */
    uint32_t refs;
    char *name; /* of the shard */
    char *address;
    struct upstream *shared[LANES][2]; /* [1]: RESP3; NULL: not opened yet, or closed */
    struct upstream *waits;            /* NULL: not opened yet, or closed */
    struct list spare;                 /* idle private upstreams */
    struct list waiting_to_open; /* private upstreams that wait until fewer are being opened */
    uint32_t openings;           /* private upstreams that are being opened */
    /* connections for requests with keys on several shards, by namespace; clients wait by links.full. pool_across() */
    struct fair_queue across;
    struct node_outage outage;
    uint32_t index;  /* in the map; meaningless once is_removed */
    bool is_removed; /* the shard is no longer in the map */
    bool has_copies; /* the shard has several addresses, and the leader's may be another one soon */
    bool is_copy;    /* it is a copy that follows: upstream/copy_reads.h, upstream/copy_control.h */
    bool is_near;    /* a copy in the proxy's zone: upstream/near_copies.h */
    bool is_owner;   /* it serves only slots that it owns, and bounces others (SCREE SELF) */
    uint64_t down_ms;  /* when it was first seen to be unreachable; monotonic, 0: it is reachable */
    bool said_busy;    /* the PING at busy_ms was answered BUSY */
    uint32_t busy_ms;  /* when said_busy was set; low bits of the loop's time */
    uint32_t asked_ms; /* when the last PING of ask_busy() was sent; low bits of the loop's time */
    struct metric_cell *cell; /* of the shard in proxy->labelled */
    struct node_sums sums;
    struct node_copies copies; /* of a leader */
    uint64_t refused_until_ms; /* of a copy: it has refused a read; monotonic */
};

/* A new node with one reference, at an address of the shard. */
struct node *node_new(const struct proxy_worker *worker, const struct shard *shard,
                      const char *address);
/* True when the shard has just answered BUSY: it runs a slow script. */
bool node_is_busy(const struct node *node, uint32_t now_ms);
struct node *node_ref(struct node *node);
void node_unref(struct node *node);
