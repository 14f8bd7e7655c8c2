/*
 * latency.h - how long commands ran: a histogram for each command, and the slow events of LATENCY LATEST.
 *
 *   µs:  1   2   4   8   16  …              each power of two is cut in 16 parts: at most 6 % wrong
 *        │   │   │   │   ├┬┬┬┬…┬┬┬┬┤
 *
 * Not thread-safe. A histogram exists from its command's first run on.
 */
#pragma once

#include "shared/command.h"

#include <stdint.h>

enum {
    LATENCY_PARTS = 16,   /* of a power of two */
    LATENCY_OCTAVES = 31, /* of nanoseconds above 16: up to half a minute */
    LATENCY_BUCKETS = LATENCY_OCTAVES * LATENCY_PARTS,
    LATENCY_SAMPLES = 160, /* an event keeps so many, one for each second */
    LATENCY_EVENT_NAME_MAX = 24,
};

struct histogram {
    uint64_t count;
    uint64_t buckets[LATENCY_BUCKETS];
};

/* The longest time of one second. */
struct latency_sample {
    uint64_t at_s; /* wall clock */
    uint64_t ms;
};

struct latency_event {
    const char *name; /* "command", "fast-command", … */
    uint64_t max_ms;
    uint32_t count; /* samples there are */
    uint32_t next;  /* where the next sample goes */
    struct latency_sample samples[LATENCY_SAMPLES];
};

enum latency_kind {
    LATENCY_COMMAND,
    LATENCY_FAST_COMMAND,
    LATENCY_EXPIRE_CYCLE,
    LATENCY_COMMIT, /* the write and fsync of a batch */
    LATENCY_KINDS,
};

struct latency {
    struct histogram *commands[COMMAND_COUNT]; /* heap; NULL: did not run */
    struct latency_event events[LATENCY_KINDS];
};

struct latency *latency_new(void);
void latency_free(struct latency *latency);
/* Forgets the histograms: CONFIG RESETSTAT. */
void latency_reset_commands(struct latency *latency);
/* Adds a run to the command's histogram. */
void latency_add_command(struct latency *latency, enum command_id id, uint64_t usec);
/* A run that took so long that `latency-monitor-threshold` wants it kept. */
void latency_add_event(struct latency *latency, enum latency_kind kind, uint64_t at_s, uint64_t ms);
/* The same for one event; samples come in the order of their time. */
void latency_add_sample(struct latency_event *event, struct latency_sample sample);
/* NULL: unknown name. */
struct latency_event *latency_find_event(struct latency *latency, struct bytes name);
/* Forgets the samples of the named events, or of all (no names); returns how many events had some. */
int64_t latency_reset(struct latency *latency, const struct bytes *names, uint32_t count);
/* Sample number `index`, the oldest first; index < event->count. */
struct latency_sample latency_sample_at(const struct latency_event *event, uint32_t index);

/* The time in µs that `percent` of the runs did not exceed. */
double histogram_percentile(const struct histogram *histogram, double percent);
/* How many runs took at most so many nanoseconds; exact at powers of two. */
uint64_t histogram_count_to(const struct histogram *histogram, uint64_t ns);
