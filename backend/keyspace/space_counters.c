/*
 * space_counters.c - keys per slot of each storage namespace, in memory, and the rows of those that have changed (count_rows.h).
 *
 *   space_count ─► counter of (namespace, slot) ─► sums of the namespace, and of all, if the slot is served
 *                       └─ dirty until space_put_counters: journal row of the batch, sometimes a counter row
 */
#include "backend/keyspace/space.h"

#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space_inner.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    MANY_COUNTERS = 1024, /* counters of a namespace from which on it has an index by slot */
};

struct counter_name {
    struct holder *holder;
    uint64_t slot;
};

static struct counter *counter_find(const struct space_set *set, struct holder *holder,
                                    uint16_t slot)
{
    if (holder->by_slot)
        return holder->by_slot[slot];
    struct counter_name name = {holder, slot};
    return table_get(set->counters, (struct bytes){(const char *)&name, sizeof name});
}

static void index_by_slot(struct holder *holder)
{
    holder->by_slot = calloc(GROUPS * COUNTER_SLOTS, sizeof(struct counter *));
    CHECK(holder->by_slot);
    for (struct counter *counter = holder->counters; counter; counter = counter->next)
        holder->by_slot[counter->slot] = counter;
}

struct counter *space_counter_open(struct space_set *set, struct holder *holder, uint16_t slot)
{
    struct counter *counter = counter_find(set, holder, slot);
    if (counter)
        return counter;
    counter = calloc(1, sizeof *counter);
    CHECK(counter);
    counter->holder = holder;
    counter->slot = slot;
    counter->next = holder->counters;
    holder->counters = counter;
    struct counter_name name = {holder, slot};
    table_put(set->counters, (struct bytes){(const char *)&name, sizeof name}, counter);
    if (holder->by_slot)
        holder->by_slot[slot] = counter;
    else if (++holder->counters_count == MANY_COUNTERS)
        index_by_slot(holder);
    return counter;
}

/* Adds to the sums that include the counter. */
static void sums_add(struct space_set *set, const struct counter *counter, uint64_t keys,
                     uint64_t expires)
{
    struct space *space = &counter->holder->space;
    if (!slot_set_has(set->served, counter->slot))
        return;
    set->keys += keys;
    space->keys += keys;
    space->fewest = space->keys < space->fewest ? space->keys : space->fewest;
    space->expires += expires;
}

/* The number of keys after a change. It is below 0 if more keys were deleted than a damaged row had counted. */
static uint64_t at_least_none(struct counter *counter, uint64_t keys)
{
    if ((int64_t)keys >= 0)
        return keys;
    if (!counter->is_miscounted)
        log_event(LOG_ERROR, "keys_miscounted", "slot=%u", counter->slot);
    counter->is_miscounted = true;
    return 0;
}

static void ttl_hashes_set(struct space_set *set, struct counter *counter, uint64_t ttl_hashes)
{
    if (slot_set_has(set->served, counter->slot))
        counter->holder->space.ttl_hashes += ttl_hashes - counter->ttl_hashes;
    counter->ttl_hashes = ttl_hashes;
}

/* Sets the counter and the sums that include it. */
static void counter_set(struct space_set *set, struct counter *counter, uint64_t keys,
                        uint64_t expires)
{
    keys = at_least_none(counter, keys);
    expires = at_least_none(counter, expires);
    sums_add(set, counter, keys - counter->keys, expires - counter->expires);
    counter->keys = keys;
    counter->expires = expires;
    if (!keys)
        ttl_hashes_set(set, counter, 0);
}

/* Marks the counter row of the slot as older than journal row `serial`. */
static void group_outdated(struct space_set *set, struct holder *holder, uint16_t slot,
                           uint64_t serial)
{
    struct group *group = &holder->groups[slot / COUNTER_SLOTS];
    if (group->stale_since)
        return;
    group->holder = holder;
    group->stale_since = serial;
    group->next_stale = NULL;
    *set->stale_end = group;
    set->stale_end = &group->next_stale;
}

bool space_load_count(void *owner, struct bytes space, const struct slot_count *count,
                      uint64_t serial)
{
    struct space_set *set = owner;
    if (count->slot >= GROUPS * COUNTER_SLOTS || count->keys > COLLECTION_SIZE_MAX ||
        count->expires > COLLECTION_SIZE_MAX)
        return false;
    struct holder *holder = space_holder_open(set, space);
    counter_set(set, space_counter_open(set, holder, count->slot), count->keys, count->expires);
    if (serial)
        group_outdated(set, holder, count->slot, serial);
    return true;
}

void space_forget_counts(struct space_set *set)
{
    for (size_t i = 0; i < set->order_count; i++) {
        struct holder *holder = set->order[i];
        for (struct counter *counter = holder->counters; counter; counter = counter->next) {
            counter_set(set, counter, 0, 0);
            counter->dirty = false;
        }
        holder->dirty = NULL;
        holder->dirty_count = 0;
        holder->space.ticket = 0;
        memset(holder->groups, 0, sizeof holder->groups);
    }
    set->dirty = NULL;
    set->stale = NULL;
    set->stale_end = &set->stale;
    set->undo.count = 0;
    ttl_hash_walk_restart(&set->walk);
}

uint64_t space_keys_total(const struct space_set *set)
{
    return set->keys;
}

uint64_t space_keys_stored(const struct space_set *set)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < set->order_count; i++)
        for (const struct counter *counter = set->order[i]->counters; counter;
             counter = counter->next)
            keys += counter->keys;
    return keys;
}

void space_serve(struct space_set *set, const struct slot_set *served)
{
    set->served = served;
    set->keys = 0;
    for (size_t i = 0; i < set->order_count; i++) {
        struct space *space = &set->order[i]->space;
        uint64_t fewest = space->fewest;
        space->keys = space->expires = space->ttl_hashes = 0;
        for (const struct counter *counter = set->order[i]->counters; counter;
             counter = counter->next) {
            sums_add(set, counter, counter->keys, counter->expires);
            space->ttl_hashes += slot_set_has(set->served, counter->slot) ? counter->ttl_hashes : 0;
        }
        space->fewest = fewest < space->keys ? fewest : space->keys;
    }
}

/* ---- counting ---- */

void space_counter_add(struct space_set *set, struct counter *counter, int64_t keys,
                       int64_t expires)
{
    struct holder *holder = counter->holder;
    uint64_t ticket = overlay_change_ticket(set->overlay);
    holder->space.ticket = ticket ? ticket : holder->space.ticket;
    counter_set(set, counter, counter->keys + (uint64_t)keys, counter->expires + (uint64_t)expires);
    if (counter->dirty)
        return;
    if (!holder->dirty) {
        holder->next_dirty = set->dirty;
        set->dirty = holder;
    }
    counter->dirty = true;
    counter->next_dirty = holder->dirty;
    holder->dirty = counter;
    holder->dirty_count++;
}

void space_ttl_hashes_add(struct space_set *set, struct counter *counter, int64_t change)
{
    int64_t ttl_hashes = (int64_t)counter->ttl_hashes + change;
    ttl_hashes_set(set, counter, ttl_hashes > 0 ? (uint64_t)ttl_hashes : 0);
}

/* Changes a counter, and notes the change in the undo log. */
static void count_change(struct space_set *set, struct counter *counter, int64_t keys,
                         int64_t expires)
{
    space_counter_add(set, counter, keys, expires);
    *space_undo_add(set) = (struct undo){.counter = counter, .keys = keys, .expires = expires};
}

/* The part of a change that this count can take without going below 0. An attempt that has waited may delete keys that it made before the
 * wait, and the counter does not have those. A counter stops at 0; so if it were asked to subtract them, rolling back, which adds what was
 * asked, would leave it too high. */
static int64_t possible_change(const struct space_set *set, uint64_t count, int64_t change)
{
    bool is_below = set->attempt.has_waited && change < 0 && count < (uint64_t)-change;
    return is_below ? -(int64_t)count : change;
}

void space_count(struct space_set *set, struct space *space, uint16_t slot, int64_t keys,
                 int64_t expires)
{
    struct counter *counter = space_counter_open(set, holder_of(space), slot);
    int64_t here = possible_change(set, counter->keys, keys);
    count_change(set, counter, here, possible_change(set, counter->expires, expires));
    if (here != keys)
        space_count_elsewhere(set, space, keys - here);
}

void space_count_ttl_hash(struct space_set *set, struct space *space, struct bytes row_key,
                          int change)
{
    struct bytes name;
    struct bytes key;
    uint16_t slot;
    if (!ttl_hash_walk_has_passed(&set->walk, row_key) ||
        !decode_metadata_key(row_key, &name, &slot, &key))
        return;
    struct counter *counter = space_counter_open(set, holder_of(space), slot);
    uint64_t ticket = overlay_change_ticket(set->overlay);
    space->ticket = ticket ? ticket : space->ticket;
    int64_t here = possible_change(set, counter->ttl_hashes, change);
    space_ttl_hashes_add(set, counter, here);
    *space_undo_add(set) = (struct undo){.counter = counter, .ttl_hashes = here};
}

uint64_t space_slot_keys(const struct space_set *set, const struct space *space, uint16_t slot)
{
    struct counter *counter = counter_find(set, container_of(space, struct holder, space), slot);
    return counter ? counter->keys : 0;
}

void space_each_slot(const struct space *space, space_slot_fn *on_slot, void *owner)
{
    const struct counter *counter = container_of(space, struct holder, space)->counters;
    for (; counter; counter = counter->next)
        if (counter->keys)
            on_slot(owner, counter->slot, counter->keys);
}

static void add_counter(const struct counter *counter, uint64_t *keys, uint64_t *expires)
{
    *keys += counter->keys;
    *expires += counter->expires;
}

/* space_count_slots, of one namespace. Namespaces with many counters have an index. */
static void count_slots_of(const struct holder *holder, uint16_t first, uint16_t last,
                           uint64_t *keys, uint64_t *expires)
{
    const struct counter *counter = holder->counters;
    if (!holder->by_slot) {
        for (; counter; counter = counter->next)
            if (first <= counter->slot && counter->slot <= last)
                add_counter(counter, keys, expires);
        return;
    }
    for (unsigned slot = first; slot <= last; slot++)
        if (holder->by_slot[slot])
            add_counter(holder->by_slot[slot], keys, expires);
}

void space_count_slots(const struct space_set *set, uint16_t first, uint16_t last, uint64_t *keys,
                       uint64_t *expires)
{
    for (size_t i = 0; i < set->order_count; i++)
        count_slots_of(set->order[i], first, last, keys, expires);
}

uint16_t space_slot_at(const struct space_set *set, const struct space *space, uint64_t *index)
{
    CHECK(*index < space->keys);
    const struct counter *counter = container_of(space, struct holder, space)->counters;
    for (;; counter = counter->next) {
        uint64_t keys = slot_set_has(set->served, counter->slot) ? counter->keys : 0;
        if (*index < keys)
            return counter->slot;
        *index -= keys;
    }
}

static void counter_clear(struct space_set *set, struct counter *counter)
{
    int64_t ttl_hashes = (int64_t)counter->ttl_hashes;
    count_change(set, counter, -(int64_t)counter->keys, -(int64_t)counter->expires);
    set->undo.items[set->undo.count - 1].ttl_hashes = -ttl_hashes;
}

void space_clear(struct space_set *set, struct space *space)
{
    set->changes += space->keys;
    space->flushes++;
    for (struct counter *counter = holder_of(space)->counters; counter; counter = counter->next)
        if (counter->keys && slot_set_has(set->served, counter->slot))
            counter_clear(set, counter);
}

void space_clear_slots(struct space_set *set, struct space *space, uint16_t first, uint16_t last)
{
    space->flushes++;
    for (struct counter *counter = holder_of(space)->counters; counter; counter = counter->next)
        if (counter->keys && first <= counter->slot && counter->slot <= last)
            counter_clear(set, counter);
}

/* ---- rows of changed counters ---- */

static char *write_counter(char *to, const struct counter *counter)
{
    return write_slot_count(to,
                            &(struct slot_count){counter->slot, counter->keys, counter->expires});
}

/* Writes the counters of a namespace that changed since the last batch was closed, and marks them clean. */
static char *write_changes(struct space_set *set, struct holder *holder, char *to)
{
    to = write_journal_space(to, holder->space.name, holder->dirty_count);
    for (struct counter *counter = holder->dirty; counter; counter = counter->next_dirty) {
        to = write_counter(to, counter);
        counter->dirty = false;
        group_outdated(set, holder, counter->slot, set->serial);
    }
    holder->dirty = NULL;
    holder->dirty_count = 0;
    return to;
}

static void put_journal_row(struct space_set *set)
{
    size_t room = sizeof set->serial;
    for (const struct holder *holder = set->dirty; holder; holder = holder->next_dirty)
        room += 1 + holder->space.name.len + 2 + (size_t)holder->dirty_count * SLOT_COUNT_BYTES_MAX;
    char *row = arena_alloc(&set->arena, room);
    put_be64(row, ++set->serial);
    char *to = row + sizeof set->serial;
    for (struct holder *holder = set->dirty; holder; holder = holder->next_dirty)
        to = write_changes(set, holder, to);
    set->dirty = NULL;
    overlay_put(set->overlay, CF_SYSTEM,
                encode_journal_key(&set->arena, (uint8_t)(set->serial % JOURNAL_ROWS)),
                (struct bytes){row, (size_t)(to - row)});
}

/* Writes all counters of a group that are not zero. */
static char *write_group(const struct holder *holder, uint16_t first_slot, char *to)
{
    const struct counter *counter = holder->counters;
    if (!holder->by_slot) {
        for (; counter; counter = counter->next)
            if (counter->slot / COUNTER_SLOTS == first_slot / COUNTER_SLOTS && counter->keys)
                to = write_counter(to, counter);
        return to;
    }
    for (int slot = first_slot; slot < first_slot + COUNTER_SLOTS; slot++) {
        counter = holder->by_slot[slot];
        if (counter && counter->keys)
            to = write_counter(to, counter);
    }
    return to;
}

static void put_counter_row(struct space_set *set, struct group *group)
{
    struct holder *holder = group->holder;
    uint16_t first_slot = (uint16_t)((group - holder->groups) * COUNTER_SLOTS);
    char *row = arena_alloc(&set->arena, COUNTER_SLOTS * SLOT_COUNT_BYTES_MAX);
    const char *to = write_group(holder, first_slot, row);
    struct bytes key = encode_counter_key(&set->arena, holder->space.name, first_slot);
    if (to > row)
        overlay_put(set->overlay, CF_SYSTEM, key, (struct bytes){row, (size_t)(to - row)});
    else
        overlay_delete(set->overlay, CF_SYSTEM, key);
    group->stale_since = 0;
}

void space_put_counters(struct space_set *set)
{
    if (!set->dirty)
        return;
    put_journal_row(set);
    while (set->stale && set->stale->stale_since + JOURNAL_ROWS <= set->serial) {
        struct group *group = set->stale;
        set->stale = group->next_stale;
        if (!set->stale)
            set->stale_end = &set->stale;
        put_counter_row(set, group);
        arena_reset(&set->arena);
    }
    arena_reset(&set->arena);
}
