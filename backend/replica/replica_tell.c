/*
 * replica_tell.c - home is told how far the log is committed.
 *
 *   leads:    each step ─► on_committed at once, also before it is told that it leads no more: clients wait for it
 *   follows:  steps ─► shown.committed ─► every TELL_MS ─► on_committed; at once what is awaited (replica_await_committed)
 */
#include "backend/consensus/consensus.h"
#include "backend/replica/replica_inner.h"

enum { TELL_MS = 10 };

void replica_tell_rest(struct replica *replica)
{
    uint64_t index = atomic_load(&replica->shown.committed);
    timer_stop(replica->timing.tell);
    replica->timing.is_telling = false;
    if (index <= replica->told.committed)
        return;
    replica->told.committed = index;
    replica_note_committed(&replica->notes, index);
}

void replica_telling_is_due(void *owner)
{
    replica_tell_rest(owner);
}

static void plan_telling(struct replica *replica)
{
    if (replica->timing.is_telling)
        return;
    replica->timing.is_telling = true;
    timer_start(replica->timing.tell, TELL_MS, 0);
}

static bool is_awaited(const struct replica *replica)
{
    return replica_is_leading(replica) || replica->core.role >= CONSENSUS_LEADING ||
           replica->told.awaited > replica->told.committed;
}

/* Home reads committed records from this copy's disk. While this copy follows, few clients wait for that: home is woken for the records
 * of TELL_MS at a time, and reads them at once. */
void replica_tell_committed(struct replica *replica)
{
    const struct consensus *core = &replica->core;
    uint64_t index = core->committed < core->synced ? core->committed : core->synced;
    if (index <= replica->told.committed)
        return;
    atomic_store(&replica->shown.committed, index);
    if (is_awaited(replica))
        replica_tell_rest(replica);
    else
        plan_telling(replica);
}
