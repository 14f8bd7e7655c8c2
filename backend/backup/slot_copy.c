#include "backend/backup/slot_copy.h"

#include "backend/backup/import.h"
#include "backend/storage/partition_store.h"
#include "shared/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* import_progress_fn */
static bool note_copied(void *owner, uint64_t keys, uint64_t rows, uint64_t bytes)
{
    struct disk_progress *progress = owner;
    (void)keys;
    (void)rows;
    atomic_store(&progress->bytes_done, bytes);
    return !atomic_load(&progress->is_cancelled);
}

static bool copy_wanted(struct storage *from, struct storage *to, const bool *wanted,
                        struct disk_progress *progress, char *error, size_t size)
{
    struct import *import = import_new(to, note_copied, progress);
    bool good = import_from(import, storage_store(from), wanted, error, size) &&
                import_end(import, error, size);
    import_free(import);
    return good;
}

/* Removes RocksDB's text log and lock file, because a backup does not need them. */
static bool remove_logs(const char *dir, char *error, size_t size)
{
    struct disk_list list;
    char path[PATH_MAX];
    bool good = disk_list(&list, dir, error, size);
    for (size_t i = 0; good && i < list.count; i++)
        if (strncmp(list.names[i], "LOG", 3) == 0 || strcmp(list.names[i], "LOCK") == 0)
            good = disk_path(path, dir, list.names[i], error, size) &&
                   (path_remove(path) || disk_failed(path, error, size));
    disk_list_free(&list);
    return good;
}

bool slot_copy(struct store_env *env, const struct backend_config *config, const char *cut,
               const bool *wanted, struct disk_progress *progress, char *error, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s-slots", cut) >= (int)sizeof path || !path_remove(path))
        return disk_failed(cut, error, size);
    struct storage *from = partition_store_open_raw(env, config, cut, error, size);
    struct storage *to = from ? partition_store_open_raw(env, config, path, error, size) : NULL;
    bool good = to && copy_wanted(from, to, wanted, progress, error, size);
    if (to)
        storage_close(to);
    if (from)
        storage_close(from);
    atomic_store(&progress->bytes_done, 0);
    good = good && remove_logs(path, error, size);
    if (good && (!path_remove(cut) || rename(path, cut) != 0))
        good = disk_failed(cut, error, size);
    if (!good)
        (void)path_remove(path);
    return good;
}
