/*
 * sim_tracker.h - simulated clients that are informed of every change of a bank's ledgers (CLIENT TRACKING … BCAST).
 *
 *   RPUSH ledger-0 9 takes effect ─► one invalidation of ledger-0          a change that is rolled back: none
 *
 * There may be fewer reports than entries, because changes of one batch share a report, and connections are lost, and never
 * more. Each keeps a copy of the length of its shard's ledgers, as a client-side cache does: it drops a copy when the ledger is
 * reported, and all of them after a failed batch or a lost connection, and reads it again. At the end each copy is right.
 */
#pragma once

#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim_bank.h"

struct sim_tracker {
    struct sim_bank *bank;
    unsigned shard; /* it connects to its partition */
    char name[SIM_NAMES_MAX];
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    struct resp_skip skip;
    unsigned replies;              /* that are simple strings: to AUTH and CLIENT TRACKING */
    bool is_ready;                 /* it is informed of changes */
    int reports[BANK_ACCOUNTS];    /* invalidations of each ledger */
    bool is_stale[BANK_ACCOUNTS];  /* it has no copy of the ledger's length */
    int64_t copies[BANK_ACCOUNTS]; /* lengths of the ledgers */
    /* ledgers whose lengths were requested, the oldest request first */
    unsigned asked[BANK_ACCOUNTS];
    unsigned asked_count;
};

void sim_tracker_start(struct sim_tracker *tracker, struct sim_bank *bank, unsigned shard);
/* Is it informed of changes, and has it a copy of the length of each ledger of its shard? */
bool sim_tracker_is_calm(const struct sim_tracker *tracker);
/* After sim_bank_check_end, when all is calm. */
void sim_tracker_check(struct sim_tracker *tracker);
/* Disconnects and frees. */
void sim_tracker_fini(struct sim_tracker *tracker);
