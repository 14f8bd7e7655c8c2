/*
 * store_rocksdb_full.c - the store on RocksDB: open for reading only.
 *
 * RocksDB writes a new MANIFEST whenever it opens a database, which fails on a full disk. For reading only it writes nothing. It does
 * not take the file LOCK either, so that another process could change the files: we take it, in the same way as RocksDB does.
 */
#include "backend/store/store_rocksdb.h"

#include "shared/error.h"
#include "shared/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static const char full_reason[] = "No space left on device: the database is open for reading only";

/* A lock of fcntl ends when the process closes any descriptor of the file, so this one is closed before RocksDB opens the file. */
static int lock_database(struct store *store, char *error, size_t size)
{
    char path[PATH_MAX];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (snprintf(path, sizeof path, "%s/LOCK", store->path) >= (int)sizeof path)
        return ERR_STORE;
    store->lock_file = open(path, O_RDWR | O_CLOEXEC);
    if (store->lock_file >= 0 && fcntl(store->lock_file, F_SETLK, &whole) == 0)
        return OK;
    (void)snprintf(error, size, "lock file %s: %s", path, strerror(errno));
    store_unlock(store);
    return ERR_STORE;
}

void store_unlock(struct store *store)
{
    if (store->lock_file >= 0)
        (void)close(store->lock_file);
    store->lock_file = -1;
}

static int open_for_reading(struct store *store, char *error, size_t size)
{
    const char *names[CF_COUNT];
    const rocksdb_options_t *options[CF_COUNT];
    rocksdb_column_family_handle_t *cfs[CF_COUNT];
    char *reason = NULL;
    store_families(store, names, options);
    pthread_mutex_lock(&store->options_lock);
    rocksdb_t *db = rocksdb_open_for_read_only_column_families(
        options[CF_SYSTEM], store->path, CF_COUNT, names, options, cfs, 0, &reason);
    pthread_mutex_unlock(&store->options_lock);
    if (reason)
        return store_failure(reason, error, size);
    (void)snprintf(store->stopped_reason, sizeof store->stopped_reason, "%s", full_reason);
    store_use_database(store, db, cfs, ERR_DISK_FULL);
    return OK;
}

int store_reopen_read_only(struct store *store, char *error, size_t size)
{
    int err = lock_database(store, error, size);
    if (err == OK)
        err = open_for_reading(store, error, size);
    if (err != OK)
        store_unlock(store);
    return err;
}
