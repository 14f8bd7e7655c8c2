#include "backend/partition/background.h"

#include "backend/context/partition.h"
#include "backend/keyspace/ttl_hashes.h"
#include "backend/partition/compare.h"
#include "backend/partition/copies_room.h"
#include "backend/partition/copy_age.h"
#include "backend/partition/founding.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/leadership.h"
#include "backend/rank/rank_rebuild.h"
#include "backend/session/internal_call.h"
#include "backend/slots/slot_moves.h"
#include "backend/transaction/participant.h"

enum { COUNTED_PER_TICK = 4096 };

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

/* Waits as ttl_hashes.h says. */
static void count_ttl_hashes(struct partition *partition)
{
    const struct partition_shards *shards = &partition->shards;
    if (ttl_hashes_are_counted(partition->spaces) || partition->copies.is_closed ||
        commit_is_failed(partition->commit, NULL) || partition->thread.is_stopping ||
        slot_moves_is_receiving(shards->moves) || participant_is_applying(shards->participant))
        return;
    ttl_hashes_step(partition->spaces, COUNTED_PER_TICK);
}

void background_tick(struct partition *partition)
{
    leadership_tick(partition);
    copy_age_tick(partition);
    leader_line_tick(partition);
    compare_tick(partition);
    copies_room_tick(partition);
    founding_tick(partition);
    rebuild_ranks(partition);
    count_ttl_hashes(partition);
}
