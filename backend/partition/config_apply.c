#include "backend/partition/config_apply.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/rank_cache.h"
#include "backend/storage/maintenance.h"
#include "backend/storage/overlay.h"
#include "backend/storage/partition_store.h"

static bool same_store(const struct backend_config *a, const struct backend_config *b)
{
    return a->store_memtable_bytes == b->store_memtable_bytes &&
           a->store_memtables == b->store_memtables &&
           a->store_compression == b->store_compression &&
           a->store_blob_threshold_bytes == b->store_blob_threshold_bytes;
}

static void apply_caches(struct partition *partition, const struct backend_config *old,
                         const struct backend_config *now)
{
    uint64_t share = (uint64_t)now->partitions;
    if (now->store_row_cache_bytes != old->store_row_cache_bytes)
        overlay_use_cache(partition->overlay, now->store_row_cache_bytes / share);
    if (now->store_range_cache_bytes != old->store_range_cache_bytes)
        overlay_use_range_cache(partition->overlay, now->store_range_cache_bytes / share);
    if (now->store_rank_cache_bytes != old->store_rank_cache_bytes)
        rank_cache_limit(partition->caches.ranks, now->store_rank_cache_bytes / share);
}

void config_apply(struct partition *partition)
{
    const struct backend_config *now = &partition->snapshot->config;
    const struct backend_config *old = &partition->caches.snapshot->config;
    if (partition->caches.snapshot == partition->snapshot)
        return;
    if (!same_store(old, now)) {
        const struct store_options options = partition_store_options(now);
        if (!maintenance_set_options(partition->maintenance, &options))
            return; /* the previous change is still being applied */
    }
    apply_caches(partition, old, now);
    config_snapshot_unref(partition->caches.snapshot);
    partition->caches.snapshot = config_snapshot_ref(partition->snapshot);
}
