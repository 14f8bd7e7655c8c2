/*
 * rate_limiter.h - the token buckets of a namespace, shared by all workers.
 *
 *   keyspace ──► rate limiter "shop" {requests, bytes} ◄── keyspace of another worker, or of another database
 *
 * rate.h delays or refuses the requests of a namespace that has used up its tokens.
 */
#pragma once

#include "proxy/core/keyspace.h"
#include "shared/token_bucket.h"

#include <stdatomic.h>
#include <stddef.h>

struct rate_limiter {
    uint32_t refs; /* number of keyspaces that use it; guarded by the mutex */
    _Atomic bool delays;
    struct token_bucket requests;
    struct token_bucket bytes;
};

/* The rate limiters of all workers, by namespace. */
struct rate_limiters *rate_limiters_new(void);
void rate_limiters_free(struct rate_limiters *rate_limiters);

/* Makes, changes or removes the keyspace's rate limiter as its configuration says. `rate_limiters` NULL: there are no
 * limits. */
void rate_follow(struct rate_limiters *rate_limiters, struct keyspace *keyspace);
/* To be called when the keyspace is freed: releases its rate limiter. */
void rate_forget(struct rate_limiters *rate_limiters, struct keyspace *keyspace);

/* How long the next request has to wait; 0: it may run. */
uint64_t rate_limiter_wait_ms(struct rate_limiter *rate_limiter, uint64_t now_ms);
/* Charges the bytes of a reply. */
static inline void rate_limiter_charge_reply(struct rate_limiter *rate_limiter, uint64_t now_ms,
                                             size_t len)
{
    token_bucket_charge(&rate_limiter->bytes, now_ms, len);
}
