/*
 * space_maps.c - which storage namespace each database of a namespace has.
 *
 *   SWAPDB 0 3:   database  0 1 2 3          0 1 2 3
 *                 storage   0 1 2 3   ──►    3 1 2 0      a row of CF_SYSTEM; no key moves
 *
 * The maps of all namespaces travel with slots to another shard, which then has the same ones.
 */
#include "backend/keyspace/space.h"

#include "backend/keyspace/space_inner.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/out.h"
#include "shared/table.h"

#include <stdlib.h>

struct database_map *space_map_open(struct space_set *set, struct bytes name)
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

static bool is_permutation(const uint8_t storage[DATABASES_MAX])
{
    uint32_t seen = 0;
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        seen |= storage[i] < DATABASES_MAX ? 1u << storage[i] : 0;
    return seen == (1u << DATABASES_MAX) - 1;
}

static bool load_map(struct space_set *set, struct bytes key, struct bytes value)
{
    struct bytes name;
    if (!decode_database_map_key(key, &name) || value.len != DATABASES_MAX ||
        !is_permutation((const uint8_t *)value.data))
        return false;
    struct database_map *map = space_map_open(set, name);
    memcpy(map->storage, value.data, DATABASES_MAX);
    memset(map->spaces, 0, sizeof map->spaces);
    return true;
}

bool space_maps_load(struct space_set *set)
{
    struct overlay_iter *iter = overlay_iter_new(set->overlay, CF_SYSTEM, BYTES("d"), BYTES("e"));
    bool fine = true;
    for (overlay_iter_seek_first(iter); fine && overlay_iter_valid(iter); overlay_iter_next(iter))
        fine = load_map(set, overlay_iter_key(iter), overlay_iter_value(iter));
    fine = fine && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return fine;
}

/* ---- swapping ---- */

struct database_map *space_map_swap(struct space_set *set, struct bytes name, uint8_t a, uint8_t b)
{
    struct database_map *map = space_map_open(set, name);
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
    const struct database_map *map = space_map_swap(set, name, a, b);
    *space_undo_add(set) = (struct undo){.name = name, .a = a, .b = b};
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

static void put_map(struct space_set *set, struct bytes name, const uint8_t storage[DATABASES_MAX])
{
    struct database_map *map = space_map_open(set, name);
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
