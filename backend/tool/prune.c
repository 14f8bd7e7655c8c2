/*
 * prune.c - --prune: deletes files of the archive that no backup needs.
 *
 *   backup at batch 812        1-500.log  goes      501-900.log  stays: the restore begins within it      901.part  stays
 *   log of no backup                      goes if it ends before the oldest backup began
 *
 * A restore replays from the batch of a backup on, so of each log the files go which end before the oldest backup's batch. A log that
 * has no backup is an older one, of before a restore, or that of a shard which joined a moment ago: it goes only when all backups are later.
 * Files that grow stay. Names are sorted, so the oldest files go first, and an interruption leaves no gap.
 *
 * A backup that cannot be read, or is not whole, may need anything: then nothing is deleted.
 */
#include "backend/archive/archive_file.h"
#include "backend/archive/archive_writer.h"
#include "backend/tool/source.h"
#include "backend/tool/tool.h"
#include "shared/check.h"
#include "shared/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What backups need of a log. */
struct needed_log {
    uint64_t id;
    uint64_t from; /* the batch before the first one that is needed */
};

struct prune {
    struct needed_log *logs;
    size_t count;
    uint64_t oldest_us; /* when the first shard of the oldest backup was cut */
    size_t backups;
    bool is_dry;
    uint64_t files, bytes; /* deleted */
    char error[TOOL_ERROR_MAX];
};

#define REASON(prune) (prune)->error, sizeof(prune)->error

/* ---- what backups need ---- */

static struct needed_log *find_needed(const struct prune *prune, uint64_t id)
{
    for (size_t i = 0; i < prune->count; i++)
        if (prune->logs[i].id == id)
            return &prune->logs[i];
    return NULL;
}

static void need_log(struct prune *prune, const struct manifest *manifest)
{
    struct needed_log *log = find_needed(prune, manifest->log_id);
    if (log && manifest->batch_index < log->from)
        log->from = manifest->batch_index;
    if (log)
        return;
    prune->logs = realloc(prune->logs, (prune->count + 1) * sizeof prune->logs[0]);
    CHECK(prune->logs);
    prune->logs[prune->count++] = (struct needed_log){manifest->log_id, manifest->batch_index};
}

/* A backup of all slots with all shards. */
static bool is_whole_backup(const struct sources *sources)
{
    const struct shard_map *map = sources->map;
    bool is_whole = !*sources->items[0].manifest->slots;
    for (size_t i = 0; is_whole && map && i < map->shard_count; i++)
        is_whole = !map->shards[i].slot_count || sources_find(sources, map->shards[i].name) >= 0;
    return is_whole;
}

static void need_backup(struct prune *prune, const struct sources *sources)
{
    prune->backups++;
    for (size_t i = 0; i < sources->count; i++) {
        const struct manifest *manifest = sources->items[i].manifest;
        need_log(prune, manifest);
        if (manifest->hybrid_us < prune->oldest_us)
            prune->oldest_us = manifest->hybrid_us;
    }
}

/* A backup of some slots is no base of a restore to a moment. */
static bool read_backup(struct prune *prune, const char *path)
{
    struct sources sources;
    if (!sources_open(&sources, path, REASON(prune)))
        return false;
    bool is_of_slots = *sources.items[0].manifest->slots != 0;
    bool good = is_of_slots || is_whole_backup(&sources);
    if (good && !is_of_slots)
        need_backup(prune, &sources);
    if (!good)
        (void)snprintf(REASON(prune), "%s: a shard is missing in the backup", path);
    sources_close(&sources);
    return good;
}

static bool has_manifest_in(const char *dir)
{
    char path[PATH_MAX], ignored[64];
    return disk_path(path, dir, "MANIFEST.json", ignored, sizeof ignored) && path_exists(path);
}

/* Is there a backup, though perhaps a damaged one? Not one that is being made, which needs nothing that older ones do not. */
static bool is_backup(const char *dir)
{
    struct disk_list list;
    char path[PATH_MAX], ignored[512];
    bool is = has_manifest_in(dir);
    if (is || !disk_list(&list, dir, ignored, sizeof ignored))
        return is;
    for (size_t i = 0; !is && i < list.count; i++)
        is = disk_path(path, dir, list.names[i], ignored, sizeof ignored) && has_manifest_in(path);
    disk_list_free(&list);
    return is;
}

static bool is_plain_directory(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* All backups of the directory. */
static bool read_backups(struct prune *prune, const char *dir)
{
    struct disk_list list;
    char path[PATH_MAX];
    if (!disk_list(&list, dir, REASON(prune)))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++)
        good = disk_path(path, dir, list.names[i], REASON(prune)) &&
               (!is_plain_directory(path) || !is_backup(path) || read_backup(prune, path));
    disk_list_free(&list);
    if (good && !prune->backups) {
        (void)snprintf(REASON(prune), "%s: no backup of all slots, so every file may be needed",
                       dir);
        good = false;
    }
    return good;
}

/* ---- files ---- */

/* The time of the last batch of a closed file. False: it cannot be read. */
static bool read_end(struct prune *prune, const char *path, uint64_t *log_id, uint64_t *ends_us)
{
    struct archive_frame frame;
    enum archive_read read = ARCHIVE_READ_END;
    struct archive_file *file = archive_file_open(path, REASON(prune));
    bool is_closed = false;
    *ends_us = 0;
    while (file && (read = archive_file_next(file, &frame, REASON(prune))) == ARCHIVE_READ) {
        is_closed = frame.kind == ARCHIVE_END;
        if (frame.ends_us > *ends_us)
            *ends_us = frame.ends_us;
    }
    if (file)
        *log_id = archive_file_head(file)->log_id;
    archive_file_free(file);
    return read == ARCHIVE_READ_END && is_closed;
}

/* A damaged file stays: it may be needed as far as it can be read. */
static bool is_not_needed(struct prune *prune, const char *path, uint64_t last)
{
    uint64_t log_id, ends_us;
    if (!read_end(prune, path, &log_id, &ends_us))
        return false;
    const struct needed_log *log = find_needed(prune, log_id);
    return log ? last <= log->from : ends_us < prune->oldest_us;
}

static bool delete_file(struct prune *prune, const char *path)
{
    struct stat found;
    if (lstat(path, &found) != 0 || (!prune->is_dry && unlink(path) != 0))
        return disk_failed(path, REASON(prune));
    (void)printf("%s %s\n", prune->is_dry ? "would delete" : "deleted", path);
    prune->files++;
    prune->bytes += (uint64_t)found.st_size;
    return true;
}

static bool prune_dir(struct prune *prune, const char *dir, unsigned depth);

static bool prune_entry(struct prune *prune, const char *path, const char *name, unsigned depth)
{
    uint64_t first, last;
    if (is_plain_directory(path))
        return depth == 0 || prune_dir(prune, path, depth - 1);
    return !archive_file_parse(name, &first, &last) || !last || !is_not_needed(prune, path, last) ||
           delete_file(prune, path);
}

/* Files of this directory, and of those below it: shards, logs, copies. */
static bool prune_dir(struct prune *prune, const char *dir, unsigned depth)
{
    struct disk_list list;
    char path[PATH_MAX];
    if (!disk_list(&list, dir, REASON(prune)))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++)
        good = disk_path(path, dir, list.names[i], REASON(prune)) &&
               prune_entry(prune, path, list.names[i], depth);
    disk_list_free(&list);
    return good;
}

static bool prune_archives(struct prune *prune, const char *dirs)
{
    enum { SHARDS_LOGS_COPIES = 3 };
    char path[PATH_MAX];
    bool good = true;
    while (good && sources_next_path(&dirs, path))
        good = prune_dir(prune, path, SHARDS_LOGS_COPIES);
    return good;
}

int tool_prune(const char *backups, const char *archive, bool is_dry)
{
    struct prune prune = {.oldest_us = UINT64_MAX, .is_dry = is_dry};
    bool good = read_backups(&prune, backups) && prune_archives(&prune, archive);
    if (!good)
        (void)fprintf(stderr, "%s: %s\n",
                      prune.files ? "not all was deleted" : "nothing was deleted", prune.error);
    else
        (void)printf("%zu backups, %" PRIu64 " files of the archive %s, %" PRIu64 " bytes\n",
                     prune.backups, prune.files, is_dry ? "would go" : "have gone", prune.bytes);
    free(prune.logs);
    return good ? TOOL_GOOD : TOOL_BAD;
}
