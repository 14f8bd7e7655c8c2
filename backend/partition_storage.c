#include "backend/partition_storage.h"

#include "backend/archive/archive.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/slow_call.h"
#include "backend/feed/feed.h"
#include "backend/keyspace/access_times.h"
#include "backend/keyspace/cursor.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/write_history.h"
#include "backend/partition/expiry_timer.h"
#include "backend/partition_commit.h"
#include "backend/rank/range_bound.h"
#include "backend/rank/rank_rebuild.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/overlay_replay.h"
#include "backend/storage/partition_store.h"
#include "backend/storage/reader.h"
#include "shared/clock.h"
#include "shared/log.h"

enum {
    ACCESSES_BYTES_MIN = 16 * 1024,
    ACCESSES_PART = 32, /* the access times get 1/32 of the row cache's memory */
};

/* maintenance_fn */
static void on_maintenance(void *owner, enum maintenance_task task, bool good)
{
    struct partition *partition = owner;
    if (task == MAINTENANCE_SAVE)
        partition_saved(partition, good, partition->saves.bgsave_changes);
}

bool partition_storage_open(struct partition *partition, const struct backend_config *config,
                            bool *is_damaged, char *error, size_t size)
{
    partition->storage =
        partition_store_open(partition->process->env, config, partition->name, error, size);
    *is_damaged = !partition->storage && store_is_damaged(error);
    return partition->storage; /* a copy that has lost records serves nothing: REPLICA_PHASE_LOST */
}

/* On a full disk the tables lack the rows of the WAL. */
static bool show_wal(struct partition *partition)
{
    char reason[256];
    if (!storage_is_behind(partition->storage) ||
        overlay_replay(partition->overlay, partition->storage, reason, sizeof reason))
        return true;
    log_event(LOG_ERROR, "store_lost", "path=%s reason=" LOG_QUOTED, partition->name, reason);
    return false;
}

/* Shows the WAL from the beginning that its segments are kept, because a start trims it before the first tick sets the limits. */
static void keep_log(struct partition *partition, const struct backend_config *config)
{
    uint64_t bytes = config->store_change_log_bytes;
    if (partition->saves.archive && config->archive_backlog_bytes > bytes)
        bytes = config->archive_backlog_bytes;
    if (bytes)
        storage_keep(partition->storage, bytes, 0, 0);
}

bool partition_storage_new(struct partition *partition, const struct backend_config *config)
{
    const struct memory_plan *memory = &partition->snapshot->memory;
    uint64_t share = (uint64_t)config->partitions;
    partition->overlay = overlay_new(storage_store(partition->storage));
    budget_init(partition);
    slow_call_init(partition);
    overlay_use_buffers(partition->overlay, memory->write_buffer);
    if (!show_wal(partition) || !partition_read_header(partition))
        return false;
    if (partition->process->readers) {
        partition->reader = reader_new(partition->loop, partition->process->readers,
                                       storage_store(partition->storage));
        overlay_use_reader(partition->overlay, partition->reader);
    }
    expiry_timer_new(partition);
    partition->caches.written = write_history_new();
    partition->caches.range_bounds = range_bounds_new();
    partition->caches.ranks = rank_cache_new(partition->overlay, memory->rank_cache / share);
    partition->caches.rebuild = rank_rebuild_new(partition->overlay, partition->index);
    overlay_use_cache(partition->overlay, memory->row_cache / share);
    overlay_use_plain_keys(partition->overlay, memory->plain_keys / share);
    partition->caches.accesses = access_times_new(
        ACCESSES_BYTES_MIN + memory->row_cache / share / ACCESSES_PART, clock_wall_us() / 1000000);
    overlay_use_range_cache(partition->overlay, memory->range_cache / share);
    partition->spaces = space_set_new(partition->overlay);
    if (!partition->spaces)
        return false;
    partition->caches.cursors = cursor_cache_new();
    char save_path[4096];
    (void)snprintf(save_path, sizeof save_path, "%s/saved-%s", config->data, partition->name);
    partition->saves.maintenance =
        maintenance_new(partition->loop, partition->storage, save_path, on_maintenance, partition);
    partition->saves.archive = archive_new(partition);
    partition->saves.feed = feed_new(partition);
    keep_log(partition, config);
    return true;
}

void partition_storage_stop(struct partition *partition)
{
    expiry_timer_free(partition);
    feed_free(partition->saves.feed);
    archive_free(partition->saves.archive);
    maintenance_free(partition->saves.maintenance);
    cursor_cache_free(partition->caches.cursors);
}

void partition_storage_free(struct partition *partition)
{
    if (partition->spaces)
        space_set_free(partition->spaces);
    if (partition->overlay)
        overlay_free(partition->overlay);
    reader_free(partition->reader);
    range_bounds_free(partition->caches.range_bounds);
    rank_cache_free(partition->caches.ranks);
    write_history_free(partition->caches.written);
    rank_rebuild_free(partition->caches.rebuild);
    access_times_free(partition->caches.accesses);
    if (partition->storage)
        storage_close(partition->storage);
}
