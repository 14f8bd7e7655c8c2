/*
 * sim_taker.h - simulated clients that push to lists, take from them and wait for them, through proxies or directly.
 *
 *   RPUSH list n ─► fates[n]: PUSHED ─► ACKED ─► TAKEN       every element is pushed once
 *                                         └────► FOUND       it is in its list in the end
 *
 * No element may be taken twice, and in the end every acknowledged one was taken, or is found, or may have been in a reply
 * that a fault took away (`lost`).
 */
#pragma once

#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim_cluster.h"

enum { SIM_TAKERS_MAX = 6, SIM_ELEMENTS_MAX = 1 << 14, SIM_TAKER_PENDING_MAX = 8 };

/* What all takers of a world share. */
struct sim_lists {
    struct sim_cluster *cluster;
    const bool *may_fail; /* there have been faults */
    char keys[SIM_SHARDS_MAX][SIM_NAMES_MAX];
    uint8_t fates[SIM_ELEMENTS_MAX];
    uint32_t pushed;
    uint32_t taken;
    uint32_t twice;
    uint32_t lost;
    uint32_t nulls;
    char why[200]; /* first thing that was wrong; empty: nothing */
};

struct sim_taker {
    struct sim_lists *lists;
    char name[SIM_NAMES_MAX];
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    struct resp_skip skip;
    int proxy;        /* -1: a partition */
    unsigned shard;   /* of the partition */
    bool is_audit;    /* reads a list */
    bool is_done;     /* it has */
    bool is_ending;   /* sends nothing more */
    unsigned greeted; /* replies of the greeting still to come */
    struct {
        bool takes;
        uint32_t pushes; /* the element + 1; 0: none */
    } pending[SIM_TAKER_PENDING_MAX];
    unsigned pending_count;
};

void sim_lists_init(struct sim_lists *lists, struct sim_cluster *cluster, const bool *may_fail);
void sim_taker_start(struct sim_taker *taker, struct sim_lists *lists, unsigned number);
/* Reads the list of a shard, again and again until it has succeeded. */
void sim_taker_start_audit(struct sim_taker *taker, struct sim_lists *lists, unsigned number,
                           unsigned shard);
/* Disconnects and frees; what it was owed counts as lost. */
void sim_taker_fini(struct sim_taker *taker);
/* After the audits. False: lists->why. */
bool sim_lists_check(struct sim_lists *lists);
