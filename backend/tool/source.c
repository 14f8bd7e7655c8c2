#include "backend/tool/source.h"

#include "config/shards_file.h"
#include "shared/check.h"
#include "shared/path.h"
#include "shared/slot_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_manifest(const char *path)
{
    char inner[PATH_MAX];
    char reason[64];
    return disk_path(inner, path, "MANIFEST.json", reason, sizeof reason) && path_exists(inner);
}

static bool add_source(struct sources *sources, const char *path, char *error, size_t size)
{
    struct manifest *manifest = manifest_read(path, error, size);
    if (!manifest)
        return false;
    int twin = sources_find(sources, manifest->shard);
    sources->items = realloc(sources->items, (sources->count + 1) * sizeof sources->items[0]);
    CHECK(sources->items);
    struct source *source = &sources->items[sources->count++];
    source->manifest = manifest;
    CHECK((source->path = strdup(path)));
    bool is_same = strcmp(manifest->id, sources->items[0].manifest->id) == 0;
    if (!is_same)
        (void)snprintf(error, size, "%s: belongs to another backup than %s", path,
                       sources->items[0].path);
    else if (twin >= 0)
        (void)snprintf(error, size, "%s: shard %s is in %s already", path, manifest->shard,
                       sources->items[twin].path);
    return is_same && twin < 0;
}

static bool add_all(struct sources *sources, const char *path, char *error, size_t size)
{
    struct disk_list list;
    char inner[PATH_MAX];
    size_t before = sources->count;
    bool good = disk_list(&list, path, error, size);
    for (size_t i = 0; good && i < list.count; i++) {
        struct stat found;
        good = disk_path(inner, path, list.names[i], error, size);
        if (good && stat(inner, &found) == 0 && S_ISDIR(found.st_mode))
            good = add_source(sources, inner, error, size);
    }
    disk_list_free(&list);
    if (good && sources->count == before) {
        (void)snprintf(error, size, "%s: no backup found: there is no MANIFEST.json", path);
        good = false;
    }
    return good;
}

static bool read_map(struct sources *sources, char *error, size_t size)
{
    const struct source *first = &sources->items[0];
    if (!*first->manifest->map)
        return true;
    sources->map = shards_parse(first->path, bytes_of(first->manifest->map), error, size);
    return sources->map != NULL;
}

static int source_position(const struct sources *sources, const struct source *source)
{
    int place =
        sources->map ? shard_map_named(sources->map, bytes_of(source->manifest->shard)) : -1;
    return place >= 0 ? place : (int)(source->manifest->partition % INT_MAX);
}

/* Insertion sort, since there are few. */
static void sort_sources(struct sources *sources)
{
    for (size_t i = 1; i < sources->count; i++) {
        struct source moving = sources->items[i];
        size_t to = i;
        while (to > 0 && source_position(sources, &sources->items[to - 1]) >
                             source_position(sources, &moving)) {
            sources->items[to] = sources->items[to - 1];
            to--;
        }
        sources->items[to] = moving;
    }
}

bool sources_next_path(const char **paths, char path[PATH_MAX])
{
    size_t len = strcspn(*paths, ",");
    if (len == 0 || len >= PATH_MAX)
        return false;
    memcpy(path, *paths, len);
    path[len] = 0;
    *paths += len + ((*paths)[len] == ',');
    return true;
}

bool sources_open(struct sources *sources, const char *paths, char *error, size_t size)
{
    char path[PATH_MAX];
    bool good = true;
    const char *rest = paths;
    *sources = (struct sources){0};
    while (good && sources_next_path(&rest, path)) {
        sources->is_one = strcmp(path, paths) == 0 && has_manifest(path);
        good = has_manifest(path) ? add_source(sources, path, error, size)
                                  : add_all(sources, path, error, size);
    }
    if (good && (*rest || !sources->count)) {
        (void)snprintf(error, size, "%s: expected paths, separated by commas", paths);
        good = false;
    }
    good = good && read_map(sources, error, size);
    if (good)
        sort_sources(sources);
    else
        sources_close(sources);
    return good;
}

void sources_close(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        manifest_free(sources->items[i].manifest);
        free(sources->items[i].path);
    }
    free(sources->items);
    shard_map_unref(sources->map);
    *sources = (struct sources){0};
}

int sources_find(const struct sources *sources, const char *shard)
{
    for (size_t i = 0; i < sources->count; i++)
        if (strcmp(sources->items[i].manifest->shard, shard) == 0)
            return (int)i;
    return -1;
}

unsigned sources_slot_count(const struct sources *sources, size_t shard)
{
    bool has[SLOT_COUNT];
    unsigned count = 0;
    const char *ranges = sources->items[0].manifest->slots;
    bool is_some = *ranges && slot_ranges_read(bytes_of(ranges), has);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        count += sources->map->slot_shard[slot] == shard && (!is_some || has[slot]);
    return count;
}

/* ---- verify ---- */

bool source_file(const struct source *source, const struct backup_file *file, char path[PATH_MAX],
                 char *error, size_t size)
{
    struct stat found;
    if (!disk_path(path, source->path, file->name, error, size))
        return false;
    if (stat(path, &found) != 0)
        return disk_failed(path, error, size);
    if ((uint64_t)found.st_size == file->size)
        return true;
    (void)snprintf(error, size, "%s: the file has %llu bytes, but %llu in the manifest", path,
                   (unsigned long long)found.st_size, (unsigned long long)file->size);
    return false;
}

static bool verify_file(const struct source *source, const struct backup_file *file,
                        struct disk_progress *progress, char *error, size_t size)
{
    char path[PATH_MAX];
    char sha256[65];
    if (!source_file(source, file, path, error, size))
        return false;
    if (!disk_digest(path, progress, sha256, error, size))
        return false;
    if (strcmp(sha256, file->sha256) == 0)
        return true;
    (void)snprintf(error, size, "%s: the file is damaged: its checksum differs from the manifest",
                   path);
    return false;
}

static bool verify_names(const struct source *source, char *error, size_t size)
{
    struct disk_list list;
    bool good = disk_list(&list, source->path, error, size);
    for (size_t i = 0; good && i < list.count; i++)
        if (!manifest_is_own(list.names[i]) && !manifest_find(source->manifest, list.names[i])) {
            (void)snprintf(error, size, "%s/%s: the file is not in the manifest", source->path,
                           list.names[i]);
            good = false;
        }
    disk_list_free(&list);
    return good;
}

bool source_verify(const struct source *source, struct disk_progress *progress,
                   source_damage_fn *told, char *error, size_t size)
{
    bool good = verify_names(source, error, size);
    if (!good && told)
        told(error);
    for (size_t i = 0; i < source->manifest->count && (good || told); i++) {
        if (verify_file(source, &source->manifest->files[i], progress, error, size))
            continue;
        good = false;
        if (told)
            told(error);
    }
    return good;
}

bool source_scratch(const struct source *source, const char *dir, struct disk_progress *progress,
                    char *error, size_t size)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    char absolute[PATH_MAX];
    char sha256[65];
    bool good = path_remove(dir) && path_make(dir, error, size);
    for (size_t i = 0; good && i < source->manifest->count; i++) {
        const char *name = source->manifest->files[i].name;
        const char *dot = strrchr(name, '.');
        bool is_data = dot && (strcmp(dot, ".sst") == 0 || strcmp(dot, ".blob") == 0);
        good = disk_path(from, source->path, name, error, size) &&
               disk_path(to, dir, name, error, size);
        if (good && is_data)
            good = (realpath(from, absolute) && symlink(absolute, to) == 0) ||
                   disk_failed(to, error, size);
        else if (good)
            good = disk_copy(from, to, progress, sha256, error, size);
    }
    return good;
}
