#include "backend/tool/import.h"

#include "backend/encoding.h"
#include "backend/partition_store.h"
#include "backend/tool/tool.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/slot.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_BYTES = 1 << 20, FUNCTION_ROW = 'f' };

/* Keys by slot of one storage namespace of the target. */
struct counts {
    uint64_t keys[SLOT_COUNT];
    uint64_t expires[SLOT_COUNT];
};

struct import {
    struct store *to;
    struct store_batch *batch;
    struct arena arena;
    struct table *counts; /* storage namespace → struct counts */
    struct batch_header header;
    uint64_t keys;
    uint64_t rows;

    /* of the store being read */
    struct store *from;
    const bool *wanted;
    struct table *maps; /* namespace → its 16 bytes of storage databases */
    char *error;
    size_t size;
};

struct import *import_new(struct store *to)
{
    struct import *import = calloc(1, sizeof *import);
    CHECK(import);
    import->to = to;
    import->batch = store_batch_new();
    import->counts = table_new();
    arena_init(&import->arena);
    return import;
}

static void table_free_all(struct table *table)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table && table_next(table, &cursor, &key, &value))
        free(value);
    table_free(table);
}

void import_free(struct import *import)
{
    store_batch_free(import->batch);
    table_free_all(import->counts);
    arena_fini(&import->arena);
    free(import);
}

uint64_t import_keys(const struct import *import)
{
    return import->keys;
}

/* ---- writing ---- */

static bool flush(struct import *import)
{
    bool good = store_write(import->to, import->batch, false, import->error, import->size) == OK;
    store_batch_clear(import->batch);
    return good;
}

static bool put(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    store_batch_put(import->batch, import->to, cf, key, value);
    import->rows++;
    tool_progress("%llu keys, %llu rows", (unsigned long long)import->keys,
                  (unsigned long long)import->rows);
    return store_batch_bytes(import->batch) < BATCH_BYTES || flush(import);
}

static bool refuse(struct import *import, const char *why)
{
    (void)snprintf(import->error, import->size, "%s", why);
    return false;
}

/* Calls `take` for each row; false ends the walk. */
static bool each(struct import *import, enum cf cf,
                 bool (*take)(struct import *import, enum cf cf, struct bytes key,
                              struct bytes value))
{
    struct store_iter *iter = store_iter_new(import->from, cf, BYTES(""), BYTES(""));
    bool good = true;
    for (store_iter_seek_first(iter); good && store_iter_valid(iter); store_iter_next(iter)) {
        good = take(import, cf, store_iter_key(iter), store_iter_value(iter));
        arena_reset(&import->arena);
    }
    if (store_iter_failed(iter))
        good = refuse(import, "the backup's store cannot be read");
    store_iter_free(iter);
    return good;
}

/* ---- namespaces ---- */

/* A storage namespace's name and storage database. */
static struct bytes split_space(struct bytes space, uint8_t *database)
{
    *database = 0;
    if (space.len < 2 || space.data[space.len - 2] != 0)
        return space;
    *database = (uint8_t)space.data[space.len - 1];
    return (struct bytes){space.data, space.len - 2};
}

/* Where the clients of that storage namespace see it, as the target will store it. */
static struct bytes translate(struct import *import, struct bytes space)
{
    uint8_t storage;
    uint8_t database = 0;
    struct bytes name = split_space(space, &storage);
    const char *map = table_get(import->maps, name);
    if (!map)
        return space;
    while (database < DATABASES_MAX && (uint8_t)map[database] != storage)
        database++;
    if (database == DATABASES_MAX || database == storage)
        return space;
    char *made = arena_alloc(&import->arena, name.len + 2);
    memcpy(made, name.data, name.len);
    made[name.len] = 0;
    made[name.len + 1] = (char)database;
    return (struct bytes){made, name.len + (database ? 2 : 0)};
}

static void count_key(struct import *import, struct bytes space, uint16_t slot, bool expires)
{
    struct counts *counts = table_get(import->counts, space);
    if (!counts) {
        counts = calloc(1, sizeof *counts);
        CHECK(counts);
        table_put(import->counts, space, counts);
    }
    counts->keys[slot]++;
    counts->expires[slot] += expires;
    import->keys++;
}

/* ---- taking rows ---- */

static bool take_system(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    struct batch_header header;
    struct bytes name;
    if (decode_database_map_key(key, &name) && value.len == DATABASES_MAX) {
        char *copy = malloc(value.len);
        CHECK(copy);
        memcpy(copy, value.data, value.len);
        free(table_put(import->maps, name, copy));
    } else if (bytes_equal(key, BYTES(SYSTEM_HEADER))) {
        if (!decode_batch_header(value, &header))
            return refuse(import, "the batch header cannot be read");
        if (header.version > import->header.version)
            import->header.version = header.version;
        if (header.index > import->header.index)
            import->header.index = header.index;
    } else if (key.len && key.data[0] == FUNCTION_ROW) {
        return put(import, cf, key, value);
    }
    return true;
}

static bool take_metadata(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    struct bytes space;
    struct bytes user_key;
    struct metadata meta;
    uint16_t slot;
    if (!decode_metadata_key(key, &space, &slot, &user_key) || slot >= SLOT_COUNT ||
        !decode_metadata(value, &meta))
        return refuse(import, "a key's row cannot be decoded");
    if (!import->wanted[slot])
        return true;
    struct bytes to = translate(import, space);
    struct bytes row = encode_metadata_key(&import->arena, to, slot, user_key);
    char type = (char)meta.type;
    count_key(import, to, slot, meta.expire_ms != 0);
    return put(import, cf, row, value) &&
           (!meta.expire_ms ||
            put(import, CF_EXPIRE, encode_expire_key(&import->arena, meta.expire_ms, row),
                (struct bytes){&type, 1}));
}

/* Does the key have this version now? */
static bool is_current(struct import *import, struct bytes metadata_key, uint64_t version, bool *is)
{
    struct slice value;
    struct metadata meta;
    int err = store_get(import->from, CF_METADATA, metadata_key, &value);
    *is = false;
    if (err == ERR_NOT_FOUND)
        return true;
    if (err != OK || !decode_metadata(slice_bytes(&value), &meta))
        return refuse(import, "a key's row cannot be read");
    *is = !type_is_inline(meta.type) && meta.version == version;
    slice_release(&value);
    return true;
}

static bool take_row(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    struct bytes space;
    struct bytes user_key;
    struct bytes sub;
    uint64_t version;
    uint16_t slot;
    bool is;
    if (!decode_collection_key(key, &space, &slot, &user_key, &version, &sub) || slot >= SLOT_COUNT)
        return refuse(import, "a row's key cannot be decoded");
    if (!import->wanted[slot])
        return true;
    struct arena *arena = &import->arena;
    if (!is_current(import, encode_metadata_key(arena, space, slot, user_key), version, &is))
        return false;
    struct bytes to = translate(import, space);
    struct bytes prefix = encode_collection_prefix(arena, to, slot, user_key, version);
    return !is || put(import, cf, encode_sub_key(arena, prefix, sub), value);
}

bool import_from(struct import *import, struct store *from, const bool *wanted, char *error,
                 size_t size)
{
    static const enum cf collections[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    import->from = from;
    import->wanted = wanted;
    import->error = error;
    import->size = size;
    import->maps = table_new();
    bool good = each(import, CF_SYSTEM, take_system) && each(import, CF_METADATA, take_metadata);
    for (size_t i = 0; good && i < sizeof collections / sizeof collections[0]; i++)
        good = each(import, collections[i], take_row);
    table_free_all(import->maps);
    import->maps = NULL;
    return good;
}

/* ---- the end ---- */

static bool put_counters(struct import *import, struct bytes space, const struct counts *counts)
{
    bool good = true;
    for (unsigned first = 0; good && first < SLOT_COUNT; first += COUNTER_SLOTS) {
        char *row = arena_alloc(&import->arena, (size_t)COUNTER_SLOTS * SLOT_COUNT_BYTES_MAX);
        char *end = row;
        for (unsigned slot = first; slot < first + COUNTER_SLOTS; slot++) {
            const struct slot_count count = {(uint16_t)slot, counts->keys[slot],
                                             counts->expires[slot]};
            if (count.keys)
                end = write_slot_count(end, &count);
        }
        if (end > row)
            good =
                put(import, CF_SYSTEM, encode_counter_key(&import->arena, space, (uint16_t)first),
                    (struct bytes){row, (size_t)(end - row)});
        arena_reset(&import->arena);
    }
    return good;
}

bool import_end(struct import *import, char *error, size_t size)
{
    size_t cursor = 0;
    struct bytes space;
    void *counts;
    bool good = true;
    import->error = error;
    import->size = size;
    import->header.origin_ms = clock_wall_us() / 1000;
    while (good && table_next(import->counts, &cursor, &space, &counts))
        good = put_counters(import, space, counts);
    good = good &&
           put(import, CF_SYSTEM, BYTES(SYSTEM_HEADER),
               encode_batch_header(&import->arena, &import->header)) &&
           put(import, CF_SYSTEM, BYTES(SYSTEM_FORMAT), encode_u64(&import->arena, DATA_FORMAT)) &&
           flush(import);
    return good && store_flush(import->to, error, size) == OK &&
           store_sync(import->to, error, size) == OK;
}
