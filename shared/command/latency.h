/*
 * latency.h - how long commands ran: a histogram per command, and the slow events of LATENCY LATEST.
 *
 *   µs:  1   2   4   8   16  …              each power of two is split into 16 buckets: the error is at most 6 %
 *        │   │   │   │   ├┬┬┬┬…┬┬┬┬┤
 *
 * Not thread-safe. A histogram is allocated when its command runs first.
 */
#pragma once

#include "shared/command/command.h"

#include <stdint.h>

enum {
    LATENCY_PARTS = 16,   /* buckets per power of two */
    LATENCY_OCTAVES = 31, /* powers of two, from 16 ns to half a minute */
    LATENCY_BUCKETS = LATENCY_OCTAVES * LATENCY_PARTS,
    LATENCY_SAMPLES = 160, /* samples that an event keeps, at most one per second */
    LATENCY_EVENT_NAME_MAX = 24,
};

struct histogram {
    uint64_t count;
    uint64_t buckets[LATENCY_BUCKETS];
};

/* The longest time within one second. */
struct latency_sample {
    uint64_t at_s; /* wall clock time */
    uint64_t ms;
};

struct latency_event {
    const char *name; /* "command", "fast-command", … */
    uint64_t max_ms;
    uint32_t count; /* valid samples */
    uint32_t next;  /* index of the next sample */
    struct latency_sample samples[LATENCY_SAMPLES];
};

enum latency_kind {
    LATENCY_COMMAND,
    LATENCY_FAST_COMMAND,
    LATENCY_EXPIRE_CYCLE,
    LATENCY_COMMIT, /* write and fsync of a batch */
    LATENCY_KINDS,
};

struct latency {
    struct histogram *commands[COMMAND_COUNT]; /* allocated when the command first runs */
    struct latency_event events[LATENCY_KINDS];
};

struct latency *latency_new(void);
void latency_free(struct latency *latency);
/* Drops the histograms (CONFIG RESETSTAT). */
void latency_reset_commands(struct latency *latency);
/* The histogram's bucket of a time. */
uint32_t latency_bucket(uint64_t ns);
/* Adds `count` runs to the command's histogram, all in the bucket of `usec`. */
void latency_add_command(struct latency *latency, enum command_id id, uint64_t usec,
                         uint64_t count);
/* Adds a run that took at least `latency-monitor-threshold`. */
void latency_add_event(struct latency *latency, enum latency_kind kind, uint64_t at_s, uint64_t ms);
/* Adds a sample to one event; samples must arrive in order of time. */
void latency_add_sample(struct latency_event *event, struct latency_sample sample);
/* NULL when there is no event with this name. */
struct latency_event *latency_find_event(struct latency *latency, struct bytes name);
/* Drops the samples of the named events, or of all when `count` is 0; returns how many events had samples. */
int64_t latency_reset(struct latency *latency, const struct bytes *names, uint32_t count);
/* Sample `index`, counted from the oldest; index < event->count. */
struct latency_sample latency_sample_at(const struct latency_event *event, uint32_t index);

/* The time in µs that `percent` percent of the runs did not exceed. */
double histogram_percentile(const struct histogram *histogram, double percent);
/* How many runs took at most `ns` nanoseconds; exact when `ns` is a power of two. */
uint64_t histogram_count_to(const struct histogram *histogram, uint64_t ns);
