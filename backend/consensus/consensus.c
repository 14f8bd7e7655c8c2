#include "backend/consensus/consensus.h"

#include "backend/consensus/core.h"
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"
#include "shared/check.h"

#include <string.h>

/* ---- start ------------------------------------------------------------------------------------- */

static void take_log(struct consensus *core, const struct consensus_start *start)
{
    CHECK(start->base <= start->committed && start->committed <= start->last &&
          start->synced <= start->last);
    term_runs_init(&core->runs, start->base, start->base_term);
    for (unsigned i = 0; i < start->run_count; i++) {
        const struct term_run *run = &start->run[i];
        CHECK(run->first > start->base && run->first <= start->last &&
              term_runs_has_room(&core->runs, run->term, start->committed));
        term_runs_append(&core->runs, run->first, run->term);
    }
    core->last = start->last;
    core->synced = start->synced;
    core->committed = start->committed;
}

void consensus_init(struct consensus *core, const struct consensus_start *start, uint64_t now_us)
{
    memset(core, 0, sizeof *core);
    CHECK(start->id && start->election_us && start->window && now_us);
    core->id = start->id;
    core->random = start->random;
    core->election_us = start->election_us;
    core->window = start->window;
    take_log(core, start);
    CHECK(!start->members.count || members_are_valid(&start->members));
    core->members = start->members;
    core->members_before = start->members_before;
    core->term = start->term;
    core->vote = start->vote;
    if (core->term < term_runs_last(&core->runs)) {
        core->term = term_runs_last(&core->runs);
        core->vote = 0;
    }
    core->role = CONSENSUS_FOLLOWER;
    core->promised_us = rule_start_promise(core, now_us);
    core->deadline_us = now_us + core_patience(core);
    if (start->has_promised_nothing)
        core->promised_us = core->deadline_us = now_us;
}

/* ---- what all files need ----------------------------------------------------------------------- */

struct consensus_message *core_send(const struct consensus *core, struct consensus_update *update,
                                    enum consensus_message_kind kind, uint64_t to)
{
    CHECK(update->message_count < CONSENSUS_MESSAGES_MAX);
    struct consensus_message *message = &update->messages[update->message_count++];
    *message =
        (struct consensus_message){.kind = kind, .from = core->id, .to = to, .term = core->term};
    return message;
}

void core_save(struct consensus *core, struct consensus_update *update)
{
    core->saving += !update->has_save;
    update->has_save = true;
    update->save_term = core->term;
    update->save_vote = core->vote;
}

/* splitmix64 */
uint64_t core_random(struct consensus *core, uint64_t below)
{
    uint64_t z = core->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return below ? (z ^ z >> 31) % below : 0;
}

/* A copy that is behind stands later by this. */
static uint64_t lateness(const struct consensus *core)
{
    return core->state & CONSENSUS_BEHIND ? core->election_us : 0;
}

uint64_t core_patience(struct consensus *core)
{
    return core->election_us + lateness(core) + core_random(core, core->election_us / 2);
}

uint64_t core_split_patience(struct consensus *core)
{
    return 1 + core_random(core, core->election_us / 4);
}

void core_step_down(struct consensus *core, uint64_t now_us)
{
    if (core->role >= CONSENSUS_LEADING)
        core->deadline_us = now_us + core_patience(core);
    core->role = CONSENSUS_FOLLOWER;
    core->leader = 0;
    core->leading.transfer_to = 0;
    core->following = (struct consensus_following){0};
}

void core_take_over(struct consensus *core, uint64_t term, uint64_t now_us,
                    struct consensus_update *update)
{
    CHECK(term > core->term);
    core_step_down(core, now_us);
    core->term = term;
    core->vote = 0;
    core->may_mark = false;
    core_save(core, update);
}

uint64_t consensus_term_at(const struct consensus *core, uint64_t index)
{
    return index > core->last ? 0 : term_runs_at(&core->runs, index);
}

bool consensus_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                           uint64_t index_term)
{
    return rule_may_install(core, term, index, index_term);
}

bool consensus_is_caught_up(const struct consensus *core, uint64_t id)
{
    unsigned at = members_find(&core->members, id);
    return core->role == CONSENSUS_SERVING && at != MEMBER_NONE &&
           (id == core->id ||
            (core->progress[at].match >= core->leading.early_commit && append_is_heard(core, id)));
}

uint64_t consensus_next_us(const struct consensus *core)
{
    return core->role >= CONSENSUS_LEADING ? core->leading.heartbeat_us : core->deadline_us;
}

/* ---- events ------------------------------------------------------------------------------------ */

static void take_message(struct consensus *core, const struct consensus_event *event,
                         struct consensus_update *update)
{
    const struct consensus_message *message = event->message;
    if (message->to != core->id || !rule_is_term_near(core, message))
        return;
    switch (message->kind) {
    case CONSENSUS_VOTE:
        election_vote(core, message, event->now_us, update);
        break;
    case CONSENSUS_VOTE_REPLY:
        election_vote_reply(core, message, event->now_us, update);
        break;
    case CONSENSUS_APPEND:
        follow_append(core, event, update);
        break;
    case CONSENSUS_APPEND_REPLY:
        append_reply(core, message, event->now_us, update);
        break;
    case CONSENSUS_SNAPSHOT:
        follow_snapshot(core, message, event->now_us, update);
        break;
    case CONSENSUS_HAND_OVER:
        election_handed_over(core, message, event->now_us, update);
        break;
    }
}

/* The connection to the leader broke, so its process may have ended: begins an election soon after the promise to it is over. */
static void take_disconnected(struct consensus *core, const struct consensus_event *event)
{
    if (core->role != CONSENSUS_FOLLOWER || core->leader != event->id)
        return;
    uint64_t early_us =
        core->promised_us + lateness(core) + core_random(core, core->election_us / 10);
    if (early_us < core->deadline_us)
        core->deadline_us = early_us;
}

static void take_members(struct consensus *core, const struct consensus_event *event,
                         struct consensus_update *update)
{
    struct consensus_members members = *event->members;
    if (!rule_takes_batch(core, event->term) || !rule_may_change(core, &members)) {
        update->is_refused = true;
        return;
    }
    members.index = core->last + 1;
    members_append(core, &members, event->now_us);
    append_own(core, members.index, event->now_us, update);
}

static void take_appended(struct consensus *core, const struct consensus_event *event,
                          struct consensus_update *update)
{
    if (!rule_takes_batch(core, event->term) || event->index <= core->last)
        update->is_refused = true;
    else
        append_own(core, event->index, event->now_us, update);
}

/* The disk has refused records: a leader or candidate steps down. */
static void take_not_written(struct consensus *core, const struct consensus_event *event)
{
    CHECK(event->index >= core->synced && event->index >= core->committed);
    if (event->index >= core->last)
        return;
    follow_cut(core, event->index);
    if (core->role > CONSENSUS_FOLLOWER)
        core_step_down(core, event->now_us);
}

static void take_synced(struct consensus *core, const struct consensus_event *event,
                        struct consensus_update *update)
{
    if (event->cuts != core->cuts || event->index <= core->synced)
        return;
    CHECK(event->index <= core->last);
    core->synced = event->index;
    if (core->role < CONSENSUS_LEADING)
        follow_synced(core, update);
    else
        append_advance(core);
}

/* After it has resigned, this copy waits for one E more than usual, so that other copies stand first. */
static void take_resign(struct consensus *core, const struct consensus_event *event,
                        struct consensus_update *update)
{
    update->is_refused = core->role < CONSENSUS_LEADING;
    if (update->is_refused)
        return;
    core_step_down(core, event->now_us);
    core->deadline_us += core->election_us;
}

static void take_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    if (core->role >= CONSENSUS_LEADING)
        append_tick(core, now_us, update);
    else
        election_tick(core, now_us, update);
}

static void take_confirm(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    if (core->role >= CONSENSUS_LEADING)
        append_heartbeats(core, now_us, update);
}

static void take_trimmed(struct consensus *core, uint64_t base)
{
    CHECK(base <= core->committed);
    term_runs_trim(&core->runs, base);
}

static void take_event(struct consensus *core, const struct consensus_event *event,
                       struct consensus_update *update)
{
    switch (event->kind) {
    case CONSENSUS_TICK:
        take_tick(core, event->now_us, update);
        break;
    case CONSENSUS_MESSAGE:
        take_message(core, event, update);
        break;
    case CONSENSUS_HEARD:
        if (event->term == core->term && event->id == core->leader && event->id != core->id)
            follow_hear(core, event->now_us);
        break;
    case CONSENSUS_DISCONNECTED:
        take_disconnected(core, event);
        break;
    case CONSENSUS_APPENDED:
        take_appended(core, event, update);
        break;
    case CONSENSUS_MEMBERS:
        take_members(core, event, update);
        break;
    case CONSENSUS_NOT_WRITTEN:
        take_not_written(core, event);
        break;
    case CONSENSUS_SYNCED:
        take_synced(core, event, update);
        break;
    case CONSENSUS_SAVED:
        election_saved(core, event->now_us, update);
        break;
    case CONSENSUS_SERVES:
        core->serves_term = event->term;
        break;
    case CONSENSUS_COMMITTED:
        follow_committed(core, event->term, event->index);
        break;
    case CONSENSUS_TRIMMED:
        take_trimmed(core, event->index);
        break;
    case CONSENSUS_SNAPSHOT_SENT:
        append_snapshot_sent(core, event->id, event->index);
        break;
    case CONSENSUS_WENT_BACK:
        append_went_back(core, event->id, event->index, event->now_us);
        break;
    case CONSENSUS_TRANSFER:
        election_transfer(core, event->id, event->now_us, update);
        break;
    case CONSENSUS_RESIGN:
        take_resign(core, event, update);
        break;
    case CONSENSUS_CONFIRM:
        take_confirm(core, event->now_us, update);
        break;
    case CONSENSUS_STATE:
        core->state = event->state;
        break;
    }
}

/* ---- the update -------------------------------------------------------------------------------- */

static enum consensus_role shown_role(const struct consensus *core)
{
    return core->role == CONSENSUS_FOLLOWER && !members_has_voter(&core->members, core->id)
               ? CONSENSUS_LEARNER_ROLE
               : core->role;
}

static void show(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    if (core->role == CONSENSUS_LEADING && rule_is_serving(core))
        core->role = CONSENSUS_SERVING;
    bool leads = core->role >= CONSENSUS_LEADING;
    update->cuts = core->cuts;
    update->role = shown_role(core);
    update->leader = core->leader;
    update->term = core->term;
    update->committed = core->committed;
    update->confirmed_us = leads ? append_confirmed(core, now_us) : 0;
    update->lease_until_us = rule_has_lease(core) ? append_leased(core, now_us) : 0;
}

void consensus_step(struct consensus *core, const struct consensus_event *event,
                    struct consensus_update *update)
{
    memset(update, 0, sizeof *update);
    take_event(core, event, update);
    if (core->role >= CONSENSUS_LEADING)
        election_hand_over(core, event->now_us, update);
    show(core, event->now_us, update);
}
