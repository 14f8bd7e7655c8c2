/*
 * lock_slots.c - the locks of keys of some slots, for moves of these.
 */
#include "backend/keyspace/lock_inner.h"

#include "backend/format/encoding.h"
#include "shared/table.h"

/* Is it the lock of a key of these slots, or of all keys of a space? */
static bool is_lock_in(struct bytes row_key, uint16_t first, uint16_t last)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    return is_of_space(row_key) ||
           (decode_metadata_key(row_key, &space, &slot, &key) && first <= slot && slot <= last);
}

bool lock_is_any_in(const struct lock_set *set, uint16_t first, uint16_t last)
{
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    while (table_next(set->locks, &cursor, &row_key, &value)) {
        const struct lock *lock = value;
        bool is_used = !list_empty(&lock->holds) || !list_empty(&lock->requests);
        if (is_used && is_lock_in(row_key, first, last))
            return true;
    }
    return false;
}

static bool is_any_in_doubt(const struct list *claims)
{
    for (struct list *at = claims->next; at != claims; at = at->next)
        if (claim_at(at)->owner->is_in_doubt)
            return true;
    return false;
}

bool lock_is_in_doubt_in(const struct lock_set *set, uint16_t first, uint16_t last)
{
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    while (table_next(set->locks, &cursor, &row_key, &value))
        if (is_lock_in(row_key, first, last) && is_any_in_doubt(&((struct lock *)value)->holds))
            return true;
    return false;
}

static void wound_all(struct lock_set *set, const struct list *claims)
{
    for (struct list *at = claims->next; at != claims; at = at->next) {
        struct lock_owner *owner = claim_at(at)->owner;
        if (owner->is_prepared)
            continue;
        owner->is_wounded = true;
        call_later(set, owner);
    }
}

void lock_wound_in(struct lock_set *set, uint16_t first, uint16_t last)
{
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    while (table_next(set->locks, &cursor, &row_key, &value)) {
        const struct lock *lock = value;
        if (!is_lock_in(row_key, first, last))
            continue;
        wound_all(set, &lock->holds);
        wound_all(set, &lock->requests);
    }
}
