#include "backend/partition/config_apply.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/rank/rank_cache.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/overlay.h"
#include "backend/storage/partition_store.h"

static bool same_store(const struct config_snapshot *a, const struct config_snapshot *b)
{
    return a->memory.memtable == b->memory.memtable &&
           a->config.store_memtables == b->config.store_memtables &&
           a->config.store_compression == b->config.store_compression &&
           a->config.store_blob_threshold_bytes == b->config.store_blob_threshold_bytes;
}

static void apply_caches(struct partition *partition, const struct config_snapshot *from,
                         const struct config_snapshot *to)
{
    uint64_t share = (uint64_t)to->config.partitions;
    const struct memory_plan *old = &from->memory;
    const struct memory_plan *now = &to->memory;
    if (now->row_cache != old->row_cache)
        overlay_use_cache(partition->overlay, now->row_cache / share);
    if (now->plain_keys != old->plain_keys)
        overlay_use_plain_keys(partition->overlay, now->plain_keys / share);
    if (now->range_cache != old->range_cache)
        overlay_use_range_cache(partition->overlay, now->range_cache / share);
    if (now->rank_cache != old->rank_cache)
        rank_cache_limit(partition->caches.ranks, now->rank_cache / share);
}

void config_apply(struct partition *partition)
{
    const struct config_snapshot *now = partition->snapshot;
    const struct config_snapshot *old = partition->caches.snapshot;
    if (old == now)
        return;
    if (!same_store(old, now)) {
        const struct store_options options = partition_store_options(&now->config, &now->memory);
        if (!maintenance_set_options(partition->saves.maintenance, &options))
            return; /* the previous change is still being applied */
    }
    apply_caches(partition, old, now);
    config_snapshot_unref(partition->caches.snapshot);
    partition->caches.snapshot = config_snapshot_ref(partition->snapshot);
}
