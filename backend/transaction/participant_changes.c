/*
 * participant_changes.c - how the changes of a prepared transaction are reported.
 *
 *   coordinator_collect.c ─► change_list.h ─PREPARE─► record (transaction_record.h) ─► part ─APPLY─► watchers, trackers, waiters
 *                                                       └── participant_load, after a failed batch or a start ──┘
 *
 * The changes are reported in the call that applies the effects, whoever starts it, and so as often as the effects are applied: if that
 * batch fails, its messages are dropped, the record is read again, and the next APPLY reports them again.
 */
#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/format/change_list.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/session/push_message.h"
#include "backend/session/tracking.h"
#include "backend/transaction/participant_inner.h"

/* Reports one change of a client whose connection here is `by`; NULL: it has none. */
static void report_change(struct call *call, const struct listed_change *listed, struct session *by)
{
    struct partition *partition = call->partition;
    struct change change = {.kind = (enum change_kind)listed->kind,
                            .type = (enum type)listed->type,
                            .by_client = listed->by_client};
    struct bytes space;
    uint16_t slot;
    CHECK(decode_metadata_key(listed->row_key, &space, &slot, &change.key));
    change.space = space_find(partition->spaces, space);
    if (partition->watchers.changes->concerns(call, change.space, change.key))
        message_change(partition->watchers.messages, by, &change);
}

bool part_report_change(struct change_list *list, struct call *call, struct session *by)
{
    struct listed_change change;
    if (!change_list_next(list, &change))
        return false;
    report_change(call, &change, by);
    return true;
}

/* For effects_each_flush. */
struct flushed {
    struct call *call;
    struct space *last;
};

static void report_flush(void *owner, struct bytes name)
{
    struct flushed *flushed = owner;
    struct space *space = space_find(flushed->call->partition->spaces, name);
    if (space == flushed->last)
        return; /* another run of its slots */
    flushed->last = space;
    keyspace_tell_flush(flushed->call, space);
}

void part_report_flushes(const struct part *part, struct call *call)
{
    struct flushed flushed = {.call = call};
    (void)effects_each_flush(part->effects, report_flush, &flushed);
    if (!flushed.last)
        return;
    const struct change change = {.kind = CHANGE_FORGOTTEN, .space = flushed.last};
    call->partition->watchers.changes->add(call, &change);
}
