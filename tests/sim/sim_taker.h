/*
 * sim_taker.h - simulated clients that push elements to lists, pop them, and block for them, through proxies or
 * directly.
 *
 *   RPUSH list n ─► fates[n]: PUSHED ─► ACKED ─► TAKEN       every element is pushed once
 *                                         └────► FOUND       the final audit found it in its list
 *
 * No element may be popped twice. In the end every acknowledged element was popped, or is found, or may have been in a
 * reply that a fault lost (`lost`).
 */
#pragma once

#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim_cluster.h"

enum { SIM_TAKERS_MAX = 6, SIM_ELEMENTS_MAX = 1 << 14, SIM_TAKER_PENDING_MAX = 8 };

/* State that all takers of a world share. */
struct sim_lists {
    struct sim_cluster *cluster;
    const bool *may_fail; /* a fault has happened */
    char keys[SIM_SHARDS_MAX][SIM_NAMES_MAX];
    uint8_t fates[SIM_ELEMENTS_MAX];
    uint32_t pushed;
    uint32_t taken;
    uint32_t twice;
    uint32_t lost;
    uint32_t nulls;
    char why[200]; /* the first failure; empty: none */
};

struct sim_taker {
    struct sim_lists *lists;
    char name[SIM_NAMES_MAX];
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    struct resp_skip skip;
    int proxy;        /* number of its proxy; -1: it connects to a partition */
    unsigned shard;   /* the partition's shard */
    bool is_audit;    /* it only reads a list */
    bool is_done;     /* the audit is complete */
    bool is_ending;   /* it sends no new requests */
    unsigned greeted; /* outstanding replies to its greeting */
    struct {
        bool takes;
        uint32_t pushes; /* the element plus 1; 0: none */
    } pending[SIM_TAKER_PENDING_MAX];
    unsigned pending_count;
};

void sim_lists_init(struct sim_lists *lists, struct sim_cluster *cluster, const bool *may_fail);
void sim_taker_start(struct sim_taker *taker, struct sim_lists *lists, unsigned number);
/* Reads the list of a shard, repeatedly until it has succeeded. */
void sim_taker_start_audit(struct sim_taker *taker, struct sim_lists *lists, unsigned number,
                           unsigned shard);
/* Disconnects and frees; elements of outstanding replies count as lost. */
void sim_taker_fini(struct sim_taker *taker);
/* Call it after the audits. False: the reason is in lists->why. */
bool sim_lists_check(struct sim_lists *lists);
