/*
 * moment_shards.h - all shards of a backup as of one moment, for the import of their rows (import.h), or for a file of Redis (copy/backup.h).
 *
 *   files of the backup ─► a scratch directory for each shard ─► batches of the archive, up to the moment ─► transactions are ended
 *                                                                        └─► which shard has which slot
 *
 * Shards that start end the transactions over shards that were under way by asking each other (participant.h). Rows are imported without such
 * a start. So here a transaction that its coordinator has decided is applied where it is only prepared, and others are left out. The
 * coordinator may be any shard, and so the backup must have all of them.
 */
#pragma once

#include "backend/tool/source.h"
#include "config/config.h"

struct moment_shards;
struct store_env;

struct moment_order {
    struct store_env *env;
    const struct backend_config *config; /* the scratch directories lie in its data directory */
    const struct sources *sources;
    const char *archive; /* NULL: the shards are as the backup has them */
    uint64_t time_us;
    struct disk_progress *progress;
};

/* Blocks for the whole replay. What *order refers to is used until moment_shards_free. NULL and a reason in error[size]. */
struct moment_shards *moment_shards_new(const struct moment_order *order, char *error, size_t size);
/* Removes the directories. NULL is allowed. */
void moment_shards_free(struct moment_shards *shards);
/* The shard, by its place in the sources, that had the slot; -1: shards did not keep that, it is as the backup's map says. */
int moment_shards_owner(const struct moment_shards *shards, unsigned slot);
/* The scratch directory of a shard. False: its path is too long. */
bool moment_shards_dir(const struct moment_shards *shards, size_t source, char path[PATH_MAX],
                       char *error, size_t size);
