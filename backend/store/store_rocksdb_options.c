/*
 * store_rocksdb_options.c - options of RocksDB, and their reasons.
 *
 * Reads and inserts determine the cost of RocksDB, and stalls its latency. So:
 *   - memtables are small: a small skip list is cheaper to insert into, and its flush is short
 *   - memtables of all column families have a limit together, beyond which the oldest is flushed
 *   - blooms over whole keys, in memtables too: commands read many rows that do not exist
 *   - writes are slowed early and stopped late: level 0 may grow while compaction catches up
 *   - files with many deletions (queues) are compacted soon, and files with rows of collections once a day, so that
 *     orphans are dropped even where nothing is written
 *   - compression is fast, because a read that finds no cached block decompresses one; strong compression, if it is asked
 *     for, is for the last level, which has most of the data
 */
#include "backend/store/store_rocksdb.h"

#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"

#include <stdio.h>

enum {
    BLOCK_BYTES = 4096,
    LEVEL0_COMPACT = 4,    /* files in level 0 that start a compaction */
    LEVEL0_STOP = 200,     /* files in level 0 that stop writes; LEVEL0_SLOW files slow them down */
    FILE_BYTES = 32 << 20, /* an SST file of level 1 and below */
    LEVEL_BASE_MEMTABLES = 16, /* bytes of the first level below 0, in memtables */
    LOG_FILES_MAX = 3,         /* RocksDB's own log files: one for each time it is opened */
    LOG_FATAL = 4,
    QUEUE_WINDOW = 512,  /* consecutive rows among which deletions are counted */
    QUEUE_DELETES = 128, /* deletions among these rows after which a file is compacted soon */
};

/* Properties of a column family that determine its options. */
struct cf_traits {
    const char *name;
    bool has_point_reads; /* bloom filters are worthwhile */
    bool has_orphans;     /* rows of collections may be orphans: compaction calls drop() */
    bool has_values;      /* values may be big: blob files are allowed */
};

static const struct cf_traits cf_traits[CF_COUNT] = {
    [CF_SYSTEM] = {.name = "default"},
    [CF_METADATA] = {.name = "metadata", .has_point_reads = true, .has_values = true},
    [CF_DATA] = {.name = "data", .has_point_reads = true, .has_orphans = true, .has_values = true},
    [CF_ZSET_SCORE] = {.name = "zset_score", .has_orphans = true},
    [CF_STREAM] = {.name = "stream", .has_point_reads = true, .has_orphans = true},
    [CF_RANK] = {.name = "rank", .has_point_reads = true, .has_orphans = true},
    [CF_EXPIRE] = {.name = "expire"},
};

const char *store_cf_name(enum cf cf)
{
    return cf_traits[cf].name;
}

bool store_has_orphans(const struct store *store, enum cf cf)
{
    return cf_traits[cf].has_orphans && store->dropping.may_drop;
}

static void options_set_database(rocksdb_options_t *to, const struct store_env *env,
                                 const struct store_options *options)
{
    rocksdb_options_set_env(to, env->env);
    rocksdb_options_set_create_if_missing(to, 1);
    rocksdb_options_set_create_missing_column_families(to, 1);
    rocksdb_options_set_paranoid_checks(to, 1);
    rocksdb_options_set_max_background_jobs(to, (int)env->threads + store_flush_threads(env));
    rocksdb_options_set_max_open_files(to, options->max_open_files);
    rocksdb_options_set_wal_recovery_mode(to, rocksdb_point_in_time_recovery);
    rocksdb_options_set_avoid_unnecessary_blocking_io(to, 1);
    rocksdb_options_set_db_write_buffer_size(to, options->memtables_bytes);
    rocksdb_options_set_bytes_per_sync(to, 1 << 20);
    rocksdb_options_set_skip_stats_update_on_db_open(to, 1);
    /* A LOG that cannot be written (the disk is full) makes Debian's package, which is built with
     * assertions, abort at the next line. So nothing is written to it while the database runs. */
    rocksdb_options_set_info_log_level(to, LOG_FATAL);
    rocksdb_options_set_keep_log_file_num(to, LOG_FILES_MAX);
    rocksdb_options_set_stats_dump_period_sec(to, 0);
    rocksdb_options_set_stats_persist_period_sec(to, 0);
}

static void options_set_table(rocksdb_options_t *to, const struct store_env *env,
                              const struct store_options *options, const struct cf_traits *traits)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, env->cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    if (traits->has_point_reads && options->bloom_bits) {
        /* The table options take ownership of the policy. Its filters are over whole keys; memtables have their own. */
        rocksdb_block_based_options_set_filter_policy(
            table, rocksdb_filterpolicy_create_bloom_full(options->bloom_bits));
        rocksdb_block_based_options_set_whole_key_filtering(table, 1);
        rocksdb_options_set_memtable_prefix_bloom_size_ratio(to, 0.05);
        rocksdb_options_set_memtable_whole_key_filtering(to, 1);
    }
    rocksdb_options_set_block_based_table_factory(to, table);
    rocksdb_block_based_options_destroy(table);
}

static void options_set_compression(rocksdb_options_t *to, const char *compression)
{
    bool is_lz4 = strcmp(compression, "lz4") == 0;
    bool is_zstd = strcmp(compression, "zstd") == 0;
    CHECK(is_lz4 || is_zstd || strcmp(compression, "none") == 0);
    int upper = is_lz4 || is_zstd ? rocksdb_lz4_compression : rocksdb_no_compression;
    int lowest = is_zstd ? rocksdb_zstd_compression : upper;
    rocksdb_options_set_compression(to, upper);
    rocksdb_options_set_bottommost_compression(to, lowest);
}

/* Sets the options that may change while the store is open. */
static void options_set_sizes(rocksdb_options_t *to, const struct store_options *options,
                              const struct cf_traits *traits)
{
    bool has_blobs = traits->has_values && options->blob_threshold_bytes;
    bool is_compressed = strcmp(options->compression, "none") != 0;
    rocksdb_options_set_write_buffer_size(to, options->memtable_bytes);
    rocksdb_options_set_max_write_buffer_number(to, (int)options->memtables);
    rocksdb_options_set_max_bytes_for_level_base(to,
                                                 options->memtable_bytes * LEVEL_BASE_MEMTABLES);
    rocksdb_options_set_enable_blob_files(to, has_blobs);
    rocksdb_options_set_min_blob_size(to, options->blob_threshold_bytes);
    rocksdb_options_set_enable_blob_gc(to, 1);
    rocksdb_options_set_blob_compression_type(to, is_compressed ? rocksdb_lz4_compression
                                                                : rocksdb_no_compression);
}

static void options_set_levels(rocksdb_options_t *to)
{
    rocksdb_options_set_level_compaction_dynamic_level_bytes(to, 1);
    rocksdb_options_set_level0_file_num_compaction_trigger(to, LEVEL0_COMPACT);
    rocksdb_options_set_level0_slowdown_writes_trigger(to, LEVEL0_SLOW);
    rocksdb_options_set_level0_stop_writes_trigger(to, LEVEL0_STOP);
    rocksdb_options_set_target_file_size_base(to, FILE_BYTES);
    rocksdb_options_add_compact_on_deletion_collector_factory(to, QUEUE_WINDOW, QUEUE_DELETES);
}

const char *const store_age_option[2] = {"periodic_compaction_seconds", "86400"};

/* Sets an option by its name and text, because the C API has no function for it. */
static rocksdb_options_t *options_with(rocksdb_options_t *base, const char *name, const char *value)
{
    char text[128], *reason = NULL;
    rocksdb_options_t *options = rocksdb_options_create();
    (void)snprintf(text, sizeof text, "%s=%s", name, value);
    rocksdb_get_options_from_string(base, text, options, &reason);
    CHECK(!reason);
    rocksdb_options_destroy(base);
    return options;
}

void store_make_options(struct store *store, const struct store_options *options)
{
    atomic_store(&store->has_blobs, options->blob_threshold_bytes > 0);
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        const struct cf_traits *traits = &cf_traits[cf];
        rocksdb_options_t *made = rocksdb_options_create();
        options_set_database(made, store->env, options);
        options_set_table(made, store->env, options, traits);
        options_set_compression(made, options->compression);
        options_set_sizes(made, options, traits);
        options_set_levels(made);
        if (cf == CF_SYSTEM) /* rows in memtables are also in our WAL */
            made = options_with(made, "avoid_flush_during_shutdown", "true");
        /* No memtable_insert_with_hint_prefix_extractor, though rows come in order: 7.8.3 shares its hints between
         * rows and range tombstones, and aborts at the second FLUSHALL. */
        bool has_orphans = store_has_orphans(store, cf);
        if (has_orphans || (store->env->pace && cf != CF_SYSTEM)) {
            /* Set in any case, "0" for never, because RocksDB's default is a month for column families with a filter. */
            made = options_with(made, store_age_option[0], has_orphans ? store_age_option[1] : "0");
            store_make_filter(store, cf, made);
        }
        store->options[cf] = made;
    }
}

void store_drop_options(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rocksdb_options_destroy(store->options[cf]);
}

/* ---- while it runs ---- */

void store_set_compaction(struct store *store, bool is_on)
{
    pthread_mutex_lock(&store->options_lock);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rocksdb_options_set_disable_auto_compactions(store->options[cf], !is_on);
    pthread_mutex_unlock(&store->options_lock);
}

void store_begin_compaction(struct store *store)
{
    static const char *const name = "disable_auto_compactions", *const value = "false";
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        char *reason = NULL;
        rocksdb_set_options_cf(store->db, store->cfs[cf], 1, &name, &value, &reason);
        if (reason)
            log_event(LOG_ERROR, "store_options_failed", "path=%s reason=" LOG_QUOTED, store->path,
                      reason);
        rocksdb_free(reason);
    }
}

enum { TUNED_MAX = 9, TUNED_TEXT_MAX = 32 };

/* Options of a column family as names and values. */
struct tuned {
    int count;
    const char *names[TUNED_MAX];
    const char *values[TUNED_MAX];
    char texts[TUNED_MAX][TUNED_TEXT_MAX];
};

static void tuned_add(struct tuned *tuned, const char *name, const char *value)
{
    CHECK(tuned->count < TUNED_MAX);
    tuned->names[tuned->count] = name;
    tuned->values[tuned->count++] = value;
}

static void tuned_number(struct tuned *tuned, const char *name, uint64_t value)
{
    char *text = tuned->texts[tuned->count];
    (void)snprintf(text, TUNED_TEXT_MAX, "%llu", (unsigned long long)value);
    tuned_add(tuned, name, text);
}

/* Sets the same options as options_set_compression and options_set_levels, as names and values. */
static void tuned_fill(struct tuned *tuned, const struct store_options *options,
                       const struct cf_traits *traits)
{
    bool is_compressed = strcmp(options->compression, "none") != 0;
    const char *upper = is_compressed ? "kLZ4Compression" : "kNoCompression";
    bool is_zstd = strcmp(options->compression, "zstd") == 0;
    tuned_number(tuned, "write_buffer_size", options->memtable_bytes);
    tuned_number(tuned, "max_write_buffer_number", options->memtables);
    tuned_number(tuned, "max_bytes_for_level_base", options->memtable_bytes * LEVEL_BASE_MEMTABLES);
    tuned_add(tuned, "compression", upper);
    tuned_add(tuned, "bottommost_compression", is_zstd ? "kZSTD" : upper);
    if (!traits->has_values)
        return;
    tuned_add(tuned, "enable_blob_files", options->blob_threshold_bytes ? "true" : "false");
    tuned_number(tuned, "min_blob_size", options->blob_threshold_bytes);
    tuned_add(tuned, "enable_blob_garbage_collection", "true");
    tuned_add(tuned, "blob_compression_type", is_compressed ? "kLZ4Compression" : "kNoCompression");
}

/* Changes store->options too, which are used when the database is opened again. */
static void keep_tuned(struct store *store, const struct store_options *options)
{
    atomic_store(&store->has_blobs, options->blob_threshold_bytes > 0);
    pthread_mutex_lock(&store->options_lock);
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        options_set_compression(store->options[cf], options->compression);
        options_set_sizes(store->options[cf], options, &cf_traits[cf]);
    }
    pthread_mutex_unlock(&store->options_lock);
}

static int tune_locked(struct store *store, const struct store_options *options, char *error,
                       size_t size)
{
    char *reason = NULL;
    if (!store->db)
        return store_lost(error, size);
    for (enum cf cf = 0; cf < CF_COUNT && !reason; cf++) {
        struct tuned tuned = {0};
        tuned_fill(&tuned, options, &cf_traits[cf]);
        rocksdb_set_options_cf(store->db, store->cfs[cf], tuned.count, tuned.names, tuned.values,
                               &reason);
    }
    return reason ? store_failure(reason, error, size) : OK;
}

bool store_set_options(struct store *store, const struct store_options *options, char *error,
                       size_t size)
{
    keep_tuned(store, options);
    pthread_rwlock_rdlock(&store->lock);
    int err = tune_locked(store, options, error, size);
    pthread_rwlock_unlock(&store->lock);
    return err == OK;
}
