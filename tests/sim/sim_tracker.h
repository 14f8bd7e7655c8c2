/*
 * sim_tracker.h - simulated clients that are informed of every change of a bank's ledgers (CLIENT TRACKING … BCAST).
 *
 *   RPUSH ledger-0 9 takes effect ─► one invalidation of ledger-0          a change that is rolled back: none
 *
 * There may be fewer reports than entries, because changes of one batch share a report, and connections are lost, and never
 * more. Without faults the last entry is followed by a report.
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
    unsigned replies;           /* that are simple strings: to AUTH and CLIENT TRACKING */
    bool is_ready;              /* it is informed of changes */
    bool was_lost;              /* it lost a connection, and perhaps reports */
    int reports[BANK_ACCOUNTS]; /* invalidations of each ledger */
    uint64_t last_us[BANK_ACCOUNTS];
};

void sim_tracker_start(struct sim_tracker *tracker, struct sim_bank *bank, unsigned shard);
/* After sim_bank_check_end. `is_calm`: there were no faults, so the last entries are reported. */
void sim_tracker_check(struct sim_tracker *tracker, bool is_calm);
/* Disconnects and frees. */
void sim_tracker_fini(struct sim_tracker *tracker);
