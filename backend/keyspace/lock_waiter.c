#include "backend/keyspace/lock_waiter.h"

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/storage/retry.h"
#include "shared/check.h"

#include <stdlib.h>

static struct lock_waiter *waiter_at(struct lock_owner *owner)
{
    return container_of(owner, struct lock_waiter, owner);
}

static void run_again(struct lock_waiter *waiter)
{
    if (!list_empty(&waiter->wants))
        retry_done(&waiter->wants);
}

static void on_granted(struct lock_owner *owner)
{
    run_again(waiter_at(owner));
}

void lock_waiter_give_way(struct lock_owner *owner)
{
    struct lock_waiter *waiter = waiter_at(owner);
    lock_release(waiter->locks, owner);
    run_again(waiter);
}

struct lock_waiter *lock_waiter_new(struct call *call, uint64_t since_ms, uint64_t client)
{
    struct partition *partition = call->partition;
    struct lock_waiter *waiter = calloc(1, sizeof *waiter);
    CHECK(waiter);
    waiter->locks = partition->shards.locks;
    waiter->since_ms = since_ms;
    lock_owner_init(&waiter->owner);
    waiter->owner.begun_us = call->now_us - 1000 * (loop_mono_ms(partition->loop) - since_ms);
    waiter->owner.tie_breaker = client;
    waiter->owner.is_command = true;
    waiter->owner.on_granted = on_granted;
    list_init(&waiter->wants);
    list_push(&partition->shards.waits.locks, &waiter->link);
    return waiter;
}

void lock_waiter_free(struct lock_waiter *waiter)
{
    if (!waiter)
        return;
    CHECK(list_empty(&waiter->wants));
    lock_release(waiter->locks, &waiter->owner);
    list_remove(&waiter->link);
    free(waiter);
}

void lock_waiter_wait(struct lock_waiter *waiter, struct retry *retry)
{
    if (list_empty(&waiter->wants))
        retry_wait(retry, &waiter->wants);
}

bool lock_waiter_take(struct call *call, struct bytes row_key, enum lock_mode mode)
{
    return lock_take(call->waiter->locks, &call->waiter->owner, row_key, mode);
}

void lock_waiters_tick(struct partition *partition, uint64_t since_ms)
{
    struct list *next;
    struct list *all = &partition->shards.waits.locks;
    for (struct list *at = all->next; at != all; at = next) {
        struct lock_waiter *waiter = container_of(at, struct lock_waiter, link);
        next = at->next;
        if (waiter->since_ms < since_ms)
            run_again(waiter);
    }
}
