/*
 * source.h - a backup as restore and verify see it: the shards that are in a directory, or in several.
 *
 *   BACKUP/MANIFEST.json            one shard
 *   BACKUP/<shard>/MANIFEST.json    all of them, of one id
 *   BACKUP,BACKUP …                 each either of these; together one backup, when shards have disks of their own
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
    struct source *items; /* in the order of the map; without one, of partitions */
    size_t count;
    bool is_one;           /* a single path, and a shard's own: others are not looked for */
    struct shard_map *map; /* that was in force; NULL: a shard that was backed up alone */
};

/* Reads all manifests. False and a reason: there is none, one is damaged, or they are not of one backup. */
bool sources_open(struct sources *sources, const char *paths, char *error, size_t size);
/* The next of several paths, separated by commas; false: there is none, or it is too long. */
bool sources_next_path(const char **paths, char path[PATH_MAX]);
void sources_close(struct sources *sources);
/* The index of the source that is this shard of the map; -1: it is not there. */
int sources_find(const struct sources *sources, const char *shard);
/* The path of one of its files, which has the size that the manifest says; false and a reason. */
bool source_file(const struct source *source, const struct backup_file *file, char path[PATH_MAX],
                 char *error, size_t size);
/* Compares all files with the manifest. False and the first reason; `told` (may be NULL) hears of each. */
typedef void source_damage_fn(const char *what);
bool source_verify(const struct source *source, struct disk_progress *progress,
                   source_damage_fn *told, char *error, size_t size);
