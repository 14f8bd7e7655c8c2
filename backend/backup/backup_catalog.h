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

/* <dir>/<backup>/<shard> in path[PATH_MAX]; false and a reason: too long. */
bool backup_catalog_path(char *path, const char *dir, const char *backup, const char *shard,
                         char *error, size_t size);
/* The shard's backups, oldest first; the caller frees *entries. A missing directory has none. */
size_t backup_catalog_list(const char *dir, const char *shard,
                           struct backup_catalog_entry **entries);
/* The newest one's manifest; NULL: there is none. */
struct manifest *backup_catalog_newest(const char *dir, const char *shard);
/* The shard's part of a backup is none any more: its files may be removed. False and a reason: there is none, or the
 * directory is something else. */
bool backup_catalog_unlist(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Retires it and removes its files. False and a reason. */
bool backup_catalog_delete(const char *dir, const char *backup, const char *shard, char *error,
                           size_t size);
/* Removes what interrupted backups of the shard left behind, by their mark, and empty directories. */
void backup_catalog_clean(const char *dir, const char *shard);
/* Makes a shard's directory with its mark, though another shard's backup_catalog_clean may take away the one above
 * while it is empty. False and a reason, also where symbolic links lead elsewhere. */
bool backup_catalog_make(const char *dir, const char *backup, const char *shard, char *error,
                         size_t size);
