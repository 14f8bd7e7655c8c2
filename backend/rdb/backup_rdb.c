#include "backend/rdb/backup_rdb.h"

#include "backend/backup/database_map.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/moment_shards.h"
#include "config/memory_plan.h"
#include "shared/check.h"
#include "shared/path.h"
#include "shared/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPCODE_FUNCTION = 245, OPCODE_SELECT_DB = 254, OPCODE_EOF = 255 };

enum { MEMORY = 256 << 20 }; /* of the stores */

enum step { AT_START, AT_SHARD, AT_LIBRARIES, AT_DATABASE, AT_KEYS, IN_VALUE, AT_END, BEHIND_END };

/* The shard that is read. */
struct backup_shard {
    size_t index;
    struct storage *storage; /* NULL: none is open */
    struct table *maps;      /* namespace → its databases */
    struct store_iter *system;
    bool owns[SLOT_COUNT];
    struct bytes spaces[DATABASES_MAX]; /* storage namespaces with keys, by database; owned */
    unsigned db;
};

struct backup_rdb {
    struct backup_rdb_order order;
    struct sources sources;
    struct backend_config config;
    struct store_env *env;
    struct moment_shards *moment;
    struct backup_shard shard;
    char *space;             /* of which keys are read; NULL: not known while it is opened; owned */
    bool has_keys;           /* of this namespace */
    struct table *libraries; /* name → code */
    enum step step;
    struct arena piece; /* bytes that wait to be read */
    struct rdb_writer writer;
    size_t sent;
    struct arena value_arena;
    struct arena scratch;
    struct backup_value value;
    char error[BACKUP_RDB_ERROR_MAX];
};

static bool backup_failed(struct backup_rdb *backup, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool backup_failed(struct backup_rdb *backup, const char *format, ...)
{
    va_list values;
    if (*backup->error)
        return false;
    va_start(values, format);
    (void)vsnprintf(backup->error, sizeof backup->error, format, values);
    va_end(values);
    return false;
}

/* ---- a shard ---- */

/* A read from the disk has failed: RocksDB's checksums are good, but a file is not. */
static void check_reads(struct backup_rdb *backup)
{
    const struct backup_rows *rows = &backup->value.rows;
    const struct store_iter *const all[] = {backup->shard.system, rows->keys,  rows->elements,
                                            rows->ttls,           rows->times, rows->entries};
    for (unsigned i = 0; i < COUNT_OF(all); i++)
        if (all[i] && store_iter_failed(all[i]))
            (void)backup_failed(backup, "shard %s cannot be read",
                                backup->sources.items[backup->shard.index].manifest->shard);
}

static void close_read_shard(struct backup_rdb *backup)
{
    struct backup_shard *shard = &backup->shard;
    struct backup_rows *rows = &backup->value.rows;
    store_iter_free(shard->system);
    store_iter_free(rows->keys);
    store_iter_free(rows->elements);
    store_iter_free(rows->ttls);
    store_iter_free(rows->times);
    store_iter_free(rows->entries);
    *rows = (struct backup_rows){.keys = NULL};
    if (shard->maps)
        table_free_values(shard->maps);
    for (unsigned db = 0; db < DATABASES_MAX; db++)
        free((char *)shard->spaces[db].data);
    if (shard->storage)
        storage_close(shard->storage);
    *shard = (struct backup_shard){.index = shard->index};
}

static void open_shard_rows(struct backup_rdb *backup, struct store *store)
{
    struct backup_rows *rows = &backup->value.rows;
    backup->shard.system = store_iter_new_passing(store, CF_SYSTEM);
    rows->keys = store_iter_new_passing(store, CF_METADATA);
    rows->elements = store_iter_new_passing(store, CF_DATA);
    rows->ttls = store_iter_new_passing(store, CF_RANK);
    rows->times = store_iter_new_passing(store, CF_ZSET_SCORE);
    rows->entries = store_iter_new_passing(store, CF_STREAM);
}

/* As the shards' records say, or as the map says if they have none. */
static void note_owned_slots(struct backup_rdb *backup)
{
    const struct sources *sources = &backup->sources;
    struct backup_shard *shard = &backup->shard;
    const char *name = sources->items[shard->index].manifest->shard;
    int place = shard_map_named(sources->map, bytes_of(name));
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        int owner = moment_shards_owner(backup->moment, slot);
        shard->owns[slot] = owner >= 0 ? (size_t)owner == shard->index
                                       : (int)sources->map->slot_shard[slot] == place;
    }
}

static void read_database_maps(struct backup_rdb *backup)
{
    struct backup_shard *shard = &backup->shard;
    shard->maps = table_new();
    for (store_iter_seek(shard->system, BYTES("d"));
         store_iter_valid(shard->system) && *store_iter_key(shard->system).data == 'd';
         store_iter_next(shard->system))
        database_map_note(shard->maps, store_iter_key(shard->system),
                          store_iter_value(shard->system));
    check_reads(backup); /* a seek forgets it */
}

static struct bytes copy_space(struct bytes space)
{
    char *copy = malloc(space.len + 1);
    CHECK(copy);
    char *end = copy;
    return bytes_copy_to(&end, space);
}

/* Without --namespace the keys of all shards must be of one. */
static bool is_chosen(struct backup_rdb *backup, struct bytes name)
{
    if (!backup->space) {
        backup->space = strndup(name.len ? name.data : "", name.len);
        CHECK(backup->space);
    }
    if (bytes_equal(name, bytes_of(backup->space)))
        return true;
    if (!backup->order.space)
        (void)backup_failed(backup,
                            "it has keys of several namespaces, such as '%s' and '%.*s'; copy one "
                            "after the other: --namespace NAME, or '' for the default one",
                            backup->space, (int)name.len, name.data);
    return false;
}

static void note_space(struct backup_rdb *backup, struct bytes space)
{
    uint8_t db;
    struct bytes name = database_map_find(backup->shard.maps, space, &db);
    if (!is_chosen(backup, name))
        return;
    if (db >= DATABASES_MAX || backup->shard.spaces[db].data) {
        (void)backup_failed(backup,
                            "shard %s: the map of databases is damaged: keys of database %u are "
                            "at two places, or there is no such database",
                            backup->sources.items[backup->shard.index].manifest->shard, db);
        return;
    }
    backup->shard.spaces[db] = copy_space(space);
    backup->has_keys = true;
}

/* Finds the storage namespaces that have keys. */
static void list_databases(struct backup_rdb *backup)
{
    struct store_iter *keys = backup->value.rows.keys;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    for (store_iter_seek_first(keys); store_iter_valid(keys) && !*backup->error;) {
        if (!decode_metadata_key(store_iter_key(keys), &space, &slot, &key)) {
            (void)backup_failed(backup, "a key cannot be decoded: the backup is damaged");
            return;
        }
        note_space(backup, space);
        struct bytes end =
            encode_prefix_end(&backup->scratch, encode_space_prefix(&backup->scratch, space));
        if (!end.len)
            return;
        store_iter_seek(keys, end);
    }
}

static void open_read_shard(struct backup_rdb *backup)
{
    struct backup_shard *shard = &backup->shard;
    char dir[PATH_MAX];
    char reason[BACKUP_RDB_ERROR_MAX / 2];
    if (moment_shards_dir(backup->moment, shard->index, dir, reason, sizeof reason))
        shard->storage =
            partition_store_open_raw(backup->env, &backup->config, dir, reason, sizeof reason);
    if (!shard->storage) {
        (void)backup_failed(backup, "%s", reason);
        return;
    }
    open_shard_rows(backup, storage_store(shard->storage));
    note_owned_slots(backup);
    read_database_maps(backup);
    list_databases(backup);
    struct bytes name = bytes_of(backup->space ? backup->space : "");
    store_iter_seek(shard->system, encode_function_key(&backup->scratch, name, BYTES("")));
    backup->step = AT_LIBRARIES;
}

static void read_next_shard(struct backup_rdb *backup)
{
    if (backup->shard.storage) {
        close_read_shard(backup);
        backup->shard.index++;
    }
    if (backup->shard.index < backup->sources.count)
        open_read_shard(backup);
    else
        backup->step = AT_END;
}

/* ---- libraries ---- */

/* The name of the library at the iterator. False: it is none of the namespace. */
static bool library_here(struct backup_rdb *backup, struct bytes *name)
{
    const struct store_iter *iter = backup->shard.system;
    struct bytes prefix = encode_function_key(&backup->scratch, bytes_of(backup->space), BYTES(""));
    if (!store_iter_valid(iter))
        return false;
    *name = store_iter_key(iter);
    if (name->len < prefix.len || memcmp(name->data, prefix.data, prefix.len) != 0)
        return false;
    *name = (struct bytes){name->data + prefix.len, name->len - prefix.len};
    return true;
}

/* Each shard has all libraries, so only the first one's are written. */
static void put_backup_library(struct backup_rdb *backup, struct bytes name, struct bytes code)
{
    const char *known = table_get(backup->libraries, name);
    if (!known) {
        char *copy = strndup(code.data, code.len);
        CHECK(copy);
        (void)table_put(backup->libraries, name, copy);
        rdb_write_byte(&backup->writer, OPCODE_FUNCTION);
        rdb_write_string(&backup->writer, code);
    } else if (!bytes_equal(code, bytes_of(known))) {
        (void)backup_failed(
            backup,
            "the library of functions '%.*s' is not the same at all shards, because "
            "it was being loaded: leave libraries out with --functions no",
            (int)name.len, name.data);
    }
}

static void read_backup_library(struct backup_rdb *backup)
{
    struct bytes name;
    if (!backup->order.has_functions || !library_here(backup, &name)) {
        backup->step = AT_DATABASE;
        return;
    }
    put_backup_library(backup, name, store_iter_value(backup->shard.system));
    store_iter_next(backup->shard.system);
}

/* ---- keys ---- */

static void begin_database(struct backup_rdb *backup)
{
    struct backup_shard *shard = &backup->shard;
    while (shard->db < DATABASES_MAX && !shard->spaces[shard->db].data)
        shard->db++;
    if (shard->db == DATABASES_MAX) {
        backup->step = AT_SHARD;
        return;
    }
    rdb_write_byte(&backup->writer, OPCODE_SELECT_DB);
    rdb_write_length(&backup->writer, shard->db);
    store_iter_seek(backup->value.rows.keys,
                    encode_space_prefix(&backup->scratch, shard->spaces[shard->db]));
    backup->step = AT_KEYS;
}

/* The value's rows do not fit. */
static void name_damage(struct backup_rdb *backup)
{
    struct bytes key = backup->value.key;
    if (!backup->value.is_damaged)
        return;
    check_reads(backup); /* then rows are not there because of this */
    (void)backup_failed(backup,
                        "shard %s, key '%.*s' of database %u: its rows do not fit its size or "
                        "cannot be decoded: restore the backup, and repair it with "
                        "scree-backend --check-data DATA --repair",
                        backup->sources.items[backup->shard.index].manifest->shard,
                        (int)(key.len < 200 ? key.len : 200), key.data, backup->shard.db);
}

static void begin_key(struct backup_rdb *backup, struct bytes space, uint16_t slot)
{
    struct backup_value *value = &backup->value;
    if (!type_is_inline(value->meta.type))
        value->prefix = encode_collection_prefix(&backup->value_arena, space, slot, value->key,
                                                 value->meta.version);
    if (backup_value_begin(value))
        backup->step = IN_VALUE;
    name_damage(backup);
}

static void read_backup_key(struct backup_rdb *backup)
{
    struct backup_value *value = &backup->value;
    struct store_iter *keys = value->rows.keys;
    struct bytes space;
    uint16_t slot;
    arena_reset(&backup->value_arena);
    bool is_key = store_iter_valid(keys) &&
                  decode_metadata_key(store_iter_key(keys), &space, &slot, &value->key);
    if (!is_key || !bytes_equal(space, backup->shard.spaces[backup->shard.db])) {
        if (!is_key && store_iter_valid(keys))
            (void)backup_failed(backup, "a key cannot be decoded: the backup is damaged");
        backup->shard.db++;
        backup->step = AT_DATABASE;
        return;
    }
    value->is_damaged = slot >= SLOT_COUNT;
    value->key = arena_copy(&backup->value_arena, value->key);
    space = backup->shard.spaces[backup->shard.db];
    struct bytes row = arena_copy(&backup->value_arena, store_iter_value(keys));
    store_iter_next(keys);
    if (value->is_damaged || !decode_metadata(row, &value->meta)) {
        value->is_damaged = true;
        name_damage(backup);
    } else if (backup->shard.owns[slot]) {
        begin_key(backup, space, slot);
    }
}

static void continue_value(struct backup_rdb *backup)
{
    if (!backup_value_go_on(&backup->value))
        backup->step = AT_KEYS;
    name_damage(backup);
}

/* ---- the file ---- */

static void put_start(struct backup_rdb *backup)
{
    rdb_write_raw(&backup->writer, BYTES("REDIS0012"));
    backup->step = AT_SHARD;
}

/* The end, and a checksum of zeros: there is none. */
static void put_end(struct backup_rdb *backup)
{
    if (backup->order.space && !backup->has_keys) {
        (void)backup_failed(backup, "it has no keys of the namespace '%s'", backup->space);
        return;
    }
    rdb_write_byte(&backup->writer, OPCODE_EOF);
    rdb_write_ms(&backup->writer, 0);
    backup->step = BEHIND_END;
}

static void put_next(struct backup_rdb *backup)
{
    switch (backup->step) {
    case AT_START:
        put_start(backup);
        break;
    case AT_SHARD:
        read_next_shard(backup);
        break;
    case AT_LIBRARIES:
        read_backup_library(backup);
        break;
    case AT_DATABASE:
        begin_database(backup);
        break;
    case AT_KEYS:
        read_backup_key(backup);
        break;
    case IN_VALUE:
        continue_value(backup);
        break;
    case AT_END:
        put_end(backup);
        break;
    case BEHIND_END:
        break;
    }
}

/* ---- reading ---- */

/* Writes the next piece. False: nothing is left, or it failed. */
static bool next_backup_piece(struct backup_rdb *backup)
{
    arena_reset(&backup->piece);
    rdb_writer_init(&backup->writer, &backup->piece);
    while (backup->step != BEHIND_END && !*backup->error &&
           backup->writer.len < BACKUP_PIECE_BYTES) {
        enum step before = backup->step;
        put_next(backup);
        if (before != AT_SHARD)
            check_reads(backup);
        arena_reset(&backup->scratch);
    }
    backup->sent = 0;
    return backup->writer.len && !*backup->error;
}

ssize_t backup_rdb_read(void *owner, char *to, size_t size)
{
    struct backup_rdb *backup = owner;
    if (backup->sent == backup->writer.len && !next_backup_piece(backup))
        return *backup->error ? -1 : 0;
    size_t left = backup->writer.len - backup->sent;
    size_t len = left < size ? left : size;
    memcpy(to, backup->writer.data + backup->sent, len);
    backup->sent += len;
    return (ssize_t)len;
}

const char *backup_rdb_error(const void *owner)
{
    return ((const struct backup_rdb *)owner)->error;
}

void backup_rdb_rewind(struct backup_rdb *backup)
{
    close_read_shard(backup);
    table_free_values(backup->libraries);
    backup->libraries = table_new();
    backup->shard.index = 0;
    backup->step = AT_START;
    backup->writer = (struct rdb_writer){.arena = &backup->piece};
    backup->sent = 0;
}

uint64_t backup_rdb_moment_ms(const struct backup_rdb *backup)
{
    return backup->value.cut_ms;
}

/* ---- opening ---- */

/* Only the whole cluster has one moment. */
static bool check_shards(struct backup_rdb *backup)
{
    const struct sources *sources = &backup->sources;
    const struct shard_map *map = sources->map;
    const struct manifest *first = sources->items[0].manifest;
    if (!map)
        return backup_failed(backup,
                             "%s: shard %s was backed up alone, and the outcome of transactions "
                             "may be known to others: use a backup that a proxy has led",
                             sources->items[0].path, first->shard);
    if (*first->slots)
        return backup_failed(backup, "%s: the backup has only the slots %s", sources->items[0].path,
                             first->slots);
    for (size_t i = 0; i < map->shard_count; i++)
        if (map->shards[i].slot_count && sources_find(sources, map->shards[i].name) < 0)
            return backup_failed(backup,
                                 "shard %s is missing, which the backup's map names: name its "
                                 "directory, too, separated by a comma",
                                 map->shards[i].name);
    return true;
}

static bool check_formats_of_shards(struct backup_rdb *backup)
{
    for (size_t i = 0; i < backup->sources.count; i++)
        if (backup->sources.items[i].manifest->data_format > DATA_FORMAT)
            return backup_failed(
                backup,
                "%s: its data format is newer than this program: use the version that wrote it",
                backup->sources.items[i].path);
    return true;
}

static bool verify_files(struct backup_rdb *backup)
{
    char reason[BACKUP_RDB_ERROR_MAX];
    for (size_t i = 0; i < backup->sources.count; i++)
        if (!source_verify(&backup->sources.items[i], backup->order.progress, NULL, reason,
                           sizeof reason))
            return backup_failed(backup, "%s", reason);
    return true;
}

static void note_moment(struct backup_rdb *backup)
{
    for (size_t i = 0; i < backup->sources.count; i++)
        if (backup->sources.items[i].manifest->taken_ms > backup->value.cut_ms)
            backup->value.cut_ms = backup->sources.items[i].manifest->taken_ms;
}

static bool configure(struct backup_rdb *backup)
{
    struct config *head = &backup->config.head;
    char reason[OPTION_REASON_MAX] = "";
    config_init_defaults(head, &backend_schema);
    backup->config.store_memory_bytes = MEMORY;
    bool good = config_set(head, config_find(head, BYTES("data")), bytes_of(backup->order.scratch),
                           reason, sizeof reason);
    if (!good)
        return backup_failed(backup, "%s", reason);
    const struct store_env_options options = {
        .block_cache_bytes = memory_plan_here(&backup->config).block_cache,
        .background_threads = (uint32_t)backup->config.store_background_threads,
    };
    backup->env = store_env_new(&options);
    return true;
}

static bool make_moment(struct backup_rdb *backup)
{
    char reason[BACKUP_RDB_ERROR_MAX];
    const char *scratch = backup->config.data;
    const struct moment_order order = {
        .env = backup->env,
        .config = &backup->config,
        .sources = &backup->sources,
        .progress = backup->order.progress,
    };
    if (!path_remove(scratch) || !path_make(scratch, reason, sizeof reason))
        return backup_failed(backup, "%s: the directory for links to the backup cannot be made",
                             scratch);
    backup->moment = moment_shards_new(&order, reason, sizeof reason);
    return backup->moment || backup_failed(backup, "%s", reason);
}

/* Without --namespace: the one of the first shard that has keys. It must be known before libraries are read. */
static bool find_only_space(struct backup_rdb *backup)
{
    size_t *index = &backup->shard.index;
    for (; !backup->space && !*backup->error && *index < backup->sources.count; ++*index) {
        open_read_shard(backup);
        close_read_shard(backup);
    }
    if (!backup->space) {
        backup->space = strdup("");
        CHECK(backup->space);
    }
    return !*backup->error;
}

static bool open_backup(struct backup_rdb *backup)
{
    char reason[BACKUP_RDB_ERROR_MAX];
    if (!sources_open(&backup->sources, backup->order.paths, reason, sizeof reason))
        return backup_failed(backup, "%s", reason);
    note_moment(backup);
    return check_shards(backup) && check_formats_of_shards(backup) && verify_files(backup) &&
           configure(backup) && make_moment(backup) && find_only_space(backup);
}

struct backup_rdb *backup_rdb_open(const struct backup_rdb_order *order,
                                   char error[BACKUP_RDB_ERROR_MAX])
{
    struct backup_rdb *backup = calloc(1, sizeof *backup);
    CHECK(backup);
    backup->order = *order;
    arena_init(&backup->piece);
    arena_init(&backup->value_arena);
    arena_init(&backup->scratch);
    backup->value.to = &backup->writer;
    backup->value.arena = &backup->value_arena;
    backup->value.scratch = &backup->scratch;
    backup->libraries = table_new();
    if (order->space) {
        backup->space = strdup(order->space);
        CHECK(backup->space);
    }
    if (open_backup(backup))
        return backup;
    (void)snprintf(error, BACKUP_RDB_ERROR_MAX, "%s", backup->error);
    backup_rdb_close(backup);
    return NULL;
}

void backup_rdb_close(struct backup_rdb *backup)
{
    if (!backup)
        return;
    close_read_shard(backup);
    moment_shards_free(backup->moment);
    if (backup->env) {
        store_env_free(backup->env);
        (void)path_remove(backup->config.data);
        config_fini(&backup->config.head);
    }
    sources_close(&backup->sources);
    table_free_values(backup->libraries);
    free(backup->space);
    arena_fini(&backup->piece);
    arena_fini(&backup->value_arena);
    arena_fini(&backup->scratch);
    free(backup);
}
