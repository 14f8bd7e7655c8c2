#include "backend/store/pace.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    NAP_US = 10000,
    STEP = 1 << 20, /* smallest increase of the rate in a period */
    STEPS = 64,     /* a period increases the rate by at least free_rate / STEPS */
};

struct pace {
    _Atomic uint64_t rate; /* 0: no limit */
    _Atomic uint64_t bytes;
    _Atomic uint64_t waited_us;
    pthread_mutex_t lock;
    /* guards the members below */
    uint64_t fixed;     /* 0: none */
    uint64_t target_us; /* 0: none */
    uint64_t held;      /* rate that latency allows; 0: no limit */
    uint64_t free_rate; /* rate of compactions before they were limited */
    uint64_t behind_until_us;
    /* of the current period */
    bool is_slow;
    bool is_quick;
    uint64_t adjusted_us; /* beginning of the period; 0: there was none */
    uint64_t adjusted_bytes;
    /* bytes that were read beyond the rate */
    uint64_t debt;
    uint64_t paid_us;
};

struct pace *pace_new(void)
{
    struct pace *pace = calloc(1, sizeof *pace);
    CHECK(pace);
    CHECK(pthread_mutex_init(&pace->lock, NULL) == 0);
    pace->is_quick = true;
    return pace;
}

void pace_free(struct pace *pace)
{
    pthread_mutex_destroy(&pace->lock);
    free(pace);
}

/* ---- the rate ---- */

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t rate_now(const struct pace *pace)
{
    if (!pace->fixed || !pace->held)
        return max_of(pace->fixed, pace->held);
    return min_of(pace->fixed, pace->held);
}

static void set_rate(struct pace *pace, bool is_behind)
{
    uint64_t rate = is_behind ? 0 : rate_now(pace);
    if (rate == 0)
        pace->debt = 0;
    atomic_store_explicit(&pace->rate, rate, memory_order_relaxed);
}

void pace_limit(struct pace *pace, uint64_t bytes_per_s, uint64_t target_us)
{
    pthread_mutex_lock(&pace->lock);
    pace->fixed = bytes_per_s ? max_of(bytes_per_s, PACE_RATE_MIN) : 0;
    pace->target_us = target_us;
    if (!target_us)
        pace->held = 0;
    set_rate(pace, pace->adjusted_us < pace->behind_until_us);
    pthread_mutex_unlock(&pace->lock);
}

void pace_report(struct pace *pace, struct pace_latency *latency)
{
    if (!latency->count)
        return;
    pthread_mutex_lock(&pace->lock);
    pace->is_slow |= (uint64_t)latency->long_ones * 100 > latency->count;
    pace->is_quick &= (uint64_t)latency->half_long_ones * 100 <= latency->count;
    pthread_mutex_unlock(&pace->lock);
    *latency = (struct pace_latency){0};
}

void pace_behind(struct pace *pace, uint64_t now_us)
{
    pthread_mutex_lock(&pace->lock);
    pace->behind_until_us = now_us + PACE_BEHIND_US;
    set_rate(pace, true);
    pthread_mutex_unlock(&pace->lock);
}

/* Lowers the rate. `done`: what compactions read, in bytes per second; if that is little, they are not the cause of the
 * latency, and the rate stays. */
static void slow_down(struct pace *pace, uint64_t done)
{
    if (!pace->held && done > PACE_FLOOR)
        pace->free_rate = pace->held = done;
    if (pace->held && done)
        pace->held = max_of(min_of(pace->held, done) / 2, PACE_FLOOR);
}

static void speed_up(struct pace *pace)
{
    pace->held += max_of(pace->free_rate / STEPS, STEP);
    if (pace->held >= pace->free_rate)
        pace->held = 0;
}

void pace_adjust(struct pace *pace, uint64_t now_us)
{
    pthread_mutex_lock(&pace->lock);
    uint64_t bytes = atomic_load_explicit(&pace->bytes, memory_order_relaxed);
    uint64_t took_us = now_us - pace->adjusted_us;
    bool is_first = !pace->adjusted_us;
    bool is_behind = now_us < pace->behind_until_us;
    if (is_first || took_us >= PACE_PERIOD_US) {
        if (pace->target_us && pace->is_slow && !is_first && !is_behind)
            slow_down(pace, (bytes - pace->adjusted_bytes) * 1000000 / took_us);
        else if (pace->held && pace->is_quick)
            speed_up(pace);
        pace->is_slow = false;
        pace->is_quick = true;
        pace->adjusted_us = now_us;
        pace->adjusted_bytes = bytes;
        set_rate(pace, is_behind);
    }
    pthread_mutex_unlock(&pace->lock);
}

bool pace_is_limited(struct pace *pace)
{
    pthread_mutex_lock(&pace->lock);
    bool is_limited = rate_now(pace) > 0;
    pthread_mutex_unlock(&pace->lock);
    return is_limited;
}

struct pace_figures pace_figures(const struct pace *pace)
{
    return (struct pace_figures){
        .bytes_per_s = atomic_load_explicit(&pace->rate, memory_order_relaxed),
        .bytes = atomic_load_explicit(&pace->bytes, memory_order_relaxed),
        .waited_us = atomic_load_explicit(&pace->waited_us, memory_order_relaxed),
    };
}

/* ---- compactions ---- */

static void pay(struct pace *pace, uint64_t rate, uint64_t now_us)
{
    uint64_t passed_us = now_us > pace->paid_us ? now_us - pace->paid_us : 0;
    double paid = (double)passed_us / 1e6 * (double)rate;
    pace->debt = paid < (double)pace->debt ? pace->debt - (uint64_t)paid : 0;
    pace->paid_us = max_of(now_us, pace->paid_us);
}

static uint64_t owe(struct pace *pace, uint64_t bytes, uint64_t now_us)
{
    uint64_t wait_us = 0;
    pthread_mutex_lock(&pace->lock);
    uint64_t rate = atomic_load_explicit(&pace->rate, memory_order_relaxed);
    pay(pace, rate, now_us);
    if (rate) {
        pace->debt += bytes;
        wait_us = (uint64_t)((double)pace->debt * 1e6 / (double)rate);
    }
    pthread_mutex_unlock(&pace->lock);
    return wait_us;
}

uint64_t pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_us)
{
    atomic_fetch_add_explicit(&pace->bytes, bytes, memory_order_relaxed);
    return owe(pace, bytes, now_us);
}

uint64_t pace_owed(struct pace *pace, uint64_t now_us)
{
    return owe(pace, 0, now_us);
}

void pace_pass(struct pace *pace, uint64_t bytes, bool (*may_wait)(void *owner), void *owner)
{
    uint64_t now_us = clock_mono_us();
    uint64_t wait_us = pace_spend(pace, bytes, now_us);
    while (wait_us && may_wait(owner)) {
        const struct timespec nap = {.tv_nsec = (long)min_of(wait_us, NAP_US) * 1000};
        uint64_t slept_us = now_us;
        (void)nanosleep(&nap, NULL);
        now_us = clock_mono_us();
        atomic_fetch_add_explicit(&pace->waited_us, now_us - slept_us, memory_order_relaxed);
        wait_us = pace_owed(pace, now_us);
    }
}
