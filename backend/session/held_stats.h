/*
 * held_stats.h - statistics of commands that ran in an EXEC, a script or an attempt over shards, and may still be rolled back.
 *
 *   GET 3 µs, GET 3 µs, SET 7 µs, GET 90 µs ─► runs: GET ─► {90 µs, once} ─► {3 µs, 2 times}
 *                                                    SET ─► {7 µs, once}
 *
 * Runs that ended alike, and that INFO, LATENCY and the metrics count in the same buckets, are one item. So what a script holds does not
 * grow with the number of its commands, and the counts are those that single runs would have had.
 */
#pragma once

#include "shared/command/command.h"
#include "shared/command/slowlog.h"

struct call;

enum run_end { RUN_GOOD, RUN_FAILED, RUN_REFUSED /* it did not run */ };

/* Runs of one command that ended alike and took about the same time. */
struct runs {
    const struct command *command;
    uint64_t count;
    uint64_t usec;     /* the sum */
    uint64_t usec_max; /* the longest one */
    enum run_end end;
    uint32_t times; /* buckets of latency.h and metric_labels.h */
    uint32_t next;  /* other runs of the command: index + 1; 0: there are none */
};

struct held_stats {
    bool is_held;
    const struct call *call; /* the EXEC or script that contains the commands */
    struct runs *items;
    uint32_t count;
    uint32_t cap;
    uint32_t first[COMMAND_COUNT]; /* the runs of each command, as `next` */
    uint64_t commands;             /* number of runs */
    struct slowlog slow;           /* commands inside `call` that were slow */
    bool has_ended;                /* `call` itself has run, for `usec` microseconds */
    uint64_t usec;
};

struct held_stats *held_stats_new(void);
void held_stats_free(struct held_stats *held);
/* Adds a run. */
void held_stats_add(struct held_stats *held, const struct command *command, uint64_t usec,
                    enum run_end end);
/* Drops all, and holds nothing any more. */
void held_stats_clear(struct held_stats *held);
