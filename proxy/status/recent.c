#include "proxy/status/recent.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/status/status.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TOTAL_REQUESTS, TOTAL_ERRORS, TOTAL_CLIENTS, TOTAL_MEMORY, TOTALS };

/* Values at the positions of the ring; NAN: not known. Latencies are in µs. */
struct recent_series {
    char *name;
    uint64_t before[HISTOGRAM_WORDS]; /* the histogram at the last sample */
    bool has_before;
    float rate[RECENT_SAMPLES];
    float p50[RECENT_SAMPLES];
    float p99[RECENT_SAMPLES];
};

/* The series of all shards or of all commands. */
struct recent_kind {
    struct recent_series *series[RECENT_SERIES_MAX];
    size_t count;
};

struct recent {
    pthread_mutex_t mutex;
    uint64_t at_ms[RECENT_SAMPLES]; /* monotonic */
    size_t taken;      /* samples since the start; the next has position taken % RECENT_SAMPLES */
    uint64_t requests; /* at the last sample */
    uint64_t errors;
    double totals[TOTALS][RECENT_SAMPLES];
    struct recent_kind shards;
    struct recent_kind commands;
};

struct recent *recent_new(void)
{
    struct recent *recent = calloc(1, sizeof *recent);
    CHECK(recent);
    CHECK(pthread_mutex_init(&recent->mutex, NULL) == 0);
    return recent;
}

static void kind_free(struct recent_kind *kind)
{
    for (size_t i = 0; i < kind->count; i++) {
        free(kind->series[i]->name);
        free(kind->series[i]);
    }
}

void recent_free(struct recent *recent)
{
    kind_free(&recent->shards);
    kind_free(&recent->commands);
    (void)pthread_mutex_destroy(&recent->mutex);
    free(recent);
}

/* ---- sampling ---------------------------------------------------------------------------------- */

static void set_unknown(struct recent_series *series, size_t at)
{
    series->rate[at] = series->p50[at] = series->p99[at] = NAN;
}

/* The series of that name; added if it is new. NULL: there are too many. */
static struct recent_series *find_or_add_series(struct recent_kind *kind, const char *name,
                                                bool is_first_sample)
{
    for (size_t i = 0; i < kind->count; i++)
        if (strcmp(kind->series[i]->name, name) == 0)
            return kind->series[i];
    if (kind->count == RECENT_SERIES_MAX)
        return NULL;
    struct recent_series *series = calloc(1, sizeof *series);
    CHECK(series);
    series->has_before = !is_first_sample; /* its counters were 0 at the last sample */
    series->name = strdup(name);
    CHECK(series->name);
    for (size_t at = 0; at < RECENT_SAMPLES; at++)
        set_unknown(series, at);
    return kind->series[kind->count++] = series;
}

static void take_series(struct recent_series *series, size_t at, const uint64_t *histogram,
                        double seconds)
{
    uint64_t grown[HISTOGRAM_BUCKETS];
    uint64_t requests = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        grown[i] = histogram[i] - series->before[i];
        requests += grown[i];
    }
    if (series->has_before)
        series->rate[at] = (float)((double)requests / seconds);
    if (series->has_before && requests) {
        series->p50[at] = (float)histogram_quantile(grown, 0.5);
        series->p99[at] = (float)histogram_quantile(grown, 0.99);
    }
    memcpy(series->before, histogram, sizeof series->before);
    series->has_before = true;
}

/* Samples one label, if it has counts; its histogram begins at `word`. */
static void take_label(struct recent_kind *kind, struct labels *labels, const char *name,
                       uint32_t word, size_t at, double seconds)
{
    bool is_first_sample = seconds <= 0;
    uint64_t sums[LABEL_WORDS_MAX];
    struct recent_series *series;
    if (labels_find(labels, bytes_of(name), sums) &&
        (series = find_or_add_series(kind, name, is_first_sample)))
        take_series(series, at, sums + word, seconds);
}

static void take_totals(struct recent *recent, const struct proxy *proxy, size_t at, double seconds)
{
    uint64_t requests = metrics_sum(METRIC_PROXY_REQUESTS);
    uint64_t errors = metrics_sum(METRIC_PROXY_ERRORS);
    bool is_first = recent->taken == 0;
    recent->totals[TOTAL_REQUESTS][at] =
        is_first ? (double)NAN : (double)(requests - recent->requests) / seconds;
    recent->totals[TOTAL_ERRORS][at] =
        is_first ? (double)NAN : (double)(errors - recent->errors) / seconds;
    recent->totals[TOTAL_CLIENTS][at] = (double)atomic_load(&proxy->clients);
    recent->totals[TOTAL_MEMORY][at] = (double)status_resident_bytes();
    recent->requests = requests;
    recent->errors = errors;
}

void recent_tick(struct recent *recent, struct proxy_worker *worker)
{
    const struct proxy *proxy = worker->proxy;
    const struct shard_map *map = worker->snapshot->map;
    uint64_t now_ms = clock_mono_us() / 1000;
    size_t last = (recent->taken + RECENT_SAMPLES - 1) % RECENT_SAMPLES;
    if (recent->taken && now_ms < recent->at_ms[last] + RECENT_EVERY_MS)
        return;
    double seconds = recent->taken ? (double)(now_ms - recent->at_ms[last]) / 1000 : 0;
    size_t at = recent->taken % RECENT_SAMPLES;
    CHECK(pthread_mutex_lock(&recent->mutex) == 0);
    for (size_t i = 0; i < recent->shards.count; i++)
        set_unknown(recent->shards.series[i], at);
    for (size_t i = 0; i < recent->commands.count; i++)
        set_unknown(recent->commands.series[i], at);
    for (size_t i = 0; i < map->shard_count; i++)
        take_label(&recent->shards, proxy->labelled.shards, map->shards[i].name, SHARD_SECONDS, at,
                   seconds);
    for (int id = 0; id < COMMAND_COUNT; id++)
        take_label(&recent->commands, proxy->labelled.commands,
                   command_full_name(command_of((enum command_id)id)), COMMAND_SECONDS, at,
                   seconds);
    take_totals(recent, proxy, at, seconds);
    recent->at_ms[at] = now_ms;
    recent->taken++;
    CHECK(pthread_mutex_unlock(&recent->mutex) == 0);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* The position of the i-th sample; the oldest has i = 0. */
static size_t position_of(const struct recent *recent, size_t i)
{
    return (recent->taken < RECENT_SAMPLES ? i : recent->taken + i) % RECENT_SAMPLES;
}

static size_t sample_count(const struct recent *recent)
{
    return recent->taken < RECENT_SAMPLES ? recent->taken : RECENT_SAMPLES;
}

static void write_value(struct json_writer *json, double value)
{
    if (isnan(value))
        json_put_null(json, NULL);
    else if (value < 100)
        json_put_double(json, NULL, value);
    else
        json_put_uint(json, NULL, (uint64_t)value);
}

static void write_floats(struct json_writer *json, const struct recent *recent, const char *name,
                         const float *values)
{
    json_put_list(json, name);
    for (size_t i = 0; i < sample_count(recent); i++)
        write_value(json, (double)values[position_of(recent, i)]);
    json_put_end(json);
}

static void write_kind(struct json_writer *json, const struct recent *recent, const char *name,
                       const struct recent_kind *kind)
{
    json_put_list(json, name);
    for (size_t i = 0; i < kind->count; i++) {
        const struct recent_series *series = kind->series[i];
        json_put_object(json, NULL);
        json_put_text(json, "name", series->name);
        write_floats(json, recent, "rate", series->rate);
        write_floats(json, recent, "p50", series->p50);
        write_floats(json, recent, "p99", series->p99);
        json_put_end(json);
    }
    json_put_end(json);
}

void recent_write(struct recent *recent, struct json_writer *json)
{
    static const char *const names[TOTALS] = {"requests", "errors", "clients", "memory"};
    CHECK(pthread_mutex_lock(&recent->mutex) == 0);
    json_put_uint(json, "every_ms", RECENT_EVERY_MS);
    json_put_list(json, "at_ms");
    for (size_t i = 0; i < sample_count(recent); i++)
        json_put_uint(json, NULL, recent->at_ms[position_of(recent, i)]);
    json_put_end(json);
    json_put_object(json, "totals");
    for (size_t total = 0; total < TOTALS; total++) {
        json_put_list(json, names[total]);
        for (size_t i = 0; i < sample_count(recent); i++)
            write_value(json, recent->totals[total][position_of(recent, i)]);
        json_put_end(json);
    }
    json_put_end(json);
    write_kind(json, recent, "shards", &recent->shards);
    write_kind(json, recent, "commands", &recent->commands);
    CHECK(pthread_mutex_unlock(&recent->mutex) == 0);
}
