#include "backend/backup/store_cut.h"

#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOLD_TRIES = 1000 };

struct cut {
    struct storage *storage;
    struct wal_cursor *hold; /* keeps the WAL from being trimmed; NULL after cut_end */
    struct wal_copy *log;    /* from cut_end to cut_write */
    uint64_t committed;
    bool is_exact; /* the copy has no batch after `committed` */
};

/* The oldest batch may be trimmed before the cursor is made. */
static bool hold_log(struct cut *cut, char *error, size_t size)
{
    struct wal *wal = storage_wal(cut->storage);
    for (int i = 0; i < HOLD_TRIES && !cut->hold; i++)
        cut->hold = wal_cursor_new(wal, wal_first(wal));
    if (!cut->hold)
        (void)snprintf(error, size, "the log is trimmed all the time");
    return cut->hold;
}

struct cut *cut_begin(struct storage *storage, const char *path, char *error, size_t size)
{
    struct cut *cut = calloc(1, sizeof *cut);
    CHECK(cut);
    cut->storage = storage;
    if (hold_log(cut, error, size) && storage_link_tables(storage, path, error, size) == OK)
        return cut;
    cut_free(cut);
    return NULL;
}

int cut_end(struct cut *cut, char *error, size_t size)
{
    cut->committed = storage_committed(cut->storage); /* read first: the log has these batches */
    cut->log = wal_copy_begin(storage_wal(cut->storage), error, size);
    wal_cursor_free(cut->hold);
    cut->hold = NULL;
    return cut->log ? OK : ERR_STORE;
}

int cut_end_at(struct cut *cut, uint64_t index, char *error, size_t size)
{
    int err = cut_end(cut, error, size);
    CHECK(cut->committed >= index);
    cut->committed = index;
    cut->is_exact = true;
    return err;
}

int cut_write(struct cut *cut, const char *path, char *error, size_t size)
{
    int err = cut->is_exact ? wal_copy_end(cut->log, cut->committed, error, size) : OK;
    if (err == OK)
        err = wal_copy_write(cut->log, path, cut->committed, error, size);
    wal_copy_free(cut->log);
    cut->log = NULL;
    return err;
}

void cut_free(struct cut *cut)
{
    if (!cut)
        return;
    wal_cursor_free(cut->hold);
    wal_copy_free(cut->log);
    free(cut);
}
