/*
 * times.c - --list-times: as of which moments backups can be restored with an archive.
 *
 *   backup 20261128T020007.123Z: 2026-11-28T02:00:07.456123Z ... 2026-11-28T11:59:59.600211Z
 *     shard a: to 2026-11-28T12:00:00.100042Z
 *     shard b: to 2026-11-28T11:59:59.600211Z, then batches 813 to 900 are missing, until 2026-11-28T12:00:04.000017Z
 *
 * Exit code 1: a backup cannot be read, or has no moment behind its own.
 */
#include "backend/archive/archive_log.h"
#include "backend/backup/pushed.h"
#include "backend/context/hybrid_clock.h"
#include "backend/tool/moment.h"
#include "backend/tool/tool.h"
#include "shared/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What all shards of a backup have together. */
struct moments {
    uint64_t from_us, to_us;
    bool is_good;
};

static void print_shard_moments(const struct source *source, const struct archive_reach *reach)
{
    char until[MOMENT_TEXT_MAX], later[MOMENT_TEXT_MAX];
    (void)printf("  shard %s: to %s", source->manifest->shard, moment_text(reach->until_us, until));
    if (reach->later)
        (void)printf(", then batches %" PRIu64 " to %" PRIu64 " are missing, until %s", reach->next,
                     reach->later - 1, moment_text(reach->later_us, later));
    if (*reach->damage)
        (void)printf(" (%s)", reach->damage);
    (void)putchar('\n');
}

static void look_at_shard(struct moments *moments, const struct source *source, const char *archive,
                          bool prints)
{
    struct archive_reach reach;
    char error[TOOL_ERROR_MAX];
    if (!moment_reach(source, archive, &reach, error, sizeof error)) {
        moments->is_good = false;
        if (prints)
            (void)printf("  %s\n", error);
        return;
    }
    if (source->manifest->hybrid_us > moments->from_us)
        moments->from_us = source->manifest->hybrid_us;
    if (reach.until_us < moments->to_us)
        moments->to_us = reach.until_us;
    if (prints)
        print_shard_moments(source, &reach);
}

/* Names the shards of the map that are not in the backup. */
static bool print_missing(const struct sources *sources)
{
    bool is_whole = true;
    for (size_t i = 0; sources->map && !sources->is_one && i < sources->map->shard_count; i++) {
        const struct shard *shard = &sources->map->shards[i];
        if (!shard->slot_count || sources_find(sources, shard->name) >= 0)
            continue;
        (void)printf("  shard %s: it is not in the backup\n", shard->name);
        is_whole = false;
    }
    return is_whole;
}

static bool print_backup(const char *path, const char *archive)
{
    struct sources sources;
    char error[TOOL_ERROR_MAX], from[MOMENT_TEXT_MAX], to[MOMENT_TEXT_MAX];
    struct moments moments = {.to_us = HYBRID_MAX, .is_good = true};
    if (!sources_open(&sources, path, error, sizeof error)) {
        (void)printf("%s\n", error);
        return false;
    }
    for (size_t i = 0; i < sources.count; i++)
        look_at_shard(&moments, &sources.items[i], archive, false);
    bool is_good = moments.is_good && moments.to_us >= moments.from_us;
    if (is_good)
        (void)printf("backup %s: %s ... %s\n", sources.items[0].manifest->backup,
                     moment_text(moments.from_us, from), moment_text(moments.to_us, to));
    else
        (void)printf("backup %s: its shards have no moment together\n",
                     sources.items[0].manifest->backup);
    for (size_t i = 0; i < sources.count; i++)
        look_at_shard(&moments, &sources.items[i], archive, true);
    is_good = print_missing(&sources) && is_good;
    sources_close(&sources);
    return is_good;
}

/* Has this directory backups below it, of which each has shards? */
static bool is_folder_of_backups(const char *path, const struct disk_list *list)
{
    char inner[PATH_MAX], error[TOOL_ERROR_MAX];
    struct sources sources;
    for (size_t i = 0; i < list->count; i++) {
        if (!disk_path(inner, path, list->names[i], error, sizeof error) ||
            !sources_open(&sources, inner, error, sizeof error))
            continue;
        bool is_one = sources.is_one;
        sources_close(&sources);
        return !is_one;
    }
    return false;
}

int tool_times(const char *backups, const char *archive)
{
    struct disk_list list = {0};
    char inner[PATH_MAX], error[TOOL_ERROR_MAX];
    bool good = true;
    bool is_folder = !strchr(backups, ',') && disk_list(&list, backups, error, sizeof error) &&
                     is_folder_of_backups(backups, &list);
    for (size_t i = 0; is_folder && i < list.count; i++)
        if (!pushed_is_own(list.names[i]) &&
            disk_path(inner, backups, list.names[i], error, sizeof error))
            good = print_backup(inner, archive) && good;
    if (!is_folder)
        good = print_backup(backups, archive);
    disk_list_free(&list);
    return good ? TOOL_GOOD : TOOL_BAD;
}
