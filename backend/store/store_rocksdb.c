/*
 * store_rocksdb.c - the store on RocksDB: open, close, read.
 *
 *   store ─┬─ db, a handle per column family  ◄── store_get, store_iter_* (the partition's thread, others)
 *          │                                  ◄── store_apply             (its apply thread)
 *          │                                  ◄── compaction filters      (RocksDB's threads)
 *          └─ lock: shared by the control path, exclusive while the database is reopened
 *
 * Reads and writes take no lock: store_shut is called while the partition does neither, and waits for compaction filters
 * before it closes the database.
 */
#include "backend/store/store_rocksdb.h"

#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    READ_ALL_TIER = 0,    /* RocksDB's kReadAllTier and */
    BLOCK_CACHE_TIER = 1, /* kBlockCacheTier */
};

struct store_iter {
    struct store *store;
    rocksdb_iterator_t *it;         /* NULL: the database is not open */
    rocksdb_readoptions_t *options; /* contains the bounds */
    char *bounds;                   /* lower | upper */
    size_t bounds_size;
};

/* ---- engine ------------------------------------------------------------------------------ */

/* The macros are from config/rocksdb.cmake, which has examined the library. */
const struct store_engine *store_engine(void)
{
    static const struct store_engine engine = {
        .version = "RocksDB " ROCKSDB_VERSION,
        .assertions = ROCKSDB_ASSERTIONS,
        .crc32c = ROCKSDB_CRC32C,
    };
    return &engine;
}

/* ---- environment ------------------------------------------------------------------------- */

struct store_env *store_env_new(const struct store_env_options *options)
{
    struct store_env *env = calloc(1, sizeof *env);
    CHECK(env);
    env->threads = options->background_threads ? options->background_threads : 1;
    env->env = rocksdb_create_default_env();
    rocksdb_env_set_background_threads(env->env, (int)env->threads);
    rocksdb_env_set_high_priority_background_threads(env->env, store_flush_threads(env));
    env->cache = rocksdb_cache_create_lru(options->block_cache_bytes);
    env->pace = options->pace;
    return env;
}

void store_env_resize(struct store_env *env, uint64_t block_cache_bytes)
{
    rocksdb_cache_set_capacity(env->cache, block_cache_bytes);
}

void store_env_free(struct store_env *env)
{
    rocksdb_cache_destroy(env->cache);
    rocksdb_env_destroy(env->env);
    free(env);
}

/* ---- open and close ---------------------------------------------------------------------- */

void store_families(const struct store *store, const char *names[CF_COUNT],
                    const rocksdb_options_t *options[CF_COUNT])
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        names[cf] = store_cf_name(cf);
        options[cf] = store->options[cf];
    }
}

void store_use_database(struct store *store, rocksdb_t *db,
                        rocksdb_column_family_handle_t *const cfs[CF_COUNT], int stopped)
{
    pthread_rwlock_wrlock(&store->lock);
    store->db = db;
    memcpy(store->cfs, cfs, sizeof store->cfs);
    atomic_store(&store->stopped, stopped);
    pthread_rwlock_unlock(&store->lock);
    store_ranges_opened(store);
}

static int open_database(struct store *store, char *error, size_t size)
{
    const char *names[CF_COUNT];
    const rocksdb_options_t *options[CF_COUNT];
    rocksdb_column_family_handle_t *cfs[CF_COUNT];
    char *reason = NULL;
    CHECK(!store->db);
    store_families(store, names, options);
    pthread_mutex_lock(&store->options_lock);
    rocksdb_t *db = rocksdb_open_column_families(options[CF_SYSTEM], store->path, CF_COUNT, names,
                                                 options, cfs, &reason);
    pthread_mutex_unlock(&store->options_lock);
    if (reason)
        return store_failure(reason, error, size);
    store_use_database(store, db, cfs, OK);
    return OK;
}

int store_reopen(struct store *store, char *error, size_t size)
{
    store_set_compaction(store, false);
    int err = open_database(store, error, size);
    store_set_compaction(store, true);
    store->compacting.waits_for_replay = err == OK;
    return err;
}

void store_replayed(struct store *store)
{
    store_ranges_replayed(store);
    if (store->compacting.waits_for_replay)
        store_begin_compaction(store);
    store->compacting.waits_for_replay = false;
    atomic_store_explicit(&store->is_ready, true, memory_order_release);
}

/* Stops compaction filters, and waits for filters and reader threads before the handles are freed. */
void store_shut(struct store *store)
{
    if (!store->db)
        return;
    atomic_store(&store->is_ready, false);
    rocksdb_cancel_all_background_work(store->db, 1);
    pthread_rwlock_wrlock(&store->lock);
    CHECK(atomic_load(&store->iters_now) == 0);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rocksdb_column_family_handle_destroy(store->cfs[cf]);
    rocksdb_close(store->db);
    store->db = NULL;
    store_unlock(store);
    pthread_rwlock_unlock(&store->lock);
}

bool store_is_damaged(const char *reason)
{
    return strstr(reason, "Corruption") || strstr(reason, "No such file or directory");
}

/* RocksDB reports a lock that another process holds as an I/O error of the file LOCK. */
static bool is_lock_failure(const char *reason)
{
    return strstr(reason, "lock file") != NULL;
}

/* A database that does not exist yet cannot be opened for reading only: then the first reason is told. */
static int open_first(struct store *store, char *error, size_t size)
{
    char reason[256];
    int err = open_database(store, error, size);
    if (err == ERR_DISK_FULL && store_reopen_read_only(store, reason, sizeof reason) == OK)
        return OK;
    return err;
}

struct store *store_open(struct store_env *env, const struct store_options *options, char *error,
                         size_t size)
{
    if (!path_make(options->path, error, size))
        return NULL;
    struct store *store = calloc(1, sizeof *store);
    CHECK(store);
    store->env = env;
    store->lock_file = -1;
    store->path = strdup(options->path);
    CHECK(store->path);
    store->dropping = (struct dropping){options->drop, options->drop_owner};
    pthread_rwlock_init(&store->lock, NULL);
    pthread_mutex_init(&store->compacting.lock, NULL);
    pthread_mutex_init(&store->options_lock, NULL);
    pthread_mutex_init(&store->apply_lock, NULL);
    store->get_options = rocksdb_readoptions_create();
    store->passing_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(store->passing_options, 0);
    store->cached_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(store->cached_options, BLOCK_CACHE_TIER);
    store->apply_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(store->apply_options, 1);
    store_make_options(store, options);
    if (open_first(store, error, size) != OK) {
        if (is_lock_failure(error))
            (void)snprintf(error, size, "another process uses it: stop that process, or set data");
        store_close(store);
        return NULL;
    }
    return store;
}

static void iter_destroy(struct store_iter *iter)
{
    rocksdb_readoptions_destroy(iter->options);
    free(iter->bounds);
    free(iter);
}

void store_close(struct store *store)
{
    store_shut(store);
    for (size_t i = 0; i < ITERS_KEPT; i++) {
        struct store_iter *iter = atomic_load(&store->iters[i]);
        if (iter)
            iter_destroy(iter);
    }
    store_drop_options(store);
    rocksdb_writeoptions_destroy(store->apply_options);
    rocksdb_readoptions_destroy(store->get_options);
    rocksdb_readoptions_destroy(store->passing_options);
    rocksdb_readoptions_destroy(store->cached_options);
    pthread_rwlock_destroy(&store->lock);
    pthread_mutex_destroy(&store->compacting.lock);
    pthread_mutex_destroy(&store->options_lock);
    pthread_mutex_destroy(&store->apply_lock);
    free(store->path);
    free(store);
}

/* ---- point reads ------------------------------------------------------------------------- */

/* RocksDB's Status::Incomplete: the row may be on the disk. */
static bool is_uncached(const char *reason)
{
    return strncmp(reason, "Result incomplete", strlen("Result incomplete")) == 0;
}

static int read_failed(const struct store *store, char *reason)
{
    int err = is_uncached(reason) ? ERR_UNCACHED : ERR_STORE;
    if (err == ERR_STORE)
        log_event(LOG_ERROR, "store_read_failed", "path=%s reason=\"%s\"", store->path, reason);
    rocksdb_free(reason);
    return err;
}

static int get_with(struct store *store, const rocksdb_readoptions_t *options, enum cf cf,
                    struct bytes key, struct slice *value)
{
    char *reason = NULL;
    CHECK(cf < CF_COUNT);
    if (!store->db)
        return ERR_STORE;
    rocksdb_pinnableslice_t *pin =
        rocksdb_get_pinned_cf(store->db, options, store->cfs[cf], key.data, key.len, &reason);
    if (pin) {
        value->data = rocksdb_pinnableslice_value(pin, &value->len);
        value->pin = pin;
        return OK;
    }
    return reason ? read_failed(store, reason) : ERR_NOT_FOUND;
}

int store_get(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    return get_with(store, store->get_options, cf, key, value);
}

/* True when the row is in memory and empty. */
static bool has_empty_value(struct store *store, enum cf cf, struct bytes key)
{
    char *value = NULL;
    size_t len = 0;
    unsigned char is_found = false;
    bool may_exist = rocksdb_key_may_exist_cf(store->db, store->cached_options, store->cfs[cf],
                                              key.data, key.len, &value, &len, NULL, 0, &is_found);
    bool is_empty = may_exist && is_found && len == 0;
    if (value)
        rocksdb_free(value);
    return is_empty;
}

/* RocksDB 7.8 returns an empty value, and no error, when the row may be in a file that is not open (TableCache::Get, with
 * kBlockCacheTier): after a start it opens 16 files at most. So an empty value is checked by a second call, which says
 * whether the value was found. */
int store_get_cached(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    struct slice found;
    int err = get_with(store, store->cached_options, cf, key, &found);
    if (err != OK)
        return err;
    if (found.len == 0 && !has_empty_value(store, cf, key)) {
        slice_release(&found);
        return ERR_UNCACHED;
    }
    *value = found;
    return OK;
}

int store_fetch(struct store *store, enum cf cf, struct bytes key, bool keeps_blocks,
                struct slice *value)
{
    const rocksdb_readoptions_t *options =
        keeps_blocks ? store->get_options : store->passing_options;
    pthread_rwlock_rdlock(&store->lock);
    int err = get_with(store, options, cf, key, value);
    pthread_rwlock_unlock(&store->lock);
    return err;
}

void slice_release(struct slice *slice)
{
    if (slice->pin)
        rocksdb_pinnableslice_destroy(slice->pin);
    slice->pin = NULL;
}

/* ---- iterators --------------------------------------------------------------------------- */

/* Unused iterators are kept in the store's slots, with their read options and room for bounds. Slots are emptied and
 * filled atomically, by any thread. */
static struct store_iter *iter_acquire(struct store *store)
{
    for (size_t i = 0; i < ITERS_KEPT; i++) {
        if (!atomic_load_explicit(&store->iters[i], memory_order_relaxed))
            continue;
        struct store_iter *iter = atomic_exchange(&store->iters[i], NULL);
        if (iter)
            return iter;
    }
    struct store_iter *iter = calloc(1, sizeof *iter);
    CHECK(iter);
    iter->store = store;
    iter->options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_total_order_seek(iter->options, 1);
    return iter;
}

static void iter_give(struct store_iter *iter)
{
    struct store *store = iter->store;
    for (size_t i = 0; i < ITERS_KEPT; i++) {
        struct store_iter *empty = NULL;
        if (atomic_compare_exchange_strong(&store->iters[i], &empty, iter))
            return;
    }
    iter_destroy(iter);
}

/* RocksDB keeps pointers to the bounds while the iterator exists. */
static void iter_set_bounds(struct store_iter *iter, struct bytes lower, struct bytes upper)
{
    size_t size = lower.len + upper.len;
    if (size > iter->bounds_size) {
        free(iter->bounds);
        iter->bounds = malloc(size);
        CHECK(iter->bounds);
        iter->bounds_size = size;
    }
    if (lower.len)
        memcpy(iter->bounds, lower.data, lower.len);
    if (upper.len)
        memcpy(iter->bounds + lower.len, upper.data, upper.len);
    const char *low = lower.len ? iter->bounds : NULL,
               *high = upper.len ? iter->bounds + lower.len : NULL;
    rocksdb_readoptions_set_iterate_lower_bound(iter->options, low, lower.len);
    rocksdb_readoptions_set_iterate_upper_bound(iter->options, high, upper.len);
}

static struct store_iter *iter_open(struct store *store, enum cf cf, struct bytes lower,
                                    struct bytes upper, int read_tier, bool keeps_blocks)
{
    CHECK(cf < CF_COUNT);
    struct store_iter *iter = iter_acquire(store);
    bool has_ranges = store_has_ranges(store, cf); /* store_rocksdb_ranges.c */
    if (has_ranges)
        read_tier = READ_ALL_TIER;
    rocksdb_readoptions_set_ignore_range_deletions(iter->options, !has_ranges);
    atomic_fetch_add(&store->iters_now, 1);
    iter_set_bounds(iter, lower, upper);
    rocksdb_readoptions_set_read_tier(iter->options, read_tier);
    rocksdb_readoptions_set_fill_cache(iter->options, keeps_blocks);
    iter->it =
        store->db ? rocksdb_create_iterator_cf(store->db, iter->options, store->cfs[cf]) : NULL;
    return iter;
}

struct store_iter *store_iter_new(struct store *store, enum cf cf, struct bytes lower,
                                  struct bytes upper)
{
    return iter_open(store, cf, lower, upper, READ_ALL_TIER, true);
}

struct store_iter *store_iter_new_cached(struct store *store, enum cf cf, struct bytes lower,
                                         struct bytes upper)
{
    return iter_open(store, cf, lower, upper, BLOCK_CACHE_TIER, true);
}

struct store_iter *store_iter_new_passing(struct store *store, enum cf cf)
{
    return iter_open(store, cf, BYTES(""), BYTES(""), READ_ALL_TIER, false);
}

void store_iter_free(struct store_iter *iter)
{
    if (!iter)
        return;
    if (iter->it)
        rocksdb_iter_destroy(iter->it);
    iter->it = NULL;
    uint32_t live = atomic_fetch_sub(&iter->store->iters_now, 1);
    CHECK(live > 0);
    iter_give(iter);
}

void store_iter_seek(struct store_iter *iter, struct bytes key)
{
    if (iter->it)
        rocksdb_iter_seek(iter->it, key.data, key.len);
}

void store_iter_seek_for_prev(struct store_iter *iter, struct bytes key)
{
    if (iter->it)
        rocksdb_iter_seek_for_prev(iter->it, key.data, key.len);
}

void store_iter_seek_first(struct store_iter *iter)
{
    if (iter->it)
        rocksdb_iter_seek_to_first(iter->it);
}

void store_iter_seek_last(struct store_iter *iter)
{
    if (iter->it)
        rocksdb_iter_seek_to_last(iter->it);
}

void store_iter_next(struct store_iter *iter)
{
    CHECK(store_iter_valid(iter));
    rocksdb_iter_next(iter->it);
}

void store_iter_prev(struct store_iter *iter)
{
    CHECK(store_iter_valid(iter));
    rocksdb_iter_prev(iter->it);
}

bool store_iter_valid(const struct store_iter *iter)
{
    return iter->it && rocksdb_iter_valid(iter->it);
}

struct bytes store_iter_key(const struct store_iter *iter)
{
    struct bytes key;
    key.data = rocksdb_iter_key(iter->it, &key.len);
    return key;
}

struct bytes store_iter_value(const struct store_iter *iter)
{
    struct bytes value;
    value.data = rocksdb_iter_value(iter->it, &value.len);
    return value;
}

/* OK, ERR_UNCACHED or ERR_STORE. */
static int iter_result(const struct store_iter *iter)
{
    char *reason = NULL;
    if (!iter->it)
        return ERR_STORE;
    rocksdb_iter_get_error(iter->it, &reason);
    return reason ? read_failed(iter->store, reason) : OK;
}

bool store_iter_failed(const struct store_iter *iter)
{
    return iter_result(iter) != OK;
}

bool store_iter_is_uncached(const struct store_iter *iter)
{
    return iter_result(iter) == ERR_UNCACHED;
}

/* store_shut may close the database as soon as the lock is released, so the iterator is freed before. */
int store_fetch_range(struct store *store, const struct store_range *range)
{
    uint64_t rows = 0, bytes = 0;
    pthread_rwlock_rdlock(&store->lock);
    struct store_iter *iter = store_iter_new(store, range->cf, range->lower, range->upper);
    store_iter_begin(iter, range->is_reverse, range->from, range->has_from);
    while (bytes < range->bytes && store_iter_valid(iter)) {
        if (rows++ >= range->rows)
            bytes += store_iter_key(iter).len + store_iter_value(iter).len;
        store_iter_step(iter, range->is_reverse);
    }
    int err = iter_result(iter);
    store_iter_free(iter);
    pthread_rwlock_unlock(&store->lock);
    return err;
}
