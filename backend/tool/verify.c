/*
 * verify.c - --verify-backup: compares every file of a backup, or of all backups in a directory, with its checksum.
 *
 * Backups of shards with disks of their own are combined by name: /disk1/backups,/disk2/backups is verified as
 * /disk1/backups/A,/disk2/backups/A, then B …
 */
#include "backend/backup/pushed.h"
#include "backend/tool/source.h"
#include "backend/tool/tool.h"
#include "shared/check.h"
#include "shared/path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void print_damage(const char *what)
{
    (void)printf("damaged: %s\n", what);
}

/* source_damage_fn: verify_source prints the problems unless the shard was deleted in between. */
static FILE *problems;

static void note_damage(const char *what)
{
    (void)fprintf(problems, "damaged: %s\n", what);
}

/* A deletion begins with the manifest. */
static bool is_deleted(const struct source *source)
{
    char path[PATH_MAX];
    char reason[64];
    return disk_path(path, source->path, "MANIFEST.json", reason, sizeof reason) &&
           !path_exists(path);
}

/* Verifies a shard, and prints the result. */
static bool verify_source(const char *path, const struct source *source)
{
    struct disk_progress progress = {0};
    char error[TOOL_ERROR_MAX];
    char *text = NULL;
    size_t len = 0;
    problems = open_memstream(&text, &len);
    CHECK(problems);
    bool whole = source_verify(source, &progress, note_damage, error, sizeof error);
    CHECK(fclose(problems) == 0);
    bool deleted = !whole && is_deleted(source);
    if (deleted)
        (void)printf("deleted: %s: shard %s, while it was verified\n", path,
                     source->manifest->shard);
    else if (whole)
        (void)printf("good: %s: shard %s, %zu files, %llu bytes%s%s\n", path,
                     source->manifest->shard, source->manifest->count,
                     (unsigned long long)manifest_bytes(source->manifest),
                     *source->manifest->slots ? ", slots " : "", source->manifest->slots);
    else
        (void)fputs(text, stdout);
    free(text);
    return whole || deleted;
}

/* Reports shards of the map that are missing. */
static bool check_complete(const struct sources *sources, const char *path)
{
    size_t wanted = 0;
    size_t missing = 0;
    bool is_alone = !sources->map || sources->is_one;
    for (size_t i = 0; !is_alone && i < sources->map->shard_count; i++) {
        const struct shard *shard = &sources->map->shards[i];
        unsigned slots = sources_slot_count(sources, i);
        wanted += slots > 0;
        if (!slots || sources_find(sources, shard->name) >= 0)
            continue;
        (void)printf("incomplete: %s: shard '%s' of %s is missing, %u slots\n", path, shard->name,
                     shard->addresses[0], slots);
        missing++;
    }
    if (missing)
        (void)printf("incomplete: %s: %zu of %zu shards are missing; when they are on other disks, "
                     "name all directories, separated by commas: %s,/other/disk/...\n",
                     path, missing, wanted, path);
    return missing == 0;
}

static bool verify_one(const char *path)
{
    struct sources sources;
    char error[TOOL_ERROR_MAX];
    if (!sources_open(&sources, path, error, sizeof error)) {
        print_damage(error);
        return false;
    }
    bool good = check_complete(&sources, path);
    for (size_t i = 0; i < sources.count; i++) {
        const struct source *source = &sources.items[i];
        tool_progress("%s: shard %s, %zu of %zu", path, source->manifest->shard, i + 1,
                      sources.count);
        good = verify_source(path, source) && good;
    }
    sources_close(&sources);
    return good;
}

/* Does the directory contain backups, rather than being a backup? */
static bool is_backup_folder(const char *path)
{
    struct disk_list list;
    struct disk_list inner;
    char error[TOOL_ERROR_MAX];
    char child[PATH_MAX];
    bool found = false;
    if (!disk_list(&list, path, error, sizeof error))
        return false;
    for (size_t i = 0; !found && i < list.count; i++) {
        if (!disk_path(child, path, list.names[i], error, sizeof error) ||
            !disk_list(&inner, child, error, sizeof error))
            continue;
        char deep[PATH_MAX];
        for (size_t j = 0; !found && j < inner.count; j++)
            found = disk_path(deep, child, inner.names[j], error, sizeof error) &&
                    disk_path(child, deep, "MANIFEST.json", error, sizeof error) &&
                    path_exists(child);
        disk_list_free(&inner);
    }
    disk_list_free(&list);
    return found;
}

/* Was the name found in a directory before `end`? */
static bool is_known(const char *paths, const char *end, const char *name)
{
    char path[PATH_MAX];
    char child[PATH_MAX];
    char reason[64];
    bool known = false;
    while (!known && paths < end && sources_next_path(&paths, path))
        known = disk_path(child, path, name, reason, sizeof reason) && path_exists(child);
    return known;
}

/* Verifies the backup with this name, in all directories that have a part. */
static bool verify_named(const char *paths, const char *name)
{
    char path[PATH_MAX];
    char child[PATH_MAX];
    char reason[64];
    char *joined = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&joined, &len);
    CHECK(to);
    while (sources_next_path(&paths, path))
        if (disk_path(child, path, name, reason, sizeof reason) && path_exists(child))
            (void)fprintf(to, "%s%s", ftell(to) ? "," : "", child);
    CHECK(fclose(to) == 0);
    bool good = verify_one(joined);
    free(joined);
    return good;
}

int tool_verify(const char *paths)
{
    char path[PATH_MAX];
    char error[TOOL_ERROR_MAX];
    bool good = true;
    const char *rest = paths;
    if (!sources_next_path(&rest, path) || !is_backup_folder(path))
        return verify_one(paths) ? TOOL_GOOD : TOOL_BAD;
    rest = paths;
    for (const char *at = paths; sources_next_path(&rest, path); at = rest) {
        struct disk_list list;
        if (!disk_list(&list, path, error, sizeof error)) {
            print_damage(error);
            return TOOL_BAD;
        }
        for (size_t i = 0; i < list.count; i++)
            if (!pushed_is_own(list.names[i]) && !is_known(paths, at, list.names[i]))
                good = verify_named(paths, list.names[i]) && good;
        disk_list_free(&list);
    }
    return good ? TOOL_GOOD : TOOL_BAD;
}
