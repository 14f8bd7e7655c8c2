/*
 * test_held_stats.c - runs that are held: what they need does not grow with their number, and they count as if each were counted alone.
 */
#include "backend/session/held_stats.h"

#include "shared/check.h"
#include "shared/command/latency.h"
#include "shared/metric_labels.h"

enum { RUNS = 100000, USEC_MAX = 3000 };

static const enum command_id ids[] = {COMMAND_get, COMMAND_set, COMMAND_llen};

struct counted {
    struct latency *latency;
    uint64_t cells[HISTOGRAM_WORDS];
    uint64_t failed;
};

static void count(struct counted *counted, enum command_id id, const struct runs *runs)
{
    latency_add_command(counted->latency, id, runs->usec_max, runs->count);
    counted->cells[cell_bucket(runs->usec_max)] += runs->count;
    counted->cells[HISTOGRAM_BUCKETS] += runs->usec;
    counted->failed += runs->end == RUN_FAILED ? runs->count : 0;
}

static void add_both(struct held_stats *held, struct counted *alone, uint64_t i)
{
    enum command_id id = ids[i % 3];
    uint64_t usec = i * i % USEC_MAX;
    enum run_end end = i % 7 ? RUN_GOOD : RUN_FAILED;
    held_stats_add(held, command_of(id), usec, end);
    count(alone, id, &(struct runs){.count = 1, .usec = usec, .usec_max = usec, .end = end});
}

static void check_equal_counts(const struct counted *a, const struct counted *b)
{
    CHECK(memcmp(a->cells, b->cells, sizeof a->cells) == 0 && a->failed == b->failed);
    for (int i = 0; i < 3; i++)
        CHECK(memcmp(a->latency->commands[ids[i]], b->latency->commands[ids[i]],
                     sizeof(struct histogram)) == 0);
}

static void test_merged_runs_count_as_single_ones(void)
{
    struct held_stats *held = held_stats_new();
    struct counted alone = {.latency = latency_new()};
    struct counted merged = {.latency = latency_new()};
    for (uint64_t i = 0; i < RUNS; i++)
        add_both(held, &alone, i);
    CHECK(held->commands == RUNS && held->count < RUNS / 100);
    for (uint32_t i = 0; i < held->count; i++)
        count(&merged, held->items[i].command->id, &held->items[i]);
    check_equal_counts(&alone, &merged);
    held_stats_free(held);
    latency_free(alone.latency);
    latency_free(merged.latency);
}

static void test_the_longest_run_is_known(void)
{
    struct held_stats *held = held_stats_new();
    const uint64_t usec[] = {1000, 1001, 1003, 1002};
    for (int i = 0; i < 4; i++)
        held_stats_add(held, command_of(COMMAND_get), usec[i], RUN_GOOD);
    CHECK(held->count == 1 && held->items[0].count == 4);
    CHECK(held->items[0].usec == 4006 && held->items[0].usec_max == 1003);
    held_stats_free(held);
}

static void test_nothing_is_left_of_runs_that_are_dropped(void)
{
    struct held_stats *held = held_stats_new();
    for (int i = 0; i < 2; i++) {
        held_stats_add(held, command_of(COMMAND_get), 5, RUN_GOOD);
        held_stats_add(held, command_of(COMMAND_get), 5, RUN_REFUSED);
        held_stats_add(held, command_of(COMMAND_get), 5, RUN_GOOD);
        CHECK(held->count == 2 && held->commands == 3 && held->items[0].count == 2);
        held_stats_clear(held);
        CHECK(held->count == 0 && held->commands == 0 && !held->is_held);
    }
    held_stats_free(held);
}

int main(void)
{
    test_merged_runs_count_as_single_ones();
    test_the_longest_run_is_known();
    test_nothing_is_left_of_runs_that_are_dropped();
    return 0;
}
