/*
 * source.h - the shards of a backup, in one directory or several, for restore and verify.
 *
 *   BACKUP/MANIFEST.json            one shard
 *   BACKUP/<shard>/MANIFEST.json    all shards of a backup, with one id
 *   BACKUP,BACKUP …                 several paths, for shards with separate disks
 */
#pragma once

#include "backend/backup/disk_file.h"
#include "backend/backup/manifest.h"
#include "shared/shard_map.h"

#include <limits.h>

struct source {
    char *path;
    struct manifest *manifest;
};

struct sources {
    struct source *items; /* in the order of the map; without a map, of partitions */
    size_t count;
    bool is_one;           /* a path to a single shard: other shards are not searched */
    struct shard_map *map; /* of the backup; NULL: a shard that was backed up alone */
};

/* Reads all manifests. False and a reason: there is none, one is damaged, or they belong to different backups. */
bool sources_open(struct sources *sources, const char *paths, char *error, size_t size);
/* Reads the next of several paths, separated by commas. False: there is no more path, or it is too long. */
bool sources_next_path(const char **paths, char path[PATH_MAX]);
void sources_close(struct sources *sources);
/* Index of the source with this shard of the map; -1: there is none. */
int sources_find(const struct sources *sources, const char *shard);
/* The number of slots of this shard of the map that the backup has. */
unsigned sources_slot_count(const struct sources *sources, size_t shard);
/* Writes the path of a file of the source. False and a reason, e.g. that its size differs from the manifest. */
bool source_file(const struct source *source, const struct backup_file *file, char path[PATH_MAX],
                 char *error, size_t size);
/* Makes a directory in which the shard can be opened: data files are symbolic links, others are copied. What is there already goes. */
bool source_scratch(const struct source *source, const char *dir, struct disk_progress *progress,
                    char *error, size_t size);
/* Compares all files with the manifest. False and the first reason; `told` (NULL is allowed) is called for each
 * problem. */
typedef void source_damage_fn(const char *what);
bool source_verify(const struct source *source, struct disk_progress *progress,
                   source_damage_fn *told, char *error, size_t size);
