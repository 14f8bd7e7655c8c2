#include "backend/storage/storage.h"

#include "shared/check.h"

#include <stdlib.h>

struct storage {
    struct store *store;
};

struct storage *storage_open(struct store_env *env, const struct store_options *options,
                             uint64_t wal_bytes_max, char *error, size_t size)
{
    struct store_options own = *options;
    own.wal_bytes_max = wal_bytes_max;
    struct store *store = store_open(env, &own, error, size);
    if (!store)
        return NULL;
    struct storage *storage = calloc(1, sizeof *storage);
    CHECK(storage);
    storage->store = store;
    return storage;
}

void storage_close(struct storage *storage)
{
    store_close(storage->store);
    free(storage);
}

struct store *storage_store(const struct storage *storage)
{
    return storage->store;
}

int storage_log(struct storage *storage, struct effects *effects, bool sync, char *error,
                size_t size)
{
    return store_log(storage->store, effects, sync, error, size);
}

uint64_t storage_logged(const struct storage *storage)
{
    return store_logged(storage->store);
}

int storage_sync(struct storage *storage, char *error, size_t size)
{
    return store_sync(storage->store, error, size);
}

int storage_sync_upto(struct storage *storage, uint64_t logged, char *error, size_t size)
{
    return store_sync_upto(storage->store, logged, error, size);
}

void storage_applied(struct storage *storage, uint64_t logged)
{
    store_applied(storage->store, logged);
}

int storage_write(struct storage *storage, struct effects *effects, bool sync, char *error,
                  size_t size)
{
    return store_write(storage->store, effects, sync, error, size);
}

bool storage_wal_is_long(const struct storage *storage)
{
    return store_wal_is_long(storage->store);
}

int storage_flush(struct storage *storage, char *error, size_t size)
{
    return store_flush(storage->store, error, size);
}

int storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size)
{
    return store_checkpoint(storage->store, path, error, size);
}

int storage_recover(struct storage *storage, bool *is_reopened, char *error, size_t size)
{
    return store_recover(storage->store, is_reopened, error, size);
}

uint64_t storage_figure(struct storage *storage, const char *name)
{
    return store_figure(storage->store, name);
}

void storage_info(struct storage *storage, struct out *out)
{
    store_info(storage->store, out);
}
