/*
 * rate_limiter.h - the token buckets of a namespace, shared by all workers.
 *
 *   keyspace ──► rate limiter "shop" {requests, bytes} ◄── keyspace of another worker, or of another database
 *
 * What happens to a client whose namespace has used up its tokens: rate.h.
 */
#pragma once

#include "proxy/keyspace.h"
#include "shared/token_bucket.h"

#include <stdatomic.h>
#include <stddef.h>

struct rate_limiter {
    uint32_t refs; /* keyspaces; under the lock */
    _Atomic bool delays;
    struct token_bucket requests;
    struct token_bucket bytes;
};

/* The rate limiters of all workers, by namespace. */
struct rate_limiters *rate_limiters_new(void);
void rate_limiters_free(struct rate_limiters *rate_limiters);

/* The keyspace's rate limiter is as its entry says: there, set to other limits, or gone. `rate limiters` NULL: there are
 * none. */
void rate_follow(struct rate_limiters *rate_limiters, struct keyspace *keyspace);
/* The keyspace goes. */
void rate_forget(struct rate_limiters *rate_limiters, struct keyspace *keyspace);

/* How long the next request has to wait; 0: not at all. */
uint64_t rate_limiter_wait_ms(struct rate_limiter *rate_limiter, uint64_t now_ms);
/* Charges the bytes of a reply. */
static inline void rate_limiter_charge_reply(struct rate_limiter *rate_limiter, uint64_t now_ms,
                                             size_t len)
{
    token_bucket_charge(&rate_limiter->bytes, now_ms, len);
}
