/*
 * dump.c - --dump-keys: one line per key, in the order of the store: namespace, database, type, expiry, size, slot, key.
 */
#include "backend/backup/counts.h"
#include "backend/backup/database_map.h"
#include "backend/format/encoding.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/tool.h"
#include "config/memory_plan.h"
#include "shared/path.h"
#include "shared/table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

enum { PARTITIONS = 64 };

/* Prints printable text unchanged, other bytes as \xNN; in JSON, where bytes are taken as Latin-1, as \u00NN. '-' is
 * an empty text. */
static void print_dumped(struct bytes text, bool is_json)
{
    if (!text.len && !is_json)
        (void)putchar('-');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool is_plain = c > 32 && c < 127 && c != '\\' && (!is_json || c != '"');
        if (is_plain || (c == ' ' && is_json))
            (void)putchar(c);
        else
            (void)printf(is_json ? "\\u00%02x" : "\\x%02x", c);
    }
}

static void print_key(const struct table *places, struct bytes row, struct bytes value,
                      bool is_json)
{
    struct bytes space;
    struct bytes key;
    struct metadata meta;
    uint16_t slot;
    uint8_t database;
    if (!decode_metadata_key(row, &space, &slot, &key) || !decode_metadata(value, &meta)) {
        (void)printf(is_json ? "{\"damaged\":true}\n" : "# a row that cannot be decoded\n");
        return;
    }
    struct bytes name = database_map_find(places, space, &database);
    uint64_t size = type_is_inline(meta.type) ? meta.payload.len : meta.size;
    (void)fputs(is_json ? "{\"namespace\":\"" : "", stdout);
    print_dumped(name, is_json);
    (void)printf(is_json ? "\",\"db\":%u,\"type\":\"%s\",\"expire_ms\":%" PRIu64
                           ",\"size\":%" PRIu64 ",\"slot\":%u,\"key\":\""
                         : " %u %s %" PRIu64 " %" PRIu64 " %u ",
                 database, type_name(meta.type), meta.expire_ms, size, slot);
    print_dumped(key, is_json);
    (void)fputs(is_json ? "\"}\n" : "\n", stdout);
}

static bool dump_rows(struct store *store, bool is_json)
{
    struct table *places = table_new();
    struct store_iter *iter = store_iter_new(store, CF_SYSTEM, BYTES("d"), BYTES("e"));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
        database_map_note(places, store_iter_key(iter), store_iter_value(iter));
    bool good = !store_iter_failed(iter);
    store_iter_free(iter);
    iter = store_iter_new(store, CF_METADATA, BYTES(""), BYTES(""));
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
        print_key(places, store_iter_key(iter), store_iter_value(iter), is_json);
    good = !store_iter_failed(iter) && good;
    store_iter_free(iter);
    table_free_values(places);
    return good;
}

int tool_dump(const struct backend_config *config, bool is_json)
{
    const struct store_env_options options = {
        .block_cache_bytes = memory_plan_here(config).block_cache,
        .background_threads = (uint32_t)config->store_background_threads,
    };
    char name[32];
    char path[PATH_MAX];
    char error[TOOL_ERROR_MAX];
    bool good = true;
    int count = 0;
    struct store_env *env = store_env_new(&options);
    for (; good && count < PARTITIONS; count++) {
        (void)snprintf(name, sizeof name, "partition-%d", count);
        if (snprintf(path, sizeof path, "%s/%s", config->data, name) >= (int)sizeof path ||
            !path_exists(path))
            break;
        struct storage *storage = partition_store_open(env, config, name, error, sizeof error);
        good = storage && dump_rows(storage_store(storage), is_json);
        if (storage)
            storage_close(storage);
        else
            (void)fprintf(stderr, "%s: %s\n", name, error);
    }
    store_env_free(env);
    if (count == 0)
        (void)fprintf(stderr, "%s: no partition-<index> found: expected a data directory\n",
                      config->data);
    return good && count ? TOOL_GOOD : TOOL_BAD;
}
