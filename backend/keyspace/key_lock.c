/*
 * key_lock.c - commands that wait for the locks of transactions over several shards (lock.h).
 *
 *   keyspace_open ─► key_lock_pass ─┬─ no other transaction has the key ─► go on
 *                                   ├─ locked ─► roll back, wait, run again; refused with TRYAGAIN after lock-timeout
 *                                   └─ waited before ─► the command takes the lock by its age, as transactions do
 */
#include "backend/keyspace/keyspace_inner.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/lock_waiter.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/storage/retry.h"

#include <stdio.h>
#include <stdlib.h>

bool call_writes(const struct call *call)
{
    return call->command && call->command->flags & (CMD_WRITE | CMD_MAY_REPLICATE);
}

bool opens_for_writing(const struct call *call, enum open_flag flags)
{
    bool is_source = (flags == OPEN_READ || flags == OPEN_LOOK) && call->command->made.has_sources;
    return call_writes(call) && !is_source;
}

/* Whose locks do not stop the call; NULL: it has none. */
static const struct lock_owner *own_locks(const struct call *call)
{
    if (call->borrow)
        return call->borrow->owner;
    return call->waiter ? &call->waiter->owner : NULL;
}

bool key_is_locked(const struct call *call, struct bytes row_key)
{
    const struct lock_set *locks = call->partition->shards.locks;
    return lock_set_count(locks) && lock_stops(locks, row_key, true, own_locks(call));
}

/* Replies that the key is locked. If the command can be rolled back, it is, with all commands of its EXEC or script. */
static void refuse_locked(struct call *call, struct bytes row_key, bool is_in_doubt)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    char *text;
    const char *reason = is_in_doubt ? ", whose deciding shard does not answer" : "";
    bool is_key = decode_metadata_key(row_key, &space, &slot, &key);
    int len = is_key
                  ? asprintf(&text,
                             "TRYAGAIN the key '%.*s' is locked by a transaction over several "
                             "shards%s",
                             (int)(key.len < 128 ? key.len : 128), key.data, reason)
                  : asprintf(&text,
                             "TRYAGAIN all keys of the database are locked by a transaction over "
                             "several shards%s",
                             reason);
    CHECK(len >= 0);
    if (!call_wait(call)) {
        metric_add(call->partition->metrics.process, METRIC_BACKEND_LOCKED_REFUSED, 1);
        call_error_text(call, text);
        free(text);
        return;
    }
    call_retry_refused(call, text);
}

/* The command waits for a lock, or is refused when it cannot wait, or has waited for too long. `owner` has the lock; NULL: older
 * owners have requested it. */
static void wait_for_lock(struct call *call, const struct lock_owner *owner, struct bytes row_key,
                          bool is_requested)
{
    struct partition *partition = call->partition;
    struct retry *retry = call_wait(call);
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t timeout_ms = partition->snapshot->config.lock_timeout_ms;
    bool is_in_doubt = owner && owner->is_in_doubt;
    if (!retry || is_in_doubt || retry_is_late(retry, now_ms, timeout_ms)) {
        refuse_locked(call, row_key, is_in_doubt);
        return;
    }
    if (is_requested)
        lock_waiter_wait(call->waiter, retry);
    else
        lock_wait(partition->shards.locks, row_key, retry, now_ms);
    call_error(call, ERR_RETRY);
}

void borrow_wait_for_lock(struct call *call, struct bytes row_key)
{
    if (call_wait(call))
        borrow_wait(call);
    else
        refuse_locked(call, row_key, false);
}

/* A command that has waited before takes the lock by its age. */
static bool take_by_age(struct call *call, struct bytes row_key, enum lock_mode mode)
{
    if (lock_waiter_take(call, row_key, mode))
        return true;
    const struct lock_owner *owner =
        lock_stops(call->partition->shards.locks, row_key, true, own_locks(call));
    wait_for_lock(call, owner, row_key, true);
    return false;
}

bool key_lock_pass(struct call *call, struct bytes row_key, enum open_flag flags)
{
    struct lock_set *locks = call->partition->shards.locks;
    if (call->borrow) {
        enum lock_mode mode = opens_for_writing(call, flags) ? LOCK_WRITE : LOCK_READ;
        if (lock_take(locks, call->borrow->owner, row_key, mode))
            return true;
        borrow_wait_for_lock(call, row_key);
        if (!call->failed)
            call_error(call, ERR_RETRY);
        return false;
    }
    if (!lock_set_count(locks))
        return true;
    if (call->waiter && call_writes(call))
        return take_by_age(call, row_key, opens_for_writing(call, flags) ? LOCK_WRITE : LOCK_READ);
    const struct lock_owner *owner = lock_stops(locks, row_key, call_writes(call), own_locks(call));
    if (owner)
        wait_for_lock(call, owner, row_key, false);
    return !owner;
}

/* The command waits for a lock, for half of lock-timeout at most. True: that is over, or it cannot wait. */
static bool await_lock(struct call *call, struct bytes row_key)
{
    struct partition *partition = call->partition;
    struct retry *retry = call_wait(call);
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t timeout_ms = partition->snapshot->config.lock_timeout_ms;
    if (!retry || retry_is_late(retry, now_ms, timeout_ms / 2))
        return true;
    lock_wait(partition->shards.locks, row_key, retry, now_ms);
    call_error(call, ERR_RETRY);
    return false;
}

bool keyspace_await_writer(struct call *call, struct bytes row_key)
{
    const struct lock_set *locks = call->partition->shards.locks;
    return call->borrow || !lock_set_count(locks) || !lock_writer(locks, row_key) ||
           await_lock(call, row_key);
}

bool keyspace_await_prepared(struct call *call, const struct space *space)
{
    const struct lock_set *locks = call->partition->shards.locks;
    struct bytes row_key;
    if (call->borrow || !lock_set_count(locks))
        return true;
    const struct lock_owner *owner =
        lock_stops_any(locks, encode_space_prefix(call->arena, space->name), false, NULL, &row_key);
    return !owner || owner->is_in_doubt || await_lock(call, row_key);
}

bool keyspace_is_free(struct call *call, struct space *space)
{
    const struct lock_set *locks = call->partition->shards.locks;
    struct bytes row_key;
    if (call->borrow)
        return borrow_all(call, space, call_writes(call) ? LOCK_WRITE : LOCK_READ);
    if (call_writes(call) && !slots_pass(call))
        return false;
    if (!lock_set_count(locks))
        return true;
    struct bytes prefix = encode_space_prefix(call->arena, space->name);
    if (call->waiter && call_writes(call))
        return take_by_age(call, prefix, LOCK_WRITE);
    const struct lock_owner *owner =
        lock_stops_any(locks, prefix, call_writes(call), own_locks(call), &row_key);
    if (owner)
        wait_for_lock(call, owner, row_key, false);
    return !owner;
}
