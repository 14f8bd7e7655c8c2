#include "backend/backup/import.h"

#include "backend/backup/counts.h"
#include "backend/backup/database_map.h"
#include "backend/context/hybrid_clock.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/partition_store.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/slot.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_BYTES = 1 << 20 };

/* The collection of which a row was read last. */
struct import_collection {
    struct arena arena;
    struct bytes metadata_key; /* in the arena; data NULL: none yet */
    bool exists;               /* the key is a collection, … */
    uint64_t version;          /* … of this version */
};

struct import {
    struct storage *to;
    struct effects *effects;
    struct arena arena;
    struct table *counts; /* storage namespace → struct counts */
    struct batch_header header;
    const char *only; /* the namespace of which keys are copied; NULL: all */
    uint64_t keys;
    uint64_t rows;
    uint64_t bytes;
    import_progress_fn *on_progress;
    void *owner;

    /* of the store being read */
    struct store *from;
    const bool *wanted;
    struct table *maps; /* namespace → its 16 bytes of database numbers */
    struct import_collection collection;
    char *error;
    size_t size;
};

struct import *import_new(struct storage *to, import_progress_fn *on_progress, void *owner)
{
    struct import *import = calloc(1, sizeof *import);
    CHECK(import);
    import->to = to;
    import->on_progress = on_progress;
    import->owner = owner;
    import->effects = effects_new();
    import->counts = table_new();
    arena_init(&import->arena);
    arena_init(&import->collection.arena);
    return import;
}

void import_free(struct import *import)
{
    effects_free(import->effects);
    table_free_values(import->counts);
    arena_fini(&import->arena);
    arena_fini(&import->collection.arena);
    free(import);
}

void import_only(struct import *import, const char *space)
{
    import->only = space;
}

uint64_t import_keys(const struct import *import)
{
    return import->keys;
}

/* ---- writing ---- */

static bool flush_batch(struct import *import)
{
    bool good =
        storage_write(import->to, import->effects, false, import->error, import->size) == OK;
    effects_clear(import->effects);
    return good;
}

static bool set_import_error(struct import *import, const char *why)
{
    (void)snprintf(import->error, import->size, "%s", why);
    return false;
}

static bool copy_row(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    effects_put(import->effects, cf, key, value);
    import->rows++;
    import->bytes += key.len + value.len;
    if (!import->on_progress(import->owner, import->keys, import->rows, import->bytes))
        return set_import_error(import, "cancelled");
    return effects_bytes(import->effects).len < BATCH_BYTES || flush_batch(import);
}

/* The first key after this row that may lie in a wanted slot: of its namespace, or of the next one. */
static struct bytes next_wanted(struct import *import, struct bytes row)
{
    struct bytes space = {row.data + 1, (unsigned char)row.data[0]};
    const unsigned char *at = (const unsigned char *)space.data + space.len;
    unsigned slot = (unsigned)at[0] << 8 | at[1];
    while (++slot < SLOT_COUNT)
        if (import->wanted[slot])
            return encode_slot_prefix(&import->arena, space, (uint16_t)slot);
    return encode_prefix_end(&import->arena, encode_space_prefix(&import->arena, space));
}

/* Is the row's slot not wanted? Rows whose key is too short for a slot are not skipped: they are damaged. */
static bool is_unwanted(const struct import *import, enum cf cf, struct bytes row)
{
    size_t space_len = row.len ? (unsigned char)row.data[0] : 0;
    if (cf == CF_SYSTEM || row.len < 1 + space_len + 2)
        return false;
    const unsigned char *at = (const unsigned char *)row.data + 1 + space_len;
    unsigned slot = (unsigned)at[0] << 8 | at[1];
    return slot < SLOT_COUNT && !import->wanted[slot];
}

/* Calls `take` for each row, except those of slots that are not wanted; false stops. */
static bool each_source_row(struct import *import, enum cf cf,
                            bool (*take)(struct import *import, enum cf cf, struct bytes key,
                                         struct bytes value))
{
    struct store_iter *iter = store_iter_new(import->from, cf, BYTES(""), BYTES(""));
    bool good = true;
    store_iter_seek_first(iter);
    while (good && store_iter_valid(iter)) {
        struct bytes row = store_iter_key(iter);
        if (is_unwanted(import, cf, row)) {
            store_iter_seek(iter, next_wanted(import, row));
        } else {
            good = take(import, cf, row, store_iter_value(iter));
            store_iter_next(iter);
        }
        arena_reset(&import->arena);
    }
    if (good && store_iter_failed(iter))
        good = set_import_error(import, "the backup's store cannot be read");
    store_iter_free(iter);
    return good;
}

/* ---- namespaces ---- */

/* The storage namespace of the target that has the same namespace and database for clients. */
static struct bytes translate(struct import *import, struct bytes space)
{
    uint8_t database;
    struct bytes name = database_map_find(import->maps, space, &database);
    char *made = arena_alloc(&import->arena, name.len + 2);
    if (name.len)
        memcpy(made, name.data, name.len);
    made[name.len] = 0;
    made[name.len + 1] = (char)database;
    return (struct bytes){made, name.len + (database ? 2 : 0)};
}

static bool is_wanted_space(const struct import *import, struct bytes space)
{
    uint8_t database;
    return !import->only ||
           bytes_equal(database_map_find(import->maps, space, &database), bytes_of(import->only));
}

static void count_key(struct import *import, struct bytes space, uint16_t slot, bool expires)
{
    struct counts *counts = counts_open(import->counts, space);
    counts->keys[slot]++;
    counts->expires[slot] += expires;
    import->keys++;
}

/* ---- importing rows ---- */

/* The restored store goes on after the times of its backup. Times at the end of their range would leave none for new batches, and versions
 * of collections would begin again at 0. */
static const char *why_not_header(struct bytes value, struct batch_header *header)
{
    uint64_t latest_us = clock_wall_us() + HYBRID_AHEAD_US;
    if (!decode_batch_header(value, header))
        return "the batch header cannot be read";
    if (header->hybrid > latest_us || header->version >> VERSION_SHIFT > latest_us)
        return "a time in the batch header is more than 100 years ahead";
    return NULL;
}

bool import_check_header(struct store *store, char *error, size_t size)
{
    struct slice value;
    struct batch_header header;
    int err = store_get(store, CF_SYSTEM, BYTES(SYSTEM_HEADER), &value);
    const char *why = err == OK              ? why_not_header(slice_bytes(&value), &header)
                      : err == ERR_NOT_FOUND ? NULL
                                             : "the batch header cannot be read";
    if (err == OK)
        slice_release(&value);
    if (why)
        (void)snprintf(error, size, "%s", why);
    return !why;
}

static bool import_system(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    struct batch_header header;
    database_map_note(import->maps, key, value);
    if (bytes_equal(key, BYTES(SYSTEM_HEADER))) {
        const char *why = why_not_header(value, &header);
        if (why)
            return set_import_error(import, why);
        if (header.version > import->header.version)
            import->header.version = header.version;
        if (header.hybrid > import->header.hybrid)
            import->header.hybrid = header.hybrid;
    } else if (is_function_key(key)) {
        return copy_row(import, cf, key, value);
    }
    return true;
}

static bool import_metadata(struct import *import, enum cf cf, struct bytes key, struct bytes value)
{
    struct bytes space;
    struct bytes user_key;
    struct metadata meta;
    uint16_t slot;
    if (!decode_metadata_key(key, &space, &slot, &user_key) || slot >= SLOT_COUNT ||
        !decode_metadata(value, &meta))
        return set_import_error(import, "a key's row cannot be decoded");
    if (!import->wanted[slot] || !is_wanted_space(import, space))
        return true;
    struct bytes to = translate(import, space);
    struct bytes row = encode_metadata_key(&import->arena, to, slot, user_key);
    char type = (char)meta.type;
    uint64_t due_ms = metadata_due_ms(&meta);
    count_key(import, to, slot, meta.expire_ms != 0);
    return copy_row(import, cf, row, value) &&
           (!due_ms || copy_row(import, CF_EXPIRE, encode_expire_key(&import->arena, due_ms, row),
                                (struct bytes){&type, 1}));
}

/* Reads the metadata row of a collection into import->collection. False: it cannot be read. */
static bool read_collection(struct import *import, struct bytes metadata_key)
{
    struct import_collection *collection = &import->collection;
    struct slice value;
    struct metadata meta;
    int err = store_get(import->from, CF_METADATA, metadata_key, &value);
    bool is_found = err == OK;
    if (err != ERR_NOT_FOUND && (!is_found || !decode_metadata(slice_bytes(&value), &meta)))
        return set_import_error(import, "a key's row cannot be read");
    arena_reset(&collection->arena);
    collection->metadata_key = arena_copy(&collection->arena, metadata_key);
    collection->exists = is_found && !type_is_inline(meta.type);
    collection->version = collection->exists ? meta.version : 0;
    if (is_found)
        slice_release(&value);
    return true;
}

/* Is this the key's current version? The metadata row is read once for neighbouring rows of a key: its block may have a long value of
 * another key, and would be decompressed for each row. */
static bool is_current(struct import *import, struct bytes metadata_key, uint64_t version, bool *is)
{
    const struct import_collection *collection = &import->collection;
    bool is_known =
        collection->metadata_key.data && bytes_equal(collection->metadata_key, metadata_key);
    if (!is_known && !read_collection(import, metadata_key))
        return false;
    *is = collection->exists && collection->version == version;
    return true;
}

static bool import_collection_row(struct import *import, enum cf cf, struct bytes key,
                                  struct bytes value)
{
    struct bytes space;
    struct bytes user_key;
    struct bytes sub;
    uint64_t version;
    uint16_t slot;
    bool is;
    if (!decode_collection_key(key, &space, &slot, &user_key, &version, &sub) || slot >= SLOT_COUNT)
        return set_import_error(import, "a row's key cannot be decoded");
    if (!import->wanted[slot] || !is_wanted_space(import, space))
        return true;
    struct arena *arena = &import->arena;
    if (!is_current(import, encode_metadata_key(arena, space, slot, user_key), version, &is))
        return false;
    struct bytes to = translate(import, space);
    struct bytes prefix = encode_collection_prefix(arena, to, slot, user_key, version);
    return !is || copy_row(import, cf, encode_sub_key(arena, prefix, sub), value);
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
    import->collection.metadata_key = (struct bytes){0};
    bool good = each_source_row(import, CF_SYSTEM, import_system) &&
                each_source_row(import, CF_METADATA, import_metadata);
    for (size_t i = 0; good && i < sizeof collections / sizeof collections[0]; i++)
        good = each_source_row(import, collections[i], import_collection_row);
    table_free_values(import->maps);
    import->maps = NULL;
    return good;
}

/* ---- counts and batch header ---- */

bool import_end(struct import *import, char *error, size_t size)
{
    import->error = error;
    import->size = size;
    import->header.index = storage_logged(import->to) + 1;
    import->header.origin_ms = clock_wall_us() / 1000;
    counts_write(import->counts, import->effects);
    bool good = copy_row(import, CF_SYSTEM, BYTES(SYSTEM_HEADER),
                         encode_batch_header(&import->arena, &import->header)) &&
                copy_row(import, CF_SYSTEM, BYTES(SYSTEM_FORMAT),
                         encode_u64(&import->arena, DATA_FORMAT)) &&
                flush_batch(import);
    return good && storage_flush(import->to, error, size) == OK &&
           storage_sync(import->to, error, size) == OK;
}
