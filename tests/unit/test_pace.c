#include "backend/store/pace.h"

#include "shared/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MB = 1 << 20, TARGET_US = 20000, SECOND_US = 1000000 };

static struct pace *pace;
static uint64_t now_us;

static void begin(uint64_t rate, uint64_t target_us)
{
    pace = pace_new();
    now_us = SECOND_US;
    pace_limit(pace, rate, target_us);
    pace_adjust(pace, now_us);
}

static uint64_t rate(void)
{
    return pace_figures(pace).bytes_per_s;
}

/* One adjustment interval: compactions write `bytes_per_s`; of 100 commits 98 take `usec` and two take `longer_us`. */
static void turn_mixed(uint64_t bytes_per_s, uint64_t usec, uint64_t longer_us)
{
    struct pace_latency latency = {0};
    for (int i = 0; i < 98; i++)
        pace_note(&latency, TARGET_US, usec);
    pace_note(&latency, TARGET_US, longer_us);
    pace_note(&latency, TARGET_US, longer_us);
    pace_report(pace, &latency);
    CHECK(latency.count == 0);
    (void)pace_spend(pace, bytes_per_s / (SECOND_US / PACE_PERIOD_US), now_us);
    now_us += PACE_PERIOD_US;
    pace_adjust(pace, now_us);
}

static void turn(uint64_t bytes_per_s, uint64_t usec)
{
    turn_mixed(bytes_per_s, usec, usec);
}

static void test_slow_commits_halve_what_compactions_do_down_to_a_floor(void)
{
    begin(0, TARGET_US);
    turn(100 * MB, 1000);
    CHECK(rate() == 0);
    turn(100 * MB, TARGET_US + 1);
    CHECK(rate() > 49 * MB && rate() <= 50 * MB);
    turn(50 * MB, TARGET_US + 1);
    CHECK(rate() > 24 * MB && rate() <= 25 * MB);
    for (int i = 0; i < 10; i++)
        turn(rate(), TARGET_US + 1);
    CHECK(rate() == PACE_FLOOR);
    pace_free(pace);
}

static void test_two_slow_commits_of_a_hundred_count_and_middle_latencies_change_nothing(void)
{
    begin(0, TARGET_US);
    turn_mixed(100 * MB, 100, TARGET_US + 1);
    uint64_t held = rate();
    CHECK(held);
    turn_mixed(40 * MB, 100, TARGET_US);
    CHECK(rate() == held);
    turn_mixed(40 * MB, 100, TARGET_US / 2);
    CHECK(rate() > held);
    pace_free(pace);
}

static void test_quick_commits_raise_the_rate_step_by_step_until_the_limit_ends(void)
{
    begin(0, TARGET_US);
    turn(100 * MB, TARGET_US + 1);
    uint64_t last = rate();
    int turns = 0;
    for (; rate(); turns++) {
        CHECK(rate() >= last);
        last = rate();
        turn(last, 1000);
        CHECK(turns < 1000);
    }
    CHECK(turns > 10);
    CHECK(last > 90 * MB);
    pace_free(pace);
}

static void test_idle_and_slow_compactions_are_not_limited(void)
{
    begin(0, TARGET_US);
    for (int i = 0; i < 10; i++)
        turn(0, SECOND_US);
    CHECK(rate() == 0);
    turn(PACE_FLOOR / 2, SECOND_US);
    CHECK(rate() == 0);
    pace_free(pace);
}

static void test_without_commits_the_limit_ends(void)
{
    begin(0, TARGET_US);
    turn(100 * MB, TARGET_US + 1);
    for (int i = 0; i < 100; i++)
        pace_adjust(pace, now_us += PACE_PERIOD_US);
    CHECK(rate() == 0);
    pace_free(pace);
}

static void test_a_store_with_pending_compaction_has_no_limit_for_a_while(void)
{
    begin(8 * MB, TARGET_US);
    turn(8 * MB, TARGET_US + 1);
    CHECK(rate() == PACE_FLOOR);
    pace_behind(pace, now_us);
    CHECK(rate() == 0);
    CHECK(pace_spend(pace, 100 * MB, now_us) == 0);
    CHECK(pace_is_limited(pace));
    turn(100 * MB, TARGET_US + 1);
    CHECK(rate() == 0);
    pace_adjust(pace, now_us += PACE_BEHIND_US);
    CHECK(rate() >= PACE_FLOOR && rate() <= 8 * MB);
    pace_free(pace);
}

static void test_the_lower_of_the_two_rates_counts(void)
{
    begin(30 * MB, TARGET_US);
    CHECK(rate() == 30 * MB);
    turn(28 * MB, 1000);
    CHECK(rate() == 30 * MB);
    turn(28 * MB, TARGET_US + 1);
    CHECK(rate() > 13 * MB && rate() <= 14 * MB);
    pace_limit(pace, 5 * MB, TARGET_US);
    CHECK(rate() == 5 * MB);
    pace_limit(pace, 0, TARGET_US);
    CHECK(rate() > 13 * MB);
    pace_limit(pace, 0, 0);
    CHECK(rate() == 0);
    CHECK(!pace_is_limited(pace));
    pace_limit(pace, 1, 0);
    CHECK(rate() == PACE_RATE_MIN);
    pace_free(pace);
}

static void test_one_slow_partition_starts_the_limit(void)
{
    struct pace_latency quick = {.count = 1000};
    struct pace_latency slow = {.count = 3, .long_ones = 1, .half_long_ones = 1};
    begin(0, TARGET_US);
    pace_report(pace, &quick);
    pace_report(pace, &slow);
    pace_report(pace, &quick);
    turn(100 * MB, 1000);
    CHECK(rate() > 0);
    pace_free(pace);
}

static void test_debt_is_paid_off_as_time_passes_and_by_a_better_rate(void)
{
    begin(2 * MB, 0);
    CHECK(pace_spend(pace, 2 * MB, now_us) == SECOND_US);
    CHECK(pace_spend(pace, 2 * MB, now_us) == 2 * SECOND_US); /* as by another thread */
    CHECK(pace_owed(pace, now_us += SECOND_US) == SECOND_US);
    pace_limit(pace, 4 * MB, 0);
    CHECK(pace_owed(pace, now_us) == SECOND_US / 2);
    /* a thread that read the clock earlier */
    CHECK(pace_owed(pace, now_us - 1000) == SECOND_US / 2);
    CHECK(pace_owed(pace, now_us += 60 * SECOND_US) == 0);
    CHECK(pace_spend(pace, 4 * MB, now_us) == SECOND_US); /* idle time earns no credit */
    pace_limit(pace, 0, 0);
    CHECK(pace_owed(pace, now_us) == 0);
    CHECK(pace_figures(pace).bytes == 8 * MB);
    pace_free(pace);
}

/* ---- with threads ---- */

static _Atomic bool may_sleep;

static bool may_wait(void *owner)
{
    (void)owner;
    return may_sleep;
}

/* Spends an amount that takes two hours at the lowest rate. */
static void *sleeper(void *owner)
{
    pace_pass(pace, 7200ULL * PACE_RATE_MIN, may_wait, owner);
    return NULL;
}

static void wait_for_sleep(void)
{
    while (pace_figures(pace).waited_us == 0)
        (void)0;
}

static void test_stopping_ends_a_wait(void)
{
    pthread_t thread;
    begin(1, 0);
    may_sleep = true;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    wait_for_sleep();
    may_sleep = false;
    CHECK(pthread_join(thread, NULL) == 0);
    pace_pass(pace, PACE_RATE_MIN, may_wait, NULL); /* the next row does not wait either */
    pace_free(pace);
}

static void test_removing_the_rate_ends_a_wait(void)
{
    pthread_t thread;
    begin(1, 0);
    may_sleep = true;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    wait_for_sleep();
    pace_limit(pace, 0, 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pace_free(pace);
}

int main(void)
{
    test_slow_commits_halve_what_compactions_do_down_to_a_floor();
    test_two_slow_commits_of_a_hundred_count_and_middle_latencies_change_nothing();
    test_quick_commits_raise_the_rate_step_by_step_until_the_limit_ends();
    test_idle_and_slow_compactions_are_not_limited();
    test_without_commits_the_limit_ends();
    test_a_store_with_pending_compaction_has_no_limit_for_a_while();
    test_the_lower_of_the_two_rates_counts();
    test_one_slow_partition_starts_the_limit();
    test_debt_is_paid_off_as_time_passes_and_by_a_better_rate();
    test_stopping_ends_a_wait();
    test_removing_the_rate_ends_a_wait();
    return 0;
}
