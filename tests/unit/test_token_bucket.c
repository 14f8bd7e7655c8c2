#include "shared/token_bucket.h"

#include "shared/check.h"

#include <pthread.h>
#include <stdlib.h>

/* Takes single tokens until the bucket is empty; returns their number. */
static uint64_t take_all(struct token_bucket *bucket, uint64_t now_ms)
{
    uint64_t count = 0;
    while (token_bucket_wait_ms(bucket, now_ms) == 0) {
        token_bucket_charge(bucket, now_ms, 1);
        CHECK(++count < 100000);
    }
    return count;
}

static void test_without_a_rate_there_is_no_limit(void)
{
    struct token_bucket bucket = {0};
    for (int i = 0; i < 1000; i++)
        token_bucket_charge(&bucket, 1, UINT64_MAX);
    CHECK(token_bucket_wait_ms(&bucket, 1) == 0);
    CHECK(token_bucket_left(&bucket, 1) == UINT64_MAX);
}

static void test_one_second_of_tokens_at_once_then_as_time_passes(void)
{
    struct token_bucket bucket = {0};
    token_bucket_set(&bucket, 100);
    CHECK(take_all(&bucket, 5000) == 100);
    CHECK(take_all(&bucket, 5000) == 0);
    CHECK(token_bucket_wait_ms(&bucket, 5000) == 1);
    CHECK(take_all(&bucket, 5009) == 1);
    CHECK(take_all(&bucket, 5500) == 49);
    CHECK(take_all(&bucket, 500000) == 100);
}

static void test_it_works_from_the_clock_s_first_millisecond(void)
{
    struct token_bucket bucket = {0};
    token_bucket_set(&bucket, 10);
    CHECK(take_all(&bucket, 0) == 10);
    CHECK(take_all(&bucket, 1000) == 10);
}

static void test_taking_more_tokens_than_there_are_makes_debt(void)
{
    struct token_bucket bucket = {0};
    token_bucket_set(&bucket, 1000);
    CHECK(token_bucket_left(&bucket, 7000) == 1000);
    token_bucket_charge(&bucket, 7000, 11000);
    CHECK(token_bucket_left(&bucket, 7000) == 0);
    CHECK(token_bucket_wait_ms(&bucket, 7000) == 10001);
    CHECK(token_bucket_wait_ms(&bucket, 17000) == 1);
    CHECK(token_bucket_wait_ms(&bucket, 17001) == 0);
    CHECK(token_bucket_left(&bucket, 17500) == 500);
}

static void test_a_new_rate_cancels_debt_and_an_equal_one_does_not(void)
{
    struct token_bucket bucket = {0};
    token_bucket_set(&bucket, 10);
    token_bucket_charge(&bucket, 1000, 1000000);
    token_bucket_set(&bucket, 10);
    CHECK(token_bucket_wait_ms(&bucket, 1000) > 0);
    token_bucket_set(&bucket, 20);
    CHECK(token_bucket_left(&bucket, 1000) == 20);
}

static void test_extremes_do_not_overflow(void)
{
    struct token_bucket bucket = {0};
    token_bucket_set(&bucket, 1);
    token_bucket_charge(&bucket, 1000, UINT64_MAX);
    CHECK(token_bucket_wait_ms(&bucket, 1000) > 1000000);
    struct token_bucket fast = {0};
    token_bucket_set(&fast, UINT64_C(10) << 30);
    token_bucket_charge(&fast, 1000, UINT64_C(10) << 30);
    CHECK(token_bucket_wait_ms(&fast, 1000) == 1);
    CHECK(token_bucket_wait_ms(&fast, 1001) == 0);
}

/* Threads share a bucket: together they get as many tokens as one thread would, plus at most one for each other
 * thread. */
enum { THREADS = 4 };

static void *take_some(void *owner)
{
    struct token_bucket *bucket = owner;
    uint64_t *count = calloc(1, sizeof *count);
    CHECK(count);
    *count = take_all(bucket, 9000);
    return count;
}

static void test_threads_share(void)
{
    struct token_bucket bucket = {0};
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    token_bucket_set(&bucket, 20000);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_some, &bucket) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *count;
        CHECK(pthread_join(threads[i], &count) == 0);
        sum += *(uint64_t *)count;
        free(count);
    }
    CHECK(sum >= 20000 && sum < 20000 + THREADS);
}

int main(void)
{
    test_without_a_rate_there_is_no_limit();
    test_one_second_of_tokens_at_once_then_as_time_passes();
    test_it_works_from_the_clock_s_first_millisecond();
    test_taking_more_tokens_than_there_are_makes_debt();
    test_a_new_rate_cancels_debt_and_an_equal_one_does_not();
    test_extremes_do_not_overflow();
    test_threads_share();
    return 0;
}
