#include "backend/partition/copy_pause.h"

#include "backend/context/partition.h"
#include "backend/partition/leadership.h"
#include "shared/log.h"

#include <inttypes.h>

static const char *why_not_paused(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    if (!copies->leadership)
        return "the shard has one copy";
    if (!copies->is_closed)
        return "this copy serves: pause one that follows";
    if (!leadership_follows(partition))
        return "this copy does not follow another one";
    if (!copies->may_read)
        return "this copy does not have all rows yet: try again later";
    if (commit_is_disk_low(partition->commit))
        return "the disk has less than disk-free-min";
    return NULL;
}

const char *copy_pause_begin(struct partition *partition, uint64_t seconds)
{
    const char *refusal = why_not_paused(partition);
    if (refusal)
        return refusal;
    partition->copies.paused_until_ms = loop_mono_ms(partition->loop) + seconds * 1000;
    log_event(LOG_WARN, "copy_paused", "partition=%u seconds=%" PRIu64 " batches=%" PRIu64,
              partition->index, seconds, storage_committed(partition->storage));
    return NULL;
}

void copy_pause_end(struct partition *partition, const char *why)
{
    if (!partition->copies.paused_until_ms)
        return;
    partition->copies.paused_until_ms = 0;
    log_event(LOG_WARN, "copy_resumed", "partition=%u batches=%" PRIu64 " reason=%s",
              partition->index, storage_committed(partition->storage), why);
}

uint64_t copy_pause_left_ms(const struct partition *partition)
{
    uint64_t until_ms = partition->copies.paused_until_ms;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    return until_ms > now_ms ? until_ms - now_ms : 0;
}

bool copy_pause_holds(const struct partition *partition)
{
    return partition->copies.paused_until_ms &&
           storage_committed(partition->storage) >= storage_whole_at(partition->storage);
}

/* What is not added keeps segments of the log. */
void copy_pause_tick(struct partition *partition)
{
    if (!partition->copies.paused_until_ms)
        return;
    if (!copy_pause_left_ms(partition))
        copy_pause_end(partition, "time");
    else if (commit_is_disk_low(partition->commit))
        copy_pause_end(partition, "disk");
}
