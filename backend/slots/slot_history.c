#include "backend/slots/slot_history.h"

#include "backend/context/partition.h"
#include "shared/clock.h"

/* A lost shard may have given its last changes times that were ahead of the clock here, by less than this. */
static const uint64_t LOST_AHEAD_US = 60 * 1000 * 1000;

bool slot_history_load(struct slot_history *history, struct partition *partition, bool has_records)
{
    struct slice value;
    int err = overlay_get(partition->overlay, CF_SYSTEM, slot_origins_key(), &value);
    *history = (struct slot_history){.is_new = err == ERR_NOT_FOUND && !has_records};
    if (err != OK)
        return err == ERR_NOT_FOUND;
    if (!decode_slot_origins(slice_bytes(&value), &history->origins))
        history->origins = (struct slot_origins){0}; /* it does not hold, and begins anew */
    slice_release(&value);
    return true;
}

bool slot_history_holds(const struct slot_history *history, const struct partition *partition,
                        uint64_t owned)
{
    const struct slot_origins *origins = &history->origins;
    return history->is_new || (origins->log_id && origins->log_id == partition->batch.log_id &&
                               origins->owned == owned);
}

/* What another shard has told of was before this time, and what is written here from now on has a later one. */
static uint64_t time_now(struct partition *partition)
{
    return hybrid_clock_pass(&partition->batch.hybrid, clock_wall_us());
}

void slot_history_begin(struct slot_history *history, struct partition *partition, uint64_t owned)
{
    if (!slot_history_holds(history, partition, owned))
        history->origins = (struct slot_origins){.since_us = time_now(partition)};
}

void slot_history_note(struct slot_history *history, struct partition *partition,
                       const struct slot_record *before, const struct slot_record *after)
{
    bool is_moved = before->state == SLOT_STAGED && before->migration == after->migration;
    bool is_forced = !after->migration;
    uint64_t until_us = time_now(partition) + (is_forced ? LOST_AHEAD_US : 0);
    slot_origins_note(&history->origins, is_moved ? before->peer : "",
                      is_moved ? history->source_log : 0, until_us);
}

void slot_history_put(struct slot_history *history, struct partition *partition, uint64_t owned)
{
    history->is_new = false;
    history->origins.log_id = partition->batch.log_id;
    history->origins.owned = owned;
    overlay_put(partition->overlay, CF_SYSTEM, slot_origins_key(),
                encode_slot_origins(&partition->running.arena, &history->origins));
}
