/*
 * test_latency.c - samples of events: one for each second, the newest kept; what a reset forgets.
 */
#include "shared/command/latency.h"

#include "shared/check.h"

static bool is_sample(const struct latency_event *event, uint32_t i, uint64_t at_s, uint64_t ms)
{
    struct latency_sample sample = latency_sample_at(event, i);
    return sample.at_s == at_s && sample.ms == ms;
}

static void test_of_one_second_the_longest_counts(void)
{
    struct latency *latency = latency_new();
    const struct latency_event *event = latency_find_event(latency, BYTES("command"));
    latency_add_event(latency, LATENCY_COMMAND, 100, 20);
    latency_add_event(latency, LATENCY_COMMAND, 100, 50);
    latency_add_event(latency, LATENCY_COMMAND, 100, 30);
    latency_add_event(latency, LATENCY_COMMAND, 101, 10);
    CHECK(event->count == 2 && event->max_ms == 50);
    CHECK(is_sample(event, 0, 100, 50) && is_sample(event, 1, 101, 10));
    CHECK(!latency_find_event(latency, BYTES("nosuch")));
    latency_free(latency);
}

static void test_the_newest_seconds_are_kept(void)
{
    struct latency_event event = {0};
    for (uint64_t i = 0; i < LATENCY_SAMPLES + 5; i++)
        latency_add_sample(&event, (struct latency_sample){1000 + i, i});
    CHECK(event.count == LATENCY_SAMPLES);
    CHECK(is_sample(&event, 0, 1005, 5));
    CHECK(is_sample(&event, LATENCY_SAMPLES - 1, 1000 + LATENCY_SAMPLES + 4, LATENCY_SAMPLES + 4));
}

static void test_a_reset_counts_the_events_that_had_samples(void)
{
    struct latency *latency = latency_new();
    const struct bytes names[] = {BYTES("commit"), BYTES("nosuch"), BYTES("expire-cycle")};
    latency_add_event(latency, LATENCY_COMMAND, 100, 20);
    latency_add_event(latency, LATENCY_COMMIT, 100, 20);
    CHECK(latency_reset(latency, names, 3) == 1);
    CHECK(latency->events[LATENCY_COMMIT].count == 0 &&
          latency->events[LATENCY_COMMAND].count == 1);
    latency_add_event(latency, LATENCY_COMMIT, 101, 20);
    CHECK(latency_reset(latency, NULL, 0) == 2 && latency_reset(latency, NULL, 0) == 0);
    latency_free(latency);
}

static void test_histograms_count_up_to_a_time(void)
{
    struct latency *latency = latency_new();
    for (uint64_t usec = 1; usec <= 1000; usec++)
        latency_add_command(latency, COMMAND_get, usec, 1);
    const struct histogram *histogram = latency->commands[COMMAND_get];
    CHECK(histogram->count == 1000 && histogram_count_to(histogram, UINT64_MAX) == 1000);
    CHECK(histogram_percentile(histogram, 50) > 480 && histogram_percentile(histogram, 50) < 540);
    latency_reset_commands(latency);
    CHECK(!latency->commands[COMMAND_get]);
    latency_free(latency);
}

int main(void)
{
    test_of_one_second_the_longest_counts();
    test_the_newest_seconds_are_kept();
    test_a_reset_counts_the_events_that_had_samples();
    test_histograms_count_up_to_a_time();
    return 0;
}
