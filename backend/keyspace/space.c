/*
 * space.c - storage namespaces, their counters and database maps in memory, and rows of changed counters (count_rows.h).
 */
#include "backend/keyspace/space.h"

#include "backend/keyspace/count_rows.h"
#include "backend/keyspace/slot_set.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/out.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    GROUPS = 16384 / COUNTER_SLOTS,
    MANY_COUNTERS = 1024, /* counters of a namespace from which on it has an index by slot */
};

/* Keys of one slot of one storage namespace. */
struct counter {
    struct holder *holder;
    struct counter *next;       /* of the same namespace */
    struct counter *next_dirty; /* in holder->dirty */
    uint64_t keys;
    uint64_t expires;
    uint16_t slot;
    bool dirty;
};

/* The slots of one counter row. */
struct group {
    struct holder *holder;
    struct group *next_stale;
    uint64_t stale_since; /* oldest journal row whose values the counter row lacks; 0: none */
};

/* A storage namespace with the state private to this file. */
struct holder {
    struct space space;
    struct counter *counters;
    size_t counters_count;
    struct counter **by_slot; /* NULL while there are few counters */
    struct counter *dirty;    /* changed since the last batch was closed */
    uint16_t dirty_count;
    struct holder *next_dirty; /* in set->dirty */
    struct group groups[GROUPS];
    char name[];
};

/* The storage namespaces of databases 0, 1, 2 … of a namespace. */
struct database_map {
    uint8_t storage[DATABASES_MAX];
    struct space *spaces[DATABASES_MAX]; /* results of space_open; NULL: not opened yet */
};

struct undo {
    struct counter *counter; /* NULL: the entry is a change of `elsewhere`, … */
    struct space *space; /* … or, if this is NULL, a swap of databases `a` and `b` of `name` */
    int64_t keys;
    int64_t expires;
    struct bytes name; /* namespace of the session */
    uint8_t a, b;
};

/* Values of counters before their changes, oldest first. */
struct undo_log {
    struct undo *items;
    size_t count;
    size_t cap;
};

struct limit_set {
    struct table *by_name; /* namespace → space_limit */
    struct space_limit of_all;
};

/* `changes` of the set, to which rollbacks return. */
struct change_marks {
    uint64_t savepoint;
    uint64_t attempt; /* when the attempt began */
    uint64_t script;  /* when the script began */
    uint64_t queue;   /* when the queue of an EXEC began */
};

struct space_set {
    struct overlay *overlay;
    struct table *holders; /* storage namespace → holder */
    struct table *maps;    /* namespace → database_map */
    struct limit_set limits;
    struct table *counters; /* holder address | slot → counter */
    struct holder *dirty;
    struct group *stale; /* oldest first */
    struct group **stale_end;
    uint64_t serial;               /* of the newest journal row */
    const struct slot_set *served; /* slots that the sums include; NULL: all */
    uint64_t keys;                 /* keys of all namespaces */
    uint64_t changes;              /* changed keys since the start */
    struct change_marks marks;
    struct holder **order; /* all holders, in order of creation */
    size_t order_count;
    uint64_t generation;
    size_t savepoint; /* undo.count at the savepoint */
    bool is_attempt;
    bool is_script; /* a script runs: savepoints keep the undo log */
    size_t script;  /* undo.count when the script began */
    struct {
        bool is_on;
        size_t from;
    } queue;                   /* the same for the queue of an EXEC */
    space_swapped_fn *on_swap; /* NULL: none */
    void *swap_owner;
    struct arena arena; /* for rows that are being composed */
    struct undo_log undo;
};

struct counter_name {
    struct holder *holder;
    uint64_t slot;
};

static struct holder *holder_of(struct space *space)
{
    return container_of(space, struct holder, space);
}

/* The namespace of a storage namespace; *database is its database in storage. */
static struct bytes split_name(const struct space *space, uint8_t *database)
{
    struct bytes name = space->name;
    *database = 0;
    if (name.len >= 2 && name.data[name.len - 2] == 0) {
        *database = (uint8_t)name.data[name.len - 1];
        name.len -= 2;
    }
    return name;
}

/* Makes the limits of its namespace count the new storage namespace. */
static void find_limit(struct space_set *set, struct space *space)
{
    uint8_t database;
    struct bytes name = split_name(space, &database);
    space->limit = table_get(set->limits.by_name, name);
    if (space->limit && database < DATABASES_MAX)
        space->limit->spaces[database] = space;
}

static struct holder *holder_open(struct space_set *set, struct bytes name)
{
    struct holder *holder = table_get(set->holders, name);
    if (holder)
        return holder;
    holder = calloc(1, sizeof *holder + name.len);
    CHECK(holder);
    if (name.len)
        memcpy(holder->name, name.data, name.len);
    holder->space.name = (struct bytes){holder->name, name.len};
    table_put(set->holders, name, holder);
    set->order = realloc(set->order, (set->order_count + 1) * sizeof(struct holder *));
    CHECK(set->order);
    set->order[set->order_count++] = holder;
    find_limit(set, &holder->space);
    return holder;
}

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

static struct counter *counter_open(struct space_set *set, struct holder *holder, uint16_t slot)
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

/* Sets the counter and the sums that include it. */
static void counter_set(struct space_set *set, struct counter *counter, uint64_t keys,
                        uint64_t expires)
{
    sums_add(set, counter, keys - counter->keys, expires - counter->expires);
    counter->keys = keys;
    counter->expires = expires;
    CHECK((int64_t)keys >= 0);
    CHECK((int64_t)expires >= 0);
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

/* ---- reading stored counters and maps ---- */

/* stored_count_fn: sets a counter to its stored value. */
static bool load_count(void *owner, struct bytes space, const struct slot_count *count,
                       uint64_t serial)
{
    struct space_set *set = owner;
    if (count->slot >= GROUPS * COUNTER_SLOTS)
        return false;
    struct holder *holder = holder_open(set, space);
    counter_set(set, counter_open(set, holder, count->slot), count->keys, count->expires);
    if (serial)
        group_outdated(set, holder, count->slot, serial);
    return true;
}

static struct database_map *map_open(struct space_set *set, struct bytes name)
{
    struct database_map *map = table_get(set->maps, name);
    if (map)
        return map;
    map = calloc(1, sizeof *map);
    CHECK(map);
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        map->storage[i] = i;
    table_put(set->maps, name, map);
    return map;
}

static bool load_map(struct space_set *set, struct bytes key, struct bytes value)
{
    struct bytes name;
    if (!decode_database_map_key(key, &name) || value.len != DATABASES_MAX)
        return false;
    struct database_map *map = map_open(set, name);
    memcpy(map->storage, value.data, DATABASES_MAX);
    memset(map->spaces, 0, sizeof map->spaces);
    return true;
}

/* Reads all database maps. False: the store failed or a row is damaged. */
static bool load_maps(struct space_set *set)
{
    struct overlay_iter *iter = overlay_iter_new(set->overlay, CF_SYSTEM, BYTES("d"), BYTES("e"));
    bool fine = true;
    for (overlay_iter_seek_first(iter); fine && overlay_iter_valid(iter); overlay_iter_next(iter))
        fine = load_map(set, overlay_iter_key(iter), overlay_iter_value(iter));
    fine = fine && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return fine;
}

static void forget_counts(struct space_set *set)
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
}

bool space_reload(struct space_set *set)
{
    forget_counts(set);
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(set->maps, &cursor, &name, &value)) {
        struct database_map *map = value;
        for (uint8_t i = 0; i < DATABASES_MAX; i++)
            map->storage[i] = i;
        memset(map->spaces, 0, sizeof map->spaces);
    }
    set->generation++;
    return count_rows_read(set->overlay, load_count, set, &set->serial) && load_maps(set);
}

struct space_set *space_set_new(struct overlay *overlay)
{
    struct space_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->overlay = overlay;
    set->holders = table_new();
    set->maps = table_new();
    set->limits.by_name = table_new();
    list_init(&set->limits.of_all.waits);
    set->counters = table_new();
    arena_init(&set->arena);
    if (space_reload(set))
        return set;
    space_set_free(set);
    return NULL;
}

void space_set_free(struct space_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->order_count; i++) {
        struct counter *next;
        for (struct counter *counter = set->order[i]->counters; counter; counter = next) {
            next = counter->next;
            free(counter);
        }
        free(set->order[i]->by_slot);
        free(set->order[i]);
    }
    size_t cursor = 0;
    struct bytes name;
    void *map;
    while (table_next(set->maps, &cursor, &name, &map))
        free(map);
    table_free(set->holders);
    cursor = 0;
    void *limit;
    while (table_next(set->limits.by_name, &cursor, &name, &limit))
        free(limit);
    table_free(set->maps);
    table_free(set->limits.by_name);
    table_free(set->counters);
    arena_fini(&set->arena);
    free(set->order);
    free(set->undo.items);
    free(set);
}

/* ---- namespaces ---- */

struct space *space_open(struct space_set *set, struct bytes name, uint8_t database)
{
    CHECK(database < DATABASES_MAX);
    CHECK(name.len <= NAMESPACE_BYTES_MAX);
    struct database_map *map = map_open(set, name);
    if (map->spaces[database])
        return map->spaces[database];
    char storage[NAMESPACE_BYTES_MAX + 2];
    size_t len = name.len;
    if (len)
        memcpy(storage, name.data, len);
    if (map->storage[database] != 0) {
        storage[len++] = 0;
        storage[len++] = (char)map->storage[database];
    }
    map->spaces[database] = &holder_open(set, (struct bytes){storage, len})->space;
    return map->spaces[database];
}

struct space *space_find(struct space_set *set, struct bytes storage_name)
{
    return &holder_open(set, storage_name)->space;
}

void space_place(struct space_set *set, const struct space *space, struct bytes *name,
                 uint8_t *database)
{
    uint8_t storage;
    *name = split_name(space, &storage);
    const struct database_map *map = map_open(set, *name);
    for (*database = 0; *database < DATABASES_MAX - 1; ++*database)
        if (map->storage[*database] == storage)
            return;
}

uint64_t space_generation(const struct space_set *set)
{
    return set->generation;
}

static struct undo *undo_add(struct space_set *set)
{
    if (set->undo.count == set->undo.cap) {
        set->undo.cap = set->undo.cap ? set->undo.cap * 2 : 64;
        set->undo.items = realloc(set->undo.items, set->undo.cap * sizeof *set->undo.items);
        CHECK(set->undo.items);
    }
    return &set->undo.items[set->undo.count++];
}

/* Swaps two databases in the map in memory. The overlay rolls back the map's row. */
static struct database_map *swap_places(struct space_set *set, struct bytes name, uint8_t a,
                                        uint8_t b)
{
    struct database_map *map = map_open(set, name);
    uint8_t storage = map->storage[a];
    map->storage[a] = map->storage[b];
    map->storage[b] = storage;
    memset(map->spaces, 0, sizeof map->spaces);
    set->generation++;
    if (set->on_swap)
        set->on_swap(set->swap_owner, space_open(set, name, a), space_open(set, name, b));
    return map;
}

void space_on_swap(struct space_set *set, space_swapped_fn *on_swap, void *owner)
{
    set->on_swap = on_swap;
    set->swap_owner = owner;
}

void space_swap(struct space_set *set, struct bytes name, uint8_t a, uint8_t b)
{
    const struct database_map *map = swap_places(set, name, a, b);
    *undo_add(set) = (struct undo){.name = name, .a = a, .b = b};
    overlay_put(set->overlay, CF_SYSTEM, encode_database_map_key(&set->arena, name),
                (struct bytes){(const char *)map->storage, DATABASES_MAX});
    arena_reset(&set->arena);
}

/* ---- all maps, for another shard ---- */

static bool is_swapped(const struct database_map *map)
{
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        if (map->storage[i] != i)
            return true;
    return false;
}

static int compare_map_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

void space_maps_write(struct space_set *set, struct out *out)
{
    struct bytes *names = malloc((table_count(set->maps) + 1) * sizeof *names);
    CHECK(names);
    size_t cursor = 0;
    size_t count = 0;
    void *map;
    while (table_next(set->maps, &cursor, &names[count], &map))
        count += is_swapped(map);
    qsort(names, count, sizeof *names, compare_map_names);
    for (size_t i = 0; i < count; i++) {
        const struct database_map *swapped = table_get(set->maps, names[i]);
        uint8_t len = (uint8_t)names[i].len;
        out_write(out, &len, 1);
        out_write(out, names[i].data, names[i].len);
        out_write(out, swapped->storage, DATABASES_MAX);
    }
    free(names);
}

static bool is_permutation(const uint8_t storage[DATABASES_MAX])
{
    uint32_t seen = 0;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        seen |= storage[i] < DATABASES_MAX ? 1u << storage[i] : 0;
    return seen == (1u << DATABASES_MAX) - 1;
}

static void put_map(struct space_set *set, struct bytes name, const uint8_t storage[DATABASES_MAX])
{
    struct database_map *map = map_open(set, name);
    memcpy(map->storage, storage, DATABASES_MAX);
    memset(map->spaces, 0, sizeof map->spaces);
    overlay_put(set->overlay, CF_SYSTEM, encode_database_map_key(&set->arena, name),
                (struct bytes){(const char *)map->storage, DATABASES_MAX});
    arena_reset(&set->arena);
}

static void put_identical_maps(struct space_set *set)
{
    uint8_t storage[DATABASES_MAX];
    size_t cursor = 0;
    struct bytes name;
    void *map;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        storage[i] = i;
    while (table_next(set->maps, &cursor, &name, &map))
        if (is_swapped(map))
            put_map(set, name, storage);
}

bool space_maps_replace(struct space_set *set, struct bytes maps)
{
    put_identical_maps(set);
    set->generation++;
    while (maps.len) {
        size_t len = (uint8_t)maps.data[0];
        if (len > NAMESPACE_BYTES_MAX || maps.len < 1 + len + DATABASES_MAX)
            return false;
        const uint8_t *storage = (const uint8_t *)maps.data + 1 + len;
        if (!is_permutation(storage))
            return false;
        put_map(set, (struct bytes){maps.data + 1, len}, storage);
        maps = (struct bytes){maps.data + 1 + len + DATABASES_MAX,
                              maps.len - (1 + len + DATABASES_MAX)};
    }
    return true;
}

struct space *space_next(struct space_set *set, size_t *cursor)
{
    return *cursor < set->order_count ? &set->order[(*cursor)++]->space : NULL;
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
        space->keys = space->expires = 0;
        for (const struct counter *counter = set->order[i]->counters; counter;
             counter = counter->next)
            sums_add(set, counter, counter->keys, counter->expires);
        space->fewest = fewest < space->keys ? fewest : space->keys;
    }
}

/* ---- limits ---- */

struct space_limit *space_limit_of_all(struct space_set *set)
{
    return &set->limits.of_all;
}

struct space_limit *space_limit_open(struct space_set *set, struct bytes name)
{
    struct space_limit *limit = table_get(set->limits.by_name, name);
    if (limit)
        return limit;
    limit = calloc(1, sizeof *limit);
    CHECK(limit);
    list_init(&limit->waits);
    table_put(set->limits.by_name, name, limit);
    for (size_t i = 0; i < set->order_count; i++) {
        uint8_t database;
        if (bytes_equal(split_name(&set->order[i]->space, &database), name))
            find_limit(set, &set->order[i]->space);
    }
    return limit;
}

uint64_t space_limit_keys(const struct space_limit *limit)
{
    uint64_t keys = 0;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        keys += limit->spaces[i] ? limit->spaces[i]->keys : 0;
    return keys;
}

uint64_t space_limit_fewest(const struct space_limit *limit)
{
    uint64_t fewest = 0;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        fewest += limit->spaces[i] ? limit->spaces[i]->fewest : 0;
    return fewest;
}

void space_limit_count_anew(const struct space_limit *limit)
{
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        if (limit->spaces[i])
            limit->spaces[i]->fewest = limit->spaces[i]->keys;
}

struct space_limit *space_limit_next(struct space_set *set, size_t *cursor)
{
    struct bytes name;
    void *limit;
    return table_next(set->limits.by_name, cursor, &name, &limit) ? limit : NULL;
}

/* ---- counters ---- */

static void counter_add(struct space_set *set, struct counter *counter, int64_t keys,
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

/* Changes a counter, and notes the change in the undo log. */
static void count_change(struct space_set *set, struct counter *counter, int64_t keys,
                         int64_t expires)
{
    counter_add(set, counter, keys, expires);
    *undo_add(set) = (struct undo){.counter = counter, .keys = keys, .expires = expires};
}

void space_count(struct space_set *set, struct space *space, uint16_t slot, int64_t keys,
                 int64_t expires)
{
    count_change(set, counter_open(set, holder_of(space), slot), keys, expires);
}

void space_count_elsewhere(struct space_set *set, struct space *space, int64_t keys)
{
    space->elsewhere += keys;
    *undo_add(set) = (struct undo){.space = space, .keys = keys};
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

void space_change(struct space_set *set)
{
    set->changes++;
}

uint64_t space_changes(const struct space_set *set)
{
    return set->changes;
}

void space_clear(struct space_set *set, struct space *space)
{
    set->changes += space->keys;
    space->flushes++;
    for (struct counter *counter = holder_of(space)->counters; counter; counter = counter->next)
        if (counter->keys && slot_set_has(set->served, counter->slot))
            count_change(set, counter, -(int64_t)counter->keys, -(int64_t)counter->expires);
}

void space_clear_slots(struct space_set *set, struct space *space, uint16_t first, uint16_t last)
{
    space->flushes++;
    for (struct counter *counter = holder_of(space)->counters; counter; counter = counter->next)
        if (counter->keys && first <= counter->slot && counter->slot <= last)
            count_change(set, counter, -(int64_t)counter->keys, -(int64_t)counter->expires);
}

void space_savepoint(struct space_set *set)
{
    set->marks.savepoint = set->changes;
    if (!set->is_attempt && !set->is_script && !set->queue.is_on)
        set->undo.count = 0;
    set->savepoint = set->undo.count;
}

static void roll_back_counts(struct space_set *set, size_t undo_count)
{
    while (set->undo.count > undo_count) {
        const struct undo undo = set->undo.items[--set->undo.count];
        if (undo.counter)
            counter_add(set, undo.counter, -undo.keys, -undo.expires);
        else if (undo.space)
            undo.space->elsewhere -= undo.keys;
        else
            (void)swap_places(set, undo.name, undo.a, undo.b);
    }
}

void space_rollback(struct space_set *set)
{
    set->changes = set->marks.savepoint;
    roll_back_counts(set, set->savepoint);
}

void space_attempt_begin(struct space_set *set)
{
    set->undo.count = 0;
    set->is_attempt = true;
    set->marks.attempt = set->changes;
}

void space_attempt_end(struct space_set *set, bool is_good)
{
    set->is_attempt = false;
    if (is_good)
        return;
    roll_back_counts(set, 0);
    set->changes = set->marks.attempt;
}

void space_script_begin(struct space_set *set)
{
    set->is_script = true;
    set->script = set->undo.count;
    set->marks.script = set->changes;
}

void space_script_end(struct space_set *set, bool is_good)
{
    set->is_script = false;
    if (!is_good) {
        roll_back_counts(set, set->script);
        set->changes = set->marks.script;
    }
    space_savepoint(set);
}

void space_queue_begin(struct space_set *set)
{
    set->queue.is_on = true;
    set->queue.from = set->savepoint;
    set->marks.queue = set->marks.savepoint;
}

void space_queue_end(struct space_set *set, bool is_good)
{
    set->queue.is_on = false;
    if (is_good)
        return;
    roll_back_counts(set, set->queue.from);
    set->changes = set->marks.queue;
    space_savepoint(set);
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
