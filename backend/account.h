/*
 * account.h - what is counted and timed of the commands that ran: statistics, latencies, the slow log.
 *
 *   account ─► counted
 *      └─ accounts_hold ─► kept ─┬─ accounts_settle: counted
 *                                └─ accounts_drop: the commands were taken back, and nothing of them is counted
 */
#pragma once

#include "backend/call.h"

/* Commands that ran and may be taken back. Zero bytes are a valid empty state. */
struct accounts {
    bool is_held;
    struct ran *items;
    uint32_t count;
    uint32_t cap;
};

/* The command just ran. The end of one is the beginning of the next: one look at the clock each. A command that waits
 * is counted among its kind when its wait ends. While accounts are held its arguments have to stay. */
void account(const struct call *call);
/* From now on nothing is counted before it is settled, errors neither. */
void accounts_hold(struct partition *partition);
void accounts_settle(struct partition *partition);
void accounts_drop(struct partition *partition);
void accounts_fini(struct accounts *accounts);
