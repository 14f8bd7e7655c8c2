/*
 * manifest.h - what one backup of one shard consists of. A directory without a whole manifest is no backup.
 *
 *   <backup-dir>/<backup>/<shard>/000012.sst …       the files, as they lie in a store's directory
 *                                 MANIFEST.json      names, sizes and SHA-256 of them all, when and of what
 *                                 MANIFEST.sha256    digest of MANIFEST.json, as `sha256sum -c` reads it
 *                                 UNFINISHED         only while the backup is made or deleted
 *
 * The two are written last, in this order, each synced: as long as the digest is missing or does not fit, the backup
 * is not there. So an interruption at any byte leaves the backups there were, and one directory to be removed. What is
 * removed without being asked for always has the mark UNFINISHED, written before anything else: any other directory
 * below backup-dir, perhaps that of a store that is served, is none of ours.
 *
 * Shards of one cluster-wide backup share `id` and `map`, which names all of them: the whole is complete when every
 * shard of the map has a manifest with this id.
 */
#pragma once

#include "shared/backup_name.h"

enum {
    BACKUP_FORMAT = 1,
    BACKUP_FILES_MAX = 1 << 20,
    BACKUP_MANIFEST_MAX = 256 << 20, /* bytes of MANIFEST.json */
};

struct backup_file {
    char *name;
    uint64_t size;
    uint64_t mtime_ns; /* of the store's file: with name and size it tells an unchanged one */
    char sha256[65];
    bool is_shared; /* a hard link to the backup before; not in the manifest */
};

struct manifest {
    char *backup; /* its name */
    char *id;     /* of all shards of it */
    char *shard;
    char *map; /* the shard map in force, as a shards.ini; "": this shard was backed up alone */
    uint64_t data_format;
    uint64_t partition;   /* number in its process */
    uint64_t taken_ms;    /* wall clock of the cut */
    uint64_t batch_index; /* of the last batch in it */
    struct backup_file *files;
    size_t count;
};

struct manifest *manifest_new(void);
void manifest_free(struct manifest *manifest); /* NULL is allowed */
void manifest_set(char **text, const char *value);
/* The new file is valid until the next one is added; the name is copied. */
struct backup_file *manifest_add(struct manifest *manifest, const char *name);
const struct backup_file *manifest_find(const struct manifest *manifest, const char *name);
uint64_t manifest_bytes(const struct manifest *manifest);
/* Marks an empty directory as one in which a backup is being made; durable when this returns. False and a reason. */
bool manifest_begin(const char *dir, char *error, size_t size);
/* Is the mark there? */
bool manifest_is_begun(const char *dir);
/* Is there a digest? Then it was a backup once. */
bool manifest_is_sealed(const char *dir);
/* Writes it into the directory, syncs that, and removes the mark. False and a one-line reason in error[size]. */
bool manifest_write(const struct manifest *manifest, const char *dir, char *error, size_t size);
/* NULL and a one-line reason in error[size]: there is none, or it is damaged, or of a newer program. */
struct manifest *manifest_read(const char *dir, char *error, size_t size);
/* From now on the directory is no backup but has the mark; durable when this returns. False and ENOENT: it never was one.
 * Takes no room on the disk. */
bool manifest_remove(const char *dir);
/* Is it the name of one of the three? */
bool manifest_is_own(const char *name);
