/*
 * local_changes_order.c - the changes of a key come in the order in which they were made, also when its slot has moved.
 *
 *   a   k=1  k=2  RELEASED(10:00:07)                      all batches have times, which never put an effect before its cause
 *   b                        OWNED(10:00:09)  k=3         (backend/context/hybrid_clock.h): the changes at a have earlier times than OWNED at b
 *
 *   round:  READ at a and b, PAST 0  ─►  a: k=1 k=2, read up to 10:00:12      b: nothing, the next batch is of 10:00:09 and takes slots over
 *           READ at b, PAST 10:00:12 ─►  b: k=3                               … is what comes behind it in the reply
 *
 * A shard whose next batch takes slots over waits until all others were read up to the time before. Of those that wait the one with the
 * earliest time may always go on, so none waits for ever. Nothing of this is in the token: the next call begins in the same way.
 */
#include "proxy/local/local_changes.h"

uint64_t changes_past_us(const struct changes *changes, uint32_t shard)
{
    uint64_t past_us = UINT64_MAX - 1;
    for (uint32_t i = 0; i < changes->token.count; i++)
        if (i != shard && changes->reach[i].reached_us < past_us)
            past_us = changes->reach[i].reached_us;
    return past_us;
}

void changes_find_late(struct changes *changes)
{
    changes->late_count = 0;
    for (uint32_t i = 0; i < changes->token.count; i++) {
        uint64_t early_us = changes->reach[i].early_us;
        if (early_us && early_us - 1 <= changes_past_us(changes, i))
            changes->late[changes->late_count++] = i;
    }
}
