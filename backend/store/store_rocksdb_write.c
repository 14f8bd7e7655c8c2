/*
 * store_rocksdb_write.c - the store on RocksDB: batches, the tables, and reopening them.
 *
 *   store_apply ──► memtables ──store_flush, or when they are full──► files
 *
 * RocksDB's own WAL is not used: rows in memtables are in the owner's WAL. When a write of the tables fails, RocksDB
 * refuses all writes, but serves reads, until it is reopened (the C API has no Resume). A reopen loses the rows in
 * memtables, and the owner applies them again. No reads are possible while the database is closed, so before that
 * store_try_disk checks that a file can be written beside its files.
 */
#include "backend/store/store_rocksdb.h"

#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BATCH_BYTES_KEPT = 1 << 20, /* a cleared batch that was bigger gives its memory back */
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

/* A batch can be filled while the database is not open; store_apply refuses it then. */
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

/* RocksDB requires an end, and refuses a batch with a reversed range. */
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

/* It is not known which ranges the write batch deletes. */
int store_apply_write_batch(struct store *store, struct bytes record, char *error, size_t size)
{
    struct store_batch batch;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        store_range_begun(store, cf);
    batch.rows = rocksdb_writebatch_create_from(record.data, record.len);
    int err = store_apply(store, &batch, error, size);
    rocksdb_writebatch_destroy(batch.rows);
    return err;
}

bool store_is_stopped(const struct store *store)
{
    return !store->db || atomic_load(&store->stopped);
}

void store_set_unapplied(struct store *store, uint64_t since_ms)
{
    atomic_store(&store->unapplied_ms, since_ms);
}

uint64_t store_unapplied(const struct store *store)
{
    return atomic_load(&store->unapplied_ms);
}

void store_set_keeps_orphans(struct store *store, bool keeps)
{
    (void)(keeps ? atomic_fetch_add(&store->keeps_orphans, 1)
                 : atomic_fetch_sub(&store->keeps_orphans, 1));
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

static int flush_locked(struct store *store, char *error, size_t size)
{
    char *reason = NULL;
    if (!store->db)
        return store_lost(error, size);
    for (enum cf cf = 0; cf < CF_COUNT && !reason; cf++)
        reason = store_flush_cf(store, cf);
    return reason ? store_failure(reason, error, size) : OK;
}

int store_flush(struct store *store, char *error, size_t size)
{
    pthread_rwlock_rdlock(&store->lock);
    int err = flush_locked(store, error, size);
    pthread_rwlock_unlock(&store->lock);
    return err;
}

/* ---- reopening --------------------------------------------------------------------------- */

static int file_failure(const char *path, char *error, size_t size)
{
    int cause = errno;
    (void)snprintf(error, size, "%s: %s", path, strerror(cause));
    return cause == ENOSPC || cause == EDQUOT ? ERR_DISK_FULL : ERR_STORE;
}

/* Checks that a file can be written in the directory of the database. */
static int probe_disk(const struct store *store, char *error, size_t size)
{
    static const char zeros[PROBE_BYTES];
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/probe", store->path) >= (int)sizeof path)
        return ERR_STORE;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bool is_good =
        fd >= 0 && write(fd, zeros, sizeof zeros) == (ssize_t)sizeof zeros && fsync(fd) == 0;
    int err = is_good ? OK : file_failure(path, error, size);
    if (fd >= 0)
        (void)close(fd);
    (void)unlink(path);
    return err;
}

int store_try_disk(struct store *store, uint64_t bytes, char *error, size_t size)
{
    uint64_t free_bytes = path_free_bytes(store->path);
    if (free_bytes >= bytes)
        return probe_disk(store, error, size);
    (void)snprintf(error, size,
                   "No space left on device: %llu bytes are free, %llu are needed to recover",
                   (unsigned long long)free_bytes, (unsigned long long)bytes);
    return ERR_DISK_FULL;
}

/* Asks RocksDB for background errors: a failed flush or compaction may not have made an apply fail yet. */
enum store_state store_state(struct store *store)
{
    uint64_t errors = 0;
    if (!store->db)
        return STORE_CLOSED;
    (void)rocksdb_property_int_cf(store->db, store->cfs[CF_SYSTEM], "rocksdb.background-errors",
                                  &errors);
    return errors || atomic_load(&store->stopped) ? STORE_FAILED : STORE_SOUND;
}
