/*
 * account.h - what is counted and timed of the commands that ran: statistics, latencies, the slow log.
 *
 *   account ─► counted
 *      └─ accounts_hold ─► kept ─┬─ accounts_settle: counted
 *                                └─ accounts_drop: the commands were taken back, and nothing of them is counted
 */
#pragma once

#include "backend/context/call.h"

/* Commands that ran and may be taken back. */
struct accounts {
    bool is_held;
    const struct call *call; /* the EXEC or script whose commands they are */
    struct ran *items;
    uint32_t count;
    uint32_t cap;
    size_t copied; /* bytes of arguments */
};

/* The command just ran. The end of one is the beginning of the next: one look at the clock each. A command that waits
 * is counted among its kind when its wait ends. While accounts are held its arguments have to stay, but for those of a
 * script's command. */
void account(const struct call *call);
/* A script's command was refused before it ran. */
void account_refused(const struct call *call);
/* From now on nothing is counted before it is counted for good, errors neither. The call stays until then. */
void accounts_hold(const struct call *call);
/* So much is held that it should be counted for good. */
bool accounts_are_full(const struct partition *partition);
void accounts_settle(struct partition *partition);
void accounts_drop(struct partition *partition);
struct accounts *accounts_new(void);
void accounts_free(struct accounts *accounts);
