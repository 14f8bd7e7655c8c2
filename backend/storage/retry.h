/*
 * retry.h - wait, then run again: what a command does that cannot go on.
 *
 *   command ─ something that it needs is not here ─► retry_wait(list) ─► it ends with ERR_RETRY, and is rolled back (attempt.h)
 *      ▲                                                                        │ its session is suspended (suspend.h)
 *      └──────────── on_ready, when nothing is waited for any more ◄─ retry_done(list)
 *
 *   It needs                                        The list belongs to
 *   a row that is only on disk                      its fetch (reader.h)
 *   a key that a transaction over shards has locked the lock (lock.h), or its turn by age (lock_waiter.h)
 *   a slot that arrives or is handed over           the partition (slot_gate.h)
 *   keys of other shards                            the transaction (borrow.h)
 *   room for more keys in its namespace             the limit (session/limits.h)
 *   an end of the replies that others hold          the partition (dispatch/slow_call.h)
 *
 * Everything of a partition's thread may wait so, not only commands: a participant for rows of LOCK, expiry for the oldest key.
 */
#pragma once

#include "shared/list.h"

#include <stdbool.h>
#include <stdint.h>

struct retry {
    struct list waits;
    uint32_t pending; /* length of `waits` */
    bool has_failed;  /* the store could not read a row */
    uint8_t ranges;   /* number of ranges that were requested; counted by the owner */
    bool has_range;   /* a range was requested since the owner set it to false */
    /* monotonic: since when the command waits for something else than rows; 0: it has not */
    uint64_t since_ms;
    uint64_t keys_before; /* of the namespace when the attempt began: limits_attempt */
    /* waits for room until this order (key_grants.h); 0: it has not waited for room */
    uint64_t key_proof;
    /* a script over shards must begin again, instead of going on where it is (halt.h) */
    bool undoes;
    bool is_charged; /* for the whole time for which it may wait for room */
    /* heap; NULL, or the error with which the whole command is rolled back, instead of running again */
    char *refusal;
    void (*on_ready)(struct retry *retry); /* called when the last wait has ended */
};

void retry_init(struct retry *retry, void (*on_ready)(struct retry *retry));
/* Ends all waits; on_ready is not called. Forgets the refusal. */
void retry_cancel(struct retry *retry);
/* Waits until retry_done is called for the list. */
void retry_wait(struct retry *retry, struct list *list);
/* Ends the waits in the list, in order. */
void retry_done(struct list *list);
/* As retry_done; the store could not read what they wait for. */
void retry_failed(struct list *list);
/* The command will not run again: it is rolled back, and its reply is this error, whose ownership is taken. */
void retry_refuse(struct retry *retry, char *error);
/* Has it waited for so long? If it has not waited yet, the time begins now. */
bool retry_is_late(struct retry *retry, uint64_t now_ms, uint64_t limit_ms);
