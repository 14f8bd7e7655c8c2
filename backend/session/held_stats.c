#include "backend/session/held_stats.h"

#include "shared/check.h"
#include "shared/command/latency.h"
#include "shared/metric_labels.h"

#include <stdlib.h>

struct held_stats *held_stats_new(void)
{
    struct held_stats *held = calloc(1, sizeof *held);
    CHECK(held);
    return held;
}

void held_stats_free(struct held_stats *held)
{
    if (!held)
        return;
    slowlog_reset(&held->slow, NULL);
    free(held->items);
    free(held);
}

static uint32_t buckets_of(uint64_t usec)
{
    return latency_bucket(usec * 1000) * HISTOGRAM_BUCKETS + cell_bucket(usec);
}

/* The command's runs of this kind, which become its first ones, because the next run is probably like this one. NULL: none. */
static struct runs *runs_like(struct held_stats *held, const struct command *command,
                              uint32_t times, enum run_end end)
{
    uint32_t *first = &held->first[command->id];
    uint32_t *at = first;
    struct runs *runs = NULL;
    while (*at && (runs = &held->items[*at - 1], runs->times != times || runs->end != end))
        at = &runs->next;
    uint32_t found = *at;
    if (!found)
        return NULL;
    *at = runs->next;
    runs->next = *first;
    *first = found;
    return runs;
}

static struct runs *begin_runs(struct held_stats *held, const struct command *command,
                               uint32_t times, enum run_end end)
{
    if (held->count == held->cap) {
        held->cap = held->cap ? held->cap * 2 : 16;
        held->items = realloc(held->items, held->cap * sizeof *held->items);
        CHECK(held->items);
    }
    uint32_t *first = &held->first[command->id];
    struct runs *runs = &held->items[held->count++];
    *runs = (struct runs){.command = command, .end = end, .times = times, .next = *first};
    *first = held->count;
    return runs;
}

void held_stats_add(struct held_stats *held, const struct command *command, uint64_t usec,
                    enum run_end end)
{
    uint32_t times = buckets_of(usec);
    struct runs *runs = runs_like(held, command, times, end);
    if (!runs)
        runs = begin_runs(held, command, times, end);
    runs->count++;
    runs->usec += usec;
    if (usec > runs->usec_max)
        runs->usec_max = usec;
    held->commands++;
}

void held_stats_clear(struct held_stats *held)
{
    for (uint32_t i = 0; i < held->count; i++)
        held->first[held->items[i].command->id] = 0;
    held->count = 0;
    held->commands = 0;
    if (held->slow.next_id) {
        slowlog_reset(&held->slow, NULL);
        held->slow.next_id = 0;
    }
    held->is_held = held->has_ended = false;
    held->call = NULL;
}
