/*
 * test_traffic.c - the buckets of times have no gap and no overlap, and sums are sums.
 */
#include "proxy/traffic.h"

#include "shared/check.h"

static void test_each_time_is_in_the_bucket_that_its_ends_say(void)
{
    for (unsigned bucket = 0; bucket + 1 < TRAFFIC_BUCKETS; bucket++) {
        uint64_t end = traffic_bucket_end(bucket);
        CHECK(traffic_bucket(end - 1) == bucket);
        CHECK(traffic_bucket(end) == bucket + 1);
    }
    CHECK(traffic_bucket_end(0) == 32 && traffic_bucket_end(1) == 48 &&
          traffic_bucket_end(2) == 64);
    CHECK(traffic_bucket(0) == 0 && traffic_bucket(UINT64_MAX) == TRAFFIC_BUCKETS - 1);
}

static void test_what_is_not_timed_is_counted_only(void)
{
    struct traffic traffic = {0};
    traffic_add(&traffic, 40, false, true);
    traffic_add(&traffic, 5000000, true, false);
    CHECK(traffic.requests == 2 && traffic.errors == 1 && traffic.usec == 40);
    CHECK(traffic.buckets[1] == 1 && traffic.buckets[traffic_bucket(5000000)] == 0);
}

static void test_sums_are_of_all_fields(void)
{
    struct traffic sum = {0};
    struct traffic one = {0};
    traffic_add(&one, 100, true, true);
    traffic_sum(&sum, &one);
    traffic_sum(&sum, &one);
    CHECK(sum.requests == 2 && sum.errors == 2 && sum.usec == 200);
    CHECK(sum.buckets[traffic_bucket(100)] == 2);
}

int main(void)
{
    test_each_time_is_in_the_bucket_that_its_ends_say();
    test_what_is_not_timed_is_counted_only();
    test_sums_are_of_all_fields();
    return 0;
}
