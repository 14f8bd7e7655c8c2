/*
 * participant_changes.c - the changes of a prepared transaction: which keys they lock, and how they are reported.
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

/* ---- locks ---- */

/* For effects_each_key. */
struct prepared_keys {
    struct part *part;
    bool were_locked;
};

static void lock_prepared_key(void *owner, struct bytes row_key)
{
    struct prepared_keys *keys = owner;
    struct part *part = keys->part;
    struct lock_set *locks = part->participant->partition->shards.locks;
    keys->were_locked &= lock_is_held(locks, &part->owner, row_key);
    (void)lock_take(locks, &part->owner, row_key, LOCK_WRITE);
}

/* A key may be touched without a row that changes. */
static bool lock_touched_keys(struct prepared_keys *keys)
{
    struct change_list list;
    struct listed_change change;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (!change_list_open(keys->part->changes, &list))
        return false;
    while (change_list_next(&list, &change)) {
        if (change.kind > CHANGE_GROUP_DELETED || change.type >= TYPE_COUNT ||
            !decode_metadata_key(change.row_key, &space, &slot, &key))
            return false;
        lock_prepared_key(keys, change.row_key);
    }
    return list.rest.len == 0;
}

bool part_lock_prepared(struct part *part, bool *were_locked)
{
    struct prepared_keys keys = {.part = part, .were_locked = true};
    bool is_good =
        effects_each_key(part->effects, lock_prepared_key, &keys) && lock_touched_keys(&keys);
    *were_locked = keys.were_locked;
    return is_good && list_empty(&part->owner.requests);
}

/* ---- reports ---- */

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
