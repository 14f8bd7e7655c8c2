/*
 * test_stats.c - error counts, the command rate, the slow log.
 */
#include "backend/stats.h"

#include "shared/check.h"

#include <stdio.h>

static void push(struct stats *stats, const struct bytes *argv, uint32_t argc, uint64_t len_max)
{
    const struct slow_command slow = {.at_s = 100,
                                      .usec = 7,
                                      .peer = BYTES("1.2.3.4:5"),
                                      .name = BYTES("me"),
                                      .argv = argv,
                                      .argc = argc};
    slowlog_push(stats, &slow, len_max);
}

static void test_errors_are_counted_by_their_first_word(void)
{
    struct stats *stats = stats_new();
    stats_error(stats, "ERR no such key");
    stats_error(stats, "ERR syntax error");
    stats_error(stats, "WRONGTYPE Operation against a key");
    stats_error(stats, "ER");
    CHECK(stats->errors_count == 3 && stats->errors_total == 4);
    CHECK(strcmp(stats->errors[0].name, "ERR") == 0 && stats->errors[0].count == 2);
    CHECK(strcmp(stats->errors[1].name, "WRONGTYPE") == 0 && stats->errors[1].count == 1);
    CHECK(strcmp(stats->errors[2].name, "ER") == 0 && stats->errors[2].count == 1);
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

static void test_the_slow_log_keeps_the_newest(void)
{
    struct stats *stats = stats_new();
    const struct bytes argv[] = {BYTES("GET"), BYTES("k")};
    for (int i = 0; i < 5; i++)
        push(stats, argv, 2, 3);
    CHECK(stats->slow_count == 3 && stats->slow->id == 4 && stats->slow->next->next->id == 2);
    CHECK(!stats->slow->next->next->next);
    CHECK(bytes_equal(stats->slow->peer, BYTES("1.2.3.4:5")) &&
          bytes_equal(stats->slow->name, BYTES("me")));
    CHECK(bytes_equal(stats->slow->argv[1], BYTES("k")));
    push(stats, argv, 2, 0);
    CHECK(stats->slow_count == 0 && !stats->slow);
    slowlog_reset(stats);
    push(stats, argv, 2, 3);
    CHECK(stats->slow->id == 6);
    stats_free(stats);
}

static void test_long_commands_are_cut_with_a_note(void)
{
    struct stats *stats = stats_new();
    char big[200];
    struct bytes argv[40];
    memset(big, 'x', sizeof big);
    for (int i = 0; i < 40; i++)
        argv[i] = BYTES("a");
    argv[1] = (struct bytes){big, sizeof big};
    argv[2] = (struct bytes){big, 128};
    push(stats, argv, 40, 1);
    const struct slow_entry *slow = stats->slow;
    CHECK(slow->argc == 32);
    CHECK(slow->argv[1].len == 128 + strlen("... (72 more bytes)"));
    CHECK(memcmp(slow->argv[1].data + 128, "... (72 more bytes)", 19) == 0);
    CHECK(slow->argv[2].len == 128);
    CHECK(bytes_equal(slow->argv[31], BYTES("... (9 more arguments)")));
    push(stats, argv, 32, 1);
    CHECK(stats->slow->argc == 32 && bytes_equal(stats->slow->argv[31], BYTES("a")));
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
    push(stats, argv, 1, 3);
    stats_reset(stats, metrics);
    CHECK(stats->hits_before == 9 && stats->errors_count == 0 && stats->errors_total == 0);
    CHECK(stats->commands[COMMAND_get].calls == 0 && stats->slow_count == 1);
    stats_free(stats);
}

int main(void)
{
    test_errors_are_counted_by_their_first_word();
    test_different_errors_are_bounded();
    test_the_slow_log_keeps_the_newest();
    test_long_commands_are_cut_with_a_note();
    test_the_rate_is_an_average_of_samples();
    test_a_reset_keeps_the_slow_log_and_remembers_the_metrics();
    return 0;
}
