/*
 * store_rocksdb_write.c - the store on RocksDB: batches, the WAL, the tables, and recovery.
 *
 *   store_log ──► log ─── tables' files have it ──► log files go
 *                  :                 ▲
 *   store_apply ──►: memory tables ──┘ flushed when they are full, or the WAL is too long
 *
 * RocksDB's own WAL is not used, so a failure of the tables does not concern our WAL, nor the other way round.
 *
 *   the WAL fails    wal_rotate: the batch that failed is void, a probe goes into a new file
 *   a table fails    it is not written to any more, and goes on answering reads; only a reopen ends that (the C API has
 *                    no Resume). Rows in memory tables are gone then, and come back from the WAL. There is no way to
 *                    read
 *                    while the database is closed: first a file is written where its files are, and two attempts are
 *                    made.
 */
#include "backend/store/store_rocksdb.h"

#include "backend/format/effects.h"
#include "backend/wal/wal_segment.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BATCH_BYTES_KEPT = 1 << 20, /* a cleared batch that was bigger gives its memory back */
    RECOVER_BYTES_FREE =
        4 << 20, /* room that a reopen needs, in addition to that for the rows in the WAL */
    PROBE_BYTES = 4096,
    END_KEY_BYTES = 32,
};

struct store_batch {
    rocksdb_writebatch_t *rows;
};

/* ---- batches ----------------------------------------------------------------------------- */

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

/* A batch can be filled while the database is not open; store_log refuses it then. */
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

size_t store_batch_bytes(const struct store_batch *batch)
{
    size_t size;
    (void)rocksdb_writebatch_data(batch->rows, &size);
    return size;
}

/* ---- the WAL ----------------------------------------------------------------------------- */

int store_log(struct store *store, struct effects *effects, bool sync, char *error, size_t size)
{
    if (!store->db)
        return store_lost(error, size);
    effects_set_index(effects, wal_last(store->wal) + 1);
    return wal_append(store->wal, effects_bytes(effects), sync, error, size);
}

uint64_t store_logged(const struct store *store)
{
    return store->wal ? wal_last(store->wal) : 0;
}

int store_sync(struct store *store, char *error, size_t size)
{
    return store->db ? wal_sync(store->wal, error, size) : store_lost(error, size);
}

int store_sync_upto(struct store *store, uint64_t logged, char *error, size_t size)
{
    return store->db ? wal_sync_upto(store->wal, logged, error, size) : store_lost(error, size);
}

/* ---- the tables -------------------------------------------------------------------------- */

/* Refuses writes to the tables after one has failed, even if RocksDB accepts writes again: recovery must reopen it. */
static int apply_gate(struct store *store, char *error, size_t size)
{
    if (!store->db)
        return store_lost(error, size);
    if (atomic_load(&store->stopped))
        (void)snprintf(error, size, "%s", store->stopped_reason);
    return atomic_load(&store->stopped);
}

static int tables_failed(struct store *store, char *reason, char *error, size_t size)
{
    (void)snprintf(store->stopped_reason, sizeof store->stopped_reason, "%s", reason);
    int err = store_failure(reason, error, size);
    atomic_store(&store->stopped, err);
    return err;
}

int store_apply(struct store *store, struct store_batch *batch, char *error, size_t size)
{
    int err = apply_gate(store, error, size);
    if (err != OK)
        return err;
    char *reason = NULL;
    pthread_mutex_lock(&store->apply_lock);
    rocksdb_write(store->db, store->apply_options, batch->rows, &reason);
    pthread_mutex_unlock(&store->apply_lock);
    store_ranges_landed(store);
    return reason ? tables_failed(store, reason, error, size) : OK;
}

void store_applied(struct store *store, uint64_t logged)
{
    atomic_store(&store->tables.applied, logged);
}

void store_set_unapplied(struct store *store, uint64_t since_ms)
{
    atomic_store(&store->tables.unapplied_ms, since_ms);
}

uint64_t store_unapplied(const struct store *store)
{
    return atomic_load(&store->tables.unapplied_ms);
}

bool store_wal_is_long(const struct store *store)
{
    return store->wal && wal_bytes(store->wal) >= store->wal_bytes_max &&
           atomic_load(&store->tables.applied) > atomic_load(&store->tables.filed) &&
           !atomic_load(&store->stopped);
}

char *store_flush_cf(struct store *store, enum cf cf)
{
    char *reason = NULL;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(options, 1);
    rocksdb_flush_cf(store->db, options, store->cfs[cf], &reason);
    rocksdb_flushoptions_destroy(options);
    return reason;
}

/* What was applied before the flush began is in files then, and the WAL does not need it; while a checkpoint is on its
 * way nothing leaves the WAL. */
static int flush_locked(struct store *store, char *error, size_t size)
{
    char *reason = NULL;
    if (!store->db || !store->wal)
        return store_lost(error, size);
    uint64_t applied = atomic_load(&store->tables.applied);
    for (enum cf cf = 0; cf < CF_COUNT && !reason; cf++)
        reason = store_flush_cf(store, cf);
    if (reason)
        return store_failure(reason, error, size);
    pthread_mutex_lock(&store->apply_lock);
    atomic_store(&store->tables.filed, applied);
    wal_trim(store->wal, applied);
    pthread_mutex_unlock(&store->apply_lock);
    return OK;
}

int store_flush(struct store *store, char *error, size_t size)
{
    pthread_rwlock_rdlock(&store->lock);
    int err = flush_locked(store, error, size);
    pthread_rwlock_unlock(&store->lock);
    return err;
}

int store_write(struct store *store, struct effects *effects, bool sync, char *error, size_t size)
{
    int err = store_log(store, effects, sync, error, size);
    if (err != OK)
        return err;
    struct store_batch *batch = store_batch_new();
    CHECK(store_batch_add_effects(batch, store, effects_bytes(effects), error, size));
    err = store_apply(store, batch, error, size);
    store_batch_free(batch);
    if (err != OK)
        return err;
    store_applied(store, store_logged(store));
    return store_wal_is_long(store) ? store_flush(store, error, size) : OK;
}

/* ---- the way back ------------------------------------------------------------------------ */

/* Checks that the disk takes a file in the directory of the database. */
static int probe_disk(const struct store *store, char *error, size_t size)
{
    static const char zeros[PROBE_BYTES];
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/probe", store->path) >= (int)sizeof path)
        return ERR_STORE;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bool is_good =
        fd >= 0 && write(fd, zeros, sizeof zeros) == (ssize_t)sizeof zeros && fsync(fd) == 0;
    int err = is_good ? OK : wal_segment_failure(path, error, size);
    if (fd >= 0)
        (void)close(fd);
    (void)unlink(path);
    return err;
}

/* A reopen writes the rows of the WAL to files: without room for that it would fail, and reads with it. */
static int check_free_space(struct store *store, char *error, size_t size)
{
    uint64_t free_bytes = path_free_bytes(store->path);
    uint64_t need_bytes = wal_bytes(store->wal) + RECOVER_BYTES_FREE;
    if (free_bytes >= need_bytes)
        return probe_disk(store, error, size);
    (void)snprintf(error, size,
                   "No space left on device: %llu bytes are free, %llu are needed to recover",
                   (unsigned long long)free_bytes, (unsigned long long)need_bytes);
    return ERR_DISK_FULL;
}

/* The batch that failed is void as soon as this one is durable. */
static int rotate_wal(struct store *store, char *error, size_t size)
{
    int err = wal_rotate(store->wal, error, size);
    if (err != OK)
        return err;
    struct effects *probe = effects_new();
    effects_begin(probe, &(struct effects_header){.type = EFFECTS_PROBE});
    err = store_log(store, probe, true, error, size);
    effects_free(probe);
    return err;
}

/* Asks RocksDB for background errors: a failed flush or compaction may not have made an apply fail yet. */
static bool tables_are_sound(struct store *store)
{
    uint64_t errors = 0;
    (void)rocksdb_property_int_cf(store->db, store->cfs[CF_SYSTEM], "rocksdb.background-errors",
                                  &errors);
    return !errors && !atomic_load(&store->stopped);
}

int store_recover(struct store *store, bool *is_reopened, char *error, size_t size)
{
    *is_reopened = false;
    if (store->db) {
        bool is_sound = tables_are_sound(store);
        int err = is_sound ? OK : check_free_space(store, error, size);
        if (err == OK)
            err = rotate_wal(store, error, size);
        if (err != OK || is_sound)
            return err;
    }
    store_db_close(store);
    int err = store_db_open(store, error, size);
    if (err != OK)
        err = store_db_open(store, error, size);
    *is_reopened = err == OK;
    if (err != OK)
        log_event(LOG_ERROR, "store_lost", "path=%s reason=\"%s\"", store->path, error);
    return err;
}
