#include "backend/session/internal_call.h"

#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/session/attempt.h"
#include "backend/session/changes.h"
#include "backend/session/push_message.h"

void internal_call_begin(struct partition *partition, struct call *call)
{
    *call = (struct call){
        .partition = partition,
        .reply = {.out = &partition->running.discarded, .resp = 2},
        .arena = &partition->running.arena,
        .now_us = loop_wall_us(partition->loop),
        .now_ms = loop_wall_ms(partition->loop),
    };
    attempt_savepoint(partition);
}

void internal_call_end(struct partition *partition, struct call *call)
{
    if (call->failed) {
        attempt_rollback(partition);
        messages_cut(partition->watchers.messages, 0);
    }
    if (!partition->watchers.messages->open)
        changes_tell(call);
    if (push_messages_ready(partition->watchers.messages))
        push_messages_deliver(partition->watchers.messages,
                              overlay_pending_ticket(partition->overlay));
    keyspace_end(partition);
    out_clear(&partition->running.discarded);
    arena_reset(&partition->running.arena);
}
