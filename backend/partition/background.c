#include "backend/partition/background.h"

#include "backend/context/partition.h"
#include "backend/partition/founding.h"
#include "backend/partition/leadership.h"
#include "backend/rank/rank_rebuild.h"
#include "backend/session/internal_call.h"

static void rebuild_ranks(struct partition *partition)
{
    const struct partition_pause *pause = &partition->pause;
    struct call call;
    if (partition->copies.is_closed || commit_is_failed(partition->commit, NULL) ||
        partition_is_full(partition) || partition->thread.is_stopping ||
        partition->shards.is_held || pause->until_ms || pause->is_held || pause->is_quiescing)
        return;
    internal_call_begin(partition, &call);
    rank_rebuild_cycle(&call);
    internal_call_end(partition, &call);
}

void background_tick(struct partition *partition)
{
    leadership_tick(partition);
    founding_tick(partition);
    rebuild_ranks(partition);
}
