/*
 * verify.c - --verify-backup: every file of a backup, or of all backups in a directory, against its checksum.
 */
#include "backend/store/store_path.h"
#include "backend/tool/source.h"
#include "backend/tool/tool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void tell(const char *what)
{
    (void)printf("damaged: %s\n", what);
}

/* Shards that the map names and that are not there. */
static bool check_complete(const struct sources *sources, const char *path)
{
    bool good = true;
    bool is_alone = !sources->map || sources->is_one;
    for (size_t i = 0; !is_alone && i < sources->map->shard_count; i++) {
        const struct shard *shard = &sources->map->shards[i];
        if (!shard->slot_count || sources_find(sources, shard->name) >= 0)
            continue;
        (void)printf("incomplete: %s: shard '%s' is not there\n", path, shard->name);
        good = false;
    }
    return good;
}

static bool verify_one(const char *path)
{
    struct sources sources;
    struct disk_progress progress = {0};
    char error[TOOL_ERROR_MAX];
    if (!sources_open(&sources, path, error, sizeof error)) {
        tell(error);
        return false;
    }
    bool good = check_complete(&sources, path);
    for (size_t i = 0; i < sources.count; i++) {
        const struct source *source = &sources.items[i];
        tool_progress("%s: shard %s, %zu of %zu", path, source->manifest->shard, i + 1,
                      sources.count);
        bool whole = source_verify(source, &progress, tell, error, sizeof error);
        good = good && whole;
        if (whole)
            (void)printf("good: %s: shard %s, %zu files, %llu bytes\n", path,
                         source->manifest->shard, source->manifest->count,
                         (unsigned long long)manifest_bytes(source->manifest));
    }
    sources_close(&sources);
    return good;
}

/* Does the directory hold backups rather than being one? */
static bool is_shelf(const char *path)
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

int tool_verify(const char *path)
{
    struct disk_list list;
    char error[TOOL_ERROR_MAX];
    char child[PATH_MAX];
    bool good = true;
    if (!is_shelf(path))
        return verify_one(path) ? TOOL_GOOD : TOOL_BAD;
    if (!disk_list(&list, path, error, sizeof error)) {
        tell(error);
        return TOOL_BAD;
    }
    for (size_t i = 0; i < list.count; i++)
        if (disk_path(child, path, list.names[i], error, sizeof error))
            good = verify_one(child) && good;
    disk_list_free(&list);
    return good ? TOOL_GOOD : TOOL_BAD;
}
