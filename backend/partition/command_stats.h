/*
 * command_stats.h - command statistics: calls, errors and latencies of the commands that ran, and the slow log.
 *
 *   command_stats_add ─► counted
 *      └─ command_stats_hold ─► held ─┬─ command_stats_release: counted
 *                                     └─ command_stats_drop: the commands were rolled back, and none is counted
 */
#pragma once

#include "backend/context/call.h"

/* Commands that ran and may be rolled back. */
struct held_stats {
    bool is_held;
    const struct call *call; /* the EXEC or script whose commands they are */
    struct ran *items;
    uint32_t count;
    uint32_t cap;
    size_t copied; /* bytes of arguments */
};

/* The command just ran. The end of one is the beginning of the next: one look at the clock each. A command that waits
 * is counted among its kind when its wait ends. While statistics are held its arguments have to stay, but for those of
 * a script's command. */
void command_stats_add(const struct call *call);
/* A script's command was refused before it ran. */
void command_stats_refused(const struct call *call);
/* From now on nothing is counted before it is counted for good, errors neither. The call stays until then. */
void command_stats_hold(const struct call *call);
/* So much is held that it should be counted for good. */
bool command_stats_are_full(const struct partition *partition);
void command_stats_release(struct partition *partition);
void command_stats_drop(struct partition *partition);
struct held_stats *command_stats_new(void);
void command_stats_free(struct held_stats *held);
