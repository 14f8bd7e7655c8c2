/* follow.c - a follower's side of the log: which records of the leader it appends or refuses, and what it acknowledges. */
#include "backend/consensus/core.h"
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"
#include "shared/check.h"

/* ---- hearing a leader -------------------------------------------------------------------------- */

void follow_hear(struct consensus *core, uint64_t now_us)
{
    core->promised_us = greater(core->promised_us, now_us + core->election_us);
    core->deadline_us = now_us + core_patience(core);
}

/* Takes over the term and the leader of the message. False: the message is of an old term, or a fault. */
static bool follow(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                   struct consensus_update *update)
{
    if (message->term < core->term)
        return false;
    if (message->term > core->term)
        core_take_over(core, message->term, now_us, update);
    if (core->role >= CONSENSUS_LEADING || (core->leader && core->leader != message->from)) {
        update->fault = CONSENSUS_TWO_LEADERS;
        return false;
    }
    core->role = CONSENSUS_FOLLOWER;
    core->leader = message->from;
    follow_hear(core, now_us);
    return true;
}

/* ---- replies ----------------------------------------------------------------------------------- */

/* A refusal has no sent_us: only an acknowledgement proves that this copy followed the leader when the message was sent. */
static void refuse_append(const struct consensus *core, const struct consensus_message *message,
                          uint64_t index, uint64_t hint, struct consensus_update *update)
{
    struct consensus_message *reply =
        core_send(core, update, CONSENSUS_APPEND_REPLY, message->from);
    reply->state = core->state;
    reply->index = index;
    reply->hint = hint;
}

/* Its sender does not lead any more. It may lead again when the reply comes, so the reply says nothing about the log. */
static void refuse_old_term(const struct consensus *core, const struct consensus_message *message,
                            struct consensus_update *update)
{
    refuse_append(core, message, 0, 0, update);
}

static void acknowledge(const struct consensus *core, struct consensus_update *update)
{
    struct consensus_message *reply = core_send(core, update, CONSENSUS_APPEND_REPLY, core->leader);
    reply->is_good = true;
    reply->state = core->state;
    reply->index = rule_acknowledged(core);
    reply->sent_us = core->following.echo_us;
    reply->promise_us = core->election_us;
}

/* ---- the log ----------------------------------------------------------------------------------- */

void follow_cut(struct consensus *core, uint64_t after)
{
    term_runs_cut(&core->runs, after);
    core->last = after;
    core->synced = lesser(core->synced, after);
    core->following.matched = lesser(core->following.matched, after);
    core->cuts++;
    members_cut(core, after);
}

/* Skips the records of the message that are committed here, since every leader has them. False: the leader has other ones in their
 * place, which is a fault. */
static bool skip_committed(const struct consensus *core, struct consensus_message *message)
{
    uint64_t committed = core->committed;
    uint64_t end = message->index + message->count;
    if (message->index > committed)
        return true;
    if (end < committed) {
        message->index = end;
        message->count = 0;
        return true;
    }
    uint64_t term = message->index == committed ? message->index_term : message->records_term;
    message->count = (uint32_t)(end - committed);
    message->index = committed;
    message->index_term = term;
    return term == term_runs_at(&core->runs, committed);
}

/* The hint of a refusal: the last record that may match. It is the one before the run of the record that differs, or the end of a log
 * that is too short. */
static uint64_t hint_of(const struct consensus *core, uint64_t index)
{
    if (index > core->last)
        return core->last;
    uint64_t first = term_runs_first_of(&core->runs, index);
    return greater(first ? first - 1 : 0, core->committed);
}

/* Could a record `first` of the term be appended, when what is behind it has been cut? */
static bool has_run_room(const struct consensus *core, uint64_t first, uint64_t term)
{
    if (term_runs_has_room(&core->runs, term, core->committed))
        return true;
    struct term_runs runs = core->runs;
    if (first <= core->last)
        term_runs_cut(&runs, first - 1);
    return term_runs_has_room(&runs, term, core->committed);
}

static void cut_other_records(struct consensus *core, uint64_t first,
                              struct consensus_update *update)
{
    if (first > core->last)
        return;
    update->has_truncate = true;
    update->truncate_after = first - 1;
    follow_cut(core, first - 1);
}

/* Appends those records that are new; what differs is cut before. False: there are too many uncommitted terms. */
static bool write_records(struct consensus *core, const struct consensus_event *event,
                          const struct consensus_message *message, struct consensus_update *update)
{
    uint64_t first = message->index + 1;
    uint64_t end = message->index + message->count;
    if (first <= core->last && term_runs_at(&core->runs, first) == message->records_term)
        first = term_runs_last_of(&core->runs, first, core->last) + 1;
    if (first > end)
        return true;
    if (!has_run_room(core, first, message->records_term))
        return false;
    cut_other_records(core, first, update);
    update->append = CONSENSUS_APPEND_RECORDS;
    update->append_first = first;
    update->append_last = end;
    term_runs_append(&core->runs, first, message->records_term);
    core->last = end;
    if (event->members)
        members_append(core, event->members, event->now_us);
    return true;
}

/* Is the message's record of the members valid, with kinds that this release has? True if it has no such record. */
static bool is_understood(const struct consensus_event *event)
{
    if (!event->members)
        return true;
    CHECK(event->members->index == event->message->index + event->message->count);
    return members_are_valid(event->members);
}

/* Does this log have the record that precedes the message's first one? If not, refuses the message. */
static bool is_joined(const struct consensus *core, const struct consensus_message *message,
                      struct consensus_update *update)
{
    if (message->index < core->committed ||
        (message->index <= core->last &&
         term_runs_at(&core->runs, message->index) == message->index_term))
        return true;
    refuse_append(core, message, message->index, hint_of(core, message->index), update);
    return false;
}

void follow_append(struct consensus *core, const struct consensus_event *event,
                   struct consensus_update *update)
{
    struct consensus_message message = *event->message;
    if (!follow(core, &message, event->now_us, update)) {
        if (!update->fault)
            refuse_old_term(core, &message, update);
        return;
    }
    if (!skip_committed(core, &message))
        update->fault = CONSENSUS_CUTS_COMMITTED;
    if (!is_understood(event))
        update->fault = CONSENSUS_UNKNOWN_KIND;
    if (update->fault || !is_joined(core, &message, update))
        return;
    if (message.count && !write_records(core, event, &message, update))
        message.count = 0; /* what comes before them can be committed, which makes room */
    core->following.matched = greater(core->following.matched, message.index + message.count);
    core->following.heard_commit = greater(core->following.heard_commit, message.commit);
    core->following.echo_us = greater(core->following.echo_us, message.sent_us);
    core->committed = greater(core->committed, rule_commit_heard(core));
    if (!message.count || rule_acknowledged(core) >= message.index + message.count)
        acknowledge(core, update);
}

void follow_synced(struct consensus *core, struct consensus_update *update)
{
    core->committed = greater(core->committed, rule_commit_heard(core));
    if (core->leader && core->following.matched)
        acknowledge(core, update);
}

/* What matches in this term is committed now, and the rest when it comes. */
void follow_committed(struct consensus *core, uint64_t term, uint64_t index)
{
    if (term != core->term || core->role >= CONSENSUS_LEADING || !core->leader)
        return;
    core->following.heard_commit = greater(core->following.heard_commit, index);
    core->committed = greater(core->committed, rule_commit_heard(core));
}

/* The announcement counts as hearing the leader; the files come to the caller. */
void follow_snapshot(struct consensus *core, const struct consensus_message *message,
                     uint64_t now_us, struct consensus_update *update)
{
    (void)follow(core, message, now_us, update);
}
