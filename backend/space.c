/*
 * space.c - storage namespaces, their counters and the database maps, in memory; rows of what changed.
 */
#include "backend/space.h"

#include "backend/encoding.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/table.h"

#include <stdlib.h>

/* Keys of one slot of one storage namespace. */
struct counter {
    struct holder *holder;
    struct counter *next;       /* of the same namespace */
    struct counter *next_dirty; /* in set->dirty */
    uint64_t keys;
    uint64_t expires;
    uint16_t slot;
    bool dirty;
};

/* A storage namespace with what only this file knows of it. */
struct holder {
    struct space space;
    struct counter *counters;
    char name[];
};

/* Which storage database stands for database 0, 1, 2 … of a namespace. */
struct database_map {
    uint8_t storage[DATABASES_MAX];
    struct space *spaces[DATABASES_MAX]; /* what space_open answers; NULL: not opened yet */
};

struct undo {
    struct counter *counter;
    int64_t keys;
    int64_t expires;
};

struct space_set {
    struct overlay *overlay;
    struct store *store;
    struct table *holders;  /* storage namespace → holder */
    struct table *maps;     /* namespace → database_map */
    struct table *counters; /* holder address | slot → counter */
    struct counter *dirty;
    uint64_t keys; /* of all namespaces */
    struct holder **order; /* all holders, oldest first */
    size_t order_count;
    uint64_t generation;
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct arena arena; /* of the rows being made */
};

struct counter_name {
    struct holder *holder;
    uint64_t slot;
};

static struct holder *holder_of(struct space *space)
{
    return container_of(space, struct holder, space);
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
    return holder;
}

static struct counter *counter_find(const struct space_set *set, struct holder *holder, uint16_t slot)
{
    struct counter_name name = {holder, slot};
    return table_get(set->counters, (struct bytes){(const char *)&name, sizeof name});
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
    return counter;
}

/* ---- reading what is stored ---- */

static bool load_counter(struct space_set *set, struct bytes key, struct bytes value)
{
    struct bytes name;
    uint16_t slot;
    uint64_t keys;
    uint64_t expires;
    if (!decode_counter_key(key, &name, &slot) || !decode_counter(value, &keys, &expires))
        return false;
    struct holder *holder = holder_open(set, name);
    struct counter *counter = counter_open(set, holder, slot);
    counter->keys = keys;
    counter->expires = expires;
    holder->space.keys += keys;
    holder->space.expires += expires;
    set->keys += keys;
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

/* Reads all rows that begin with `first`. False when the store fails or a row is damaged. */
static bool load_rows(struct space_set *set, char first, bool (*load)(struct space_set *, struct bytes, struct bytes))
{
    char end = (char)(first + 1);
    struct store_iter *iter =
        store_iter_new(set->store, CF_SYSTEM, (struct bytes){&first, 1}, (struct bytes){&end, 1});
    bool fine = true;
    for (store_iter_seek_first(iter); fine && store_iter_valid(iter); store_iter_next(iter))
        fine = load(set, store_iter_key(iter), store_iter_value(iter));
    fine = fine && !store_iter_failed(iter);
    store_iter_free(iter);
    return fine;
}

bool space_reload(struct space_set *set)
{
    for (size_t i = 0; i < set->order_count; i++) {
        struct holder *holder = set->order[i];
        holder->space.keys = holder->space.expires = 0;
        for (struct counter *counter = holder->counters; counter; counter = counter->next) {
            counter->keys = counter->expires = 0;
            counter->dirty = false;
        }
    }
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(set->maps, &cursor, &name, &value)) {
        struct database_map *map = value;
        for (uint8_t i = 0; i < DATABASES_MAX; i++)
            map->storage[i] = i;
        memset(map->spaces, 0, sizeof map->spaces);
    }
    set->dirty = NULL;
    set->keys = 0;
    set->undo_count = 0;
    set->generation++;
    return load_rows(set, 'c', load_counter) && load_rows(set, 'd', load_map);
}

struct space_set *space_set_new(struct overlay *overlay, struct store *store)
{
    struct space_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->overlay = overlay;
    set->store = store;
    set->holders = table_new();
    set->maps = table_new();
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
        free(set->order[i]);
    }
    size_t cursor = 0;
    struct bytes name;
    void *map;
    while (table_next(set->maps, &cursor, &name, &map))
        free(map);
    table_free(set->holders);
    table_free(set->maps);
    table_free(set->counters);
    arena_fini(&set->arena);
    free(set->order);
    free(set->undo);
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

uint64_t space_generation(const struct space_set *set)
{
    return set->generation;
}

void space_swap(struct space_set *set, struct bytes name, uint8_t a, uint8_t b)
{
    struct database_map *map = map_open(set, name);
    uint8_t storage = map->storage[a];
    map->storage[a] = map->storage[b];
    map->storage[b] = storage;
    memset(map->spaces, 0, sizeof map->spaces);
    set->generation++;
    overlay_put(set->overlay, CF_SYSTEM, encode_database_map_key(&set->arena, name),
                (struct bytes){(const char *)map->storage, DATABASES_MAX});
    arena_reset(&set->arena);
}

struct space *space_next(struct space_set *set, size_t *cursor)
{
    return *cursor < set->order_count ? &set->order[(*cursor)++]->space : NULL;
}

uint64_t space_keys_total(const struct space_set *set)
{
    return set->keys;
}

/* ---- counters ---- */

static void counter_add(struct space_set *set, struct counter *counter, int64_t keys, int64_t expires)
{
    counter->keys += (uint64_t)keys;
    counter->expires += (uint64_t)expires;
    counter->holder->space.keys += (uint64_t)keys;
    set->keys += (uint64_t)keys;
    counter->holder->space.expires += (uint64_t)expires;
    CHECK((int64_t)counter->keys >= 0);
    CHECK((int64_t)counter->expires >= 0);
    if (counter->dirty)
        return;
    counter->dirty = true;
    counter->next_dirty = set->dirty;
    set->dirty = counter;
}

void space_count(struct space_set *set, struct space *space, uint16_t slot, int64_t keys, int64_t expires)
{
    struct counter *counter = counter_open(set, holder_of(space), slot);
    counter_add(set, counter, keys, expires);
    if (set->undo_count == set->undo_cap) {
        set->undo_cap = set->undo_cap ? set->undo_cap * 2 : 64;
        set->undo = realloc(set->undo, set->undo_cap * sizeof *set->undo);
        CHECK(set->undo);
    }
    set->undo[set->undo_count++] = (struct undo){counter, keys, expires};
}

uint64_t space_slot_keys(const struct space_set *set, const struct space *space, uint16_t slot)
{
    struct counter *counter = counter_find(set, container_of(space, struct holder, space), slot);
    return counter ? counter->keys : 0;
}

uint16_t space_slot_at(const struct space *space, uint64_t *index)
{
    CHECK(*index < space->keys);
    const struct counter *counter = container_of(space, struct holder, space)->counters;
    for (; *index >= counter->keys; counter = counter->next)
        *index -= counter->keys;
    return counter->slot;
}

void space_clear(struct space_set *set, struct space *space)
{
    for (struct counter *counter = holder_of(space)->counters; counter; counter = counter->next)
        counter->keys = counter->expires = 0;
    set->keys -= space->keys;
    space->keys = space->expires = 0;
    set->undo_count = 0; /* a flush is never taken back */
    struct bytes prefix = encode_counter_prefix(&set->arena, space->name);
    overlay_delete_range(set->overlay, CF_SYSTEM, prefix, encode_prefix_end(&set->arena, prefix));
    arena_reset(&set->arena);
}

void space_savepoint(struct space_set *set)
{
    set->undo_count = 0;
}

void space_rollback(struct space_set *set)
{
    while (set->undo_count > 0) {
        struct undo *undo = &set->undo[--set->undo_count];
        counter_add(set, undo->counter, -undo->keys, -undo->expires);
    }
}

void space_seal(struct space_set *set)
{
    for (struct counter *counter = set->dirty; counter; counter = counter->next_dirty) {
        struct bytes key = encode_counter_key(&set->arena, counter->holder->space.name, counter->slot);
        if (counter->keys)
            overlay_put(set->overlay, CF_SYSTEM, key,
                        encode_counter(&set->arena, counter->keys, counter->expires));
        else
            overlay_delete(set->overlay, CF_SYSTEM, key);
        counter->dirty = false;
    }
    set->dirty = NULL;
    arena_reset(&set->arena);
}
