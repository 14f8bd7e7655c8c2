#include "proxy/core/rate_limiter.h"

#include "shared/check.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <pthread.h>
#include <stdlib.h>

struct rate_limiters {
    pthread_mutex_t mutex;
    struct table *by_name;
};

struct rate_limiters *rate_limiters_new(void)
{
    struct rate_limiters *rate_limiters = calloc(1, sizeof(*rate_limiters));
    CHECK(rate_limiters);
    CHECK(pthread_mutex_init(&rate_limiters->mutex, NULL) == 0);
    rate_limiters->by_name = table_new();
    return rate_limiters;
}

void rate_limiters_free(struct rate_limiters *rate_limiters)
{
    CHECK(table_count(rate_limiters->by_name) == 0);
    table_free(rate_limiters->by_name);
    (void)pthread_mutex_destroy(&rate_limiters->mutex);
    free(rate_limiters);
}

static struct rate_limiter *rate_limiter_acquire(struct rate_limiters *rate_limiters,
                                                 struct bytes name)
{
    CHECK(pthread_mutex_lock(&rate_limiters->mutex) == 0);
    struct rate_limiter *rate_limiter = table_get(rate_limiters->by_name, name);
    if (!rate_limiter) {
        rate_limiter = calloc(1, sizeof(*rate_limiter));
        CHECK(rate_limiter);
        (void)table_put(rate_limiters->by_name, name, rate_limiter);
    }
    rate_limiter->refs++;
    CHECK(pthread_mutex_unlock(&rate_limiters->mutex) == 0);
    return rate_limiter;
}

static void rate_limiter_release(struct rate_limiters *rate_limiters,
                                 struct rate_limiter *rate_limiter, struct bytes name)
{
    CHECK(pthread_mutex_lock(&rate_limiters->mutex) == 0);
    CHECK(rate_limiter->refs > 0);
    if (--rate_limiter->refs == 0) {
        CHECK(table_remove(rate_limiters->by_name, name) == rate_limiter);
        free(rate_limiter);
    }
    CHECK(pthread_mutex_unlock(&rate_limiters->mutex) == 0);
}

void rate_follow(struct rate_limiters *rate_limiters, struct keyspace *keyspace)
{
    const struct namespace *entry = keyspace->entry;
    if (!rate_limiters || !entry || (entry->rate_limit == 0 && entry->bandwidth_limit_bytes == 0)) {
        rate_forget(rate_limiters, keyspace);
        return;
    }
    if (!keyspace->rate_limiter)
        keyspace->rate_limiter = rate_limiter_acquire(rate_limiters, keyspace->name);
    keyspace->rate_limiter->delays = entry->rate_delays;
    token_bucket_set(&keyspace->rate_limiter->requests, entry->rate_limit);
    token_bucket_set(&keyspace->rate_limiter->bytes, entry->bandwidth_limit_bytes);
}

void rate_forget(struct rate_limiters *rate_limiters, struct keyspace *keyspace)
{
    if (!keyspace->rate_limiter)
        return;
    CHECK(rate_limiters);
    rate_limiter_release(rate_limiters, keyspace->rate_limiter, keyspace->name);
    keyspace->rate_limiter = NULL;
}

uint64_t rate_limiter_wait_ms(struct rate_limiter *rate_limiter, uint64_t now_ms)
{
    uint64_t requests = token_bucket_wait_ms(&rate_limiter->requests, now_ms);
    uint64_t bytes = token_bucket_wait_ms(&rate_limiter->bytes, now_ms);
    return requests > bytes ? requests : bytes;
}
