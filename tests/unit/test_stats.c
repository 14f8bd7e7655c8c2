/*
 * test_stats.c - error counts, the command rate, and what CONFIG RESETSTAT keeps.
 */
#include "backend/context/stats.h"

#include "shared/check.h"

#include <stdio.h>

static void test_errors_are_counted_by_their_first_word(void)
{
    struct stats *stats = stats_new();
    stats_error(stats, "ERR no such key");
    stats_error(stats, "ERR syntax error");
    stats_error(stats, "WRONGTYPE Operation against a key");
    stats_error(stats, "ER");
    CHECK(stats->errors_count == 3 && stats->errors_total == 4);
    /* sorted by name */
    CHECK(strcmp(stats->errors[0].name, "ER") == 0 && stats->errors[0].count == 1);
    CHECK(strcmp(stats->errors[1].name, "ERR") == 0 && stats->errors[1].count == 2);
    CHECK(strcmp(stats->errors[2].name, "WRONGTYPE") == 0 && stats->errors[2].count == 1);
    stats_free(stats);
}

static void test_different_errors_are_bounded(void)
{
    struct stats *stats = stats_new();
    char text[64];
    for (int i = 0; i < 2 * STATS_ERRORS_MAX; i++) {
        (void)snprintf(text, sizeof text, "E%dxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", i);
        stats_error(stats, text);
    }
    CHECK(stats->errors_count == STATS_ERRORS_MAX && stats->errors_total == 2 * STATS_ERRORS_MAX);
    CHECK(strlen(stats->errors[0].name) == STATS_ERROR_NAME_MAX - 1);
    stats_free(stats);
}

static void test_held_errors_count_once_when_they_are_released(void)
{
    struct stats *stats = stats_new();
    char text[64];
    for (int is_good = 0; is_good < 2; is_good++) {
        stats_hold_errors(stats);
        for (int i = 0; i < 2 * STATS_ERRORS_MAX; i++) {
            (void)snprintf(text, sizeof text, "E%d x", i);
            stats_error(stats, text);
            stats_error(stats, "E5 y");
        }
        CHECK(stats->held.count == STATS_ERRORS_MAX && stats->errors_total == 0);
        stats_release_errors(stats, is_good);
        CHECK(stats->held.count == 0 && stats->held.total == 0);
    }
    CHECK(stats->errors_count == STATS_ERRORS_MAX && stats->errors_total == 4 * STATS_ERRORS_MAX);
    for (uint32_t i = 0; i < stats->errors_count; i++)
        CHECK(stats->errors[i].count ==
              (strcmp(stats->errors[i].name, "E5") == 0 ? 2 * STATS_ERRORS_MAX + 1 : 1));
    stats_error(stats, "E5 y");
    CHECK(stats->errors_total == 4 * STATS_ERRORS_MAX + 1);
    stats_free(stats);
}

static void test_the_rate_is_an_average_of_samples(void)
{
    struct stats *stats = stats_new();
    CHECK(stats_rate(stats, STATS_COMMANDS) == 0);
    for (uint64_t i = 1; i <= STATS_SAMPLES; i++) {
        stats->commands_total += 50;
        stats_sample(stats, i * 100);
        stats_sample(stats, i * 100);
    }
    CHECK(stats_rate(stats, STATS_COMMANDS) == 500);
    stats_free(stats);
}

static void test_a_reset_keeps_the_slow_log_and_remembers_the_metrics(void)
{
    struct stats *stats = stats_new();
    struct metrics *metrics = metrics_new();
    const struct bytes argv[] = {BYTES("PING")};
    metric_add(metrics, METRIC_BACKEND_HITS, 9);
    stats->commands[COMMAND_get].calls = 4;
    stats_error(stats, "ERR x");
    slowlog_push(&stats->slowlogs[SLOWLOG_SLOW], &(struct slow_command){.argv = argv, .argc = 1},
                 3);
    stats_reset(stats, metrics);
    CHECK(stats->before.hits == 9 && stats->errors_count == 0 && stats->errors_total == 0);
    CHECK(stats->commands[COMMAND_get].calls == 0 && stats->slowlogs[SLOWLOG_SLOW].count == 1);
    stats_free(stats);
}

int main(void)
{
    test_errors_are_counted_by_their_first_word();
    test_different_errors_are_bounded();
    test_held_errors_count_once_when_they_are_released();
    test_the_rate_is_an_average_of_samples();
    test_a_reset_keeps_the_slow_log_and_remembers_the_metrics();
    return 0;
}
