/* append.c - a leader's side of the log: what each member is sent, which records are committed, and how long it may serve. */
#include "backend/consensus/core.h"
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"

#include <string.h>

enum { HEARTBEATS = 5 }; /* in E */

/* ---- sending ----------------------------------------------------------------------------------- */

/* The last record that one APPEND to the member may have: all are of one term. */
static uint64_t end_of_offer(const struct consensus *core,
                             const struct consensus_progress *progress)
{
    if (progress->next > core->last)
        return progress->next - 1;
    uint64_t end = term_runs_last_of(&core->runs, progress->next, core->last);
    bool is_probing = progress->way == CONSENSUS_PROBING; /* its match is not known yet */
    end = lesser(end, (is_probing ? progress->next - 1 : progress->match) + core->window);
    end = lesser(end, progress->next + CONSENSUS_RECORDS_MAX - 1);
    return greater(end, progress->next - 1);
}

static bool may_get_records(const struct consensus_progress *progress)
{
    return progress->way == CONSENSUS_STREAMING ||
           (progress->way == CONSENSUS_PROBING && !progress->is_waiting);
}

static void send_append(struct consensus *core, unsigned at, uint64_t now_us,
                        struct consensus_update *update)
{
    struct consensus_progress *progress = &core->progress[at];
    bool is_installing = progress->way == CONSENSUS_INSTALLING;
    uint64_t before = is_installing ? term_runs_base(&core->runs) : progress->next - 1;
    uint64_t end = may_get_records(progress) ? end_of_offer(core, progress) : before;
    struct consensus_message *message =
        core_send(core, update, CONSENSUS_APPEND, core->members.list[at].id);
    message->index = before;
    message->index_term = term_runs_at(&core->runs, before);
    message->commit = core->committed;
    message->sent_us = now_us;
    message->count = (uint32_t)(end - before);
    message->records_term = end > before ? term_runs_at(&core->runs, end) : 0;
    if (progress->way == CONSENSUS_STREAMING)
        progress->next = end + 1;
    progress->is_waiting = progress->way == CONSENSUS_PROBING;
}

/* The leader's log no longer has the records that the member lacks, so it gets a snapshot. */
static void announce_snapshot(struct consensus *core, unsigned at, struct consensus_update *update)
{
    struct consensus_message *message =
        core_send(core, update, CONSENSUS_SNAPSHOT, core->members.list[at].id);
    message->index = term_runs_base(&core->runs);
    message->index_term = term_runs_at(&core->runs, message->index);
    core->progress[at].way = CONSENSUS_INSTALLING;
}

/* Sends the member the records that it may get now. If there are none, sends nothing, or an APPEND without records if `is_due`. */
static void offer(struct consensus *core, unsigned at, bool is_due, uint64_t now_us,
                  struct consensus_update *update)
{
    struct consensus_progress *progress = &core->progress[at];
    if (core->members.list[at].id == core->id)
        return;
    if (progress->way == CONSENSUS_PROBING && is_due)
        progress->is_waiting = false;
    if (progress->way != CONSENSUS_INSTALLING && progress->next <= term_runs_base(&core->runs))
        announce_snapshot(core, at, update);
    if (is_due || (may_get_records(progress) && end_of_offer(core, progress) >= progress->next))
        send_append(core, at, now_us, update);
}

static void offer_all(struct consensus *core, bool is_due, uint64_t now_us,
                      struct consensus_update *update)
{
    for (unsigned i = 0; i < core->members.count; i++)
        offer(core, i, is_due, now_us, update);
}

void append_heartbeats(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    core->leading.heartbeat_us = now_us + core->election_us / HEARTBEATS;
    offer_all(core, true, now_us, update);
}

/* ---- leading ----------------------------------------------------------------------------------- */

static void reset_progress(struct consensus *core, uint64_t now_us)
{
    memset(core->progress, 0, sizeof core->progress);
    for (unsigned i = 0; i < core->members.count; i++) {
        core->progress[i].next = core->last + 1;
        core->progress[i].heard_us = now_us;
    }
}

void append_lead(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    core->role = CONSENSUS_LEADING;
    core->leader = core->id;
    core->leading.transfer_to = 0;
    core->promised_us = now_us; /* this copy was elected, so all earlier leases are over */
    reset_progress(core, now_us);
    core->leading.probe = core->last + 1;
    core->leading.early_commit = core->leading.next_early_commit = core->leading.probe;
    core->leading.early_us = now_us + core->election_us;
    term_runs_append(&core->runs, core->leading.probe, core->term);
    core->last = core->leading.probe;
    update->append = CONSENSUS_APPEND_PROBE;
    update->append_first = update->append_last = core->leading.probe;
    append_heartbeats(core, now_us, update);
}

void append_own(struct consensus *core, uint64_t last, uint64_t now_us,
                struct consensus_update *update)
{
    core->last = last;
    offer_all(core, false, now_us, update);
}

/* The value that a majority has reached: `own` for the leader itself, value(progress) for each other member. */
static uint64_t majority_of(const struct consensus *core, uint64_t own,
                            uint64_t (*value)(const struct consensus_progress *progress))
{
    uint64_t values[CONSENSUS_MEMBERS_MAX];
    for (unsigned i = 0; i < core->members.count; i++)
        values[i] = core->members.list[i].id == core->id ? own : value(&core->progress[i]);
    return members_majority(&core->members, values);
}

static uint64_t match_of(const struct consensus_progress *progress)
{
    return progress->match;
}

static uint64_t sent_of(const struct consensus_progress *progress)
{
    return progress->sent_us;
}

static uint64_t leased_of(const struct consensus_progress *progress)
{
    return progress->leased_us;
}

static uint64_t heard_of(const struct consensus_progress *progress)
{
    return progress->heard_us;
}

/* A record that is not durable on the leader's own disk is not committed, even if a majority without the leader has it: the leader
 * applies records from its own disk. */
void append_advance(struct consensus *core)
{
    uint64_t own = rule_own_copy(core);
    uint64_t index = lesser(own, majority_of(core, own, match_of));
    if (index > core->committed && rule_term_counts(core, index))
        core->committed = index;
}

uint64_t append_confirmed(const struct consensus *core, uint64_t now_us)
{
    return majority_of(core, now_us, sent_of);
}

uint64_t append_leased(const struct consensus *core, uint64_t now_us)
{
    return majority_of(core, now_us + rule_lease_us(core, core->election_us), leased_of);
}

/* Check-quorum: without a majority for E a leader cannot commit, and others may lead already. */
void append_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    if (majority_of(core, now_us, heard_of) + core->election_us <= now_us) {
        core_step_down(core, now_us);
        return;
    }
    if (now_us >= core->leading.early_us) {
        core->leading.early_commit = core->leading.next_early_commit;
        core->leading.next_early_commit = greater(core->committed, core->leading.probe);
        core->leading.early_us = now_us + core->election_us;
    }
    if (now_us >= core->leading.heartbeat_us)
        append_heartbeats(core, now_us, update);
}

/* Since the beginning of the E before the present one, which ends at early_us: so early_commit is no newer than the answer. */
bool append_is_heard(const struct consensus *core, uint64_t id)
{
    unsigned at = members_find(&core->members, id);
    return id == core->id ||
           (at != MEMBER_NONE &&
            core->progress[at].heard_us + 2 * core->election_us > core->leading.early_us);
}

/* ---- replies ----------------------------------------------------------------------------------- */

/* Is it about the log that the member had before its disk was set back? It may come later than the news, on an older connection. */
static bool is_of_older_log(const struct consensus_progress *progress,
                            const struct consensus_message *reply)
{
    return progress->back_us && reply->sent_us <= progress->back_us;
}

static void take_match(struct consensus *core, struct consensus_progress *progress,
                       const struct consensus_message *reply, uint64_t now_us)
{
    uint64_t sent_us = rule_lease_sent(core, reply, now_us);
    uint64_t leased_us = sent_us ? sent_us + rule_lease_us(core, reply->promise_us) : 0;
    progress->sent_us = greater(progress->sent_us, sent_us);
    progress->leased_us = greater(progress->leased_us, leased_us);
    progress->match = greater(progress->match, reply->index);
    progress->next = greater(progress->next, progress->match + 1);
    if (progress->way == CONSENSUS_INSTALLING && progress->match < term_runs_base(&core->runs))
        return;
    progress->way = CONSENSUS_STREAMING;
    progress->is_waiting = false;
}

/* The member's log does not match: the next APPEND begins earlier, at the latest behind the follower's hint. Refusals that later
 * messages have overtaken are ignored. */
static void take_mismatch(struct consensus_progress *progress,
                          const struct consensus_message *reply)
{
    if (progress->way == CONSENSUS_INSTALLING || reply->index <= progress->match ||
        (progress->way == CONSENSUS_PROBING && reply->index != progress->next - 1))
        return;
    progress->next = greater(lesser(reply->hint + 1, reply->index), progress->match + 1);
    progress->way = CONSENSUS_PROBING;
    progress->is_waiting = false;
}

void append_reply(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                  struct consensus_update *update)
{
    if (message->term > core->term) {
        core_take_over(core, message->term, now_us, update);
        return;
    }
    unsigned at = members_find(&core->members, message->from);
    if (core->role < CONSENSUS_LEADING || !rule_reply_counts(core, message) || at == MEMBER_NONE ||
        (message->is_good && message->index > core->last))
        return;
    core->progress[at].heard_us = now_us;
    core->progress[at].state = message->state;
    core->progress[at].has_answered = true;
    if (message->is_good && is_of_older_log(&core->progress[at], message))
        return;
    if (message->is_good)
        take_match(core, &core->progress[at], message, now_us);
    else
        take_mismatch(&core->progress[at], message);
    append_advance(core);
    offer(core, at, false, now_us, update);
}

void append_snapshot_sent(struct consensus *core, uint64_t id, uint64_t index)
{
    unsigned at = members_find(&core->members, id);
    if (core->role < CONSENSUS_LEADING || at == MEMBER_NONE ||
        core->progress[at].way != CONSENSUS_INSTALLING || index > core->committed)
        return;
    core->progress[at].way = CONSENSUS_PROBING;
    core->progress[at].is_waiting = true;
    core->progress[at].next = greater(core->progress[at].next, index + 1);
}

/* What a voter has acknowledged stays: it may be committed. */
void append_went_back(struct consensus *core, uint64_t id, uint64_t index, uint64_t now_us)
{
    unsigned at = members_find(&core->members, id);
    if (core->role < CONSENSUS_LEADING || at == MEMBER_NONE ||
        core->members.list[at].kind == CONSENSUS_VOTER)
        return;
    core->progress[at].match = lesser(core->progress[at].match, index);
    core->progress[at].back_us = now_us;
}
