/*
 * lock_waiter.h - a command of one shard that has waited for a locked key: from its second run on it takes the locks of the keys that
 * it writes by its age, as transactions over several shards do (lock.h).
 *
 *   first run ─ meets a lock ─► rolled back, waits for it ─► second run ─ lock_waiter_take ─┬─ granted: goes on, and keeps the lock
 *                                                                ▲                          └─ requested, after those of older owners
 *                                                                └──── all are granted, or it is wounded: runs again ────┘
 *
 * Without this an EXEC of several keys that transactions over shards use all the time would have to find all of them free at the same
 * moment. A command that meets no lock, or only one, takes no lock. The locks end with the command: its effects are in the open batch
 * then, and replies wait for these.
 */
#pragma once

#include "backend/keyspace/lock.h"

struct call;
struct partition;
struct retry;

struct lock_waiter {
    struct list link; /* in partition->shards.waits.locks */
    struct lock_set *locks;
    struct lock_owner owner;
    struct list wants; /* the command's wait, while it has requests (retry.h) */
    uint64_t since_ms; /* when it began to wait; monotonic */
};

/* The command's age is that of its first run; `client` decides between those of one microsecond. The caller sets owner.on_wounded. */
struct lock_waiter *lock_waiter_new(struct call *call, uint64_t since_ms, uint64_t client);
/* Releases its locks; the command no longer waits. NULL is allowed. */
void lock_waiter_free(struct lock_waiter *waiter);
/* The command waits until the locks that it has requested are granted. */
void lock_waiter_wait(struct lock_waiter *waiter, struct retry *retry);
/* on_wounded of its owner: releases its locks, and the command runs again. */
void lock_waiter_give_way(struct lock_owner *owner);
/* Locks the key for the call's waiter. False: the command waits until the lock is granted. */
bool lock_waiter_take(struct call *call, struct bytes row_key, enum lock_mode mode);
/* Wakes the commands that wait since before `since_ms`: they have waited for too long. */
void lock_waiters_tick(struct partition *partition, uint64_t since_ms);
