/*
 * space.c - the set of storage namespaces, their limits, and what is rolled back with a command.
 */
#include "backend/keyspace/space.h"

#include "backend/keyspace/space_inner.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/table.h"

#include <stdlib.h>

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

struct holder *space_holder_open(struct space_set *set, struct bytes name)
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

/* ---- life ---- */

bool space_reload(struct space_set *set)
{
    space_forget_counts(set);
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
    return count_rows_read(set->overlay, space_load_count, set, &set->serial) &&
           space_maps_load(set);
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
    ttl_hash_walk_fini(&set->walk);
    free(set->order);
    free(set->undo.items);
    free(set);
}

/* ---- namespaces ---- */

struct space *space_open(struct space_set *set, struct bytes name, uint8_t database)
{
    CHECK(database < DATABASES_MAX);
    CHECK(name.len <= NAMESPACE_BYTES_MAX);
    struct database_map *map = space_map_open(set, name);
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
    map->spaces[database] = &space_holder_open(set, (struct bytes){storage, len})->space;
    return map->spaces[database];
}

struct space *space_find(struct space_set *set, struct bytes storage_name)
{
    return &space_holder_open(set, storage_name)->space;
}

void space_place(struct space_set *set, const struct space *space, struct bytes *name,
                 uint8_t *database)
{
    uint8_t storage;
    *name = split_name(space, &storage);
    const struct database_map *map = space_map_open(set, *name);
    for (*database = 0; *database < DATABASES_MAX - 1; ++*database)
        if (map->storage[*database] == storage)
            return;
}

uint64_t space_generation(const struct space_set *set)
{
    return set->generation;
}

struct space *space_next(struct space_set *set, size_t *cursor)
{
    return *cursor < set->order_count ? &set->order[(*cursor)++]->space : NULL;
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

bool space_has_limits(const struct space_set *set)
{
    return table_count(set->limits.by_name) > 0;
}

struct space_limit *space_limit_next(struct space_set *set, size_t *cursor)
{
    struct bytes name;
    void *limit;
    return table_next(set->limits.by_name, cursor, &name, &limit) ? limit : NULL;
}

/* ---- changes, and rolling them back ---- */

struct undo *space_undo_add(struct space_set *set)
{
    if (set->undo.count == set->undo.cap) {
        set->undo.cap = set->undo.cap ? set->undo.cap * 2 : 64;
        set->undo.items = realloc(set->undo.items, set->undo.cap * sizeof *set->undo.items);
        CHECK(set->undo.items);
    }
    return &set->undo.items[set->undo.count++];
}

void space_count_elsewhere(struct space_set *set, struct space *space, int64_t keys)
{
    space->elsewhere += keys;
    *space_undo_add(set) = (struct undo){.space = space, .keys = keys};
}

void space_changes_add(struct space_set *set, int64_t count)
{
    set->changes += (uint64_t)count;
}

uint64_t space_changes(const struct space_set *set)
{
    return set->changes;
}

void space_savepoint(struct space_set *set)
{
    set->marks.savepoint = set->changes;
    if (!set->attempt.is_on && !set->script.is_on && !set->queue.is_on)
        set->undo.count = 0;
    set->savepoint = set->undo.count;
}

static void roll_back_count(struct space_set *set, const struct undo *undo)
{
    if (undo->keys || undo->expires)
        space_counter_add(set, undo->counter, -undo->keys, -undo->expires);
    space_ttl_hashes_add(set, undo->counter, -undo->ttl_hashes);
}

static void roll_back_counts(struct space_set *set, size_t undo_count)
{
    while (set->undo.count > undo_count) {
        const struct undo undo = set->undo.items[--set->undo.count];
        if (undo.counter)
            roll_back_count(set, &undo);
        else if (undo.space)
            undo.space->elsewhere -= undo.keys;
        else
            (void)space_map_swap(set, undo.name, undo.a, undo.b);
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
    set->attempt.is_on = true;
    set->attempt.has_waited = false;
    set->marks.attempt = set->changes;
}

void space_attempt_end(struct space_set *set, bool is_good)
{
    set->attempt = (struct attempt_mark){.is_on = false};
    if (is_good)
        return;
    roll_back_counts(set, 0);
    set->changes = set->marks.attempt;
}

static void add_to_sums(struct space_sums *sums, struct space *space, int64_t keys)
{
    uint32_t i = 0;
    while (i < sums->count && sums->items[i].space != space)
        i++;
    if (i == sums->count) {
        sums->items = realloc(sums->items, ++sums->count * sizeof *sums->items);
        CHECK(sums->items);
        sums->items[i] = (struct space_sum){.space = space};
    }
    sums->items[i].keys += keys;
}

/* Adds the changes from this one on. */
static void sum_changes(const struct space_set *set, size_t from, struct space_sums *sums)
{
    for (size_t i = from; i < set->undo.count; i++) {
        const struct undo *undo = &set->undo.items[i];
        struct space *space = undo->counter ? &undo->counter->holder->space : undo->space;
        CHECK(space); /* no script over shards may swap databases */
        if (undo->keys)
            add_to_sums(sums, space, undo->keys);
    }
}

void space_attempt_leave(struct space_set *set, struct space_sums *sums, struct space_sums *script)
{
    sums->count = 0; /* the log has them, since space_count_sums */
    sum_changes(set, 0, sums);
    if (script)
        sum_changes(set, set->script.from, script);
    space_attempt_end(set, false);
}

void space_count_sums(struct space_set *set, const struct space_sums *sums)
{
    set->attempt.has_waited = true;
    for (uint32_t i = 0; i < sums->count; i++)
        space_count_elsewhere(set, sums->items[i].space, sums->items[i].keys);
}

void space_uncount_sums(struct space_set *set, struct space_sums *sums)
{
    for (uint32_t i = 0; i < sums->count; i++)
        space_count_elsewhere(set, sums->items[i].space, -sums->items[i].keys);
    sums->count = 0;
}

void space_script_begin(struct space_set *set)
{
    set->script.is_on = true;
    set->script.from = set->undo.count;
    set->marks.script = set->changes;
}

void space_script_end(struct space_set *set, bool is_good)
{
    set->script.is_on = false;
    if (!is_good) {
        roll_back_counts(set, set->script.from);
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
