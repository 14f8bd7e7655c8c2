/*
 * source.h - the shards of a backup, in one directory or several, for restore and verify.
 *
 *   BACKUP/MANIFEST.json            one shard
 *   BACKUP/<shard>/MANIFEST.json    all of them, of one id
 *   BACKUP,BACKUP …                 several of these, for shards with disks of their own
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
    bool is_one;           /* a single path to a single shard: no others are searched */
    struct shard_map *map; /* of the backup; NULL: a shard that was backed up alone */
};

/* Reads all manifests. False and a reason: there is none, one is damaged, or they belong to different backups. */
bool sources_open(struct sources *sources, const char *paths, char *error, size_t size);
/* The next of several paths, separated by commas. False: there is none, or it is too long. */
bool sources_next_path(const char **paths, char path[PATH_MAX]);
void sources_close(struct sources *sources);
/* Index of the source with this shard of the map; -1: there is none. */
int sources_find(const struct sources *sources, const char *shard);
/* The path of one of its files, if that has the size in the manifest; false and a reason. */
bool source_file(const struct source *source, const struct backup_file *file, char path[PATH_MAX],
                 char *error, size_t size);
/* Compares all files with the manifest. False and the first reason; `told` (may be NULL) is called for each problem. */
typedef void source_damage_fn(const char *what);
bool source_verify(const struct source *source, struct disk_progress *progress,
                   source_damage_fn *told, char *error, size_t size);
