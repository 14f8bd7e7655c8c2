/*
 * node.h - one shard as a worker sees it: its name, its address, and the worker's connections to it.
 */
#pragma once

#include "shared/list.h"

#include <stdbool.h>
#include <stdint.h>

struct metric_cell;
struct proxy_worker;
struct shard;
struct upstream;

enum { LANE_NORMAL, LANE_LONG, LANE_SCRIPT, LANE_CONTROL, LANES };

struct node {
    uint32_t refs; /* the pool's, its upstreams', those of requests that name it */
    char *name;    /* of the shard */
    char *address;
    struct upstream *shared[LANES][2]; /* [1]: RESP3; NULL: not made yet, or closed */
    struct upstream *waits;            /* NULL: not made yet, or closed */
    struct list spare;                 /* private upstreams between two uses */
    struct list waiting_to_open;       /* private upstreams that wait until they may be opened */
    uint32_t openings;                 /* private upstreams that are being opened */
    uint32_t index;                    /* in the map, unless it is_removed */
    bool is_removed;                   /* no longer in the map */
    bool said_busy;                    /* the answer to the PING at busy_ms was BUSY */
    uint32_t busy_ms;                  /* low bits of the loop's time */
    uint32_t asked_ms;                 /* likewise: when it was asked whether it is busy */
    struct metric_cell *cell;          /* of the shard in proxy->labelled */
    uint64_t in_flight;                /* for its gauges, as the next two */
    uint64_t queue_bytes;
    uint64_t connections;
};

/* With one reference, for the caller. */
struct node *node_new(const struct proxy_worker *worker, const struct shard *shard);
/* The shard answered BUSY a moment ago: it runs a slow script. */
bool node_is_busy(const struct node *node, uint32_t now_ms);
struct node *node_ref(struct node *node);
void node_unref(struct node *node);
