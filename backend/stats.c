#include "backend/stats.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SLOW_ARGS_MAX = 32,       /* arguments kept, the last one says how many are missing */
    SLOW_ARG_BYTES_MAX = 128, /* bytes kept of one, then a note */
    SLOW_NOTE_MAX = 64,
};

struct stats *stats_new(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    CHECK(stats);
    return stats;
}

void stats_free(struct stats *stats)
{
    slowlog_reset(stats);
    free(stats);
}

void stats_reset(struct stats *stats, const struct metrics *metrics)
{
    struct stats fresh = {
        .slow = stats->slow,
        .slow_count = stats->slow_count,
        .slow_next_id = stats->slow_next_id,
        .sampled_ms = stats->sampled_ms,
        .expired_before = stats_metric(metrics, METRIC_BACKEND_EXPIRED),
        .hits_before = stats_metric(metrics, METRIC_BACKEND_HITS),
        .misses_before = stats_metric(metrics, METRIC_BACKEND_MISSES),
    };
    *stats = fresh;
}

void stats_error(struct stats *stats, const char *text)
{
    size_t len = strcspn(text, " \r\n");
    if (len >= STATS_ERROR_NAME_MAX)
        len = STATS_ERROR_NAME_MAX - 1;
    stats->errors_total++;
    for (uint32_t i = 0; i < stats->errors_count; i++) {
        if (strncmp(stats->errors[i].name, text, len) == 0 && stats->errors[i].name[len] == 0) {
            stats->errors[i].count++;
            return;
        }
    }
    if (stats->errors_count == STATS_ERRORS_MAX)
        return;
    struct error_stats *error = &stats->errors[stats->errors_count++];
    memcpy(error->name, text, len);
    error->name[len] = 0;
    error->count = 1;
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

/* ---- slow log ---- */

/* The text kept of argument i: all of it, its beginning with a note, or the note about missing ones. */
static struct bytes slow_text(const struct slow_command *slow, uint32_t i,
                              char note[SLOW_ARG_BYTES_MAX + SLOW_NOTE_MAX])
{
    const struct bytes *arg = &slow->argv[i];
    int len;
    if (i == SLOW_ARGS_MAX - 1 && slow->argc > SLOW_ARGS_MAX) {
        len = snprintf(note, SLOW_NOTE_MAX, "... (%u more arguments)",
                       slow->argc - SLOW_ARGS_MAX + 1);
        return (struct bytes){note, (size_t)len};
    }
    if (arg->len <= SLOW_ARG_BYTES_MAX)
        return *arg;
    memcpy(note, arg->data, SLOW_ARG_BYTES_MAX);
    len = snprintf(note + SLOW_ARG_BYTES_MAX, SLOW_NOTE_MAX, "... (%zu more bytes)",
                   arg->len - SLOW_ARG_BYTES_MAX);
    return (struct bytes){note, SLOW_ARG_BYTES_MAX + (size_t)len};
}

static struct bytes put_text(char **at, struct bytes text)
{
    struct bytes kept = {*at, text.len};
    if (text.len)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return kept;
}

static void slowlog_trim(struct stats *stats, uint64_t len_max)
{
    struct slow_entry **link = &stats->slow;
    for (uint64_t i = 0; i < len_max && *link; i++)
        link = &(*link)->next;
    while (*link) {
        struct slow_entry *dropped = *link;
        *link = dropped->next;
        free(dropped);
        stats->slow_count--;
    }
}

void slowlog_push(struct stats *stats, const struct slow_command *slow, uint64_t len_max)
{
    char note[SLOW_ARG_BYTES_MAX + SLOW_NOTE_MAX];
    uint32_t argc = slow->argc < SLOW_ARGS_MAX ? slow->argc : SLOW_ARGS_MAX;
    size_t bytes = slow->peer.len + slow->name.len;
    for (uint32_t i = 0; i < argc; i++)
        bytes += slow_text(slow, i, note).len;
    struct slow_entry *entry = malloc(sizeof *entry + argc * sizeof *entry->argv + bytes);
    CHECK(entry);
    *entry = (struct slow_entry){
        .id = stats->slow_next_id++, .at_s = slow->at_s, .usec = slow->usec, .argc = argc};
    char *at = (char *)&entry->argv[argc];
    entry->peer = put_text(&at, slow->peer);
    entry->name = put_text(&at, slow->name);
    for (uint32_t i = 0; i < argc; i++)
        entry->argv[i] = put_text(&at, slow_text(slow, i, note));
    entry->next = stats->slow;
    stats->slow = entry;
    stats->slow_count++;
    if (stats->slow_count > len_max)
        slowlog_trim(stats, len_max);
}

void slowlog_reset(struct stats *stats)
{
    slowlog_trim(stats, 0);
}
