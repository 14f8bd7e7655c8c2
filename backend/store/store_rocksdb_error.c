/*
 * store_rocksdb_error.c - RocksDB's reasons as errors of the store.
 */
#include "backend/store/store_rocksdb.h"
#include "shared/error.h"

#include <stdio.h>
#include <string.h>

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
