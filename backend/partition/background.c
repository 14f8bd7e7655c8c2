#include "backend/partition/background.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/rank_rebuild.h"
#include "backend/partition/internal_call.h"
#include "shared/clock.h"

/* Deletes a bounded number of expired keys. True: more keys are due. */
static bool expire_some(struct partition *partition)
{
    struct call call;
    if (commit_is_failed(partition->commit, NULL) || partition_is_full(partition))
        return false;
    internal_call_begin(partition, &call);
    bool more = expiry_cycle(&call);
    internal_call_end(partition, &call);
    return more;
}

bool background_expire(struct partition *partition)
{
    bool more = partition->expiry.is_active && !partition->thread.is_stopping &&
                !partition->shards.is_held && !partition_keeps_expired(partition);
    uint64_t begun_us = clock_mono_us();
    for (int i = 0; more && i < partition->snapshot->config.expire_effort; i++)
        more = expire_some(partition);
    uint64_t usec = clock_mono_us() - begun_us;
    partition->metrics.stats->expire_us += usec;
    partition_note_latency(partition, LATENCY_EXPIRE_CYCLE, usec);
    return more;
}

void background_rebuild_ranks(struct partition *partition)
{
    const struct partition_pause *pause = &partition->pause;
    struct call call;
    if (commit_is_failed(partition->commit, NULL) || partition_is_full(partition) ||
        partition->thread.is_stopping || partition->shards.is_held || pause->until_ms ||
        pause->is_held || pause->is_quiescing)
        return;
    internal_call_begin(partition, &call);
    rank_rebuild_cycle(&call);
    internal_call_end(partition, &call);
}
