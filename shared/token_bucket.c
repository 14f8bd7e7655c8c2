#include "shared/token_bucket.h"

#define SECOND_NS   UINT64_C(1000000000)
#define BURST_NS    SECOND_NS
#define COST_NS_MAX (SECOND_NS * 3600 * 24 * 365)

/* The time plus BURST_NS, so that now - BURST_NS is not negative when the clock is near 0. */
static uint64_t now_ns(uint64_t now_ms)
{
    return now_ms * 1000000 + BURST_NS;
}

static uint64_t cost_ns(uint64_t count, uint64_t rate)
{
    uint64_t seconds = count / rate;
    if (seconds >= COST_NS_MAX / SECOND_NS)
        return COST_NS_MAX;
    return seconds * SECOND_NS +
           (uint64_t)((double)(count % rate) * (double)SECOND_NS / (double)rate);
}

void token_bucket_set(struct token_bucket *bucket, uint64_t rate)
{
    if (atomic_exchange(&bucket->rate, rate) != rate)
        atomic_store(&bucket->paid_until_ns, 0);
}

uint64_t token_bucket_wait_ms(struct token_bucket *bucket, uint64_t now_ms)
{
    uint64_t paid_until = atomic_load(&bucket->paid_until_ns);
    uint64_t now = now_ns(now_ms);
    if (atomic_load(&bucket->rate) == 0 || paid_until < now)
        return 0;
    return (paid_until - now) / 1000000 + 1;
}

uint64_t token_bucket_left(struct token_bucket *bucket, uint64_t now_ms)
{
    uint64_t rate = atomic_load(&bucket->rate);
    uint64_t paid_until = atomic_load(&bucket->paid_until_ns);
    uint64_t now = now_ns(now_ms);
    if (rate == 0)
        return UINT64_MAX;
    if (paid_until >= now)
        return 0;
    uint64_t credit_ns = now - paid_until < BURST_NS ? now - paid_until : BURST_NS;
    return (uint64_t)((double)credit_ns * (double)rate / (double)SECOND_NS);
}

void token_bucket_charge(struct token_bucket *bucket, uint64_t now_ms, uint64_t count)
{
    uint64_t rate = atomic_load(&bucket->rate);
    uint64_t oldest = now_ns(now_ms) - BURST_NS;
    if (rate == 0)
        return;
    uint64_t cost = cost_ns(count, rate);
    uint64_t paid_until = atomic_load(&bucket->paid_until_ns);
    uint64_t begin;
    do
        begin = paid_until > oldest ? paid_until : oldest;
    while (!atomic_compare_exchange_weak(&bucket->paid_until_ns, &paid_until, begin + cost));
}
