#include "backend/session/changes.h"

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/watch.h"
#include "backend/session/notify.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "backend/session/tracking.h"
#include "backend/session/waiters.h"

#include <stdlib.h>

/* ---- collecting changes ---- */

/* change_events.concerns. A tracking client may read a key and change it in one EXEC, so its own changes count too. */
static bool changes_concern(const struct call *call, const struct space *space, struct bytes key)
{
    const struct partition_watchers *watchers = &call->partition->watchers;
    return watch_concerns(watchers->watches, space, key) || tracking_clients(watchers->tracking) ||
           waiters_concern(watchers->blocking, space, key);
}

static void add(struct call *call, const struct change *change)
{
    message_change(call->partition->watchers.messages, call->session, change);
}

const struct change_events changes_events = {
    .concerns = changes_concern, .add = add, .event = notify_in};

void changes_swap(struct partition *partition, const struct space *a, const struct space *b)
{
    struct push_messages *messages = partition->watchers.messages;
    for (uint32_t i = 0; i < messages->count; i++) {
        struct change *change = messages->items[i].change;
        if (change && (change->space == a || change->space == b))
            change->space = change->space == a ? b : a;
    }
}

/* ---- reporting changes ---- */

static void touch_watchers(struct partition *partition, const struct change *change)
{
    struct lock_set *locks = partition->shards.locks;
    uint16_t slot;
    uint64_t ticket = overlay_change_ticket(partition->overlay);
    if (watch_touch(partition->watchers.watches, change->space, change->key, ticket, &slot) &&
        lock_set_count(locks))
        lock_contest(locks, encode_metadata_key(&partition->running.arena, change->space->name,
                                                slot, change->key));
}

/* `by`: the session of the client that made the change; NULL: none, or it has closed. */
static void tell(struct call *call, const struct change *change, struct session *by)
{
    const struct partition_watchers *watchers = &call->partition->watchers;
    switch (change->kind) {
    case CHANGE_TOUCHED:
    case CHANGE_WRITTEN:
    case CHANGE_DELETED:
        touch_watchers(call->partition, change);
        tracking_touch(call->partition, change, by);
        if (change->kind == CHANGE_WRITTEN)
            waiters_key_written(watchers->blocking, change->space, change->key, change->type);
        else if (change->kind == CHANGE_DELETED)
            waiters_key_deleted(watchers->blocking, change->space, change->key);
        break;
    case CHANGE_GROUP_DELETED:
        waiters_key_deleted(watchers->blocking, change->space, change->key);
        break;
    case CHANGE_WATCHED:
        touch_watchers(call->partition, change);
        break;
    case CHANGE_FLUSHED:
        waiters_space_flushed(watchers->blocking, change->space);
        break;
    case CHANGE_FORGOTTEN:
        tracking_flush(call, change->space);
        break;
    case CHANGE_READ:
        tracking_keep(call, change->key);
        break;
    }
}

void changes_tell(struct call *call)
{
    struct push_messages *messages = call->partition->watchers.messages;
    if (!messages->changes)
        return;
    struct push_messages collected = *messages;
    *messages = (struct push_messages){.relay = collected.relay, .budget = collected.budget};
    for (uint32_t i = 0; i < collected.count; i++) {
        struct push_message *item = &collected.items[i];
        if (item->change)
            tell(call, item->change, item->session);
        else
            push_message_send(messages, item->session, item->frames, item->flags);
    }
    push_messages_clear(&collected);
}
