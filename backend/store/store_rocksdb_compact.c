/*
 * store_rocksdb_compact.c - compaction of everything in steps, so that it has progress and can be cancelled.
 *
 *   a column family's bottom level:  [ file ][ file ]|[ file ][ file ]|[ file ]     a step: files up to a cut, and their
 *                                        step 1            step 2       step 3      overlapping files on other levels
 *
 * Disabling manual compactions ends the current step and waits for that; store_compact_cancel does it on another thread, and
 * they are enabled again when the compaction has ended.
 */
#include "backend/store/store_rocksdb.h"

#include "shared/check.h"
#include "shared/log.h"

#include <stdlib.h>

enum {
    STEPS = 50, /* steps of a column family; fewer if it has fewer files */
    /* RocksDB's kForceOptimized: includes the bottommost level, without compacting a file twice */
    FORCE_LOWEST = 3,
    CUT_BYTES_MAX = 64 /* a longer key is not used as a cut */
};

/* A file of the bottommost level. */
struct file {
    struct bytes last; /* borrowed from RocksDB's list */
    uint64_t bytes;
};

struct plan {
    const rocksdb_livefiles_t *list;
    struct file *files; /* of the bottommost level, sorted */
    size_t count;
    uint64_t lowest_bytes;
    uint64_t bytes; /* on all levels */
};

static int by_last_key(const void *a, const void *b)
{
    return bytes_compare(((const struct file *)a)->last, ((const struct file *)b)->last);
}

static bool is_file_of(const struct plan *plan, int i, enum cf cf)
{
    return strcmp(rocksdb_livefiles_column_family_name(plan->list, i), store_cf_name(cf)) == 0;
}

static void plan_make(struct plan *plan, struct store *store, enum cf cf)
{
    int level = 0;
    *plan = (struct plan){.list = rocksdb_livefiles(store->db)};
    int all = rocksdb_livefiles_count(plan->list);
    for (int i = 0; i < all; i++)
        if (is_file_of(plan, i, cf) && rocksdb_livefiles_level(plan->list, i) > level)
            level = rocksdb_livefiles_level(plan->list, i);
    plan->files = calloc((size_t)all + 1, sizeof plan->files[0]);
    CHECK(plan->files);
    for (int i = 0; i < all; i++) {
        if (!is_file_of(plan, i, cf))
            continue;
        uint64_t bytes = rocksdb_livefiles_size(plan->list, i);
        plan->bytes += bytes;
        if (rocksdb_livefiles_level(plan->list, i) != level)
            continue;
        struct file *file = &plan->files[plan->count++];
        file->last.data = rocksdb_livefiles_largestkey(plan->list, i, &file->last.len);
        file->bytes = bytes;
        plan->lowest_bytes += bytes;
    }
    qsort(plan->files, plan->count, sizeof plan->files[0], by_last_key);
}

static void plan_drop(struct plan *plan)
{
    rocksdb_livefiles_destroy(plan->list);
    free(plan->files);
}

/* ---- running ---- */

static bool goes_on(struct store *store, const struct store_progress *progress)
{
    return atomic_load(&store->is_ready) && !atomic_load(&progress->is_cancelled);
}

static void compact_to(struct store *store, enum cf cf, struct bytes from, struct bytes to)
{
    rocksdb_compactoptions_t *options = rocksdb_compactoptions_create();
    rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
    rocksdb_compactoptions_set_bottommost_level_compaction(options, FORCE_LOWEST);
    rocksdb_compact_range_cf_opt(store->db, store->cfs[cf], options, from.len ? from.data : NULL,
                                 from.len, to.len ? to.data : NULL, to.len);
    rocksdb_compactoptions_destroy(options);
}

/* Steps are based on the files at the beginning; rows written later belong to one of the steps too. */
static void compact_cf(struct store *store, enum cf cf, struct store_progress *progress)
{
    struct plan plan;
    char from[CUT_BYTES_MAX + 1]; /* the key of the last cut */
    size_t from_len = 0;
    uint64_t begun = atomic_load(&progress->bytes_done);
    uint64_t passed = 0;
    uint64_t step = 0;
    plan_make(&plan, store, cf);
    atomic_store(&progress->cf, cf);
    for (size_t i = 0; i + 1 < plan.count && goes_on(store, progress); i++) {
        struct bytes last = plan.files[i].last;
        step += plan.files[i].bytes;
        if (step < plan.lowest_bytes / STEPS || last.len > CUT_BYTES_MAX)
            continue;
        compact_to(store, cf, (struct bytes){from, from_len}, last);
        memcpy(from, last.data, last.len);
        from[last.len] = 0;
        from_len = last.len + 1;
        passed += step;
        step = 0;
        if (goes_on(store, progress))
            atomic_store(&progress->bytes_done,
                         begun + (uint64_t)((double)passed / (double)plan.lowest_bytes *
                                            (double)plan.bytes));
    }
    if (goes_on(store, progress))
        compact_to(store, cf, (struct bytes){from, from_len}, BYTES(""));
    if (goes_on(store, progress))
        atomic_store(&progress->bytes_done, begun + plan.bytes);
    plan_drop(&plan);
}

static uint64_t property(struct store *store, const char *name)
{
    uint64_t value = 0;
    (void)rocksdb_property_int_cf(store->db, store->cfs[CF_SYSTEM], name, &value);
    return value;
}

static uint64_t bytes_of_all(struct store *store)
{
    uint64_t sum = 0;
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        uint64_t bytes = 0;
        (void)rocksdb_property_int_cf(store->db, store->cfs[cf], "rocksdb.total-sst-files-size",
                                      &bytes);
        sum += bytes;
    }
    return sum;
}

static void set_running(struct store *store, bool is_running)
{
    pthread_mutex_lock(&store->compacting.lock);
    CHECK(store->compacting.is_running != is_running);
    store->compacting.is_running = is_running;
    if (store->compacting.is_disabled)
        rocksdb_enable_manual_compaction(store->db);
    store->compacting.is_disabled = false;
    pthread_mutex_unlock(&store->compacting.lock);
}

static enum store_compacted compact_locked(struct store *store, struct store_progress *progress)
{
    uint64_t errors = property(store, "rocksdb.background-errors");
    atomic_store(&progress->bytes_total, bytes_of_all(store));
    set_running(store, true);
    for (enum cf cf = 0; cf < CF_COUNT && goes_on(store, progress); cf++)
        compact_cf(store, cf, progress);
    set_running(store, false);
    if (atomic_load(&progress->is_cancelled))
        return STORE_COMPACT_CANCELLED;
    bool is_good = atomic_load(&store->is_ready) && !atomic_load(&store->stopped) &&
                   property(store, "rocksdb.background-errors") == errors;
    return is_good ? STORE_COMPACTED : STORE_COMPACT_FAILED;
}

enum store_compacted store_compact_all(struct store *store, struct store_progress *progress)
{
    enum store_compacted result = STORE_COMPACT_FAILED;
    pthread_rwlock_rdlock(&store->lock);
    if (store->db && atomic_load(&store->is_ready))
        result = compact_locked(store, progress);
    pthread_rwlock_unlock(&store->lock);
    if (result == STORE_COMPACT_FAILED)
        log_event(LOG_ERROR, "compaction_failed", "path=" LOG_QUOTED, store->path);
    return result;
}

void store_compact_cancel(struct store *store, struct store_progress *progress)
{
    atomic_store(&progress->is_cancelled, true);
    pthread_rwlock_rdlock(&store->lock);
    pthread_mutex_lock(&store->compacting.lock);
    if (store->compacting.is_running && !store->compacting.is_disabled) {
        store->compacting.is_disabled = true;
        rocksdb_disable_manual_compaction(store->db);
    }
    pthread_mutex_unlock(&store->compacting.lock);
    pthread_rwlock_unlock(&store->lock);
}

const char *store_family_name(enum cf cf)
{
    return cf == CF_SYSTEM ? "system" : store_cf_name(cf);
}
