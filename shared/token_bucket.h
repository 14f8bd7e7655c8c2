/*
 * token_bucket.h - at most so many tokens a second, over all threads that share it; no locks.
 *
 * One time is all it remembers: until when what was taken has been paid for, one second's worth ahead.
 *
 *     ──────┬──────────────────────┬───────────►  time
 *       now - BURST               now
 *             ◄──── tokens ────►│             paid_until here: so much of a second's tokens is left
 *                                  │◄─ debt ─►│  paid_until here: wait
 *
 * While any token is left, all that is asked for is given, on credit: a request may be longer than a second's
 * worth, and nobody knows how long its reply will be. Threads that look at the same time may each get one.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* All zero: no limit. */
struct token_bucket {
    _Atomic uint64_t rate; /* tokens a second; 0: no limit */
    _Atomic uint64_t paid_until_ns;
};

/* A new rate begins with a full bucket; the same one changes nothing. */
void token_bucket_set(struct token_bucket *bucket, uint64_t rate);
/* How long until there is a token again; 0: there is one. `now_ms` is monotonic. */
uint64_t token_bucket_wait_ms(struct token_bucket *bucket, uint64_t now_ms);
/* How many whole tokens there are; UINT64_MAX: no limit. */
uint64_t token_bucket_left(struct token_bucket *bucket, uint64_t now_ms);
void token_bucket_charge(struct token_bucket *bucket, uint64_t now_ms, uint64_t count);
