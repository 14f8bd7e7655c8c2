#include "backend/keyspace/slot_gate.h"

#include "backend/context/config_snapshot.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/lock.h"
#include "backend/storage/retry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void slot_wait(struct partition *partition, struct retry *retry)
{
    if (list_empty(&partition->shards.waits.slots))
        partition->shards.waits.slots_ms = loop_mono_ms(partition->loop);
    retry->undoes = true;
    retry_wait(retry, &partition->shards.waits.slots);
}

void slots_resume(struct partition *partition)
{
    retry_done(&partition->shards.waits.slots);
}

void slots_resume_late(struct partition *partition)
{
    uint64_t late_ms =
        partition->shards.waits.slots_ms + partition->snapshot->config.lock_timeout_ms;
    if (!list_empty(&partition->shards.waits.slots) && loop_mono_ms(partition->loop) >= late_ms)
        slots_resume(partition);
}

/* The command waits, or is refused when it cannot wait or has waited for too long. */
static void wait_for_slot(struct call *call, const char *refusal)
{
    struct partition *partition = call->partition;
    struct retry *retry = call_wait(call);
    if (!retry) {
        call_error_text(call, refusal);
    } else if (retry_is_late(retry, loop_mono_ms(partition->loop),
                             partition->snapshot->config.lock_timeout_ms)) {
        call_retry_refused(call, strdup(refusal));
    } else {
        slot_wait(partition, retry);
        call_error(call, ERR_RETRY);
    }
}

bool slot_pass(struct call *call, uint16_t slot, struct bytes row_key, bool writes)
{
    struct partition *partition = call->partition;
    char refusal[128];
    bool is_arriving = slot_set_has(&partition->shards.moving->arriving, slot);
    /* a read lock that is taken now would not keep the slot here, and the key may change at its new owner */
    bool is_frozen =
        (writes || call->borrow) && slot_is_frozen(partition, slot) &&
        !(call->borrow && lock_is_held(partition->shards.locks, call->borrow->owner, row_key));
    if (!is_arriving && !is_frozen)
        return true;
    (void)snprintf(refusal, sizeof refusal,
                   "TRYAGAIN slot %u is %s another shard: send the command again", slot,
                   is_arriving ? "arriving here from" : "being handed over to");
    wait_for_slot(call, refusal);
    return false;
}

bool slots_pass(struct call *call)
{
    if (!slots_are_frozen(call->partition))
        return true;
    wait_for_slot(call, "TRYAGAIN a slot is being handed over to another shard: send the command "
                        "again");
    return false;
}
