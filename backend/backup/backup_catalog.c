#include "backend/backup/backup_catalog.h"

#include "backend/backup/disk_file.h"
#include "config/shards_file.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/path.h"
#include "shared/slot_ranges.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REASON_MAX = 512, MAKE_TRIES = 100 };

bool backup_catalog_path(char *path, const char *dir, const char *backup, const char *shard,
                         char *error, size_t size)
{
    char inner[2 * BACKUP_NAME_MAX + 8];
    (void)snprintf(inner, sizeof inner, "%s/%s", backup, shard);
    return disk_path(path, dir, inner, error, size);
}

/* True for a directory, not for a symbolic link, which might lead anywhere. */
static bool is_directory(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Writes <dir>/<backup>/<shard> to path[PATH_MAX] if the last two are directories. */
static bool find_shard_folder(char *path, const char *dir, const char *backup, const char *shard)
{
    char reason[REASON_MAX];
    return disk_path(path, dir, backup, reason, sizeof reason) && is_directory(path) &&
           backup_catalog_path(path, dir, backup, shard, reason, sizeof reason) &&
           is_directory(path);
}

/* Calls `visit` for each directory of the shard. */
static void each_backup(const char *dir, const char *shard,
                        void (*visit)(void *owner, const char *backup, const char *path),
                        void *owner)
{
    char reason[REASON_MAX];
    char path[PATH_MAX];
    struct disk_list list;
    if (!path_exists(dir) || !disk_list(&list, dir, reason, sizeof reason))
        return;
    for (size_t i = 0; i < list.count; i++) {
        if (backup_name_valid(bytes_of(list.names[i])) &&
            find_shard_folder(path, dir, list.names[i], shard))
            visit(owner, list.names[i], path);
    }
    disk_list_free(&list);
}

struct found {
    struct backup_catalog_entry *entries;
    size_t count;
};

/* The number of shards that have slots of the backup; 1 if it was made without a map. */
static uint32_t count_parts(const struct manifest *manifest)
{
    static _Thread_local bool is_in[SLOT_COUNT];
    char error[REASON_MAX];
    uint32_t count = 0;
    struct shard_map *map =
        *manifest->map ? shards_parse("", bytes_of(manifest->map), error, sizeof error) : NULL;
    bool is_some = *manifest->slots && slot_ranges_read(bytes_of(manifest->slots), is_in);
    for (size_t i = 0; map && i < map->shard_count; i++) {
        bool has_part = !is_some;
        for (unsigned slot = 0; slot < SLOT_COUNT && !has_part; slot++)
            has_part = is_in[slot] && map->slot_shard[slot] == i;
        count += has_part;
    }
    shard_map_unref(map);
    return count ? count : 1;
}

static void add_backup_entry(void *owner, const char *backup, const char *path)
{
    struct found *found = owner;
    char reason[REASON_MAX];
    struct manifest *manifest = manifest_read(path, reason, sizeof reason);
    if (!manifest)
        return;
    found->entries = realloc(found->entries, (found->count + 1) * sizeof found->entries[0]);
    CHECK(found->entries);
    struct backup_catalog_entry *entry = &found->entries[found->count++];
    *entry = (struct backup_catalog_entry){.taken_ms = manifest->taken_ms,
                                           .bytes = manifest_bytes(manifest),
                                           .parts = count_parts(manifest),
                                           .copy = manifest->copy};
    (void)snprintf(entry->name, sizeof entry->name, "%s", backup);
    (void)snprintf(entry->id, sizeof entry->id, "%s", manifest->id);
    (void)snprintf(entry->slots, sizeof entry->slots, "%s", manifest->slots);
    manifest_free(manifest);
}

static int older_entry_first(const void *a, const void *b)
{
    const struct backup_catalog_entry *one = a;
    const struct backup_catalog_entry *other = b;
    if (one->taken_ms != other->taken_ms)
        return one->taken_ms < other->taken_ms ? -1 : 1;
    return strcmp(one->name, other->name);
}

size_t backup_catalog_list(const char *dir, const char *shard,
                           struct backup_catalog_entry **entries)
{
    struct found found = {0};
    each_backup(dir, shard, add_backup_entry, &found);
    if (found.count)
        qsort(found.entries, found.count, sizeof found.entries[0], older_entry_first);
    *entries = found.entries;
    return found.count;
}

/* May unchanged files of this backup be those of this copy? Files of different copies have equal names. */
static bool may_share(const struct backup_catalog_entry *entry, uint64_t copy)
{
    return !*entry->slots && (!entry->copy || entry->copy == copy);
}

struct manifest *backup_catalog_newest(const char *dir, const char *shard, uint64_t copy)
{
    char path[PATH_MAX];
    char reason[REASON_MAX];
    struct backup_catalog_entry *entries;
    struct manifest *manifest = NULL;
    size_t count = backup_catalog_list(dir, shard, &entries);
    while (count && !may_share(&entries[count - 1], copy))
        count--;
    if (count &&
        backup_catalog_path(path, dir, entries[count - 1].name, shard, reason, sizeof reason))
        manifest = manifest_read(path, reason, sizeof reason);
    free(entries);
    return manifest;
}

/* Removes the backup's directory if this was its last shard. */
static void remove_parent(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    CHECK(slash);
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    (void)rmdir(parent);
}

bool backup_catalog_unlist(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size)
{
    char path[PATH_MAX];
    bool is_there = find_shard_folder(path, dir, backup, shard);
    if (is_there && manifest_remove(path))
        return true;
    if (is_there && errno != ENOENT)
        return disk_failed(path, error, size);
    (void)snprintf(error, size, "there is no backup '%s' of shard '%s'", backup, shard);
    return false;
}

/* Removes the directory's files, the mark last, so that a later call can continue after an interruption. */
static bool remove_files(const char *path, char *error, size_t size)
{
    struct disk_list list;
    char inner[PATH_MAX];
    bool good = disk_list(&list, path, error, size);
    for (size_t i = 0; good && i < list.count; i++)
        if (!manifest_is_own(list.names[i]))
            good = disk_path(inner, path, list.names[i], error, size) &&
                   (path_remove(inner) || disk_failed(inner, error, size));
    disk_list_free(&list);
    return good && (path_remove(path) || disk_failed(path, error, size));
}

bool backup_catalog_delete(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size)
{
    char path[PATH_MAX];
    if (!backup_catalog_unlist(dir, backup, shard, error, size) ||
        !backup_catalog_path(path, dir, backup, shard, error, size) ||
        !remove_files(path, error, size))
        return false;
    remove_parent(path);
    return true;
}

bool backup_catalog_is_of_other(const char *dir, const char *backup, const char *shard,
                                uint64_t copy)
{
    char path[PATH_MAX];
    return find_shard_folder(path, dir, backup, shard) && manifest_is_of_other(path, copy);
}

struct cleaner {
    const char *dir;
    const char *shard;
    uint64_t copy;
};

static void clean(void *owner, const char *backup, const char *path)
{
    const struct cleaner *cleaner = owner;
    char reason[REASON_MAX];
    if (rmdir(path) == 0 || !manifest_is_begun(path) || manifest_is_sealed(path) ||
        manifest_is_of_other(path, cleaner->copy))
        return; /* not marked yet, no backup, a complete one, or of another copy */
    if (backup_catalog_delete(cleaner->dir, backup, cleaner->shard, reason, sizeof reason))
        log_event(LOG_INFO, "backup_removed", "backup=%s shard=%s", backup, cleaner->shard);
    else
        log_event(LOG_WARN, "backup_clean_failed", "backup=%s reason=" LOG_QUOTED, backup, reason);
}

/* Removes empty directories: a backup may have been interrupted before it created the directory of its first shard. */
static void clean_empty(const char *dir)
{
    char reason[REASON_MAX];
    char path[PATH_MAX];
    struct disk_list list;
    if (!path_exists(dir) || !disk_list(&list, dir, reason, sizeof reason))
        return;
    for (size_t i = 0; i < list.count; i++)
        if (backup_name_valid(bytes_of(list.names[i])) &&
            disk_path(path, dir, list.names[i], reason, sizeof reason))
            (void)rmdir(path); /* fails if the directory is not empty */
    disk_list_free(&list);
}

void backup_catalog_clean(const char *dir, const char *shard, uint64_t copy)
{
    struct cleaner cleaner = {dir, shard, copy};
    each_backup(dir, shard, clean, &cleaner);
    clean_empty(dir);
}

bool backup_catalog_make(const char *dir, const struct manifest *manifest, char *error, size_t size)
{
    const char *backup = manifest->backup, *shard = manifest->shard;
    char path[PATH_MAX];
    if (!backup_catalog_path(path, dir, backup, shard, error, size))
        return false;
    bool is_made = path_make(path, error, size);
    for (int try = 1; !is_made && errno == ENOENT && try < MAKE_TRIES; try++)
        is_made = path_make(path, error, size);
    if (is_made && !find_shard_folder(path, dir, backup, shard)) {
        (void)snprintf(error, size, "%s: symbolic links are not allowed here", path);
        return false;
    }
    return is_made && manifest_begin(path, manifest->copy, error, size);
}
