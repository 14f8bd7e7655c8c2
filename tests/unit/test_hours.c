/*
 * test_hours.c - ranges of hours of the day: as text, and which times they contain.
 */
#include "shared/check.h"
#include "shared/hours.h"

static const uint64_t minute_ms = 60000, day_ms = 86400000;

static uint64_t at(uint64_t day, uint64_t hour, uint64_t minute)
{
    return day * day_ms + (hour * 60 + minute) * minute_ms;
}

static struct hours parsed(const char *text)
{
    struct hours hours;
    CHECK(hours_parse(bytes_of(text), &hours));
    return hours;
}

static void test_invalid_pairs_of_times_are_refused(void)
{
    const char *const bad[] = {"1",           "01:00",        "01:00-",      "01:00-24:00",
                               "01:60-02:00", "01:00-01:00",  "1:00-2:00",   "01:00 02:00",
                               "-1:00-02:00", "01:00-02:00 ", "01-00-02:00", "01:0a-02:00",
                               "01:00-02:000"};
    struct hours hours;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!hours_parse(bytes_of(bad[i]), &hours));
}

static void test_hours_begin_with_their_first_minute_and_end_before_their_last(void)
{
    struct hours hours = parsed("01:30-05:00");
    CHECK(!hours_have(&hours, at(20000, 1, 30) - 1));
    CHECK(hours_have(&hours, at(20000, 1, 30)));
    CHECK(hours_have(&hours, at(20000, 5, 0) - 1));
    CHECK(!hours_have(&hours, at(20000, 5, 0)));
    CHECK(hours_began_ms(&hours, at(20000, 4, 59)) == at(20000, 1, 30));
}

static void test_hours_continue_after_midnight(void)
{
    struct hours hours = parsed("22:30-05:00");
    CHECK(!hours_have(&hours, at(20000, 22, 29)));
    CHECK(hours_have(&hours, at(20000, 22, 30)));
    CHECK(hours_have(&hours, at(20001, 0, 0)));
    CHECK(hours_have(&hours, at(20001, 4, 59)));
    CHECK(!hours_have(&hours, at(20001, 5, 0)));
    CHECK(hours_began_ms(&hours, at(20001, 4, 59)) == at(20000, 22, 30));
    CHECK(hours_began_ms(&hours, at(20000, 23, 59)) == at(20000, 22, 30));
}

static void test_an_empty_range_of_hours_contains_no_time(void)
{
    struct hours hours = parsed("");
    for (uint64_t hour = 0; hour < 24; hour++)
        CHECK(!hours_have(&hours, at(20000, hour, 0)));
}

int main(void)
{
    test_invalid_pairs_of_times_are_refused();
    test_hours_begin_with_their_first_minute_and_end_before_their_last();
    test_hours_continue_after_midnight();
    test_an_empty_range_of_hours_contains_no_time();
    return 0;
}
