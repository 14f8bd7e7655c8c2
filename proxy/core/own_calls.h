/*
 * own_calls.h - statistics of the commands that the proxy answers without a shard: PING, CLIENT LIST, CONFIG GET port …
 *
 *   handler of the proxy, MULTI … ──► called: steps of time, failed ┐
 *   a gate that refuses a command ──► refused                       ┴► the worker's cells (metric_labels.h)
 *                                                                           │ sums, less those at CONFIG RESETSTAT
 *   INFO commandstats, latencystats; LATENCY HISTOGRAM  ◄───────────────────┘ are added to the figures of the shards
 *
 * A call for which a shard was asked is counted there. Shards do not count what a proxy sends on its own account: PING, HELLO,
 * MULTI … on a proxy's connection (backend/session/command_stats.c).
 */
#pragma once

#include "shared/command/command.h"
#include "shared/metric_labels.h"

#include <pthread.h>
#include <stdbool.h>

struct proxy_worker;
struct request;

/* How the proxy answers a request itself. */
enum request_own {
    OWN_NOT,   /* a shard answers it, or it is no call: QUEUED, an element of EXEC's reply */
    OWN_RUN,   /* a handler of the proxy runs it, perhaps with the help of shards */
    OWN_REPLY, /* it is answered in place: an error of a gate, or a command of transactions */
};

enum own_word {
    OWN_STEPS = 0, /* calls by time: HISTOGRAM_BUCKETS steps, then the sum in µs */
    OWN_USEC = HISTOGRAM_BUCKETS,
    OWN_REFUSED,
    OWN_FAILED,
    OWN_WORDS,
};

/* What all workers have counted of one command. */
struct own_sums {
    uint64_t calls;
    uint64_t words[OWN_WORDS];
};

/* The figures of a proxy. */
struct own_calls {
    struct labels *labels;
    pthread_mutex_t mutex;
    uint64_t base[COMMAND_COUNT][OWN_WORDS]; /* at the last reset; guarded by mutex */
};

/* Of one worker. */
struct own_cells {
    struct labels *labels;
    uint32_t thread;
    uint64_t counted_us;                      /* when the last call was counted; monotonic µs */
    struct metric_cell *cells[COMMAND_COUNT]; /* NULL: not called yet */
};

struct own_calls *own_calls_new(void);
void own_calls_free(struct own_calls *calls);
void own_cells_init(struct own_cells *cells, const struct own_calls *calls, uint32_t thread);

/* The reply of a request whose `count.own` is not OWN_NOT is complete. `usec`: whole turns; 0: the call's time is measured here. */
void own_calls_count(struct proxy_worker *worker, const struct request *request, uint64_t usec,
                     bool is_error);
/* Sums of the command since the last reset; false: it was not called. Any thread. */
bool own_calls_read(struct own_calls *calls, enum command_id id, struct own_sums *sums);
/* Begins to count anew (CONFIG RESETSTAT). Any thread. */
void own_calls_reset(struct own_calls *calls);
/* The upper end of a step, in µs: that of the shards' LATENCY HISTOGRAM. */
uint64_t own_step_end_us(unsigned step);
