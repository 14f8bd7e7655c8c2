/*
 * backup_job.c - what a backup does with files, on the worker's thread.
 *
 *   PREPARING  folders; RocksDB writes its memtables; hard links to its files
 *   COPYING    the log up to the cut; then all these files to the backup; those that the previous backup has become hard links to it
 *   SEALING    the manifest, which makes the backup one; older backups are deleted
 *
 * While a job runs, the partition's thread does not use the fields that it writes (struct backup), apart from `progress`.
 */
#include "backend/backup/backup.h"

#include "backend/backup/backup_catalog.h"
#include "backend/backup/backup_inner.h"
#include "backend/context/partition.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool failed(struct backup *backup, const char *path)
{
    return disk_failed(path, backup->reason, sizeof backup->reason);
}

static bool prepare_folders(struct backup *backup)
{
    backup_catalog_clean(backup->dir, backup->manifest->shard, backup->cut.copy);
    if (path_exists(backup->to)) {
        errno = EEXIST;
        return failed(backup, backup->to);
    }
    if (!path_remove(backup->cut.dir))
        return failed(backup, backup->cut.dir);
    return backup_catalog_make(backup->dir, backup->manifest, backup->reason,
                               sizeof backup->reason) &&
           storage_flush(backup->partition->storage, backup->reason, sizeof backup->reason) == OK;
}

static bool prepare(struct backup *backup)
{
    if (!prepare_folders(backup))
        return false;
    backup->cut.files = cut_begin(backup->partition->storage, backup->cut.dir, backup->reason,
                                  sizeof backup->reason);
    return backup->cut.files;
}

/* Does this file never change after it was written? */
static bool is_lasting(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".sst") == 0 || strcmp(dot, ".blob") == 0);
}

/* Makes a hard link to the equal file of the previous backup. False: the file must be copied. */
static bool share_file(struct backup *backup, const struct manifest *before,
                       struct backup_file *file, const char *to)
{
    char path[PATH_MAX];
    char inner[PATH_MAX];
    const struct backup_file *same = before ? manifest_find(before, file->name) : NULL;
    if (!same || same->size != file->size || same->mtime_ns != file->mtime_ns ||
        !is_lasting(file->name) ||
        !backup_catalog_path(inner, backup->dir, before->backup, before->shard, backup->reason,
                             sizeof backup->reason) ||
        !disk_path(path, inner, file->name, backup->reason, sizeof backup->reason) ||
        link(path, to) != 0)
        return false;
    memcpy(file->sha256, same->sha256, sizeof file->sha256);
    file->is_shared = true;
    atomic_fetch_add(&backup->progress.bytes_done, file->size);
    return true;
}

/* Adds the files of the cut with their sizes to the manifest. */
static bool list_cut(struct backup *backup)
{
    struct disk_list list;
    char path[PATH_MAX];
    bool good = disk_list(&list, backup->cut.dir, backup->reason, sizeof backup->reason);
    for (size_t i = 0; good && i < list.count; i++) {
        struct stat found;
        good = disk_path(path, backup->cut.dir, list.names[i], backup->reason,
                         sizeof backup->reason) &&
               (stat(path, &found) == 0 || failed(backup, path));
        if (!good)
            break;
        struct backup_file *file = manifest_add(backup->manifest, list.names[i]);
        file->size = (uint64_t)found.st_size;
        file->mtime_ns =
            (uint64_t)found.st_mtim.tv_sec * 1000000000ULL + (uint64_t)found.st_mtim.tv_nsec;
    }
    disk_list_free(&list);
    atomic_store(&backup->progress.bytes_total, manifest_bytes(backup->manifest));
    return good;
}

static bool copy(struct backup *backup)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    bool good = cut_write(backup->cut.files, backup->cut.dir, backup->reason,
                          sizeof backup->reason) == OK &&
                (!backup->slots.wanted ||
                 backup_slots_cut(&backup->slots, backup->partition, backup->cut.dir,
                                  &backup->progress, backup->reason, sizeof backup->reason)) &&
                list_cut(backup);
    struct manifest *before =
        good && !backup->is_full
            ? backup_catalog_newest(backup->dir, backup->manifest->shard, backup->cut.copy)
            : NULL;
    for (size_t i = 0; good && i < backup->manifest->count; i++) {
        struct backup_file *file = &backup->manifest->files[i];
        good =
            disk_path(from, backup->cut.dir, file->name, backup->reason, sizeof backup->reason) &&
            disk_path(to, backup->to, file->name, backup->reason, sizeof backup->reason);
        if (good && !share_file(backup, before, file, to))
            good = disk_copy(from, to, &backup->progress, file->sha256, backup->reason,
                             sizeof backup->reason);
        if (good && file->is_shared)
            backup->bytes_shared += file->size;
    }
    manifest_free(before);
    (void)path_remove(backup->cut.dir);
    return good;
}

/* Deletes all but the newest `keep` backups of the shard. */
static void delete_older(struct backup *backup)
{
    struct backup_catalog_entry *entries;
    char reason[REASON_MAX];
    size_t count = backup_catalog_list(backup->dir, backup->manifest->shard, &entries);
    size_t whole = 0;
    for (size_t i = 0; i < count; i++)
        whole += !*entries[i].slots;
    for (size_t i = 0; i < count && whole > (size_t)backup->keep; i++)
        if (!*entries[i].slots && whole-- &&
            !backup_catalog_delete(backup->dir, entries[i].name, backup->manifest->shard, reason,
                                   sizeof reason))
            log_event(LOG_WARN, "backup_delete_failed", "backup=%s reason=" LOG_QUOTED,
                      entries[i].name, reason);
    free(entries);
}

static bool seal(struct backup *backup)
{
    if (!manifest_write(backup->manifest, backup->to, backup->reason, sizeof backup->reason))
        return false;
    if (backup->keep)
        delete_older(backup);
    return true;
}

void backup_remove_partial(const struct backup *backup)
{
    if (backup->cut.is_elsewhere)
        return;
    (void)path_remove(backup->cut.dir);
    if (backup->manifest)
        backup_catalog_clean(backup->dir, backup->manifest->shard, backup->cut.copy);
}

void backup_run_job(struct job *job)
{
    struct backup *backup = container_of(job, struct backup, job);
    if (backup->state == BACKUP_DELETING) {
        backup_catalog_clean(backup->dir, backup->to, backup->cut.copy);
        return;
    }
    bool has_none = backup->slots.is_none || backup->cut.is_elsewhere;
    backup->good = has_none                            ? true
                   : backup->state == BACKUP_PREPARING ? prepare(backup)
                   : backup->state == BACKUP_COPYING   ? copy(backup)
                                                       : seal(backup);
    if (!backup->good)
        backup_remove_partial(backup);
}
