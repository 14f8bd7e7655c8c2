#include "backend/keyspace/access_times.h"

#include "shared/check.h"

#include <stdint.h>

enum { START = 1000000, BUCKET = 64 };

static const uint64_t KEY = UINT64_C(7) << 32;

static uint64_t key(uint64_t i)
{
    return i << 32;
}

static void test_a_key_is_idle_since_its_last_access(void)
{
    struct access_times *times = access_times_new(1 << 16, START);
    access_times_prefetch(times, KEY);
    access_times_touch(times, KEY, START + 10);
    CHECK(access_times_idle(times, KEY, START + 10) == 0);
    CHECK(access_times_idle(times, KEY, START + 99) == 89);
    access_times_touch(times, KEY, START + 50);
    CHECK(access_times_idle(times, KEY, START + 99) == 49);
    access_times_free(times);
}

static void test_a_key_that_was_not_accessed_is_idle_since_the_start(void)
{
    struct access_times *times = access_times_new(1 << 16, START);
    CHECK(access_times_idle(times, KEY, START + 3) == 3);
    CHECK(access_times_idle(times, 0, START + 3) == 3);
    access_times_free(times);
}

static void test_a_clock_that_is_set_back_gives_zero(void)
{
    struct access_times *times = access_times_new(1 << 16, START);
    access_times_touch(times, KEY, START + 10);
    CHECK(access_times_idle(times, KEY, START + 5) == 0);
    CHECK(access_times_idle(times, key(9), START - 5) == 0);
    access_times_free(times);
}

static void test_a_replaced_key_is_idle_no_longer_than_in_truth(void)
{
    struct access_times *times = access_times_new(BUCKET, START); /* one bucket of 8 keys */
    for (uint64_t i = 0; i < 9; i++)
        access_times_touch(times, key(i), START + i);
    CHECK(access_times_idle(times, key(8), START + 100) == 92);
    CHECK(access_times_idle(times, key(1), START + 100) == 99);
    /* really 100, but the entry was replaced */
    CHECK(access_times_idle(times, key(0), START + 100) == 99);
    for (uint64_t i = 1; i < 9; i++)
        access_times_touch(times, key(i), START + 60);
    CHECK(access_times_idle(times, key(0), START + 100) == 40);
    access_times_free(times);
}

int main(void)
{
    test_a_key_is_idle_since_its_last_access();
    test_a_key_that_was_not_accessed_is_idle_since_the_start();
    test_a_clock_that_is_set_back_gives_zero();
    test_a_replaced_key_is_idle_no_longer_than_in_truth();
    return 0;
}
