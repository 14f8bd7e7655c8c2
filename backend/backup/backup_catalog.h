/*
 * backup_catalog.h - the catalog of backups in a directory, for one shard: list, newest, delete.
 *
 *   <dir>/20261121T120000Z/a/   a backup: it has a manifest
 *                         /b/   another shard's
 *   <dir>/20261121T130000Z/a/   the mark UNFINISHED and no digest: left by an interruption; backup_catalog_clean removes it
 *   <dir>/anything/a/           neither: not a backup, never touched; symbolic links are not followed either
 *
 * Files that did not change are hard links between backups, so each can be removed by itself.
 */
#pragma once

#include "backend/backup/manifest.h"

/* One backup of the shard. */
struct backup_catalog_entry {
    char name[BACKUP_NAME_MAX + 1];
    char id[BACKUP_ID_LEN + 1];
    uint64_t taken_ms;
    uint64_t bytes;
};

/* Writes <dir>/<backup>/<shard> to path[PATH_MAX]. False and a reason: it is too long. */
bool backup_catalog_path(char *path, const char *dir, const char *backup, const char *shard,
                         char *error, size_t size);
/* The shard's backups, oldest first; the caller frees *entries. A missing directory has none. */
size_t backup_catalog_list(const char *dir, const char *shard,
                           struct backup_catalog_entry **entries);
/* The manifest of the newest backup; NULL: there is none. */
struct manifest *backup_catalog_newest(const char *dir, const char *shard);
/* Marks the shard's part of a backup as deleted, so that its files may be removed. False and a reason: there is none,
 * or the directory is no backup. */
bool backup_catalog_unlist(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Unlists the backup and removes its files. False and a reason. */
bool backup_catalog_delete(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Removes marked directories of the shard that interruptions left, and empty directories. */
void backup_catalog_clean(const char *dir, const char *shard);
/* Creates a shard's directory with its mark, also if another shard's backup_catalog_clean removes the empty parent at
 * the same time. False and a reason, also if a symbolic link is in the path. */
bool backup_catalog_make(const char *dir, const char *backup, const char *shard, char *error,
                         size_t size);
