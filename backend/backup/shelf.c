#include "backend/backup/shelf.h"

#include "backend/backup/disk_file.h"
#include "backend/store/store_path.h"
#include "shared/check.h"
#include "shared/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REASON_MAX = 512, MAKE_TRIES = 100 };

bool shelf_path(char *path, const char *dir, const char *backup, const char *shard, char *error,
                size_t size)
{
    char inner[2 * BACKUP_NAME_MAX + 8];
    (void)snprintf(inner, sizeof inner, "%s/%s", backup, shard);
    return disk_path(path, dir, inner, error, size);
}

/* Calls `visit` for each directory of the shard that there is. */
static void each(const char *dir, const char *shard,
                 void (*visit)(void *owner, const char *backup, const char *path), void *owner)
{
    char reason[REASON_MAX];
    char path[PATH_MAX];
    struct disk_list list;
    if (!path_exists(dir) || !disk_list(&list, dir, reason, sizeof reason))
        return;
    for (size_t i = 0; i < list.count; i++) {
        if (backup_name_valid(bytes_of(list.names[i])) &&
            shelf_path(path, dir, list.names[i], shard, reason, sizeof reason) && path_exists(path))
            visit(owner, list.names[i], path);
    }
    disk_list_free(&list);
}

struct found {
    struct shelf_entry *entries;
    size_t count;
};

static void note(void *owner, const char *backup, const char *path)
{
    struct found *found = owner;
    char reason[REASON_MAX];
    struct manifest *manifest = manifest_read(path, reason, sizeof reason);
    if (!manifest)
        return;
    found->entries = realloc(found->entries, (found->count + 1) * sizeof found->entries[0]);
    CHECK(found->entries);
    struct shelf_entry *entry = &found->entries[found->count++];
    *entry =
        (struct shelf_entry){.taken_ms = manifest->taken_ms, .bytes = manifest_bytes(manifest)};
    (void)snprintf(entry->name, sizeof entry->name, "%s", backup);
    (void)snprintf(entry->id, sizeof entry->id, "%s", manifest->id);
    manifest_free(manifest);
}

static int older_first(const void *a, const void *b)
{
    const struct shelf_entry *one = a;
    const struct shelf_entry *other = b;
    if (one->taken_ms != other->taken_ms)
        return one->taken_ms < other->taken_ms ? -1 : 1;
    return strcmp(one->name, other->name);
}

size_t shelf_list(const char *dir, const char *shard, struct shelf_entry **entries)
{
    struct found found = {0};
    each(dir, shard, note, &found);
    if (found.count)
        qsort(found.entries, found.count, sizeof found.entries[0], older_first);
    *entries = found.entries;
    return found.count;
}

struct manifest *shelf_newest(const char *dir, const char *shard)
{
    char path[PATH_MAX];
    char reason[REASON_MAX];
    struct shelf_entry *entries;
    struct manifest *manifest = NULL;
    size_t count = shelf_list(dir, shard, &entries);
    if (count && shelf_path(path, dir, entries[count - 1].name, shard, reason, sizeof reason))
        manifest = manifest_read(path, reason, sizeof reason);
    free(entries);
    return manifest;
}

/* The backup's own directory goes with its last shard. */
static void remove_parent(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    CHECK(slash);
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    (void)rmdir(parent);
}

bool shelf_delete(const char *dir, const char *backup, const char *shard, char *error, size_t size)
{
    char path[PATH_MAX];
    if (!shelf_path(path, dir, backup, shard, error, size))
        return false;
    if (!path_exists(path)) {
        (void)snprintf(error, size, "there is no backup '%s' of shard '%s'", backup, shard);
        return false;
    }
    if (!manifest_remove(path) || !path_remove(path)) {
        (void)snprintf(error, size, "%s: %s", path, strerror(errno));
        return false;
    }
    remove_parent(path);
    return true;
}

struct cleaner {
    const char *dir;
    const char *shard;
};

static void clean(void *owner, const char *backup, const char *path)
{
    const struct cleaner *cleaner = owner;
    char digest[PATH_MAX];
    char reason[REASON_MAX];
    if (!disk_path(digest, path, "MANIFEST.sha256", reason, sizeof reason) || path_exists(digest))
        return; /* whole, or damaged since: not ours to remove */
    if (shelf_delete(cleaner->dir, backup, cleaner->shard, reason, sizeof reason))
        log_event(LOG_INFO, "backup_removed", "backup=%s shard=%s", backup, cleaner->shard);
    else
        log_event(LOG_WARN, "backup_clean_failed", "backup=%s reason=" LOG_QUOTED, backup, reason);
}

/* A backup may have been killed before it made its first shard's directory. */
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
            (void)rmdir(path); /* refuses one that has something in it */
    disk_list_free(&list);
}

void shelf_clean(const char *dir, const char *shard)
{
    struct cleaner cleaner = {dir, shard};
    each(dir, shard, clean, &cleaner);
    clean_empty(dir);
}

bool shelf_make(const char *path, char *error, size_t size)
{
    bool is_made = path_make(path, error, size);
    for (int try = 1; !is_made && errno == ENOENT && try < MAKE_TRIES; try++)
        is_made = path_make(path, error, size);
    return is_made;
}
