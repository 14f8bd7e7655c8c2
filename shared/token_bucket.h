/*
 * token_bucket.h - at most `rate` tokens per second, shared by all threads without locks.
 *
 * The only state is `paid_until`: the time until which the tokens taken so far have been paid. A full bucket has the
 * tokens of one second.
 *
 *     ──────┬──────────────────────┬───────────►  time
 *       now - BURST               now
 *             ◄──── tokens ────►│             paid_until here: this part of a second's tokens is left
 *                                  │◄─ debt ─►│  paid_until here: wait
 *
 * While any token is left, a request gets as many as it needs, on credit: it may need more than a second's worth, and
 * the size of its reply is not known in advance. Threads that read the same time may each get the last token.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* All zero: no limit. */
struct token_bucket {
    _Atomic uint64_t rate; /* tokens per second; 0: no limit */
    _Atomic uint64_t paid_until_ns;
};

/* A new rate starts with a full bucket; an unchanged rate has no effect. */
void token_bucket_set(struct token_bucket *bucket, uint64_t rate);
/* Time until a token is available; 0: one is. `now_ms` is monotonic. */
uint64_t token_bucket_wait_ms(struct token_bucket *bucket, uint64_t now_ms);
/* Number of whole tokens that are available; UINT64_MAX: no limit. */
uint64_t token_bucket_left(struct token_bucket *bucket, uint64_t now_ms);
void token_bucket_charge(struct token_bucket *bucket, uint64_t now_ms, uint64_t count);
