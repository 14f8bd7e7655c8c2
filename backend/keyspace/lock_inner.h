/*
 * lock_inner.h - what the files of the locks share (lock.h).
 *
 *   lock.c ───────► locks, requests, waits of commands, reservations, the end of a turn
 *   lock_slots.c ─► the locks of keys of some slots
 */
#pragma once

#include "backend/keyspace/lock.h"

struct lock {
    struct list holds;          /* struct claim */
    struct list requests;       /* struct claim, oldest owner first */
    struct list commands;       /* waits of commands (retry.h) */
    struct list released;       /* in lock_set.released or .resumed */
    uint64_t commands_since_ms; /* when the first of these commands began to wait */
    struct list awaited;        /* in lock_set.awaited, since a command has waited */
    struct list reservations;   /* struct reservation */
    uint64_t reserved_until_us; /* monotonic: then lock_end_reservations ends them */
    /* monotonic: lock_contest counts until then; 0: it was not called */
    uint64_t contested_until_us;
    uint16_t reserved_ms; /* how long a reservation may last */
    uint16_t owed; /* so many requests to write must be granted before it can be reserved again */
    struct bytes key; /* follows the struct; the prefix of a space: the lock of all its keys */
};

/* A key that an owner holds or requests. */
struct claim {
    struct lock *lock;
    struct lock_owner *owner;
    enum lock_mode mode;
    struct list lock_link;
    struct list owner_link;
};

/* A key that a client has reserved. */
struct reservation {
    struct lock *lock;
    const struct lock_reserver *reserver;
    struct list lock_link;
    struct list reserver_link;
};

struct lock_set {
    struct table *locks;  /* by metadata row, or prefix of a space */
    uint32_t spaces;      /* locks of all keys of a space */
    uint32_t reserved;    /* reservations */
    uint32_t contested;   /* locks with contested_until_us */
    struct list released; /* locks whose waits and requests must be looked at */
    /* released locks whose commands were resumed; their requests are granted a turn later */
    struct list resumed;
    struct list called;  /* owners with is_wounded or was_granted */
    struct list awaited; /* locks for which commands wait, or have waited */
    struct metric_cell *cell;
};

static inline struct claim *claim_at(struct list *link)
{
    return container_of(link, struct claim, lock_link);
}

/* The name of the lock of all keys of the space to which this key belongs: the prefix of their metadata rows. */
static inline struct bytes space_of(struct bytes key)
{
    return (struct bytes){key.data, 1 + (size_t)(uint8_t)key.data[0]};
}

static inline bool is_of_space(struct bytes key)
{
    return key.len == space_of(key).len;
}

/* A function of the owner will be called at the end of the turn. */
static inline void call_later(struct lock_set *set, struct lock_owner *owner)
{
    if (list_empty(&owner->link))
        list_push(&set->called, &owner->link);
}
