#include "backend/context/partition.h"

#include "backend/context/config_snapshot.h"
#include "backend/storage/overlay.h"
#include "shared/clock.h"

bool partition_lease_is_over(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    if (copies->is_closed || !copies->lease_us)
        return false;
    if (copies->is_held)
        return true;
    uint64_t until_us = atomic_load(copies->lease_us);
    return until_us != UINT64_MAX && clock_boot_us() >= until_us;
}

enum { VOTED_BATCH_BYTES = 4 << 20 };

/* One batch is in flight at a time: on its way to copies that vote, a long one would hold up all that come after it. */
static uint64_t batch_bytes_max(const struct partition *partition)
{
    uint64_t limit = (uint64_t)partition->snapshot->config.commit_batch_limit_bytes;
    return commit_uses_log(partition->commit) && limit > VOTED_BATCH_BYTES ? VOTED_BATCH_BYTES
                                                                           : limit;
}

bool partition_is_full(const struct partition *partition)
{
    return commit_is_full(partition->commit, batch_bytes_max(partition));
}

bool partition_is_half_full(const struct partition *partition)
{
    return commit_is_half_full(partition->commit, batch_bytes_max(partition));
}

bool partition_takes(const struct partition *partition, size_t frame_bytes)
{
    uint64_t limit = (uint64_t)partition->snapshot->config.commit_batch_limit_bytes;
    return frame_bytes < BIG_VALUE_BYTES || !commit_is_full_of_big(partition->commit, limit);
}

bool partition_keeps_expired(const struct partition *partition)
{
    return partition->copies.is_closed || (partition->pause.until_ms && !partition->pause.is_new) ||
           (partition->expiry.kept_until_ms &&
            loop_wall_ms(partition->loop) < partition->expiry.kept_until_ms);
}

void partition_saved(struct partition *partition, bool good, uint64_t changes)
{
    partition->saves.failed = !good;
    if (good) {
        partition->saves.count++;
        if (changes > partition->saves.changes)
            partition->saves.changes = changes;
        partition->saves.last_s = loop_wall_ms(partition->loop) / 1000;
    }
}

void partition_note_latency(struct partition *partition, enum latency_kind kind, uint64_t usec)
{
    uint64_t threshold_ms = (uint64_t)partition->snapshot->latency_threshold_ms;
    if (threshold_ms && usec >= threshold_ms * 1000)
        latency_add_event(partition->metrics.latency, kind, loop_wall_ms(partition->loop) / 1000,
                          usec / 1000);
}

uint64_t partition_latency_target_us(const struct partition *partition)
{
    return (uint64_t)partition->snapshot->config.store_latency_target_ms * 1000;
}

bool partition_hear_version(struct partition *partition, uint64_t version)
{
    if (version >> VERSION_SHIFT > loop_wall_us(partition->loop) + HYBRID_AHEAD_US)
        return false;
    if (version > partition->batch.version)
        partition->batch.version = version;
    return true;
}

uint64_t partition_version(struct partition *partition, uint64_t now_us)
{
    uint64_t version = now_us << VERSION_SHIFT;
    if (version <= partition->batch.version)
        version = partition->batch.version + 1;
    partition->batch.version = version;
    return version;
}
