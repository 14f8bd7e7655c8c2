/*
 * manifest.h - the manifest of one shard's backup. A directory without a complete manifest is no backup.
 *
 *   <backup-dir>/<backup>/<shard>/000012.sst …       the files, as in a store's directory
 *                                 MANIFEST.json      their names, sizes and SHA-256; time and origin
 *                                 MANIFEST.sha256    digest of MANIFEST.json, as `sha256sum -c` reads it
 *                                 UNFINISHED         only while the backup is made or deleted
 *
 * Manifest and digest are written last, in this order, each synced: without a matching digest the backup does not
 * exist. So an interruption at any byte leaves all earlier backups intact, and one directory to be removed. Only
 * directories with the mark UNFINISHED, which is written first, are removed automatically: any other directory below
 * backup-dir may be something else, e.g. the directory of a store.
 *
 * Shards of one cluster-wide backup share `id` and `map`, which names all of them: the backup is complete when every
 * shard of the map has a manifest with this id. A backup of some slots needs the shards to which the map gives any of them.
 */
#pragma once

#include "shared/backup_name.h"

enum {
    BACKUP_FORMAT = 2, /* of a backup of some slots; of a whole one: 1 */
    BACKUP_FILES_MAX = 1 << 20,
    BACKUP_MANIFEST_MAX = 256 << 20, /* bytes of MANIFEST.json */
};

struct backup_file {
    char *name;
    uint64_t size;
    uint64_t mtime_ns; /* of the store's file; with name and size it identifies an unchanged file */
    char sha256[65];
    bool is_shared; /* a hard link to the previous backup; not in the manifest */
};

struct manifest {
    char *backup; /* name of the backup */
    char *id;     /* common to all shards of the backup */
    char *shard;
    char *map;   /* the shard map in force, as a shards.ini; "": this shard was backed up alone */
    char *slots; /* ranges of the slots that the backup has; "": all */
    uint64_t data_format;
    uint64_t partition;   /* number in its process */
    uint64_t taken_ms;    /* wall clock of the cut */
    uint64_t batch_index; /* last batch in the backup */
    uint64_t log_id;      /* name of its log; 0: the program was too old to tell */
    uint64_t hybrid_us;   /* time of the batch (hybrid_clock.h) */
    /* which copy of the shard wrote it (backup_copy_id); 0: it has one copy, or the program was older */
    uint64_t copy;
    struct backup_file *files;
    size_t count;
};

struct manifest *manifest_new(void);
void manifest_free(struct manifest *manifest); /* NULL is allowed */
void manifest_set(char **text, const char *value);
/* Adds a file and returns it; the result is valid until the next call. The name is copied. */
struct backup_file *manifest_add(struct manifest *manifest, const char *name);
const struct backup_file *manifest_find(const struct manifest *manifest, const char *name);
uint64_t manifest_bytes(const struct manifest *manifest);
/* Durably marks an empty directory as a backup in progress, of this copy of the shard; 0: of any. False and a reason. */
bool manifest_begin(const char *dir, uint64_t copy, char *error, size_t size);
/* Does the directory have the mark UNFINISHED? */
bool manifest_is_begun(const char *dir);
/* Has another copy of the shard than this one made the mark, which may still be writing there? 0: this is the only one. */
bool manifest_is_of_other(const char *dir, uint64_t copy);
/* Does the digest fit the manifest? Then the backup is complete, or was before it began to be deleted. */
bool manifest_is_sealed(const char *dir);
/* Writes the manifest durably into the directory and removes the mark. False and a one-line reason in error[size]. */
bool manifest_write(const struct manifest *manifest, const char *dir, char *error, size_t size);
/* Reads the manifest. NULL and a one-line reason in error[size]: the manifest is missing, damaged, or of a newer
 * program. */
struct manifest *manifest_read(const char *dir, char *error, size_t size);
/* Durably turns the backup in the directory into an incomplete one with the mark. False and ENOENT: the directory was
 * no backup. Needs no disk space. */
bool manifest_remove(const char *dir);
/* Is this the name of manifest, digest or mark? */
bool manifest_is_own(const char *name);
