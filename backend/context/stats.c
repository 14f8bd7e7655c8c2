#include "backend/context/stats.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stats *stats_new(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    CHECK(stats);
    return stats;
}

void stats_free(struct stats *stats)
{
    for (int i = 0; i < SLOWLOG_KINDS; i++)
        slowlog_reset(&stats->slowlogs[i], NULL);
    free(stats->held.names);
    free(stats);
}

void stats_reset(struct stats *stats, const struct metrics *metrics)
{
    struct stats fresh = {
        .held.names = stats->held.names,
        .held.cap = stats->held.cap,
        .sampled_ms = stats->sampled_ms,
        .before.lazyfreed = stats_metric(metrics, METRIC_BACKEND_LAZYFREED),
        .before.expired = stats_metric(metrics, METRIC_BACKEND_EXPIRED),
        .before.expired_fields = stats_metric(metrics, METRIC_BACKEND_EXPIRED_FIELDS),
        .before.hits = stats_metric(metrics, METRIC_BACKEND_HITS),
        .before.misses = stats_metric(metrics, METRIC_BACKEND_MISSES),
    };
    memcpy(fresh.slowlogs, stats->slowlogs, sizeof fresh.slowlogs);
    *stats = fresh;
}

/* Adds one to the count of the error code; codes are sorted by name. */
static void count_error(struct stats *stats, const char *name)
{
    uint32_t at = 0;
    stats->errors_total++;
    while (at < stats->errors_count && strcmp(stats->errors[at].name, name) < 0)
        at++;
    struct error_stats *error = &stats->errors[at];
    if (at < stats->errors_count && strcmp(error->name, name) == 0) {
        error->count++;
        return;
    }
    if (stats->errors_count == STATS_ERRORS_MAX)
        return;
    memmove(error + 1, error, (stats->errors_count - at) * sizeof *error);
    stats->errors_count++;
    (void)snprintf(error->name, sizeof error->name, "%s", name);
    error->count = 1;
}

static void hold_error(struct stats *stats, const char *name)
{
    if (stats->held.count == stats->held.cap) {
        stats->held.cap = stats->held.cap ? stats->held.cap * 2 : 16;
        stats->held.names = realloc(stats->held.names, stats->held.cap * sizeof *stats->held.names);
        CHECK(stats->held.names);
    }
    memcpy(stats->held.names[stats->held.count++], name, STATS_ERROR_NAME_MAX);
}

void stats_error(struct stats *stats, const char *text)
{
    char name[STATS_ERROR_NAME_MAX] = {0};
    size_t len = strcspn(text, " \r\n");
    memcpy(name, text, len < sizeof name ? len : sizeof name - 1);
    if (stats->errors_are_held)
        hold_error(stats, name);
    else
        count_error(stats, name);
}

void stats_hold_errors(struct stats *stats)
{
    stats->errors_are_held = true;
}

void stats_release_errors(struct stats *stats, bool is_good)
{
    for (uint32_t i = 0; is_good && i < stats->held.count; i++)
        count_error(stats, stats->held.names[i]);
    stats->held.count = 0;
    stats->errors_are_held = false;
}

void stats_sample(struct stats *stats, uint64_t now_ms)
{
    const uint64_t totals[STATS_RATES] = {stats->commands_total, stats->input_bytes,
                                          stats->output_bytes};
    uint64_t took_ms = now_ms - stats->sampled_ms;
    if (took_ms == 0)
        return;
    for (int rate = 0; rate < STATS_RATES; rate++) {
        stats->samples[rate][stats->samples_next % STATS_SAMPLES] =
            (totals[rate] - stats->sampled[rate]) * 1000 / took_ms;
        stats->sampled[rate] = totals[rate];
    }
    stats->samples_next++;
    stats->sampled_ms = now_ms;
}

uint64_t stats_rate(const struct stats *stats, enum stats_rate rate)
{
    uint64_t sum = 0;
    for (int i = 0; i < STATS_SAMPLES; i++)
        sum += stats->samples[rate][i];
    return sum / STATS_SAMPLES;
}
