/*
 * stats.h - a partition's counters of commands and errors for INFO, and its slow log. Used on its thread only.
 */
#pragma once

#include "shared/command/command.h"
#include "shared/command/slowlog.h"
#include "shared/metrics.h"

#include <stdint.h>

enum {
    STATS_ERRORS_MAX = 128,    /* different error codes counted */
    STATS_ERROR_NAME_MAX = 32, /* a longer code is cut */
    STATS_SAMPLES = 16,        /* of each rate */
};

/* Counts whose rate INFO shows, e.g. instantaneous_ops_per_sec. */
enum stats_rate { STATS_COMMANDS, STATS_INPUT_BYTES, STATS_OUTPUT_BYTES, STATS_RATES };

struct command_stats {
    uint64_t calls;
    uint64_t usec;
    uint64_t rejected; /* runs refused by a gate */
    uint64_t failed;   /* runs with an error reply */
    uint64_t parts;    /* runs that another shard counts as calls (SCREE PART) */
};

struct error_stats {
    char name[STATS_ERROR_NAME_MAX];
    uint64_t count;
};

/* Of active expiry. */
struct stats_expiry {
    uint64_t usec; /* time spent */
    uint64_t cuts; /* steps that ended because their time was over */
    /* of the keys with a TTL: those that have expired and were not deleted yet; set once a second */
    double stale_percent;
};

/* METRIC_BACKEND_EXPIRED and so on, at the last CONFIG RESETSTAT. */
struct stats_before {
    uint64_t expired;
    uint64_t expired_fields;
    uint64_t lazyfreed;
    uint64_t hits;
    uint64_t misses;
};

/* Errors that are not counted yet. */
struct held_errors {
    struct error_stats *errors; /* STATS_ERRORS_MAX, sorted by name; NULL: there was none yet */
    uint32_t count;
    uint64_t total; /* errors, also of names that have no place */
};

struct stats {
    struct command_stats commands[COMMAND_COUNT];
    struct error_stats errors[STATS_ERRORS_MAX];
    uint32_t errors_count;
    bool errors_are_held; /* `held` has errors of commands that may be rolled back */
    struct held_errors held;
    uint64_t errors_total;
    uint64_t commands_total;
    uint64_t connections_total;
    uint64_t connections_refused;
    uint64_t input_bytes;
    uint64_t output_bytes;
    struct stats_before before;
    uint64_t reads_total;   /* number of reads from connections */
    uint64_t replies_total; /* replies handed to connections */
    struct stats_expiry expiry;
    uint64_t sampled[STATS_RATES]; /* totals at the last sample */
    uint64_t sampled_ms;
    uint64_t samples[STATS_RATES][STATS_SAMPLES]; /* a second */
    uint32_t samples_next;
    struct slowlog slowlogs[SLOWLOG_KINDS];
};

struct stats *stats_new(void);
void stats_free(struct stats *stats);
/* CONFIG RESETSTAT: resets all but the slow logs. `metrics` has the partition's counters, which are not reset. */
void stats_reset(struct stats *stats, const struct metrics *metrics);
static inline uint64_t stats_metric(const struct metrics *metrics, enum metric metric)
{
    return atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);
}
/* Counts an error by its first word ("ERR", "WRONGTYPE"). */
void stats_error(struct stats *stats, const char *text);
/* From now on errors are held until their commands are kept or rolled back. */
void stats_hold_errors(struct stats *stats);
void stats_release_errors(struct stats *stats, bool is_good);
/* Takes a sample of the rates. */
void stats_sample(struct stats *stats, uint64_t now_ms);
/* Events per second, averaged over the last samples. */
uint64_t stats_rate(const struct stats *stats, enum stats_rate rate);
