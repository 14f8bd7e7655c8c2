/*
 * backup_catalog.h - the catalog of backups in a directory, for one shard: list, newest, delete.
 *
 *   <dir>/20261121T120000Z/a/   a backup: it has a manifest
 *                         /b/   another shard's
 *   <dir>/20261121T130000Z/a/   the mark UNFINISHED, no digest: an interrupted backup; backup_catalog_clean removes it
 *   <dir>/anything/a/           neither mark nor digest: no backup, never changed; symbolic links are not followed
 *
 * Backups share unchanged files by hard links, so each backup can be removed without affecting others.
 */
#pragma once

#include "backend/backup/manifest.h"

/* One backup of the shard. */
struct backup_catalog_entry {
    char name[BACKUP_NAME_MAX + 1];
    char id[BACKUP_ID_LEN + 1];
    char slots[BACKUP_SLOTS_MAX + 1]; /* empty: all */
    uint64_t taken_ms;
    uint64_t bytes;
    uint32_t parts; /* number of shards that have a part */
    uint64_t copy;  /* of the manifest */
};

/* Writes <dir>/<backup>/<shard> to path[PATH_MAX]. False and a reason: the path is too long. */
bool backup_catalog_path(char *path, const char *dir, const char *backup, const char *shard,
                         char *error, size_t size);
/* Lists the shard's backups, oldest first, and returns their number; the caller frees *entries. A missing directory has
 * no backups. */
size_t backup_catalog_list(const char *dir, const char *shard,
                           struct backup_catalog_entry **entries);
/* The manifest of the newest backup of all slots that this copy of the shard wrote, or a program that did not say which; NULL: there is none. */
struct manifest *backup_catalog_newest(const char *dir, const char *shard, uint64_t copy);
/* Marks the shard's part of a backup as deleted, so that its files may be removed. False and a reason: the directory
 * does not exist, or is no backup. */
bool backup_catalog_unlist(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Is it a directory that another copy of the shard may be filling? */
bool backup_catalog_is_of_other(const char *dir, const char *backup, const char *shard,
                                uint64_t copy);
/* Unlists the backup and removes its files. False and a reason. */
bool backup_catalog_delete(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Removes marked directories of the shard that interruptions left, and empty directories. Those of another copy of the shard stay, which may be
 * filling them: the copies may share `dir`. */
void backup_catalog_clean(const char *dir, const char *shard, uint64_t copy);
/* Creates the directory of the manifest's shard with its mark, even while another shard's backup_catalog_clean removes the empty parent.
 * False and a reason, e.g. that the path contains a symbolic link. */
bool backup_catalog_make(const char *dir, const struct manifest *manifest, char *error,
                         size_t size);
