#include "backend/keyspace/lock.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/tally.h"
#include "backend/keyspace/lock_inner.h"
#include "backend/storage/retry.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    RESERVED_MS =
        20, /* a client needs five round trips for WATCH, a read, MULTI, a write and EXEC */
    RESERVED_MS_MAX = 320,  /* each time that clients need longer it is doubled, up to this */
    CONTESTED_US = 1000000, /* how long it counts that a client has lost */
    OWED_MS =
        10, /* a reservation that lapsed is paid for with a granted request for so much of its time */
    LOCK_BYTES = TABLE_ENTRY_BYTES + 48, /* of a lock's place in the table, and of malloc */
};

struct lock_set *lock_set_new(struct metric_cell *cell)
{
    struct lock_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->locks = table_new();
    set->cell = cell;
    list_init(&set->released);
    list_init(&set->resumed);
    list_init(&set->called);
    list_init(&set->awaited);
    return set;
}

uint32_t lock_set_count(const struct lock_set *set)
{
    return (uint32_t)table_count(set->locks);
}

void lock_owner_init(struct lock_owner *owner)
{
    *owner = (struct lock_owner){.begun_us = 0};
    list_init(&owner->holds);
    list_init(&owner->requests);
    list_init(&owner->link);
}

static bool is_older(const struct lock_owner *a, const struct lock_owner *b)
{
    return a->begun_us != b->begun_us ? a->begun_us < b->begun_us : a->tie_breaker < b->tie_breaker;
}

static bool has_prefix(struct bytes key, struct bytes prefix)
{
    return key.len >= prefix.len && memcmp(key.data, prefix.data, prefix.len) == 0;
}

static struct lock *lock_of(struct lock_set *set, struct bytes key)
{
    struct lock *lock = table_get(set->locks, key);
    if (lock)
        return lock;
    lock = calloc(1, sizeof *lock + key.len);
    CHECK(lock);
    list_init(&lock->holds);
    list_init(&lock->requests);
    list_init(&lock->commands);
    list_init(&lock->awaited);
    list_init(&lock->reservations);
    lock->reserved_ms = RESERVED_MS;
    list_init(&lock->released);
    memcpy(lock + 1, key.data, key.len);
    lock->key = (struct bytes){(char *)(lock + 1), key.len};
    (void)table_put(set->locks, lock->key, lock);
    set->spaces += is_of_space(key);
    return lock;
}

/* The lock of all keys of the space to which this key belongs; NULL: there is none. */
static struct lock *space_lock(const struct lock_set *set, struct bytes key)
{
    return set->spaces ? table_get(set->locks, space_of(key)) : NULL;
}

/* Iterates over the locks whose claims may conflict with claims of this one: itself, and for a key the lock of all keys of its
 * space, for that lock those of the keys. *cursor starts at 0. */
static struct lock *next_related(const struct lock_set *set, struct lock *lock, size_t *cursor)
{
    size_t at = *cursor - 1;
    struct bytes key;
    void *value;
    if (*cursor == 0 || !set->spaces)
        return (*cursor)++ == 0 ? lock : NULL;
    if (!is_of_space(lock->key))
        return (*cursor)++ == 1 ? space_lock(set, lock->key) : NULL;
    while (table_next(set->locks, &at, &key, &value)) {
        *cursor = at + 1;
        if (value != lock && has_prefix(key, lock->key))
            return value;
    }
    return NULL;
}

static void free_if_unused(struct lock_set *set, struct lock *lock)
{
    if (!list_empty(&lock->holds) || !list_empty(&lock->requests) || !list_empty(&lock->commands) ||
        !list_empty(&lock->reservations) || !list_empty(&lock->released) ||
        lock->contested_until_us)
        return;
    (void)table_remove(set->locks, lock->key);
    list_remove(&lock->awaited);
    set->spaces -= is_of_space(lock->key);
    free(lock);
}

static void release_later(struct lock_set *set, struct lock *lock)
{
    if (list_empty(&lock->released))
        list_push(&set->released, &lock->released);
}

/* Forgets that clients have lost, if it was long before `now_us`. */
static void end_contests(struct lock_set *set, uint64_t now_us)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (set->contested && table_next(set->locks, &cursor, &key, &value)) {
        struct lock *lock = value;
        if (!lock->contested_until_us || now_us < lock->contested_until_us)
            continue;
        lock->contested_until_us = 0;
        set->contested--;
        release_later(set, lock);
    }
}

static void free_released(struct lock_set *set, struct list *released)
{
    struct list *link;
    while ((link = list_pop(released)))
        free_if_unused(set, container_of(link, struct lock, released));
}

void lock_set_free(struct lock_set *set)
{
    if (!set)
        return;
    end_contests(set, UINT64_MAX);
    free_released(set, &set->released); /* since the last turn */
    free_released(set, &set->resumed);
    CHECK(table_count(set->locks) == 0);
    table_free(set->locks);
    free(set);
}

static struct claim *claim_of(struct list *claims, const struct lock_owner *owner)
{
    for (struct list *at = claims->next; at != claims; at = at->next)
        if (claim_at(at)->owner == owner)
            return claim_at(at);
    return NULL;
}

/* Memory of a claim, and of its lock as if no other had one. */
static size_t claim_memory(const struct claim *claim)
{
    return sizeof *claim + sizeof *claim->lock + 2 * claim->lock->key.len + LOCK_BYTES;
}

static struct claim *claim_new(struct lock *lock, struct lock_owner *owner, enum lock_mode mode)
{
    struct claim *claim = malloc(sizeof *claim);
    CHECK(claim);
    *claim = (struct claim){.lock = lock, .owner = owner, .mode = mode};
    tally_add(owner->tally, claim_memory(claim));
    list_init(&claim->lock_link);
    list_init(&claim->owner_link);
    return claim;
}

static void claim_free(struct claim *claim)
{
    list_remove(&claim->lock_link);
    list_remove(&claim->owner_link);
    tally_remove(claim->owner->tally, claim_memory(claim));
    free(claim);
}

static bool conflicts(const struct claim *claim, const struct lock_owner *owner,
                      enum lock_mode mode)
{
    return claim->owner != owner && (claim->mode == LOCK_WRITE || mode == LOCK_WRITE);
}

/* Wounds the younger of the owners whose locks conflict. True: there is such a lock. A command wounds none while the key is reserved:
 * the reserver and readers pass its request then, so that they would get the lock back before it does, and so on without end. */
static bool wound_others(struct lock_set *set, const struct lock *lock,
                         const struct lock_owner *owner, enum lock_mode mode)
{
    bool is_held = false;
    bool waits_for_reserver = owner->is_command && !list_empty(&lock->reservations);
    for (struct list *at = lock->holds.next; at != &lock->holds; at = at->next) {
        struct claim *hold = claim_at(at);
        if (!conflicts(hold, owner, mode))
            continue;
        is_held = true;
        if (!waits_for_reserver && is_older(owner, hold->owner) && !hold->owner->is_prepared &&
            !hold->owner->is_wounded) {
            hold->owner->is_wounded = true;
            call_later(set, hold->owner);
        }
    }
    return is_held;
}

/* Does a lock of another owner conflict? Younger owners of such locks are wounded. */
static bool is_held_by_others(struct lock_set *set, struct lock *lock,
                              const struct lock_owner *owner, enum lock_mode mode)
{
    bool is_held = false;
    size_t cursor = 0;
    const struct lock *related;
    while ((related = next_related(set, lock, &cursor)))
        is_held |= wound_others(set, related, owner, mode);
    return is_held;
}

static bool has_reserved(const struct lock *lock, const struct lock_owner *owner)
{
    for (const struct list *at = lock->reservations.next; at != &lock->reservations; at = at->next)
        if (container_of(at, struct reservation, lock_link)->reserver == owner->reserver)
            return true;
    return false;
}

/* Has a client reserved the key, which `owner` must not write until then? */
static bool is_reserved(const struct lock_set *set, struct lock *lock,
                        const struct lock_owner *owner, enum lock_mode mode)
{
    size_t cursor = 0;
    const struct lock *related;
    if (!set->reserved || mode != LOCK_WRITE || owner->is_command)
        return false;
    while ((related = next_related(set, lock, &cursor)))
        if (!list_empty(&related->reservations) && !has_reserved(related, owner))
            return true;
    return false;
}

/* Does an older owner request the lock, in a mode that conflicts? Requests to write a reserved key are not granted yet, and
 * those of the client that has reserved it, and reads, need not wait for them. */
static bool is_requested_before(const struct lock_set *set, struct lock *lock,
                                const struct lock_owner *owner, enum lock_mode mode)
{
    size_t cursor = 0;
    const struct lock *related;
    if (!list_empty(&lock->reservations) && (mode == LOCK_READ || has_reserved(lock, owner)))
        return false;
    while ((related = next_related(set, lock, &cursor)))
        for (struct list *at = related->requests.next; at != &related->requests; at = at->next)
            if (conflicts(claim_at(at), owner, mode) && is_older(claim_at(at)->owner, owner))
                return true;
    return false;
}

/* Adds a request after those of older owners. */
static void request(struct lock *lock, struct lock_owner *owner, enum lock_mode mode)
{
    struct claim *claim = claim_new(lock, owner, mode);
    struct list *before = &lock->requests;
    while (before->prev != &lock->requests && is_older(owner, claim_at(before->prev)->owner))
        before = before->prev;
    list_push(before, &claim->lock_link);
    list_push(&owner->requests, &claim->owner_link);
}

static void hold(struct lock *lock, struct lock_owner *owner, enum lock_mode mode)
{
    struct claim *claim = claim_of(&lock->holds, owner);
    if (!claim) {
        claim = claim_new(lock, owner, mode);
        list_push(&lock->holds, &claim->lock_link);
        if (list_empty(&owner->holds))
            owner->held_us = clock_mono_us();
        list_push(&owner->holds, &claim->owner_link);
    }
    if (mode > claim->mode)
        claim->mode = mode;
    if (mode == LOCK_WRITE && lock->owed)
        lock->owed--;
}

/* Must the owner wait for other owners, or for a reservation? Younger owners that hold the lock are wounded. */
static bool must_wait(struct lock_set *set, struct lock *lock, const struct lock_owner *owner,
                      enum lock_mode mode)
{
    return is_reserved(set, lock, owner, mode) || is_held_by_others(set, lock, owner, mode) ||
           is_requested_before(set, lock, owner, mode);
}

bool lock_take(struct lock_set *set, struct lock_owner *owner, struct bytes row_key,
               enum lock_mode mode)
{
    struct lock *lock = lock_of(set, row_key);
    const struct claim *held = claim_of(&lock->holds, owner);
    if (held && held->mode >= mode)
        return true;
    struct claim *asked = claim_of(&lock->requests, owner);
    if (asked) {
        if (mode > asked->mode)
            asked->mode = mode;
        if (!is_reserved(set, lock, owner, asked->mode))
            (void)is_held_by_others(set, lock, owner, asked->mode);
        return false;
    }
    if (must_wait(set, lock, owner, mode)) {
        request(lock, owner, mode);
        return false;
    }
    hold(lock, owner, mode);
    return true;
}

/* A claim has ended, for which requests of the lock or of related ones may have waited. */
static void release_related(struct lock_set *set, struct lock *lock)
{
    size_t cursor = 0;
    struct lock *related;
    while ((related = next_related(set, lock, &cursor)))
        if (related == lock || !list_empty(&related->requests))
            release_later(set, related);
}

static void drop_claims(struct lock_set *set, struct list *claims, uint32_t max)
{
    for (; max > 0 && !list_empty(claims); max--) {
        struct claim *claim = container_of(claims->next, struct claim, owner_link);
        struct lock *lock = claim->lock;
        claim_free(claim);
        release_related(set, lock);
    }
}

bool lock_release_some(struct lock_set *set, struct lock_owner *owner, uint32_t max)
{
    bool has_held = !list_empty(&owner->holds);
    drop_claims(set, &owner->holds, max);
    if (!list_empty(&owner->holds))
        return false;
    if (has_held)
        cell_observe(set->cell, PARTITION_LOCK_SECONDS, clock_mono_us() - owner->held_us);
    drop_claims(set, &owner->requests, UINT32_MAX);
    list_remove(&owner->link);
    owner->is_wounded = owner->was_granted = false;
    return true;
}

void lock_release(struct lock_set *set, struct lock_owner *owner)
{
    (void)lock_release_some(set, owner, UINT32_MAX);
}

uint32_t lock_requested(const struct lock_owner *owner, struct bytes *row_key)
{
    uint32_t count = 0;
    for (struct list *at = owner->requests.next; at != &owner->requests; at = at->next)
        if (count++ == 0)
            *row_key = container_of(at, struct claim, owner_link)->lock->key;
    return count;
}

/* ---- commands ---- */

static const struct lock_owner *stops(const struct lock *lock, bool writes,
                                      const struct lock_owner *self)
{
    for (struct list *at = lock->holds.next; at != &lock->holds; at = at->next) {
        const struct claim *hold = claim_at(at);
        if (hold->owner != self &&
            (writes || (hold->owner->is_prepared && hold->mode == LOCK_WRITE)))
            return hold->owner;
    }
    return NULL;
}

const struct lock_owner *lock_stops(const struct lock_set *set, struct bytes row_key, bool writes,
                                    const struct lock_owner *self)
{
    const struct lock *lock = table_get(set->locks, row_key);
    const struct lock_owner *owner = lock ? stops(lock, writes, self) : NULL;
    if (owner || !set->spaces)
        return owner;
    lock = space_lock(set, row_key);
    return lock ? stops(lock, writes, self) : NULL;
}

const struct lock_owner *lock_stops_any(const struct lock_set *set, struct bytes prefix,
                                        bool writes, const struct lock_owner *self,
                                        struct bytes *row_key)
{
    size_t cursor = 0;
    void *value;
    while (table_next(set->locks, &cursor, row_key, &value)) {
        const struct lock_owner *owner =
            has_prefix(*row_key, prefix) ? stops(value, writes, self) : NULL;
        if (owner)
            return owner;
    }
    return NULL;
}

/* The lock for which a command with this key must wait. */
static struct lock *lock_in_force(struct lock_set *set, struct bytes row_key)
{
    const struct lock *lock = table_get(set->locks, row_key);
    struct lock *all = space_lock(set, row_key);
    bool is_all = all && !list_empty(&all->holds) && (!lock || list_empty(&lock->holds));
    return is_all ? all : lock_of(set, row_key);
}

void lock_wait(struct lock_set *set, struct bytes row_key, struct retry *retry, uint64_t now_ms)
{
    struct lock *lock = lock_in_force(set, row_key);
    if (list_empty(&lock->commands))
        lock->commands_since_ms = now_ms;
    if (list_empty(&lock->awaited))
        list_push(&set->awaited, &lock->awaited);
    retry_wait(retry, &lock->commands);
}

void lock_wake_old(struct lock_set *set, uint64_t since_ms)
{
    struct list *next;
    for (struct list *at = set->awaited.next; at != &set->awaited; at = next) {
        struct lock *lock = container_of(at, struct lock, awaited);
        next = at->next;
        if (list_empty(&lock->commands))
            list_remove(&lock->awaited);
        else if (lock->commands_since_ms < since_ms)
            release_later(set, lock);
    }
}

/* ---- watched keys ---- */

void lock_reserver_init(struct lock_reserver *reserver)
{
    list_init(&reserver->reservations);
}

static const struct lock_owner *writer_of(const struct lock *lock)
{
    for (struct list *at = lock->holds.next; at != &lock->holds; at = at->next)
        if (claim_at(at)->mode == LOCK_WRITE)
            return claim_at(at)->owner;
    return NULL;
}

const struct lock_owner *lock_writer(const struct lock_set *set, struct bytes row_key)
{
    const struct lock *lock = table_get(set->locks, row_key);
    const struct lock *all = space_lock(set, row_key);
    const struct lock_owner *writer = lock ? writer_of(lock) : NULL;
    return writer || !all ? writer : writer_of(all);
}

void lock_contest(struct lock_set *set, struct bytes row_key)
{
    struct lock *lock = table_get(set->locks, row_key);
    if (!lock)
        return;
    set->contested += !lock->contested_until_us;
    lock->contested_until_us = clock_mono_us() + CONTESTED_US;
}

void lock_reserve(struct lock_set *set, struct lock_reserver *reserver, struct bytes row_key)
{
    struct lock *lock = table_get(set->locks, row_key);
    uint64_t now_us = clock_mono_us();
    if (!lock || lock->owed || lock_writer(set, row_key))
        return;
    if (list_empty(&lock->reservations))
        lock->reserved_until_us = now_us + 1000u * lock->reserved_ms;
    else if (now_us >= lock->reserved_until_us)
        return;
    struct reservation *reservation = malloc(sizeof *reservation);
    CHECK(reservation);
    *reservation = (struct reservation){.lock = lock, .reserver = reserver};
    list_push(&lock->reservations, &reservation->lock_link);
    list_push(&reserver->reservations, &reservation->reserver_link);
    set->reserved++;
}

static void end_reservations(struct lock_set *set, struct lock *lock, uint16_t owed)
{
    struct list *link;
    while ((link = list_pop(&lock->reservations))) {
        struct reservation *reservation = container_of(link, struct reservation, lock_link);
        list_remove(&reservation->reserver_link);
        free(reservation);
        set->reserved--;
    }
    lock->owed = list_empty(&lock->requests) ? 0 : owed;
    release_related(set, lock);
}

void lock_unreserve(struct lock_set *set, struct lock_reserver *reserver)
{
    while (!list_empty(&reserver->reservations)) {
        struct reservation *reservation =
            container_of(reserver->reservations.next, struct reservation, reserver_link);
        end_reservations(set, reservation->lock, 1);
    }
}

void lock_end_reservations(struct lock_set *set)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    uint64_t now_us = clock_mono_us();
    end_contests(set, now_us);
    while (set->reserved && table_next(set->locks, &cursor, &key, &value)) {
        struct lock *lock = value;
        if (list_empty(&lock->reservations) || now_us < lock->reserved_until_us)
            continue;
        end_reservations(set, lock, lock->reserved_ms / OWED_MS);
        if (lock->reserved_ms < RESERVED_MS_MAX)
            lock->reserved_ms *= 2;
    }
}

/* ---- the end of a turn ---- */

/* Grants the requests that no lock and no older request conflicts with. */
static void grant(struct lock_set *set, struct lock *lock)
{
    struct list *next;
    for (struct list *at = lock->requests.next; at != &lock->requests; at = next) {
        struct claim *asked = claim_at(at);
        struct lock_owner *owner = asked->owner;
        next = at->next;
        if (must_wait(set, lock, owner, asked->mode))
            continue;
        hold(lock, owner, asked->mode);
        claim_free(asked);
        if (list_empty(&owner->requests)) {
            owner->was_granted = true;
            call_later(set, owner);
        }
    }
}

static void call_owner(struct lock_owner *owner)
{
    bool is_wounded = owner->is_wounded;
    bool was_granted = owner->was_granted;
    owner->is_wounded = owner->was_granted = false;
    if (is_wounded && !owner->is_prepared)
        owner->on_wounded(owner);
    if (was_granted)
        owner->on_granted(owner);
}

/* Resumes the commands that wait for released keys. */
static void resume_commands(struct lock_set *set)
{
    struct list *link;
    while ((link = list_pop(&set->released))) {
        list_push(&set->resumed, link);
        retry_done(&container_of(link, struct lock, released)->commands);
    }
}

static void grant_requests(struct lock_set *set)
{
    struct list *link;
    while ((link = list_pop(&set->resumed))) {
        struct lock *lock = container_of(link, struct lock, released);
        grant(set, lock);
        free_if_unused(set, lock);
    }
}

bool lock_set_turn_end(struct lock_set *set)
{
    struct list *link;
    grant_requests(set);
    resume_commands(set);
    bool has_calls = !list_empty(&set->called);
    while ((link = list_pop(&set->called)))
        call_owner(container_of(link, struct lock_owner, link));
    return has_calls || !list_empty(&set->resumed);
}

bool lock_is_held(const struct lock_set *set, const struct lock_owner *owner, struct bytes row_key)
{
    struct lock *lock = table_get(set->locks, row_key);
    struct lock *all = space_lock(set, row_key);
    return (lock && claim_of(&lock->holds, owner)) || (all && claim_of(&all->holds, owner));
}
