/*
 * store_rocksdb.c - the store on RocksDB: open, read, write, recover.
 *
 *   store ─┬─ db, a handle per column family  ◄── store_get, store_iter_*  (partition's thread,
 * others) │                                  ◄── store_write, store_sync  (commit thread) │ ◄──
 * compaction filters       (RocksDB's threads) └─ lock: shared by the control path, exclusive while
 * the database is reopened
 *
 * After a failed write the database is not written to any more, and goes on answering reads. Only a
 * reopen ends that (the C API has no Resume):
 *
 *        a write fails                 a probe write passes
 *   UP ────────────────► STOPPED ─── close, open ───────────────► UP
 *                         │   ▲           │ refused                ▲
 *                         └───┘           ▼                        │
 *                 no room to reopen    READ ONLY ── close, open ───┘
 *
 * Reads and writes take no lock: store_recover is called when the partition does neither, and
 * compaction filters are waited for before the database goes away.
 */
#include "backend/store/store_rocksdb.h"

#include "backend/store/store_path.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH_BYTES_KEPT = 1 << 20,   /* a cleared batch that was bigger gives its memory back */
    RECOVER_BYTES_FREE = 4 << 20, /* room a reopen needs beside that for the rows in the WAL */
    LOG_BYTES_LEFT = 8 << 20,     /* a start reads so much again in a tenth of a second */
    END_KEY_BYTES = 32,
    LIMITER_PERIOD_US = 20000, /* short: a compaction writes little at a time */
    LIMITER_FAIRNESS = 10,     /* one time in ten a compaction goes before a flush */
    READ_ALL_TIER = 0,         /* RocksDB's kReadAllTier and */
    BLOCK_CACHE_TIER = 1,      /* kBlockCacheTier */
};

struct store_iter {
    struct store *store;
    rocksdb_iterator_t *it;         /* NULL: there is no database */
    rocksdb_readoptions_t *options; /* hold the bounds */
    char *bounds;                   /* lower | upper */
    size_t bounds_size;
};

struct store_batch {
    rocksdb_writebatch_t *rows;
};

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
    if (options->background_bytes_per_s)
        env->limiter = rocksdb_ratelimiter_create((int64_t)options->background_bytes_per_s,
                                                  LIMITER_PERIOD_US, LIMITER_FAIRNESS);
    return env;
}

void store_env_resize(struct store_env *env, uint64_t block_cache_bytes)
{
    rocksdb_cache_set_capacity(env->cache, block_cache_bytes);
}

void store_env_free(struct store_env *env)
{
    if (env->limiter)
        rocksdb_ratelimiter_destroy(env->limiter);
    rocksdb_cache_destroy(env->cache);
    rocksdb_env_destroy(env->env);
    free(env);
}

/* ---- open and close ---------------------------------------------------------------------- */

int store_failure(char *reason, char *error, size_t size)
{
    bool is_full =
        strstr(reason, "No space left on device") || strstr(reason, "Disk quota exceeded");
    (void)snprintf(error, size, "%s", reason);
    rocksdb_free(reason);
    return is_full ? ERR_DISK_FULL : ERR_STORE;
}

int store_lost(char *error, size_t size)
{
    (void)snprintf(error, size, "the database could not be opened again");
    return ERR_STORE;
}

static int db_open(struct store *store, bool is_read_only, char *error, size_t size)
{
    const char *names[CF_COUNT];
    const rocksdb_options_t *options[CF_COUNT];
    rocksdb_column_family_handle_t *cfs[CF_COUNT];
    char *reason = NULL;
    rocksdb_t *db;
    CHECK(!store->db);
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        names[cf] = store_cf_name(cf);
        options[cf] = store->options[cf];
    }
    pthread_mutex_lock(&store->options_lock);
    if (is_read_only)
        db = rocksdb_open_for_read_only_column_families(options[CF_SYSTEM], store->path, CF_COUNT,
                                                        names, options, cfs, 0, &reason);
    else
        db = rocksdb_open_column_families(options[CF_SYSTEM], store->path, CF_COUNT, names, options,
                                          cfs, &reason);
    pthread_mutex_unlock(&store->options_lock);
    if (reason)
        return store_failure(reason, error, size);
    pthread_rwlock_wrlock(&store->lock);
    store->db = db;
    memcpy(store->cfs, cfs, sizeof cfs);
    store->is_read_only = is_read_only;
    atomic_store(&store->stopped, is_read_only ? ERR_STORE : OK);
    store_ranges_opened(store);
    pthread_rwlock_unlock(&store->lock);
    atomic_store_explicit(&store->is_open, true, memory_order_release);
    return OK;
}

/* Filters and reader threads may be reading: filters are told to stop, and all are waited for before the handles go. */
static void db_close(struct store *store)
{
    if (!store->db)
        return;
    atomic_store(&store->is_open, false);
    rocksdb_cancel_all_background_work(store->db, 1);
    pthread_rwlock_wrlock(&store->lock);
    CHECK(atomic_load(&store->iters_now) == 0);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rocksdb_column_family_handle_destroy(store->cfs[cf]);
    rocksdb_close(store->db);
    store->db = NULL;
    pthread_rwlock_unlock(&store->lock);
}

struct store *store_open(struct store_env *env, const struct store_options *options, char *error,
                         size_t size)
{
    if (!path_make(options->path, error, size))
        return NULL;
    struct store *store = calloc(1, sizeof *store);
    CHECK(store);
    store->env = env;
    store->path = strdup(options->path);
    CHECK(store->path);
    store->drop = options->drop;
    store->drop_owner = options->drop_owner;
    pthread_rwlock_init(&store->lock, NULL);
    pthread_mutex_init(&store->compact_lock, NULL);
    pthread_mutex_init(&store->options_lock, NULL);
    store->get_options = rocksdb_readoptions_create();
    store->cached_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(store->cached_options, BLOCK_CACHE_TIER);
    store->write_options = rocksdb_writeoptions_create();
    store->sync_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(store->sync_options, 1);
    store_make_options(store, options);
    if (db_open(store, false, error, size) != OK) {
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

/* A long log would be read again by the next start: its rows go to files now. What fails stays in the log. */
static void shorten_log(struct store *store)
{
    char reason[256];
    if (!store->db || store->is_read_only || atomic_load(&store->stopped) ||
        path_bytes(store->path, ".log") < LOG_BYTES_LEFT)
        return;
    if (store_flush(store, reason, sizeof reason) != OK)
        log_event(LOG_WARN, "flush_failed", "path=%s reason=\"%s\"", store->path, reason);
}

void store_close(struct store *store)
{
    shorten_log(store);
    db_close(store);
    for (size_t i = 0; i < ITERS_KEPT; i++) {
        struct store_iter *iter = atomic_load(&store->iters[i]);
        if (iter)
            iter_destroy(iter);
    }
    store_drop_options(store);
    rocksdb_writeoptions_destroy(store->write_options);
    rocksdb_writeoptions_destroy(store->sync_options);
    rocksdb_readoptions_destroy(store->get_options);
    rocksdb_readoptions_destroy(store->cached_options);
    pthread_rwlock_destroy(&store->lock);
    pthread_mutex_destroy(&store->compact_lock);
    pthread_mutex_destroy(&store->options_lock);
    free(store->path);
    free(store);
}

/* ---- point reads ------------------------------------------------------------------------- */

/* RocksDB's Status::Incomplete: there would be more, on the disk. */
static bool is_cold(const char *reason)
{
    return strncmp(reason, "Result incomplete", strlen("Result incomplete")) == 0;
}

static int read_failed(const struct store *store, char *reason)
{
    int err = is_cold(reason) ? ERR_COLD : ERR_STORE;
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

int store_get_cached(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    return get_with(store, store->cached_options, cf, key, value);
}

int store_fetch(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    pthread_rwlock_rdlock(&store->lock);
    int err = get_with(store, store->get_options, cf, key, value);
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

/* Unused iterators wait in the store's slots, each with its read options and room for bounds. Any
 * thread may take and give, so a slot is emptied and filled in one step. */
static struct store_iter *iter_take(struct store *store)
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

/* The engine keeps pointers to the bounds as long as the iterator lives. */
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
                                    struct bytes upper, int read_tier)
{
    CHECK(cf < CF_COUNT);
    struct store_iter *iter = iter_take(store);
    bool has_ranges = store_has_ranges(store, cf); /* store_rocksdb_ranges.c */
    if (has_ranges)
        read_tier = READ_ALL_TIER;
    rocksdb_readoptions_set_ignore_range_deletions(iter->options, !has_ranges);
    atomic_fetch_add(&store->iters_now, 1);
    iter_set_bounds(iter, lower, upper);
    rocksdb_readoptions_set_read_tier(iter->options, read_tier);
    iter->it =
        store->db ? rocksdb_create_iterator_cf(store->db, iter->options, store->cfs[cf]) : NULL;
    return iter;
}

struct store_iter *store_iter_new(struct store *store, enum cf cf, struct bytes lower,
                                  struct bytes upper)
{
    return iter_open(store, cf, lower, upper, READ_ALL_TIER);
}

struct store_iter *store_iter_new_cached(struct store *store, enum cf cf, struct bytes lower,
                                         struct bytes upper)
{
    return iter_open(store, cf, lower, upper, BLOCK_CACHE_TIER);
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

/* OK, ERR_COLD or ERR_STORE. */
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

bool store_iter_is_cold(const struct store_iter *iter)
{
    return iter_result(iter) == ERR_COLD;
}

static void range_seek(struct store_iter *iter, const struct store_range *range)
{
    if (range->is_reverse && range->has_from)
        store_iter_seek_for_prev(iter, range->from);
    else if (range->is_reverse)
        store_iter_seek_last(iter);
    else if (range->has_from)
        store_iter_seek(iter, range->from);
    else
        store_iter_seek_first(iter);
}

/* The database may be closed by store_recover as soon as the lock is free: the iterator is gone by then. */
int store_fetch_range(struct store *store, const struct store_range *range)
{
    uint64_t rows = 0, bytes = 0;
    pthread_rwlock_rdlock(&store->lock);
    struct store_iter *iter = store_iter_new(store, range->cf, range->lower, range->upper);
    range_seek(iter, range);
    while (bytes < range->bytes && store_iter_valid(iter)) {
        if (rows++ >= range->rows)
            bytes += store_iter_key(iter).len + store_iter_value(iter).len;
        if (range->is_reverse)
            store_iter_prev(iter);
        else
            store_iter_next(iter);
    }
    int err = iter_result(iter);
    store_iter_free(iter);
    pthread_rwlock_unlock(&store->lock);
    return err;
}

/* ---- batches and writes ------------------------------------------------------------------ */

struct store_batch *store_batch_new(void)
{
    struct store_batch *batch = calloc(1, sizeof *batch);
    CHECK(batch);
    batch->rows = rocksdb_writebatch_create();
    return batch;
}

void store_batch_free(struct store_batch *batch)
{
    rocksdb_writebatch_destroy(batch->rows);
    free(batch);
}

void store_batch_clear(struct store_batch *batch)
{
    if (store_batch_bytes(batch) <= BATCH_BYTES_KEPT) {
        rocksdb_writebatch_clear(batch->rows);
        return;
    }
    rocksdb_writebatch_destroy(batch->rows);
    batch->rows = rocksdb_writebatch_create();
}

/* A batch can be filled while there is no database; store_write then refuses it. */
void store_batch_put(struct store_batch *batch, struct store *store, enum cf cf, struct bytes key,
                     struct bytes value)
{
    CHECK(cf < CF_COUNT);
    if (store->db)
        rocksdb_writebatch_put_cf(batch->rows, store->cfs[cf], key.data, key.len, value.data,
                                  value.len);
}

void store_batch_delete(struct store_batch *batch, struct store *store, enum cf cf,
                        struct bytes key)
{
    CHECK(cf < CF_COUNT);
    if (store->db)
        rocksdb_writebatch_delete_cf(batch->rows, store->cfs[cf], key.data, key.len);
}

/* RocksDB wants an end and refuses a batch with a reversed range. */
void store_batch_delete_range(struct store_batch *batch, struct store *store, enum cf cf,
                              struct bytes from, struct bytes to)
{
    char end[END_KEY_BYTES];
    CHECK(cf < CF_COUNT);
    memset(end, 0xff, sizeof end);
    if (!to.len)
        to = (struct bytes){end, sizeof end};
    if (!store->db || bytes_compare(from, to) >= 0)
        return;
    store_range_begun(store, cf);
    rocksdb_writebatch_delete_range_cf(batch->rows, store->cfs[cf], from.data, from.len, to.data,
                                       to.len);
}

void store_batch_log_data(struct store_batch *batch, struct bytes data)
{
    rocksdb_writebatch_put_log_data(batch->rows, data.data, data.len);
}

size_t store_batch_bytes(const struct store_batch *batch)
{
    size_t size;
    (void)rocksdb_writebatch_data(batch->rows, &size);
    return size;
}

/* A database that failed is not written to again, whatever it says of itself: RocksDB may resume by
 * itself on a WAL that is broken, and Debian's package, built with assertions, then aborts. */
static int write_gate(struct store *store, char *error, size_t size)
{
    if (!store->db)
        return store_lost(error, size);
    if (atomic_load(&store->stopped))
        (void)snprintf(error, size, "%s", store->stopped_reason);
    return atomic_load(&store->stopped);
}

static int write_failed(struct store *store, char *reason, char *error, size_t size)
{
    (void)snprintf(store->stopped_reason, sizeof store->stopped_reason, "%s", reason);
    int err = store_failure(reason, error, size);
    atomic_store(&store->stopped, err);
    return err;
}

int store_write(struct store *store, struct store_batch *batch, bool sync, char *error, size_t size)
{
    char *reason = NULL;
    int err = write_gate(store, error, size);
    if (err != OK)
        return err;
    rocksdb_write(store->db, sync ? store->sync_options : store->write_options, batch->rows,
                  &reason);
    store_ranges_landed(store);
    return reason ? write_failed(store, reason, error, size) : OK;
}

int store_sync(struct store *store, char *error, size_t size)
{
    char *reason = NULL;
    int err = write_gate(store, error, size);
    if (err != OK)
        return err;
    rocksdb_flush_wal(store->db, 1, &reason);
    return reason ? write_failed(store, reason, error, size) : OK;
}

/* ---- recovery ---------------------------------------------------------------------------- */

/* Does a write pass? The record goes to the WAL only. */
static int probe(struct store *store, char *error, size_t size)
{
    struct store_batch *batch = store_batch_new();
    store_batch_log_data(batch, BYTES("probe"));
    int err = store_write(store, batch, true, error, size);
    store_batch_free(batch);
    return err;
}

/* A reopen replays the WAL and writes its rows to files: without room for that it would fail, and
 * reads with it. */
static bool has_room(struct store *store, char *error, size_t size)
{
    uint64_t free_bytes = path_free_bytes(store->path);
    uint64_t need_bytes = path_bytes(store->path, ".log") + RECOVER_BYTES_FREE;
    if (free_bytes >= need_bytes)
        return true;
    (void)snprintf(error, size,
                   "No space left on device: %llu bytes are free, %llu are needed to recover",
                   (unsigned long long)free_bytes, (unsigned long long)need_bytes);
    return false;
}

int store_recover(struct store *store, char *error, size_t size)
{
    char reason[256];
    if (store->db && !store->is_read_only && !atomic_load(&store->stopped))
        return probe(store, error, size);
    if (!has_room(store, error, size))
        return ERR_DISK_FULL;
    db_close(store);
    int err = db_open(store, false, error, size);
    if (err == OK)
        return probe(store, error, size);
    if (db_open(store, true, reason, sizeof reason) != OK)
        log_event(LOG_ERROR, "store_lost", "path=%s reason=\"%s\"", store->path, reason);
    return err;
}
