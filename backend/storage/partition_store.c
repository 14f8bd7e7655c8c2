#include "backend/storage/partition_store.h"

#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/storage/orphan.h"
#include "backend/wal/wal.h"
#include "shared/clock.h"
#include "shared/error.h"

#include <inttypes.h>
#include <limits.h>

enum { REASON_MAX = 512 };

struct store_options partition_store_options(const struct backend_config *config,
                                             const struct memory_plan *memory)
{
    static const char *const compressions[] = {"none", "lz4", "zstd"};
    return (struct store_options){
        .memtable_bytes = memory->memtable,
        .memtables = (uint32_t)config->store_memtables,
        .memtables_bytes = memory->memtables,
        .bloom_bits = (uint32_t)config->store_bloom_bits,
        .max_open_files = config->store_max_open_files,
        .blob_threshold_bytes = config->store_blob_threshold_bytes,
        .compression = compressions[config->store_compression],
    };
}

static struct storage *open_at(struct store_env *env, const struct backend_config *config,
                               const char *path, store_drop_fn *drop, char *error, size_t size)
{
    const struct memory_plan memory = memory_plan_here(config);
    struct store_options options = partition_store_options(config, &memory);
    options.path = path;
    options.drop = drop;
    return storage_open(env, &options, config->store_wal_limit_bytes, error, size);
}

struct storage *partition_store_open_raw(struct store_env *env, const struct backend_config *config,
                                         const char *path, char *error, size_t size)
{
    struct storage *storage = open_at(env, config, path, NULL, error, size);
    if (!storage || !storage_is_behind(storage))
        return storage;
    (void)snprintf(error, size, "%s: No space left on device: the rows of its log need room", path);
    storage_close(storage);
    return NULL;
}

/* The number in a system row; 0: there is no row. False: it cannot be read. */
static bool read_u64_row(struct store *store, struct bytes key, uint64_t *number)
{
    struct slice value;
    *number = 0;
    int err = store_get(store, CF_SYSTEM, key, &value);
    if (err == ERR_NOT_FOUND)
        return true;
    bool good = err == OK && decode_u64(slice_bytes(&value), number);
    if (err == OK)
        slice_release(&value);
    return good;
}

bool partition_store_format(struct store *store, uint64_t *format)
{
    return read_u64_row(store, BYTES(SYSTEM_FORMAT), format);
}

bool partition_store_log_id(struct store *store, uint64_t *id)
{
    return read_u64_row(store, BYTES(SYSTEM_LOG_ID), id);
}

uint64_t partition_store_new_log_id(void)
{
    uint64_t id;
    do
        clock_random_bytes(&id, sizeof id);
    while (id == 0);
    return id;
}

/* Writes a new name of the log, and this data format. Format 0: the store was restored, so it has no group any more. */
static bool write_names(struct storage *storage, uint64_t format, char *error, size_t size)
{
    struct arena arena;
    arena_init(&arena);
    struct effects *effects = effects_new();
    if (format)
        effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_FORMAT), encode_u64(&arena, format));
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_LOG_ID),
                encode_u64(&arena, partition_store_new_log_id()));
    if (!format)
        effects_delete(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS));
    /* flushed, because programs of the older format cannot read this WAL */
    bool good = storage_write(storage, effects, true, error, size) == OK &&
                storage_flush(storage, error, size) == OK;
    effects_free(effects);
    arena_fini(&arena);
    return good;
}

bool partition_store_rename_log(struct storage *storage, char *error, size_t size)
{
    storage_leave_group(storage);
    return write_names(storage, 0, error, size);
}

/* Format 1 had RocksDB's WAL, which is flushed to files when the store is opened; nothing else differs. One of several copies is left
 * as it is: only the leader of its group appends to the log. */
static bool check_format(struct storage *storage, const char *name, char *error, size_t size)
{
    uint64_t format;
    uint64_t log_id;
    if (!partition_store_format(storage_store(storage), &format) ||
        !partition_store_log_id(storage_store(storage), &log_id)) {
        (void)snprintf(error, size, "%s: its data format cannot be read", name);
        return false;
    }
    if (format > DATA_FORMAT) {
        (void)snprintf(
            error, size,
            "%s: data format %" PRIu64
            " is newer than this program's %d: start the program that wrote it, or restore "
            "a backup made before the upgrade",
            name, format, DATA_FORMAT);
        return false;
    }
    bool is_whole = format == DATA_FORMAT && log_id && !storage_has_lost(storage);
    return is_whole || storage_is_replicated(storage) ||
           write_names(storage, DATA_FORMAT, error, size);
}

struct storage *partition_store_open(struct store_env *env, const struct backend_config *config,
                                     const char *name, char *error, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", config->data, name) >= (int)sizeof path) {
        (void)snprintf(error, size, "data: the path is too long");
        return NULL;
    }
    char reason[REASON_MAX];
    if (config->store_change_log_bytes)
        wal_keep_at(path); /* a copy that has joined: its log came with its files */
    struct storage *storage = open_at(env, config, path, orphan_check, reason, sizeof reason);
    if (!storage) {
        (void)snprintf(error, size, "%s: %s cannot be opened: %s", name, path, reason);
        return NULL;
    }
    if (!check_format(storage, name, error, size)) {
        storage_close(storage);
        return NULL;
    }
    return storage;
}
