/*
 * replica_drive.c - events of a replica's core, and what its updates want.
 *
 *   event ─► core ─► update:  lease word ─► save ─► cut and append ─► messages into the outbox ─► home is told
 *                                            │            │                   │
 *                             SAVED ◄────────┘   SYNCED ◄─┘                   └─► leave when all saves before are durable
 *
 * What a sender finds out while it sends (the log begins too late, a snapshot was not announced) waits for the end of the turn:
 * an event is never given to the core inside another one.
 */
#include "backend/format/effects.h"
#include "backend/replica/replica_inner.h"
#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <string.h>

enum {
    FOREVER_MS = 3600 * 1000,
    UNGREETED_MS = 20,        /* until it is asked again whether this copy may vote */
    FETCH_DELAY_US = 1000000, /* after the first failure; doubled with each further one */
    FETCH_DOUBLINGS = 7,
    ANNOUNCE_US = 2000000, /* for an announcement without an answer */
};

/* ---- lists of ids ------------------------------------------------------------------------------ */

static void add_id(uint64_t ids[MEMBERS_MAX], uint64_t id)
{
    uint64_t *free_place = NULL;
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        if (ids[i] == id)
            return;
        if (!ids[i])
            free_place = &ids[i];
    }
    if (free_place)
        *free_place = id;
}

/* False: it was not there. */
static bool take_id(uint64_t ids[MEMBERS_MAX], uint64_t id)
{
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        if (ids[i] != id)
            continue;
        ids[i] = 0;
        return true;
    }
    return false;
}

static void announce(struct replica *replica, uint64_t id)
{
    add_id(replica->announced.id, id);
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        if (replica->announced.id[i] == id)
            replica->announced.at_us[i] = clock_boot_us();
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* The core waits for the answer to an announcement without end. */
static void lose(struct replica *replica, const struct consensus_message *message)
{
    if (message->kind == CONSENSUS_SNAPSHOT)
        add_id(replica->announced.lost, message->to);
}

static void send_messages(struct replica *replica)
{
    struct consensus_message message;
    while (outbox_take(&replica->outbox, &message)) {
        if (message.kind == CONSENSUS_SNAPSHOT)
            announce(replica, message.to);
        if (!replica_peers_send(replica->net.peers, &message))
            lose(replica, &message);
    }
}

static void put_messages(struct replica *replica, const struct consensus_update *update)
{
    for (unsigned i = 0; i < update->message_count; i++)
        if (!outbox_put(&replica->outbox, &update->messages[i]))
            lose(replica, &update->messages[i]);
}

/* ---- saves ------------------------------------------------------------------------------------- */

/* replica_saved_fn */
static void time_saved(void *owner)
{
    struct replica *replica = owner;
    if (!replica->has_core)
        return;
    outbox_saved(&replica->outbox);
    send_messages(replica);
}

/* replica_saved_fn */
static void core_saved(void *owner)
{
    time_saved(owner);
    replica_step(owner, (struct consensus_event){.kind = CONSENSUS_SAVED});
}

static void save_vote(struct replica *replica, const struct consensus_update *update)
{
    replica->record.term = update->save_term;
    replica->record.vote = update->save_vote;
    outbox_save_begun(&replica->outbox);
    replica_save_begin(replica->disk.save, &replica->record, core_saved);
}

/* Saves the term and the vote, or only the group's time when that has moved. The messages of the update are sent when it is on the disk. */
static void save_promises(struct replica *replica, const struct consensus_update *update,
                          bool has_heard)
{
    bool is_elected = update->role >= CONSENSUS_LEADING && !replica_is_leading(replica);
    bool is_new =
        (has_heard || is_elected || update->has_save) && replica_time_keep(replica, is_elected);
    if (update->has_save) {
        save_vote(replica, update);
    } else if (is_new) {
        outbox_save_begun(&replica->outbox);
        replica_save_begin(replica->disk.save, &replica->record, time_saved);
    }
}

void replica_save_has_failed(void *owner, const char *reason)
{
    replica_fail(owner, reason);
}

/* ---- members ----------------------------------------------------------------------------------- */

/* The newest record of the members was cut. */
static void restore_members(struct replica *replica, uint64_t after)
{
    if (replica->membership.index <= after)
        return;
    replica_members_set(&replica->membership.now, &replica->membership.before.named);
    replica->membership.index = 0;
}

static void use_members(struct replica *replica, uint64_t index, const struct members *members)
{
    replica_members_set(&replica->membership.before, &replica->membership.now.named);
    replica_members_set(&replica->membership.now, members);
    replica->membership.index = index;
}

static struct bytes last_record(struct bytes records)
{
    struct bytes record, last = {0};
    bool is_in_parts;
    while (replica_record_next(&records, &record, &is_in_parts))
        last = record;
    return last;
}

/* A record of the members is the last one of what was heard. */
static void hear_members(struct replica *replica, const struct consensus_update *update,
                         const struct replica_heard *heard)
{
    struct members members;
    if (!heard->members || update->append != CONSENSUS_APPEND_RECORDS ||
        update->append_last != heard->members->index)
        return;
    if (members_of_record(last_record(heard->records), &members))
        use_members(replica, update->append_last, &members);
}

static void change_members(struct replica *replica, const struct consensus_update *update,
                           const struct replica_heard *heard)
{
    if (update->has_truncate)
        restore_members(replica, update->truncate_after);
    if (heard)
        hear_members(replica, update, heard);
}

/* ---- what home is told ------------------------------------------------------------------------- */

static enum replica_phase phase_of(const struct replica *replica, enum consensus_role role)
{
    if (!replica->record.group)
        return REPLICA_PHASE_JOINING;
    if (role == CONSENSUS_SERVING)
        return REPLICA_PHASE_SERVING;
    return role == CONSENSUS_LEADING ? REPLICA_PHASE_LEADING : REPLICA_PHASE_FOLLOWING;
}

/* The commit index is saved whenever a copy begins to serve: else each start of an idle group adds a term that is not known to be
 * committed, and their number is limited (consensus_start). */
static void begin_phase(struct replica *replica, bool was_leading, uint64_t committed)
{
    replica->membership.proposed_us = 0;
    replica->voting.gone_due_us = 0;
    if (was_leading && !replica_is_leading(replica)) {
        replica_peers_drop(replica->net.peers);
        replica_append_drop(replica);
        memset(replica->announced.id, 0, sizeof replica->announced.id);
    }
    if (replica->phase != REPLICA_PHASE_SERVING)
        return;
    replica->record.committed = committed;
    replica_group_save(replica, NULL);
}

static void tell_role(struct replica *replica, const struct consensus_update *update)
{
    struct replica_role *told = &replica->told.role;
    enum replica_phase before = replica->phase, phase = phase_of(replica, update->role);
    if (told->phase == phase && told->term == update->term && told->leader == update->leader)
        return;
    bool is_other_term = told->term != update->term, was_leading = replica_is_leading(replica);
    struct bytes address = replica_members_address(&replica->membership.now, update->leader);
    *told = (struct replica_role){.phase = phase,
                                  .term = update->term,
                                  .leader = update->leader,
                                  .committed = update->committed,
                                  .generation = replica->record.generation};
    memcpy(told->leader_address, address.data, address.len);
    replica->phase = phase;
    atomic_store(&replica->shown.phase, (int)phase);
    if (before != phase)
        begin_phase(replica, was_leading, update->committed);
    replica_room_note(replica);
    replica_note_role(&replica->notes, told);
    if (is_other_term || before != phase)
        replica_group_say(replica);
}

/* ---- steps ------------------------------------------------------------------------------------- */

/* Nothing can overtake a group's only voter: another generation of the group closes it (replica_group_hear). */
static uint64_t lease_of(struct replica *replica, const struct consensus_update *update)
{
    bool is_served = update->role == CONSENSUS_SERVING && replica->core.serves_term == update->term;
    if (is_served && replica_waits_for_voters(replica))
        return 0;
    if (is_served && replica_members_is_alone(&replica->membership.now, replica->record.id))
        return UINT64_MAX;
    return update->lease_until_us;
}

static void obey(struct replica *replica, const struct consensus_update *update,
                 const struct replica_heard *heard)
{
    bool serves = update->role == CONSENSUS_SERVING;
    atomic_store(&replica->shown.lease_us, lease_of(replica, update));
    if (!serves) /* before another leader's records are told as committed */
        atomic_store(&replica->shown.served_term, 0);
    save_promises(replica, update, heard != NULL);
    replica_log_obey(replica->disk.log, update, heard);
    change_members(replica, update, heard);
    put_messages(replica, update);
    send_messages(replica);
    replica_tell_committed(replica);
    if (serves)
        atomic_store(&replica->shown.served_term, update->term);
    tell_role(replica, update);
    replica_plan_turn_end(replica);
}

static const char *fault_of(enum consensus_fault fault)
{
    static const char *const faults[] = {
        [CONSENSUS_WELL] = "",
        [CONSENSUS_CUTS_COMMITTED] = "the leader has another record where one is committed",
        [CONSENSUS_TWO_LEADERS] = "two copies lead in one term",
        [CONSENSUS_UNKNOWN_KIND] = "this release does not have a kind of the members",
    };
    return faults[fault];
}

/* False: there is no core any more, or it has refused the event. */
static bool give(struct replica *replica, struct consensus_event *event,
                 struct consensus_update *update)
{
    if (!replica->has_core)
        return false;
    event->now_us = clock_boot_us();
    consensus_step(&replica->core, event, update);
    if (update->fault)
        replica_fail(replica, fault_of(update->fault));
    return !update->fault && !update->is_refused;
}

void replica_step(struct replica *replica, struct consensus_event event)
{
    struct consensus_update update;
    if (give(replica, &event, &update))
        obey(replica, &update, NULL);
}

/* The record leaves at once, while it is written here; one of the members leaves when it is durable. Else this disk may refuse it when
 * another copy has it, by which that one is no voter: then that one may not stand, and cannot vote for this copy, whose log is shorter. */
bool replica_step_record(struct replica *replica, struct consensus_event event,
                         struct own_record *record, const struct members *named)
{
    struct consensus_update update;
    if (event.index != replica->core.last + 1 || !give(replica, &event, &update))
        return false;
    if (named)
        use_members(replica, event.index, named);
    else
        own_records_add(&replica->appended.newest, event.index, record);
    replica_log_append(replica->disk.log, event.index, record, update.cuts);
    obey(replica, &update, NULL);
    return true;
}

void replica_step_logged(struct replica *replica, uint64_t index, uint64_t term,
                         const struct members *named)
{
    struct consensus_members members;
    struct consensus_update update;
    struct consensus_event event = {.kind = CONSENSUS_APPENDED, .term = term, .index = index};
    if (named) {
        members = replica_core_members(named, index);
        event.kind = CONSENSUS_MEMBERS;
        event.members = &members;
    }
    if (!replica->has_core)
        return;
    if (!give(replica, &event, &update)) {
        if (replica->has_core)
            replica_fail(replica, "a record was written that the group does not take");
        return;
    }
    if (named) {
        use_members(replica, index, named);
        replica->membership.proposed_us = 0;
    }
    obey(replica, &update, NULL);
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_SYNCED,
                                                   .index = index,
                                                   .cuts = replica->core.cuts});
}

void replica_step_down(struct replica *replica, uint64_t id)
{
    if (!replica->has_core)
        return;
    replica_peers_down(replica->net.peers, id);
    if (take_id(replica->announced.id, id))
        add_id(replica->announced.lost, id);
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_DISCONNECTED, .id = id});
}

/* ---- events of other copies -------------------------------------------------------------------- */

/* A copy that cannot fetch is announced a snapshot again and again, and each one costs the leader a cut of its data. */
static uint64_t fetch_delay_us(const struct replica *replica)
{
    unsigned failed =
        replica->fetch.failed < FETCH_DOUBLINGS ? replica->fetch.failed : FETCH_DOUBLINGS;
    return failed ? FETCH_DELAY_US << (failed - 1) : 0;
}

/* A copy that has just installed files is announced them again, if its leader hears of the broken connection before it has noted that the
 * files were fetched. The answer to the next heartbeat says what the copy has. */
static bool is_needless(const struct replica *replica, const struct consensus_message *message)
{
    return message->term < replica->core.term || message->index <= replica->core.committed;
}

static void begin_fetch(struct replica *replica, const struct consensus_message *message)
{
    if (!replica->has_core || !replica->options.snapshots.fetch || is_needless(replica, message))
        return;
    if (replica->fetch.now.kind) { /* its leader waits for an answer without end */
        replica->fetch.next = *message;
        return;
    }
    replica->fetch.now = *message;
    replica->fetch.due_us = clock_boot_us() + fetch_delay_us(replica);
    replica_fetch_when_due(replica);
}

/* The message may have been lost at the other copy: its core was not there yet. */
void replica_check_announced(struct replica *replica)
{
    const struct replica_snapshots *snapshots = &replica->options.snapshots;
    uint64_t now_us = clock_boot_us();
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        uint64_t id = replica->announced.id[i];
        if (!id || now_us < replica->announced.at_us[i] + ANNOUNCE_US ||
            (snapshots->is_sending && snapshots->is_sending(snapshots->owner, id)))
            continue;
        replica->announced.id[i] = 0;
        add_id(replica->announced.lost, id);
        replica_plan_turn_end(replica);
    }
}

void replica_fetch_when_due(struct replica *replica)
{
    const struct replica_snapshots *snapshots = &replica->options.snapshots;
    const struct consensus_message *message = &replica->fetch.now;
    if (!message->kind || !replica->fetch.due_us || clock_boot_us() < replica->fetch.due_us)
        return;
    replica->fetch.due_us = 0;
    snapshots->fetch(snapshots->owner, replica_links_bulk(replica->net.links, message->from),
                     message);
}

/* What makes a copy vote or stand. */
static bool is_of_election(enum consensus_message_kind kind)
{
    return kind == CONSENSUS_VOTE || kind == CONSENSUS_HAND_OVER;
}

static bool is_of_leader(const struct replica *replica, const struct consensus_message *message)
{
    return replica->has_core && message->term == replica->core.term &&
           message->from == replica->core.leader;
}

static void hear_message(struct replica *replica, struct consensus_event *event,
                         const struct replica_heard *heard)
{
    struct consensus_update update;
    bool was_led = is_of_leader(replica, heard->message);
    if (!give(replica, event, &update))
        return;
    replica_time_hear(replica, heard, was_led || is_of_leader(replica, heard->message));
    obey(replica, &update, heard);
}

/* replica_peers_options */
static void on_heard(void *owner, const struct replica_heard *heard)
{
    struct replica *replica = owner;
    const struct consensus_message *message = heard->message;
    struct consensus_event event = {
        .kind = CONSENSUS_MESSAGE, .message = message, .members = heard->members};
    if (message->kind == CONSENSUS_APPEND_REPLY && !message->is_good)
        replica_peers_refused(replica->net.peers, message->from);
    if (!is_of_election(message->kind) || replica_may_vote(replica))
        hear_message(replica, &event, heard);
    replica_note_heard(replica, heard);
    if (message->kind == CONSENSUS_SNAPSHOT)
        begin_fetch(replica, message);
}

static void on_part(void *owner, uint64_t from, uint64_t term)
{
    replica_step(owner,
                 (struct consensus_event){.kind = CONSENSUS_HEARD, .id = from, .term = term});
}

static void on_gone(void *owner, uint64_t first)
{
    struct replica *replica = owner;
    replica->net.gone_before = first;
    replica_plan_turn_end(replica);
}

/* ---- events of the log ------------------------------------------------------------------------- */

/* Home may have written more, which it has not said yet. */
static void on_synced(void *owner, uint64_t upto, uint32_t cuts)
{
    struct replica *replica = owner;
    uint64_t index = upto < replica->core.last ? upto : replica->core.last;
    own_records_synced(&replica->appended.newest, upto);
    replica_step(replica,
                 (struct consensus_event){.kind = CONSENSUS_SYNCED, .index = index, .cuts = cuts});
}

static void on_not_written(void *owner, uint64_t last, bool is_full)
{
    struct replica *replica = owner;
    if (!replica->has_core)
        return;
    restore_members(replica, last);
    replica_log_is_full(replica, is_full);
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_NOT_WRITTEN, .index = last});
    replica_log_sync(replica->disk.log, replica->core.cuts);
}

static void on_log_room(void *owner)
{
    replica_log_is_full(owner, false);
}

const struct replica_log_events replica_log_handlers = {
    .on_synced = on_synced, .on_not_written = on_not_written, .on_room = on_log_room};

/* ---- the end of a turn ------------------------------------------------------------------------- */

void replica_plan_turn_end(struct replica *replica)
{
    if (list_empty(&replica->timing.turn_end.link))
        loop_at_last(replica->options.loop, &replica->timing.turn_end);
}

static void report_lost(struct replica *replica)
{
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        uint64_t id = replica->announced.lost[i];
        replica->announced.lost[i] = 0;
        if (id)
            replica_snapshot_sent(replica, id, 0);
    }
}

/* Home may have trimmed records that it has not reported yet. */
static void report_trimmed(struct replica *replica)
{
    uint64_t base = replica->net.gone_before - 1, committed = replica->core.committed;
    if (!replica->net.gone_before)
        return;
    replica->net.gone_before = 0;
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_TRIMMED,
                                                   .index = base < committed ? base : committed});
}

/* An election waits until this copy may vote, and its disk and its partition work. */
static bool may_tick(struct replica *replica)
{
    return replica->core.role >= CONSENSUS_LEADING ||
           (replica_may_vote(replica) && !replica_stands_still(replica));
}

static void plan_tick(struct replica *replica)
{
    uint64_t now_us = clock_boot_us(), next_us = consensus_next_us(&replica->core);
    uint64_t after_ms = next_us > now_us ? (next_us - now_us) / 1000 + 1 : 0;
    if (!after_ms && !may_tick(replica))
        after_ms = UNGREETED_MS;
    timer_start(replica->timing.core, after_ms < FOREVER_MS ? after_ms : FOREVER_MS, 0);
}

static void free_peers(struct replica *replica)
{
    replica_peers_free(replica->net.peers);
    replica->net.peers = NULL;
    replica->net.must_free_peers = false;
}

void replica_end_turn(struct last_step *step)
{
    struct replica *replica = container_of(step, struct replica, timing.turn_end);
    if (replica->net.must_free_peers)
        free_peers(replica);
    if (!replica->has_core)
        return;
    report_lost(replica);
    report_trimmed(replica);
    replica_append_go_on(replica);
    if (replica->has_core)
        replica_change_turn(replica);
    if (!replica->has_core)
        return;
    replica_peers_turn(replica->net.peers);
    plan_tick(replica);
}

void replica_core_is_due(void *owner)
{
    struct replica *replica = owner;
    if (!replica->has_core)
        return;
    if (clock_boot_us() >= consensus_next_us(&replica->core) && may_tick(replica))
        replica_step(replica, (struct consensus_event){.kind = CONSENSUS_TICK});
    replica_plan_turn_end(replica);
}

/* ---- life of a core ---------------------------------------------------------------------------- */

static void start_peers(struct replica *replica)
{
    const struct replica_peers_options options = {
        .links = replica->net.links,
        .wal = storage_wal(replica->options.storage),
        .core = &replica->core,
        .own = &replica->appended.newest,
        .group = replica->group,
        .time = replica->options.time,
        .applied = &replica->shown.applied,
        .id = replica->record.id,
        .on_heard = on_heard,
        .on_part = on_part,
        .on_gone = on_gone,
        .owner = replica,
    };
    if (replica->net.must_free_peers)
        free_peers(replica);
    replica->net.peers = replica_peers_new(&options);
}

void replica_drive_start(struct replica *replica, const struct consensus_start *start)
{
    uint64_t synced = start->synced;
    CHECK(!replica->has_core);
    memset(&replica->outbox, 0, sizeof replica->outbox);
    memset(replica->announced.id, 0, sizeof replica->announced.id);
    memset(replica->announced.lost, 0, sizeof replica->announced.lost);
    replica->fetch.now.kind = replica->fetch.next.kind = 0;
    replica->net.gone_before = 0;
    consensus_init(&replica->core, start, clock_boot_us());
    replica->has_core = true;
    start_peers(replica);
    replica_room_tick(replica); /* else it would say that it has room */
    if (start->last > synced)
        replica_log_sync(replica->disk.log, replica->core.cuts);
    replica_plan_turn_end(replica);
}

void replica_drive_stop(struct replica *replica)
{
    atomic_store(&replica->shown.lease_us, 0);
    atomic_store(&replica->shown.served_term, 0);
    replica_append_drop(replica);
    if (!replica->has_core)
        return;
    replica_tell_rest(replica);
    replica->has_core = false;
    replica->net.must_free_peers = true;
    timer_stop(replica->timing.core);
    replica_plan_turn_end(replica);
}

void replica_fail(struct replica *replica, const char *reason)
{
    replica_drive_stop(replica);
    log_event(LOG_ERROR, "replica_failed", "reason=\"%s\"", reason);
    replica_note_failed(&replica->notes, reason);
}

/* ---- snapshots --------------------------------------------------------------------------------- */

/* Home may have committed more than the core has heard; the core takes nothing ahead of its own commit index for an answer. */
void replica_snapshot_sent(struct replica *replica, uint64_t id, uint64_t index)
{
    uint64_t committed = replica->core.committed;
    (void)take_id(replica->announced.id, id);
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_SNAPSHOT_SENT,
                                                   .id = id,
                                                   .index = index < committed ? index : committed});
}

/* The record says what this copy has promised until now: it votes no more before the new files are in place. */
static void begin_install(struct replica *replica, const char *dir, struct replica_record record)
{
    record.generation = replica->group.generation;
    record.group = replica->group.group;
    record.term = replica->core.term;
    record.vote = replica->core.vote;
    replica_drive_stop(replica);
    replica_note_install(&replica->notes, dir, &record);
}

void replica_fetched(struct replica *replica, const char *dir, uint64_t index, uint64_t index_term,
                     uint64_t whole_at)
{
    struct consensus_message message = replica->fetch.now, next = replica->fetch.next;
    struct replica_record record = replica->record;
    bool is_fetched = dir && replica->has_core && message.kind;
    if (replica->has_ended) /* its links are gone */
        return;
    replica->fetch.now.kind = replica->fetch.next.kind = 0;
    replica->fetch.failed = dir ? 0 : replica->fetch.failed + 1;
    replica_links_end_bulk(replica->net.links, message.from);
    if (is_fetched && consensus_may_install(&replica->core, message.term, index, index_term)) {
        record.base = record.committed = index;
        record.base_term = index_term;
        record.whole_at = whole_at;
        begin_install(replica, dir, record);
    } else if (next.kind) {
        begin_fetch(replica, &next);
    }
}

const struct consensus *replica_core(const struct replica *replica)
{
    return replica->has_core ? &replica->core : NULL;
}

const struct replica_record *replica_newest_record(const struct replica *replica)
{
    return &replica->record;
}
