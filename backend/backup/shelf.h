/*
 * shelf.h - the directory in which backups stand, seen by one shard: what there is, and taking one away.
 *
 *   <dir>/20261121T120000Z/a/   a backup: it has a manifest
 *                         /b/   another shard's, nobody's business here
 *   <dir>/20261121T130000Z/a/   no manifest: left by an interruption; shelf_clean removes it
 *
 * Files that did not change are hard links between backups, so each can be removed by itself.
 */
#pragma once

#include "backend/backup/manifest.h"

/* One backup of the shard. */
struct shelf_entry {
    char name[BACKUP_NAME_MAX + 1];
    char id[BACKUP_ID_LEN + 1];
    uint64_t taken_ms;
    uint64_t bytes;
};

/* <dir>/<backup>/<shard> in path[PATH_MAX]; false and a reason: too long. */
bool shelf_path(char *path, const char *dir, const char *backup, const char *shard, char *error,
                size_t size);
/* The shard's backups, oldest first; the caller frees *entries. A missing directory has none. */
size_t shelf_list(const char *dir, const char *shard, struct shelf_entry **entries);
/* The newest one's manifest; NULL: there is none. */
struct manifest *shelf_newest(const char *dir, const char *shard);
/* Removes the shard's part of a backup: its manifest first, then the files. False and a reason. */
bool shelf_delete(const char *dir, const char *backup, const char *shard, char *error, size_t size);
/* Removes what interrupted backups of the shard left behind, and directories of backups without a shard. */
void shelf_clean(const char *dir, const char *shard);
/* Makes a shard's directory, though another shard's shelf_clean may take away the one above while it is empty. */
bool shelf_make(const char *path, char *error, size_t size);
