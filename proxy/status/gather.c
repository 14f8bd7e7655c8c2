#include "proxy/status/gather.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/list.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* The shares of one worker. */
struct visitor {
    struct task task;
    struct gatherer *gatherer;
    struct proxy_worker *worker;
    bool is_under_way;   /* the worker fills `fresh`; guarded by the mutex */
    bool has_arrived;    /* `fresh` is filled and newer than `shown`; guarded by the mutex */
    struct share *fresh; /* belongs to the worker while is_under_way, else to the HTTP thread */
    struct share *shown; /* belongs to the HTTP thread */
};

struct gatherer {
    pthread_mutex_t mutex;
    pthread_cond_t one_arrived;
    uint32_t count;
    struct visitor visitors[];
};

struct gatherer *gatherer_new(struct proxy *proxy)
{
    uint32_t count = proxy->worker_count;
    struct gatherer *gatherer = calloc(1, sizeof *gatherer + count * sizeof(struct visitor));
    pthread_condattr_t monotonic;
    CHECK(gatherer);
    CHECK(pthread_mutex_init(&gatherer->mutex, NULL) == 0);
    CHECK(pthread_condattr_init(&monotonic) == 0);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&gatherer->one_arrived, &monotonic) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    gatherer->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct visitor *visitor = &gatherer->visitors[i];
        visitor->gatherer = gatherer;
        visitor->worker = proxy->workers[i];
        visitor->fresh = share_new();
        visitor->shown = share_new();
    }
    return gatherer;
}

void gatherer_free(struct gatherer *gatherer)
{
    for (uint32_t i = 0; i < gatherer->count; i++) {
        share_free(gatherer->visitors[i].fresh);
        share_free(gatherer->visitors[i].shown);
    }
    (void)pthread_cond_destroy(&gatherer->one_arrived);
    (void)pthread_mutex_destroy(&gatherer->mutex);
    free(gatherer);
}

/* Fills the fresh share, on the worker's thread. */
static void on_visit(struct task *task)
{
    struct visitor *visitor = container_of(task, struct visitor, task);
    struct gatherer *gatherer = visitor->gatherer;
    share_fill(visitor->fresh, visitor->worker);
    CHECK(pthread_mutex_lock(&gatherer->mutex) == 0);
    visitor->is_under_way = false;
    visitor->has_arrived = true;
    CHECK(pthread_cond_signal(&gatherer->one_arrived) == 0);
    CHECK(pthread_mutex_unlock(&gatherer->mutex) == 0);
}

/* Swaps `shown` with the shares that have arrived; returns the number of visits under way. The mutex is held. */
static uint32_t pop_arrived(struct gatherer *gatherer)
{
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < gatherer->count; i++) {
        struct visitor *visitor = &gatherer->visitors[i];
        under_way += visitor->is_under_way;
        if (!visitor->has_arrived)
            continue;
        struct share *fresh = visitor->fresh;
        visitor->fresh = visitor->shown;
        visitor->shown = fresh;
        visitor->has_arrived = false;
    }
    return under_way;
}

/* Posts a visit to each worker without one under way. The mutex is held. */
static void post_all(struct gatherer *gatherer)
{
    for (uint32_t i = 0; i < gatherer->count; i++) {
        struct visitor *visitor = &gatherer->visitors[i];
        if (visitor->is_under_way)
            continue;
        visitor->is_under_way = true;
        visitor->task.run = on_visit;
        loop_post(visitor->worker->loop, &visitor->task);
    }
}

static struct timespec deadline(void)
{
    struct timespec at;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    at.tv_nsec += GATHER_WAIT_MS * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    return at;
}

uint32_t gatherer_run(struct gatherer *gatherer)
{
    struct timespec until = deadline();
    CHECK(pthread_mutex_lock(&gatherer->mutex) == 0);
    (void)pop_arrived(gatherer);
    post_all(gatherer);
    uint32_t late;
    int result = 0;
    while ((late = pop_arrived(gatherer)) > 0 && result == 0)
        result = pthread_cond_timedwait(&gatherer->one_arrived, &gatherer->mutex, &until);
    CHECK(pthread_mutex_unlock(&gatherer->mutex) == 0);
    return late;
}

uint32_t gatherer_count(const struct gatherer *gatherer)
{
    return gatherer->count;
}

const struct share *gatherer_share(struct gatherer *gatherer, uint32_t i)
{
    CHECK(i < gatherer->count);
    const struct share *share = gatherer->visitors[i].shown;
    return share->at_us ? share : NULL;
}
