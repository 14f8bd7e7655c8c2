/*
 * replica_append.c - records of this leader: from home to the core, its log and the other copies.
 *
 *   order of home ─► index and term are the next ones ─► core ─► ring in memory, log ─► senders
 *                        │             └─ no: this copy resigns
 *                        └─ leadership is being handed over ─► waits ─► it was in vain: core …   or it was not: dropped
 *
 * Home has one batch on its way at a time. It hears that it is committed, or that this copy leads no more.
 */
#include "backend/format/effects.h"
#include "backend/replica/replica_inner.h"
#include "shared/check.h"

/* What a record is to the core. */
struct own_event {
    struct consensus_event event;
    struct consensus_members members;
    struct members named; /* count 0: none */
};

static void read_own(struct own_event *own, struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ && record.len < REPLICA_IN_PARTS);
    own->event = (struct consensus_event){
        .kind = CONSENSUS_APPENDED, .term = header.term, .index = header.index};
    own->named.count = 0;
    if (header.type != EFFECTS_MEMBERS)
        return;
    CHECK(members_of_record(record, &own->named));
    own->members = replica_core_members(&own->named, header.index);
    own->event.kind = CONSENSUS_MEMBERS;
    own->event.members = &own->members;
}

static bool waits_for_transfer(const struct replica *replica, const struct consensus_event *event)
{
    const struct consensus *core = &replica->core;
    return replica->has_core && core->role == CONSENSUS_SERVING && core->leading.transfer_to &&
           event->term == core->term && !replica->appended.waiting;
}

/* Home's next records have wrong indexes if the group does not take this one, so then it leads no more. */
static void refuse_own(struct replica *replica, const struct consensus_event *event)
{
    if (replica->has_core && event->term == replica->core.term)
        replica_step(replica, (struct consensus_event){.kind = CONSENSUS_RESIGN});
}

void replica_append_own(struct replica *replica, struct own_record *record)
{
    struct own_event own;
    read_own(&own, record->bytes);
    if (waits_for_transfer(replica, &own.event)) {
        replica->appended.waiting = own_record_use(record);
        return;
    }
    const struct members *named = own.named.count ? &own.named : NULL;
    if (!replica_step_record(replica, own.event, record, named))
        refuse_own(replica, &own.event);
    if (named)
        replica->membership.proposed_us = 0;
}

void replica_append_go_on(struct replica *replica)
{
    struct own_record *record = replica->appended.waiting;
    if (!record || replica->core.leading.transfer_to)
        return;
    replica->appended.waiting = NULL;
    replica_append_own(replica, record);
    own_record_end(record);
}

void replica_append_drop(struct replica *replica)
{
    own_records_drop(&replica->appended.newest);
    own_record_end(replica->appended.waiting);
    replica->appended.waiting = NULL;
}
