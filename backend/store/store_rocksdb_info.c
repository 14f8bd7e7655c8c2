/*
 * store_rocksdb_info.c - control functions: figures, maintenance, checkpoints. Any thread; the lock keeps store_shut from
 * closing the database during a call.
 */
#include "backend/store/store_rocksdb.h"

#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <limits.h>
#include <stdlib.h>

/* RocksDB's soft limit, which we do not change. */
static const uint64_t PENDING_BYTES_SLOW = 64ULL << 30;

void store_compact(struct store *store, enum cf cf, struct bytes from, struct bytes to)
{
    pthread_rwlock_rdlock(&store->lock);
    if (store->db)
        rocksdb_compact_range_cf(store->db, store->cfs[cf], from.len ? from.data : NULL, from.len,
                                 to.len ? to.data : NULL, to.len);
    pthread_rwlock_unlock(&store->lock);
}

/* RocksDB checks for files that are due when a column family changes; setting an option, even to the same value, is a
 * change. */
static void maintain_cf(struct store *store, enum cf cf)
{
    char *reason = NULL;
    rocksdb_set_options_cf(store->db, store->cfs[cf], 1, &store_age_option[0], &store_age_option[1],
                           &reason);
    if (!reason)
        return;
    log_event(LOG_WARN, "store_maintain_failed", "path=%s reason=\"%s\"", store->path, reason);
    rocksdb_free(reason);
}

void store_maintain(struct store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (store->db && !atomic_load(&store->stopped) && store_has_orphans(store, cf))
            maintain_cf(store, cf);
    if (store->db && !atomic_load(&store->stopped))
        store_look_for_ranges(store);
    pthread_rwlock_unlock(&store->lock);
}

static uint64_t cf_property(struct store *store, enum cf cf, const char *property)
{
    uint64_t value = 0;
    (void)rocksdb_property_int_cf(store->db, store->cfs[cf], property, &value);
    return value;
}

static uint64_t property_sum(struct store *store, const char *property)
{
    uint64_t sum = 0;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        sum += cf_property(store, cf, property);
    return sum;
}

static uint64_t level0_files(struct store *store, enum cf cf)
{
    char *text =
        rocksdb_property_value_cf(store->db, store->cfs[cf], "rocksdb.num-files-at-level0");
    uint64_t files = text ? strtoull(text, NULL, 10) : 0;
    rocksdb_free(text);
    return files;
}

/* Figures that are summed over the column families. */
static const struct {
    const char *name, *property;
} figures[] = {
    {"memtable_bytes", "rocksdb.size-all-mem-tables"},
    {"table_reader_bytes", "rocksdb.estimate-table-readers-mem"},
    {"pending_compaction_bytes", "rocksdb.estimate-pending-compaction-bytes"},
    {"sst_bytes", "rocksdb.total-sst-files-size"},
    {"blob_bytes", "rocksdb.total-blob-file-size"},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

/* Figures of the whole database, which any column family returns. */
static const struct {
    const char *name, *property;
} db_figures[] = {
    {"running_compactions", "rocksdb.num-running-compactions"},
    {"running_flushes", "rocksdb.num-running-flushes"},
    {"delayed_write_rate", "rocksdb.actual-delayed-write-rate"},
};
enum { DB_FIGURES = sizeof db_figures / sizeof db_figures[0] };

static uint64_t figure_locked(struct store *store, const char *name)
{
    if (strcmp(name, "cache_bytes") == 0)
        return rocksdb_cache_get_usage(store->env->cache);
    if (strcmp(name, "disk_free_bytes") == 0)
        return path_free_bytes(store->path);
    if (strcmp(name, "disk_total_bytes") == 0)
        return path_total_bytes(store->path);
    if (!store->db)
        return strcmp(name, "stalled") == 0;
    if (strcmp(name, "stalled") == 0)
        return atomic_load(&store->stopped) ||
               cf_property(store, CF_SYSTEM, "rocksdb.is-write-stopped");
    for (size_t i = 0; i < DB_FIGURES; i++)
        if (strcmp(name, db_figures[i].name) == 0)
            return cf_property(store, CF_SYSTEM, db_figures[i].property);
    if (strcmp(name, "disk_bytes") == 0)
        return figure_locked(store, "sst_bytes") + figure_locked(store, "blob_bytes");
    for (size_t i = 0; i < FIGURES; i++)
        if (strcmp(name, figures[i].name) == 0)
            return property_sum(store, figures[i].property);
    return 0;
}

uint64_t store_figure(struct store *store, const char *name)
{
    pthread_rwlock_rdlock(&store->lock);
    uint64_t value = figure_locked(store, name);
    pthread_rwlock_unlock(&store->lock);
    return value;
}

bool store_holds_writes(struct store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    bool holds = figure_locked(store, "stalled") || figure_locked(store, "delayed_write_rate");
    pthread_rwlock_unlock(&store->lock);
    return holds;
}

static bool cf_is_behind(struct store *store, enum cf cf)
{
    return level0_files(store, cf) >= LEVEL0_SLOW / 2 ||
           cf_property(store, cf, "rocksdb.estimate-pending-compaction-bytes") >=
               PENDING_BYTES_SLOW / 2;
}

bool store_is_behind(struct store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    bool is_behind = figure_locked(store, "delayed_write_rate") > 0;
    for (enum cf cf = 0; store->db && !is_behind && cf < CF_COUNT; cf++)
        is_behind = cf_is_behind(store, cf);
    pthread_rwlock_unlock(&store->lock);
    return is_behind;
}

void store_levels(struct store *store, struct store_level levels[STORE_LEVELS])
{
    memset(levels, 0, STORE_LEVELS * sizeof *levels);
    pthread_rwlock_rdlock(&store->lock);
    const rocksdb_livefiles_t *files = store->db ? rocksdb_livefiles(store->db) : NULL;
    pthread_rwlock_unlock(&store->lock);
    if (!files)
        return;
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        int level = rocksdb_livefiles_level(files, i);
        if (level < 0 || level >= STORE_LEVELS)
            continue;
        levels[level].files++;
        levels[level].bytes += rocksdb_livefiles_size(files, i);
    }
    rocksdb_livefiles_destroy(files);
}

/* RocksDB counts blocks of a thread from this function's first call on; times are not measured. */
void store_thread_blocks(uint64_t *hits, uint64_t *reads)
{
    enum { COUNTS_ONLY = rocksdb_enable_count };
    static _Thread_local bool is_on;
    rocksdb_perfcontext_t *context = rocksdb_perfcontext_create();
    if (!is_on)
        rocksdb_set_perf_level(COUNTS_ONLY);
    is_on = true;
    *hits = rocksdb_perfcontext_metric(context, rocksdb_block_cache_hit_count);
    *reads = rocksdb_perfcontext_metric(context, rocksdb_block_read_count);
    rocksdb_perfcontext_destroy(context);
}

static void info_line(struct store *store, struct out *out, const char *name)
{
    out_printf(out, "store_%s:%llu\r\n", name, (unsigned long long)figure_locked(store, name));
}

static void info_cf(struct store *store, struct out *out, enum cf cf)
{
    out_printf(out, "store_cf_%s:rows=%llu,bytes=%llu,level0_files=%llu,memtable_bytes=%llu\r\n",
               store_family_name(cf),
               (unsigned long long)cf_property(store, cf, "rocksdb.estimate-num-keys"),
               (unsigned long long)cf_property(store, cf, "rocksdb.total-sst-files-size"),
               (unsigned long long)level0_files(store, cf),
               (unsigned long long)cf_property(store, cf, "rocksdb.size-all-mem-tables"));
}

void store_info(struct store *store, struct out *out)
{
    pthread_rwlock_rdlock(&store->lock);
    out_printf(out, "store_state:%s\r\n", store->db ? "open" : "lost");
    info_line(store, out, "disk_total_bytes");
    info_line(store, out, "disk_free_bytes");
    info_line(store, out, "cache_bytes");
    info_line(store, out, "stalled");
    info_line(store, out, "delayed_write_rate");
    info_line(store, out, "running_compactions");
    for (size_t i = 0; i < FIGURES; i++)
        info_line(store, out, figures[i].name);
    for (enum cf cf = 0; store->db && cf < CF_COUNT; cf++)
        info_cf(store, out, cf);
    pthread_rwlock_unlock(&store->lock);
}

/* RocksDB takes texts and lengths in arrays of their own: texts[0..count) and lens[0..count) of the bytes. */
static void split_bytes(const struct bytes *bytes, size_t count, const char **texts, size_t *lens)
{
    for (size_t i = 0; i < count; i++) {
        texts[i] = bytes[i].data;
        lens[i] = bytes[i].len;
    }
}

void store_range_bytes(struct store *store, enum cf cf, const struct bytes *from,
                       const struct bytes *to, size_t count, uint64_t *bytes)
{
    const char **texts = calloc(2 * count + 1, sizeof *texts);
    size_t *lens = calloc(2 * count + 1, sizeof *lens);
    char *reason = NULL;
    CHECK(texts && lens && count <= INT_MAX);
    split_bytes(from, count, texts, lens);
    split_bytes(to, count, texts + count, lens + count);
    memset(bytes, 0, count * sizeof *bytes);
    pthread_rwlock_rdlock(&store->lock);
    if (store->db)
        rocksdb_approximate_sizes_cf(store->db, store->cfs[cf], (int)count, texts, lens,
                                     texts + count, lens + count, bytes, &reason);
    pthread_rwlock_unlock(&store->lock);
    if (reason)
        memset(bytes, 0, count * sizeof *bytes);
    rocksdb_free(reason);
    free((void *)texts);
    free(lens);
}

void store_forget_blocks(struct store *store)
{
    rocksdb_cache_t *cache = store->env->cache;
    size_t bytes = rocksdb_cache_get_capacity(cache);
    rocksdb_cache_set_capacity(cache, 0);
    rocksdb_cache_set_capacity(cache, bytes);
}

static int checkpoint_locked(struct store *store, const char *path, char *error, size_t size)
{
    char *reason = NULL;
    if (!store->db)
        return store_lost(error, size);
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(store->db, &reason);
    if (!reason) {
        rocksdb_checkpoint_create(checkpoint, path, UINT64_MAX,
                                  &reason); /* UINT64_MAX: without a flush */
        rocksdb_checkpoint_object_destroy(checkpoint);
    }
    return reason ? store_failure(reason, error, size) : OK;
}

int store_checkpoint(struct store *store, const char *path, char *error, size_t size)
{
    pthread_rwlock_rdlock(&store->lock);
    pthread_mutex_lock(&store->apply_lock);
    int err = checkpoint_locked(store, path, error, size);
    pthread_mutex_unlock(&store->apply_lock);
    pthread_rwlock_unlock(&store->lock);
    return err;
}
