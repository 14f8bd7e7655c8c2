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
    free(stats->held.errors);
    free(stats);
}

void stats_reset(struct stats *stats, const struct metrics *metrics)
{
    struct stats fresh = {
        .held.errors = stats->held.errors,
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

/* Adds to the count of the error code; codes are sorted by name. */
static void count_name(struct error_stats errors[STATS_ERRORS_MAX], uint32_t *count,
                       const char *name, uint64_t number)
{
    uint32_t at = 0;
    while (at < *count && strcmp(errors[at].name, name) < 0)
        at++;
    struct error_stats *error = &errors[at];
    if (at < *count && strcmp(error->name, name) == 0) {
        error->count += number;
        return;
    }
    if (*count == STATS_ERRORS_MAX)
        return;
    memmove(error + 1, error, (*count - at) * sizeof *error);
    (*count)++;
    (void)snprintf(error->name, sizeof error->name, "%s", name);
    error->count = number;
}

static void hold_error(struct held_errors *held, const char *name)
{
    if (!held->errors) {
        held->errors = calloc(STATS_ERRORS_MAX, sizeof *held->errors);
        CHECK(held->errors);
    }
    count_name(held->errors, &held->count, name, 1);
    held->total++;
}

void stats_error(struct stats *stats, const char *text)
{
    char name[STATS_ERROR_NAME_MAX] = {0};
    size_t len = strcspn(text, " \r\n");
    memcpy(name, text, len < sizeof name ? len : sizeof name - 1);
    if (stats->errors_are_held) {
        hold_error(&stats->held, name);
        return;
    }
    count_name(stats->errors, &stats->errors_count, name, 1);
    stats->errors_total++;
}

void stats_hold_errors(struct stats *stats)
{
    stats->errors_are_held = true;
}

void stats_release_errors(struct stats *stats, bool is_good)
{
    struct held_errors *held = &stats->held;
    for (uint32_t i = 0; is_good && i < held->count; i++)
        count_name(stats->errors, &stats->errors_count, held->errors[i].name,
                   held->errors[i].count);
    if (is_good)
        stats->errors_total += held->total;
    held->count = 0;
    held->total = 0;
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
