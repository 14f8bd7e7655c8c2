#include "shared/command/latency.h"

#include "shared/check.h"

#include <stdlib.h>

static const char *const event_names[LATENCY_KINDS] = {
    [LATENCY_COMMAND] = "command",
    [LATENCY_FAST_COMMAND] = "fast-command",
    [LATENCY_EXPIRE_CYCLE] = "expire-cycle",
    [LATENCY_COMMIT] = "commit",
};

struct latency *latency_new(void)
{
    struct latency *latency = calloc(1, sizeof *latency);
    CHECK(latency);
    for (unsigned i = 0; i < LATENCY_KINDS; i++)
        latency->events[i].name = event_names[i];
    return latency;
}

void latency_reset_commands(struct latency *latency)
{
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        free(latency->commands[i]);
        latency->commands[i] = NULL;
    }
}

void latency_free(struct latency *latency)
{
    if (!latency)
        return;
    latency_reset_commands(latency);
    free(latency);
}

/* ---- histograms ---- */

/* Bucket b begins at (16 + b % 16) << (b / 16): each power of two from 16 on has 16 buckets. */
static uint64_t bucket_start(unsigned bucket)
{
    return (uint64_t)(LATENCY_PARTS + bucket % LATENCY_PARTS) << (bucket / LATENCY_PARTS);
}

uint32_t latency_bucket(uint64_t ns)
{
    if (ns < LATENCY_PARTS)
        return 0;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns) - 4;
    if (octave >= LATENCY_OCTAVES)
        return LATENCY_BUCKETS - 1;
    return octave * LATENCY_PARTS + (unsigned)(ns >> octave) % LATENCY_PARTS;
}

void latency_add_command(struct latency *latency, enum command_id id, uint64_t usec, uint64_t count)
{
    struct histogram *histogram = latency->commands[id];
    if (!histogram) {
        histogram = latency->commands[id] = calloc(1, sizeof *histogram);
        CHECK(histogram);
    }
    histogram->count += count;
    histogram->buckets[latency_bucket(usec * 1000)] += count;
}

double histogram_percentile(const struct histogram *histogram, double percent)
{
    uint64_t wanted = (uint64_t)(percent / 100 * (double)histogram->count + 0.5);
    uint64_t seen = 0;
    unsigned bucket = 0;
    wanted = wanted ? wanted : 1;
    while (bucket < LATENCY_BUCKETS - 1 && seen + histogram->buckets[bucket] < wanted)
        seen += histogram->buckets[bucket++];
    return (double)(bucket_start(bucket + 1) - 1) / 1000;
}

uint64_t histogram_count_to(const struct histogram *histogram, uint64_t ns)
{
    uint64_t count = 0;
    for (unsigned bucket = 0; bucket < LATENCY_BUCKETS && bucket_start(bucket) <= ns; bucket++)
        count += histogram->buckets[bucket];
    return count;
}

/* ---- events ---- */

void latency_add_event(struct latency *latency, enum latency_kind kind, uint64_t at_s, uint64_t ms)
{
    latency_add_sample(&latency->events[kind], (struct latency_sample){at_s, ms});
}

void latency_add_sample(struct latency_event *event, struct latency_sample sample)
{
    uint64_t at_s = sample.at_s;
    uint64_t ms = sample.ms;
    uint32_t last = (event->next + LATENCY_SAMPLES - 1) % LATENCY_SAMPLES;
    if (ms > event->max_ms)
        event->max_ms = ms;
    if (event->count && event->samples[last].at_s == at_s) {
        if (ms > event->samples[last].ms)
            event->samples[last].ms = ms;
        return;
    }
    event->samples[event->next] = (struct latency_sample){at_s, ms};
    event->next = (event->next + 1) % LATENCY_SAMPLES;
    event->count += event->count < LATENCY_SAMPLES;
}

struct latency_event *latency_find_event(struct latency *latency, struct bytes name)
{
    for (unsigned i = 0; i < LATENCY_KINDS; i++)
        if (bytes_is(name, event_names[i]))
            return &latency->events[i];
    return NULL;
}

static bool reset_event(struct latency_event *event)
{
    bool had_samples = event->count > 0;
    *event = (struct latency_event){.name = event->name};
    return had_samples;
}

int64_t latency_reset(struct latency *latency, const struct bytes *names, uint32_t count)
{
    int64_t reset = 0;
    for (unsigned i = 0; i < LATENCY_KINDS && count == 0; i++)
        reset += reset_event(&latency->events[i]);
    for (uint32_t i = 0; i < count; i++) {
        struct latency_event *event = latency_find_event(latency, names[i]);
        reset += event && reset_event(event);
    }
    return reset;
}

struct latency_sample latency_sample_at(const struct latency_event *event, uint32_t index)
{
    CHECK(index < event->count);
    return event->samples[(event->next + LATENCY_SAMPLES - event->count + index) % LATENCY_SAMPLES];
}
