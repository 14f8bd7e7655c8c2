/*
 * restore.c - --restore: makes a data directory of a backup.
 *
 *   empty directory ─► RESTORING (the mark) ─► partition-0, partition-1 … ─► mark removed
 *                         │ interrupted: no server starts on it; the next --restore begins again
 *
 * A partition gets the rows of its slots. If a shard keeps its slots, its files are copied and compared with their
 * checksums. Otherwise, and with --slots, the rows of the wanted slots are read from the shards that own them (import.h); these are opened in
 * a scratch directory of links, because opening a store changes it.
 *
 * With --archive and --to each copied shard gets the batches of its archive, too, up to that moment (moment.h): a shard of the same name
 * has the slots that it had then. For other shards, and with --slots, all shards are brought to that moment first (moment_shards.h).
 *
 * With --partition one damaged partition of a directory is replaced, also while the backend serves the others:
 *
 *   the shard's files ─► partition-N.restoring, then partition-N ─► partition-N.damaged, partition-N.restoring ─► partition-N
 *
 * A restore that root runs gives its files to the owner of the directory, so that the service can open them.
 */
#include "backend/backup/import.h"
#include "backend/storage/partition_store.h"
#include "backend/tool/moment.h"
#include "backend/tool/moment_shards.h"
#include "backend/tool/moment_slots.h"
#include "backend/tool/source.h"
#include "backend/tool/tool.h"
#include "config/memory_plan.h"
#include "config/shards_file.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/number.h"
#include "shared/path.h"
#include "shared/slot_ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char mark_name[] = "RESTORING";

/* A partition that is restored. */
struct target {
    int shard; /* in the new map */
    char name[32];
};

struct restore {
    const struct backend_config *config;
    struct sources sources;
    struct shard_map *map; /* the new map; NULL: as in the backup */
    bool *slots;           /* of --slots; heap; NULL: it was not given */
    const char *space;     /* the namespace of which keys are wanted; NULL: all */
    struct target targets[64];
    size_t count;
    const char *archive;        /* NULL: the backup alone is restored */
    uint64_t moment_us;         /* the moment to restore */
    struct moment_slots *owned; /* what the restored shards own */
    bool distributes;           /* the rows of the moment are imported */
    struct moment_shards *past; /* … from these */
    uid_t user;                 /* owner of the data directory */
    gid_t group;
    struct store_env *env;
    struct disk_progress progress;
    char error[TOOL_ERROR_MAX];
};

#define REASON(restore) (restore)->error, sizeof(restore)->error

static bool set_restore_error(struct restore *restore, const char *what, const char *why)
{
    (void)snprintf(REASON(restore), "%s: %s", what, why);
    return false;
}

/* ---- targets ---- */

static bool add_target(struct restore *restore, int shard)
{
    if (restore->count == sizeof restore->targets / sizeof restore->targets[0])
        return set_restore_error(restore, "--map",
                                 "more shards than a backend can have partitions");
    struct target *target = &restore->targets[restore->count];
    target->shard = shard;
    (void)snprintf(target->name, sizeof target->name, "partition-%zu", restore->count++);
    return true;
}

/* Parses "a,b": shards of the map; empty: all. */
static bool choose_shards(struct restore *restore, const char *names)
{
    bool good = true;
    for (size_t i = 0; good && !names && i < restore->map->shard_count; i++)
        good = add_target(restore, (int)i);
    while (good && names && *names) {
        size_t len = strcspn(names, ",");
        int shard = shard_map_named(restore->map, (struct bytes){names, len});
        good = shard >= 0 ? add_target(restore, shard)
                          : set_restore_error(restore, names, "the map has no such shard");
        names += len + (names[len] == ',');
    }
    return good;
}

/* A map with equal ranges for the partitions of the configuration, at their listen addresses. */
static struct shard_map *even_map(const struct backend_config *config)
{
    enum { PARTITIONS_MAX = 64, ADDRESS_MAX = 256 + sizeof "[]:65535" };
    char texts[PARTITIONS_MAX][ADDRESS_MAX];
    const char *addresses[PARTITIONS_MAX];
    const char *host =
        strcmp(config->bind, "0.0.0.0") && strcmp(config->bind, "::") ? config->bind : "127.0.0.1";
    bool has_colons = strchr(host, ':') != NULL;
    int port = config->port > 0 ? config->port : config->tls_port;
    CHECK(config->partitions <= PARTITIONS_MAX);
    for (int i = 0; i < config->partitions; i++) {
        (void)snprintf(texts[i], sizeof texts[i], has_colons ? "[%s]:%d" : "%s:%d", host, port + i);
        addresses[i] = texts[i];
    }
    return shard_map_even(addresses, (size_t)config->partitions);
}

/* With --slots there is one target, which gets them from all shards. */
static bool choose_slots(struct restore *restore, const char *ranges)
{
    restore->slots = calloc(SLOT_COUNT, sizeof restore->slots[0]);
    CHECK(restore->slots);
    return slot_ranges_read(bytes_of(ranges), restore->slots)
               ? add_target(restore, 0)
               : set_restore_error(restore, "--slots", "expected ranges such as 0-8191,9000");
}

static bool choose_targets(struct restore *restore, const char *map, const char *names)
{
    int partitions = restore->config->partitions;
    bool is_same = (size_t)partitions == restore->sources.count;
    if (map) {
        restore->map = shards_load(map, NULL, REASON(restore));
        return restore->map && choose_shards(restore, names);
    }
    if (names)
        return set_restore_error(restore, "--shard", "it needs --map");
    if (!is_same)
        restore->map = even_map(restore->config);
    for (int i = 0; i < partitions; i++)
        if (!add_target(restore, i))
            return false;
    return true;
}

/* Does shard `source` own the slot, at the moment or by the backup's map? A shard that was backed up alone owns all its slots. */
static bool owns(const struct restore *restore, size_t source, unsigned slot)
{
    const struct shard_map *map = restore->sources.map;
    int owner = restore->past ? moment_shards_owner(restore->past, slot) : -1;
    if (owner >= 0)
        return (size_t)owner == source;
    if (!map)
        return true;
    int shard = shard_map_named(map, bytes_of(restore->sources.items[source].manifest->shard));
    return shard >= 0 && map->slot_shard[slot] == (unsigned)shard;
}

static bool wants(const struct restore *restore, const struct target *target, unsigned slot)
{
    return restore->slots ? restore->slots[slot]
                          : restore->map->slot_shard[slot] == (unsigned)target->shard;
}

/* Does the source have exactly the slots of the target? */
static bool has_same_slots(const struct restore *restore, const struct target *target,
                           size_t source)
{
    for (unsigned slot = 0; restore->sources.map && slot < SLOT_COUNT; slot++)
        if (owns(restore, source, slot) != wants(restore, target, slot))
            return false;
    return restore->sources.map != NULL;
}

/* A backup of some slots must have all that are wanted, and cannot become the data of a shard. */
static bool check_slot_ranges(struct restore *restore)
{
    bool has[SLOT_COUNT];
    const char *ranges = restore->sources.items[0].manifest->slots;
    if (!*ranges)
        return true;
    if (!restore->slots)
        return set_restore_error(restore, ranges,
                                 "the backup has only these slots: config/restore-slots restores "
                                 "them into a running cluster");
    bool is_good = slot_ranges_read(bytes_of(ranges), has);
    for (unsigned slot = 0; is_good && slot < SLOT_COUNT; slot++)
        is_good = has[slot] || !restore->slots[slot];
    return is_good || set_restore_error(restore, ranges, "the backup has only these slots");
}

/* The backup must have the shard of every wanted slot. */
static bool check_slots(struct restore *restore, const struct target *target)
{
    const struct shard_map *map = restore->sources.map;
    for (unsigned slot = 0; map && slot < SLOT_COUNT; slot++) {
        const char *owner = map->shards[map->slot_shard[slot]].name;
        if (wants(restore, target, slot) && sources_find(&restore->sources, owner) < 0)
            return set_restore_error(restore, owner,
                                     "this shard is not in the backup, and its slots are needed");
    }
    return true;
}

/* Without a new map, all shards of the old one must be in the backup, unless a single one is restored. */
static bool check_all_slots(struct restore *restore)
{
    const struct shard_map *map = restore->sources.map;
    if (restore->map || !map || restore->sources.is_one)
        return true;
    for (size_t i = 0; i < map->shard_count; i++)
        if (map->shards[i].slot_count && sources_find(&restore->sources, map->shards[i].name) < 0)
            return set_restore_error(
                restore, map->shards[i].name,
                "this shard is not in the backup; name one shard's directory, or --map "
                "and --shard");
    return true;
}

/* ---- the directory ---- */

bool tool_restore_is_open(const char *data)
{
    char path[PATH_MAX];
    char reason[64];
    return disk_path(path, data, mark_name, reason, sizeof reason) && path_exists(path);
}

/* May this file be in the data directory: a directory of backups, or lost+found? */
static bool may_stay(const char *name)
{
    return strcmp(name, "backups") == 0 || strcmp(name, "lost+found") == 0;
}

/* Removes the files of an interrupted restore. Without its mark, the data directory must be empty, or not exist. */
static bool empty_data(struct restore *restore)
{
    const char *data = restore->config->data;
    struct disk_list list;
    char path[PATH_MAX];
    if (!path_exists(data))
        return true;
    if (!disk_list(&list, data, REASON(restore)))
        return false;
    bool is_ours = tool_restore_is_open(data);
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++) {
        if (may_stay(list.names[i]) || strcmp(list.names[i], mark_name) == 0)
            continue;
        good = disk_path(path, data, list.names[i], REASON(restore));
        if (good && !is_ours)
            good = set_restore_error(
                restore, path,
                "the data directory is not empty: name another one with --data, or empty it");
        else if (good && !path_remove(path))
            good = disk_failed(path, REASON(restore));
    }
    disk_list_free(&list);
    return good;
}

/* Makes the data directory and the mark in it. */
static bool open_data(struct restore *restore)
{
    const char *data = restore->config->data;
    char path[PATH_MAX];
    return path_make(data, REASON(restore)) && disk_path(path, data, mark_name, REASON(restore)) &&
           disk_write(path, BYTES("a restore is running, or was interrupted\n"), REASON(restore)) &&
           (path_sync(data) || disk_failed(data, REASON(restore)));
}

/* Root gives what it restored to the owner of the data directory. */
static bool give_to_owner(struct restore *restore, const char *path)
{
    return geteuid() != 0 || path_give(path, restore->user, restore->group) ||
           disk_failed(path, REASON(restore));
}

static bool close_data(struct restore *restore)
{
    const char *data = restore->config->data;
    char path[PATH_MAX];
    return (path_sync(data) || disk_failed(data, REASON(restore))) &&
           disk_path(path, data, mark_name, REASON(restore)) &&
           (unlink(path) == 0 || disk_failed(path, REASON(restore))) &&
           give_to_owner(restore, data) && (path_sync(data) || disk_failed(data, REASON(restore)));
}

/* ---- copying an unchanged shard ---- */

static bool copy_file(struct restore *restore, const struct source *source,
                      const struct backup_file *file, const char *dir)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    char sha256[65];
    if (!source_file(source, file, from, REASON(restore)) ||
        !disk_path(to, dir, file->name, REASON(restore)) ||
        !disk_copy(from, to, &restore->progress, sha256, REASON(restore)))
        return false;
    if (strcmp(sha256, file->sha256) != 0)
        return set_restore_error(restore, from,
                                 "the file is damaged: its checksum differs from the manifest");
    tool_progress("%llu of %llu bytes",
                  (unsigned long long)atomic_load(&restore->progress.bytes_done),
                  (unsigned long long)atomic_load(&restore->progress.bytes_total));
    return true;
}

/* Brings the shard from the moment of its backup to the one that was asked for. */
static bool replay_archive(struct restore *restore, struct storage *storage,
                           const struct source *source)
{
    uint64_t batches = 0;
    if (!restore->archive)
        return true;
    bool good = moment_replay(storage, source, restore->archive, restore->moment_us, &batches,
                              REASON(restore)) &&
                moment_slots_add(restore->owned, 0, storage, REASON(restore));
    if (good)
        (void)printf("# shard %s: %llu batches of the archive\n", source->manifest->shard,
                     (unsigned long long)batches);
    return good;
}

/* The batches that the store has made after the backup may be gone, so its log gets another name. */
static bool rename_log(struct restore *restore, const struct source *source, const char *dir)
{
    struct storage *storage =
        partition_store_open_raw(restore->env, restore->config, dir, REASON(restore));
    bool good = storage && import_check_header(storage_store(storage), REASON(restore)) &&
                replay_archive(restore, storage, source) &&
                partition_store_rename_log(storage, REASON(restore));
    if (storage)
        storage_close(storage);
    return good;
}

static bool copy_shard(struct restore *restore, const struct target *target, size_t index)
{
    const struct source *source = &restore->sources.items[index];
    char dir[PATH_MAX];
    bool good = disk_path(dir, restore->config->data, target->name, REASON(restore)) &&
                path_make(dir, REASON(restore));
    for (size_t i = 0; good && i < source->manifest->count; i++)
        good = copy_file(restore, source, &source->manifest->files[i], dir);
    good = good && (path_sync(dir) || disk_failed(dir, REASON(restore))) &&
           rename_log(restore, source, dir);
    if (good)
        (void)printf("%s: shard %s unchanged, %zu files\n", target->name, source->manifest->shard,
                     source->manifest->count);
    return good;
}

/* ---- importing rows ---- */

/* The directory in which the shard's rows are. */
static bool open_scratch(struct restore *restore, size_t index, char dir[PATH_MAX])
{
    if (restore->past)
        return moment_shards_dir(restore->past, index, dir, REASON(restore));
    return disk_path(dir, restore->config->data, "restore-source", REASON(restore)) &&
           source_scratch(&restore->sources.items[index], dir, &restore->progress, REASON(restore));
}

static bool import_shard(struct restore *restore, struct import *import,
                         const struct target *target, size_t index)
{
    static bool wanted[SLOT_COUNT];
    char dir[PATH_MAX];
    bool any = false;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        wanted[slot] = owns(restore, index, slot) && wants(restore, target, slot);
        any = any || wanted[slot];
    }
    if (!any)
        return true;
    if (!open_scratch(restore, index, dir))
        return false;
    struct storage *from =
        partition_store_open_raw(restore->env, restore->config, dir, REASON(restore));
    bool good = from && import_from(import, storage_store(from), wanted, REASON(restore));
    if (from)
        storage_close(from);
    return (restore->past || path_remove(dir)) && good;
}

/* import_progress_fn */
static bool show_import(void *owner, uint64_t keys, uint64_t rows, uint64_t bytes)
{
    (void)owner;
    (void)bytes;
    tool_progress("%llu keys, %llu rows", (unsigned long long)keys, (unsigned long long)rows);
    return true;
}

static bool import_target(struct restore *restore, const struct target *target)
{
    char dir[PATH_MAX];
    if (!disk_path(dir, restore->config->data, target->name, REASON(restore)))
        return false;
    struct storage *to =
        partition_store_open_raw(restore->env, restore->config, dir, REASON(restore));
    if (!to)
        return false;
    struct import *import = import_new(to, show_import, NULL);
    import_only(import, restore->space);
    bool good = true;
    for (size_t i = 0; good && i < restore->sources.count; i++)
        good = import_shard(restore, import, target, i);
    good = good && import_end(import, REASON(restore));
    if (good)
        (void)printf("%s: %llu keys\n", target->name, (unsigned long long)import_keys(import));
    import_free(import);
    storage_close(to);
    return good;
}

/* ---- the whole restore ---- */

/* The shard of the backup that has the target's name; -1: there is none. */
static int source_named(const struct restore *restore, const struct target *target)
{
    return sources_find(&restore->sources, restore->map->shards[target->shard].name);
}

static bool make_target(struct restore *restore, size_t index)
{
    const struct target *target = &restore->targets[index];
    if (restore->slots || restore->distributes)
        return import_target(restore, target);
    if (!restore->map)
        return copy_shard(restore, target, index);
    if (restore->archive)
        return copy_shard(restore, target, (size_t)source_named(restore, target));
    for (size_t i = 0; i < restore->sources.count; i++)
        if (has_same_slots(restore, target, i))
            return copy_shard(restore, target, i);
    return import_target(restore, target);
}

/* Are rows imported, perhaps for some targets only? */
static bool imports(const struct restore *restore)
{
    return restore->archive ? restore->distributes : restore->map || restore->slots;
}

/* Verifies the checksums of files that are read without being copied. */
static bool verify_sources(struct restore *restore)
{
    bool good = true;
    for (size_t i = 0; good && imports(restore) && i < restore->sources.count; i++) {
        tool_progress("verifying shard %s", restore->sources.items[i].manifest->shard);
        good = source_verify(&restore->sources.items[i], &restore->progress, NULL, REASON(restore));
    }
    return good;
}

static bool check_formats(struct restore *restore)
{
    for (size_t i = 0; i < restore->sources.count; i++)
        if (restore->sources.items[i].manifest->data_format > DATA_FORMAT)
            return set_restore_error(
                restore, restore->sources.items[i].path,
                "its data format is newer than this program: use the version that wrote it");
    return true;
}

/* The progress of copying begins. */
static void expect_bytes(struct restore *restore)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < restore->sources.count; i++)
        bytes += manifest_bytes(restore->sources.items[i].manifest);
    atomic_fetch_add(&restore->progress.bytes_total, bytes);
    atomic_store(&restore->progress.bytes_done, 0);
}

/* ---- a moment ---- */

/* Are the shards of the new map those of the backup? Then each one gets the slots that it had. */
static bool keeps_shards(const struct restore *restore, const char *map)
{
    const struct shard_map *old = restore->sources.map;
    bool is_same = !restore->slots && (!restore->map || map);
    for (size_t i = 0; is_same && restore->map && i < restore->map->shard_count; i++)
        is_same = sources_find(&restore->sources, restore->map->shards[i].name) >= 0;
    for (size_t i = 0; is_same && restore->map && old && i < old->shard_count; i++)
        is_same = shard_map_named(restore->map, bytes_of(old->shards[i].name)) >= 0;
    return is_same;
}

/* To distribute rows of a moment, all shards are needed: any of them may have decided a transaction. */
static bool check_whole(struct restore *restore)
{
    const struct shard_map *map = restore->sources.map;
    if (*restore->sources.items[0].manifest->slots)
        return set_restore_error(restore, "--to", "the backup has only some slots");
    for (size_t i = 0; map && i < map->shard_count; i++)
        if (map->shards[i].slot_count && sources_find(&restore->sources, map->shards[i].name) < 0)
            return set_restore_error(restore, map->shards[i].name,
                                     "this shard is not in the backup, and may have decided a "
                                     "transaction of the others");
    return true;
}

/* Reads --archive and --to, and checks that the moment is there, before anything is written. */
static bool choose_moment(struct restore *restore, const char *archive, const char *to,
                          const char *map)
{
    char text[MOMENT_TEXT_MAX];
    if (!archive)
        return true;
    restore->archive = archive;
    restore->owned = moment_slots_new();
    restore->distributes = !keeps_shards(restore, map);
    if (restore->distributes ? !check_whole(restore) : !check_all_slots(restore))
        return false;
    bool is_latest = strcmp(to, "latest") == 0;
    if (is_latest &&
        !moment_latest(&restore->sources, archive, &restore->moment_us, REASON(restore)))
        return false;
    if (!is_latest && !moment_parse(to, &restore->moment_us))
        return set_restore_error(restore, to,
                                 "expected latest, or a time such as 2026-11-28T12:00:00.5Z");
    if (!moment_check(&restore->sources, archive, restore->moment_us, REASON(restore)))
        return false;
    (void)printf("# as of %s\n", moment_text(restore->moment_us, text));
    return true;
}

/* If all shards were restored here, each slot must have an owner among them. */
static bool check_moment(struct restore *restore)
{
    bool is_whole = restore->archive && !restore->distributes && restore->sources.map &&
                    restore->count == restore->sources.count;
    return !is_whole || moment_slots_check(restore->owned, REASON(restore));
}

/* All shards as of the moment, if their rows are to be distributed. */
static bool make_past(struct restore *restore)
{
    const struct moment_order order = {
        .env = restore->env,
        .config = restore->config,
        .sources = &restore->sources,
        .archive = restore->archive,
        .time_us = restore->moment_us,
        .progress = &restore->progress,
    };
    if (restore->distributes)
        restore->past = moment_shards_new(&order, REASON(restore));
    return !restore->distributes || restore->past;
}

static bool run_restore(struct restore *restore, const char *const given[TOOL_COUNT])
{
    const char *map = given[TOOL_MAP], *names = given[TOOL_SHARD], *slots = given[TOOL_SLOTS];
    bool good = slots ? choose_slots(restore, slots) : choose_targets(restore, map, names);
    good = good && check_formats(restore) && check_slot_ranges(restore) &&
           (slots || check_all_slots(restore)) &&
           choose_moment(restore, given[TOOL_ARCHIVE], given[TOOL_TO], map);
    for (size_t i = 0; good && imports(restore) && !restore->archive && i < restore->count; i++)
        good = check_slots(restore, &restore->targets[i]);
    good = good && empty_data(restore) && verify_sources(restore) && open_data(restore);
    expect_bytes(restore);
    good = good && make_past(restore);
    for (size_t i = 0; good && i < restore->count; i++)
        good = make_target(restore, i);
    moment_shards_free(restore->past);
    restore->past = NULL;
    return good && check_moment(restore) && close_data(restore);
}

/* ---- one partition of a directory ---- */

/* Has a process opened the store? RocksDB locks its file LOCK. */
static bool is_in_use(const char *dir)
{
    char path[PATH_MAX];
    char reason[64];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd =
        disk_path(path, dir, "LOCK", reason, sizeof reason) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    bool is_locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    (void)close(fd);
    return is_locked;
}

/* Chooses partition `number` of the directory as the target; its files are copied to partition-N.restoring first. */
static bool choose_partition(struct restore *restore, const char *number)
{
    int64_t index;
    if (!restore->sources.is_one)
        return set_restore_error(restore, "--partition",
                                 "name one shard's directory: BACKUP/SHARD");
    if (!number_parse_int64(bytes_of(number), &index) || index < 0 ||
        index >= restore->config->partitions)
        return set_restore_error(restore, "--partition",
                                 "the configuration has no partition with this number");
    struct target *target = &restore->targets[restore->count++];
    (void)snprintf(target->name, sizeof target->name, "partition-%d.restoring", (int)index);
    return true;
}

static bool rename_synced(struct restore *restore, const char *from, const char *to)
{
    return (rename(from, to) == 0 || disk_failed(from, REASON(restore))) &&
           (path_sync(restore->config->data) ||
            disk_failed(restore->config->data, REASON(restore)));
}

/* An interruption leaves the partition as it was, or none and both copies: the same command starts again. */
static bool run_restore_partition(struct restore *restore, const char *number)
{
    char path[PATH_MAX];
    char damaged[PATH_MAX];
    char restoring[PATH_MAX];
    if (!choose_partition(restore, number) || !check_formats(restore) ||
        !check_slot_ranges(restore) ||
        !disk_path(restoring, restore->config->data, restore->targets[0].name, REASON(restore)))
        return false;
    (void)snprintf(path, sizeof path, "%.*s", (int)(strrchr(restoring, '.') - restoring),
                   restoring);
    if (snprintf(damaged, sizeof damaged, "%s.damaged", path) >= (int)sizeof damaged)
        return set_restore_error(restore, path, "the path is too long");
    if (is_in_use(path))
        return set_restore_error(restore, path, "a backend serves this partition: stop it first");
    if (path_exists(path) && path_exists(damaged))
        return set_restore_error(restore, damaged,
                                 "an earlier restore kept this: move or delete it");
    if (!path_remove(restoring))
        return disk_failed(restoring, REASON(restore));
    expect_bytes(restore);
    return copy_shard(restore, &restore->targets[0], 0) && give_to_owner(restore, restoring) &&
           (!path_exists(path) || rename_synced(restore, path, damaged)) &&
           rename_synced(restore, restoring, path);
}

int tool_restore(const struct backend_config *config, const char *const given[TOOL_COUNT])
{
    const char *map = given[TOOL_MAP];
    const char *partition = given[TOOL_PARTITION];
    const struct store_env_options options = {
        .block_cache_bytes = memory_plan_here(config).block_cache,
        .background_threads = (uint32_t)config->store_background_threads,
    };
    struct restore *restore = calloc(1, sizeof *restore);
    CHECK(restore);
    restore->config = config;
    restore->space = given[TOOL_NAMESPACE];
    restore->env = store_env_new(&options);
    path_owner(config->data, &restore->user, &restore->group);
    bool good = sources_open(&restore->sources, given[TOOL_RESTORE], REASON(restore));
    if (good && partition)
        good = run_restore_partition(restore, partition);
    else if (good)
        good = run_restore(restore, given);
    bool makes_map = restore->map && !map;
    if (!good)
        (void)fprintf(stderr, "not restored: %s\n", restore->error);
    else if (partition)
        (void)printf("restored: partition %s of %s; restart its backend\n", partition,
                     config->data);
    else /* a comment, so that standard output is a shards.ini */
        (void)printf("%srestored: %s, partitions = %zu\n", makes_map ? "# " : "", config->data,
                     restore->count);
    if (good && makes_map)
        shard_map_print(restore->map, stdout);
    shard_map_unref(restore->map);
    free(restore->slots);
    moment_slots_free(restore->owned);
    sources_close(&restore->sources);
    store_env_free(restore->env);
    free(restore);
    return good ? TOOL_GOOD : TOOL_BAD;
}
