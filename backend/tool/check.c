#include "backend/tool/check.h"

#include "backend/backup/counts.h"
#include "backend/format/effects.h"
#include "backend/format/json/json_doc.h"
#include "backend/keyspace/count_rows.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/tool.h"
#include "config/memory_plan.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

enum { BATCH_BYTES = 1 << 20, PROBLEMS_SHOWN = 1000, PARTITIONS = 64 };

/* ---- reporting and repairing ---- */

/* Prints a key as one word; bytes that are not printable as \xNN. */
static void print_visible(FILE *to, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c > 32 && c < 127 && c != '\\')
            (void)fputc(c, to);
        else
            (void)fprintf(to, "\\x%02x", c);
    }
}

void check_problem(struct check *check, const struct checked *key, bool can_repair,
                   const char *what)
{
    check->problems++;
    check->repaired += can_repair && check->repairs;
    if (check->problems > PROBLEMS_SHOWN)
        return;
    (void)printf("%s: ", check->name);
    if (key) {
        (void)printf("key ");
        print_visible(stdout, key->key);
        (void)printf(" (slot %u, %s): ", key->slot, type_name(key->meta.type));
    }
    (void)printf("%s%s\n", what, can_repair && check->repairs ? ", repaired" : "");
}

void check_flush(struct check *check, bool now)
{
    char reason[TOOL_ERROR_MAX];
    if (!check->repairs || (!now && effects_bytes(check->effects).len < BATCH_BYTES))
        return;
    if (storage_write(check->storage, check->effects, true, reason, sizeof reason) != OK) {
        (void)printf("%s: cannot be repaired: %s\n", check->name, reason);
        check->has_failed = true;
    }
    effects_clear(check->effects);
}

/* Calls `look` for each row of a column family. */
static void each_row(struct check *check, enum cf cf,
                     void (*look)(struct check *check, struct bytes key, struct bytes value))
{
    struct store_iter *iter = store_iter_new(check->store, cf, BYTES(""), BYTES(""));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter)) {
        look(check, store_iter_key(iter), store_iter_value(iter));
        arena_reset(&check->arena);
        check_flush(check, false);
        tool_progress("%s: %" PRIu64 " keys, %" PRIu64 " rows, %" PRIu64 " problems", check->name,
                      check->keys, check->rows, check->problems);
    }
    check->has_failed |= store_iter_failed(iter);
    store_iter_free(iter);
}

/* ---- keys ---- */

static void check_expiry(struct check *check, const struct checked *key)
{
    struct slice found;
    char type = (char)key->meta.type;
    struct bytes row = encode_expire_key(&check->arena, metadata_due_ms(&key->meta), key->row);
    int err = store_get(check->store, CF_EXPIRE, row, &found);
    if (err == OK) {
        slice_release(&found);
        return;
    }
    check->has_failed |= err != ERR_NOT_FOUND;
    check_problem(check, key, true, "its expiry time is not in the expiry index");
    if (check->repairs)
        effects_put(check->effects, CF_EXPIRE, row, (struct bytes){&type, 1});
}

static void look_at_key(struct check *check, struct bytes row, struct bytes value)
{
    struct checked key = {.row = row};
    check->rows++;
    if (!decode_metadata_key(row, &key.space, &key.slot, &key.key) || key.slot >= SLOT_COUNT) {
        check_problem(check, NULL, false, "the key of a metadata row cannot be decoded");
        return;
    }
    check->keys++;
    struct counts *counts = counts_open(check->counts, key.space);
    counts->keys[key.slot]++;
    if (!decode_metadata(value, &key.meta)) {
        check_problem(check, &key, check->drops,
                      check->drops ? "its metadata row cannot be decoded: the key is deleted"
                                   : "its metadata row cannot be decoded");
        if (check->drops) {
            counts->keys[key.slot]--;
            effects_delete(check->effects, CF_METADATA, row);
        }
        return;
    }
    counts->expires[key.slot] += key.meta.expire_ms != 0;
    if (metadata_due_ms(&key.meta))
        check_expiry(check, &key);
    if (!type_is_inline(key.meta.type))
        key.prefix =
            encode_collection_prefix(&check->arena, key.space, key.slot, key.key, key.meta.version);
    check_value(check, &key);
}

/* ---- rows without keys ---- */

static void look_at_row(struct check *check, struct bytes row, struct bytes value)
{
    struct bytes space;
    struct bytes key;
    struct bytes sub;
    struct slice found;
    struct metadata meta;
    uint64_t version;
    uint16_t slot;
    (void)value;
    if (!decode_collection_key(row, &space, &slot, &key, &version, &sub)) {
        check_problem(check, NULL, false, "a row of a collection has a key that cannot be decoded");
        return;
    }
    int err = store_get(check->store, CF_METADATA,
                        encode_metadata_key(&check->arena, space, slot, key), &found);
    check->has_failed |= err != OK && err != ERR_NOT_FOUND;
    bool is_owned = err == OK && decode_metadata(slice_bytes(&found), &meta) &&
                    !type_is_inline(meta.type) && meta.version == version;
    check->orphans += !is_owned;
    if (err == OK)
        slice_release(&found);
}

static void look_at_expiry(struct check *check, struct bytes row, struct bytes value)
{
    uint64_t due_ms;
    struct bytes key;
    struct slice found;
    struct metadata meta;
    check->rows++;
    if (!decode_expire_key(row, &due_ms, &key) || value.len != 1) {
        check_problem(check, NULL, false, "a row of the expiry index cannot be decoded");
        return;
    }
    int err = store_get(check->store, CF_METADATA, key, &found);
    check->stale += err != OK || !decode_metadata(slice_bytes(&found), &meta) ||
                    metadata_due_ms(&meta) != due_ms;
    if (err == OK)
        slice_release(&found);
}

/* ---- counters ---- */

/* stored_count_fn: later values replace earlier ones. */
static bool note_stored(void *owner, struct bytes space, const struct slot_count *count,
                        uint64_t serial)
{
    (void)serial;
    if (count->slot >= SLOT_COUNT)
        return false;
    struct counts *counts = counts_open(owner, space);
    counts->keys[count->slot] = count->keys;
    counts->expires[count->slot] = count->expires;
    return true;
}

static void delete_counters(struct check *check, struct bytes row, struct bytes value)
{
    struct bytes space;
    uint16_t slot;
    uint8_t position;
    (void)value;
    if (decode_counter_key(row, &space, &slot) || decode_journal_key(row, &position))
        effects_delete(check->effects, CF_SYSTEM, row);
}

/* Number of slots whose counts differ between `a` and `b`. */
static uint64_t count_differences(const struct table *a, const struct table *b)
{
    static const struct counts nothing;
    uint64_t differences = 0;
    struct bytes space;
    void *value;
    size_t cursor = 0;
    while (table_next(a, &cursor, &space, &value)) {
        const struct counts *mine = value;
        const struct counts *other = table_get(b, space);
        if (!other)
            other = &nothing;
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
            differences += mine->keys[slot] != other->keys[slot] ||
                           mine->expires[slot] != other->expires[slot];
    }
    return differences;
}

static void check_counters(struct check *check)
{
    char what[128];
    uint64_t serial;
    struct table *stored = table_new();
    struct overlay *overlay = overlay_new(check->store);
    bool is_read = count_rows_read(overlay, note_stored, stored, &serial);
    overlay_free(overlay);
    uint64_t one = count_differences(check->counts, stored);
    uint64_t other = count_differences(stored, check->counts);
    table_free_values(stored);
    if (is_read && one == 0 && other == 0)
        return;
    (void)snprintf(what, sizeof what, "the key counters of %" PRIu64 " slots are wrong",
                   one > other ? one : other);
    check_problem(check, NULL, true, is_read ? what : "the key counters cannot be decoded");
    if (!check->repairs)
        return;
    each_row(check, CF_SYSTEM, delete_counters);
    counts_write(check->counts, check->effects);
    check_flush(check, true);
}

/* ---- a whole store ---- */

static void check_store(struct check *check)
{
    static const enum cf collections[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    check->effects = effects_new();
    check->counts = table_new();
    arena_init(&check->arena);
    each_row(check, CF_METADATA, look_at_key);
    check_flush(check, true);
    for (size_t i = 0; i < sizeof collections / sizeof collections[0]; i++)
        each_row(check, collections[i], look_at_row);
    each_row(check, CF_EXPIRE, look_at_expiry);
    check_counters(check);
    effects_free(check->effects);
    table_free_values(check->counts);
    json_use(NULL);
    arena_fini(&check->arena);
    (void)printf("%s: %" PRIu64 " keys, %" PRIu64 " rows, %" PRIu64 " orphans, %" PRIu64
                 " stale expiry rows, %" PRIu64 " problems, %" PRIu64 " repaired%s\n",
                 check->name, check->keys, check->rows, check->orphans, check->stale,
                 check->problems, check->repaired,
                 check->has_failed ? "; THE STORE COULD NOT BE READ OR WRITTEN" : "");
}

/* A repaired copy would differ from the others. */
static bool is_refused(const struct check *check)
{
    if (!check->repairs || !storage_is_replicated(check->storage))
        return false;
    (void)printf("%s: is one of several copies: it cannot be repaired alone\n", check->name);
    return true;
}

static bool check_partition(struct store_env *env, const struct backend_config *config,
                            const char *name, enum check_wish wish)
{
    char error[TOOL_ERROR_MAX];
    struct check check = {.name = name, .repairs = wish != CHECK_ONLY, .drops = wish == CHECK_DROP};
    check.storage = partition_store_open(env, config, name, error, sizeof error);
    if (!check.storage) {
        (void)printf("%s\n", error);
        return false;
    }
    check.store = storage_store(check.storage);
    if (is_refused(&check)) {
        storage_close(check.storage);
        return false;
    }
    check_store(&check);
    storage_close(check.storage);
    return !check.has_failed && check.problems == check.repaired;
}

int tool_check(const struct backend_config *config, enum check_wish wish)
{
    const struct store_env_options options = {
        .block_cache_bytes = memory_plan_here(config).block_cache,
        .background_threads = (uint32_t)config->store_background_threads,
    };
    char name[32];
    char path[PATH_MAX];
    bool good = true;
    int count = 0;
    struct store_env *env = store_env_new(&options);
    for (; count < PARTITIONS; count++) {
        (void)snprintf(name, sizeof name, "partition-%d", count);
        if (snprintf(path, sizeof path, "%s/%s", config->data, name) >= (int)sizeof path ||
            !path_exists(path))
            break;
        good = check_partition(env, config, name, wish) && good;
    }
    store_env_free(env);
    if (count == 0)
        (void)printf("%s: no partition-<index> found: expected a data directory\n", config->data);
    return good && count ? TOOL_GOOD : TOOL_BAD;
}
