/* election.c - decides which copy leads: pre-votes, votes, and the hand-over of leadership from one copy to another. */
#include "backend/consensus/core.h"
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"

#include <string.h>

/* ---- standing ---------------------------------------------------------------------------------- */

static bool may_stand(const struct consensus *core)
{
    return members_has_voter(&core->members, core->id) &&
           term_runs_has_room(&core->runs, core->term + 1, core->committed);
}

static bool has_majority(const struct consensus *core)
{
    uint64_t votes[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < core->members.count; i++)
        votes[i] = core->votes[i] == CONSENSUS_GRANTED;
    return members_majority(&core->members, votes) > 0;
}

static bool can_win(const struct consensus *core)
{
    uint64_t votes[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < core->members.count; i++)
        votes[i] = core->votes[i] == CONSENSUS_GRANTED || core->votes[i] == CONSENSUS_UNANSWERED;
    return members_majority(&core->members, votes) > 0;
}

static void ask_voters(const struct consensus *core, bool is_pre, bool is_marked,
                       struct consensus_update *update)
{
    for (unsigned i = 0; i < core->members.count; i++) {
        const struct consensus_member *member = &core->members.list[i];
        if (member->id == core->id || member->kind != CONSENSUS_VOTER)
            continue;
        struct consensus_message *vote = core_send(core, update, CONSENSUS_VOTE, member->id);
        vote->term = core->term + is_pre;
        vote->is_pre = is_pre;
        vote->is_marked = is_marked;
        vote->index = core->last;
        vote->index_term = term_runs_last(&core->runs);
    }
}

static void await_votes(struct consensus *core, bool has_pre_votes)
{
    for (unsigned i = 0; i < core->members.count; i++)
        core->votes[i] = has_pre_votes && core->votes[i] != CONSENSUS_GRANTED
                             ? CONSENSUS_SILENT
                             : CONSENSUS_UNANSWERED;
}

/* Begins an election for the next term. The candidate's own vote counts when it is durable (election_saved). */
static void stand(struct consensus *core, bool is_marked, uint64_t now_us,
                  struct consensus_update *update)
{
    bool has_pre_votes = core->role == CONSENSUS_PRE_CANDIDATE;
    core_take_over(core, core->term + 1, now_us, update);
    core->vote = core->id;
    core_save(core, update);
    core->role = CONSENSUS_CANDIDATE;
    core->deadline_us = now_us + core_patience(core);
    await_votes(core, has_pre_votes);
    ask_voters(core, false, is_marked, update);
}

static void pre_stand(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    core_step_down(core, now_us);
    core->role = CONSENSUS_PRE_CANDIDATE;
    core->deadline_us = now_us + core_patience(core);
    memset(core->votes, 0, sizeof core->votes);
    core->votes[members_find(&core->members, core->id)] = CONSENSUS_GRANTED;
    if (has_majority(core))
        stand(core, false, now_us, update);
    else
        ask_voters(core, true, false, update);
}

void election_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    if (now_us < core->deadline_us)
        return;
    if (!may_stand(core))
        core->deadline_us = now_us + core_patience(core);
    else if (rule_may_mark(core))
        stand(core, true, now_us, update);
    else
        pre_stand(core, now_us, update);
}

void election_saved(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    core->saving -= core->saving > 0;
    if (core->saving || core->role != CONSENSUS_CANDIDATE)
        return;
    core->votes[members_find(&core->members, core->id)] = CONSENSUS_GRANTED;
    if (has_majority(core))
        append_lead(core, now_us, update);
}

/* ---- voting ------------------------------------------------------------------------------------ */

static uint64_t time_bound(const struct consensus *core, uint64_t now_us)
{
    if (core->role >= CONSENSUS_LEADING)
        return core->election_us;
    return core->promised_us > now_us ? core->promised_us - now_us : 1;
}

static void answer_vote(struct consensus *core, const struct consensus_message *vote, bool is_good,
                        uint64_t wait_us, struct consensus_update *update)
{
    struct consensus_message *reply = core_send(core, update, CONSENSUS_VOTE_REPLY, vote->from);
    reply->is_pre = vote->is_pre;
    reply->is_good = is_good;
    reply->term = is_good ? vote->term : rule_refusal_term(core, vote);
    reply->wait_us = wait_us;
}

void election_vote(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                   struct consensus_update *update)
{
    if (rule_is_bound(core, message, now_us)) {
        answer_vote(core, message, false, time_bound(core, now_us), update);
        return;
    }
    if (!message->is_pre && message->term > core->term)
        core_take_over(core, message->term, now_us, update);
    bool is_good = rule_may_grant(core, message);
    if (is_good && !message->is_pre) {
        core->vote = message->from;
        core->role = CONSENSUS_FOLLOWER;
        core->deadline_us = now_us + core_patience(core);
        core_save(core, update);
    }
    answer_vote(core, message, is_good, 0, update);
}

/* It asks again as soon as the voter may grant, or in the voter's term. A refusal of the pre-vote may come when others have made it a
 * candidate: it goes on then. */
static void take_refusal(struct consensus *core, const struct consensus_message *message,
                         uint64_t now_us, struct consensus_update *update)
{
    uint64_t wait_us = message->wait_us;
    if (core->role != CONSENSUS_PRE_CANDIDATE && core->role != CONSENSUS_CANDIDATE)
        return;
    if (message->term > core->term)
        core_take_over(core, message->term, now_us, update);
    else if (!wait_us || message->is_pre != (core->role == CONSENSUS_PRE_CANDIDATE))
        return;
    if (wait_us > core->election_us)
        wait_us = core->election_us;
    if (now_us + wait_us < core->deadline_us)
        core->deadline_us = now_us + wait_us;
}

/* Votes of this term are split: those that have granted the pre-vote were most voters, and too few of them have not voted for others. A voter
 * that was silent may still answer, and a leader that has ended never does. */
static void take_split(struct consensus *core, unsigned at, uint64_t now_us)
{
    bool could_win = can_win(core);
    core->votes[at] = CONSENSUS_REFUSED;
    if (could_win && !can_win(core))
        core->deadline_us = lesser(core->deadline_us, now_us + core_split_patience(core));
}

/* Others have made this copy a candidate before this one's pre-vote came. */
static void take_late_pre_vote(struct consensus *core, const struct consensus_message *message,
                               unsigned at)
{
    if (message->is_pre && message->is_good && core->role == CONSENSUS_CANDIDATE &&
        message->term == core->term && core->votes[at] == CONSENSUS_SILENT)
        core->votes[at] = CONSENSUS_UNANSWERED;
}

void election_vote_reply(struct consensus *core, const struct consensus_message *message,
                         uint64_t now_us, struct consensus_update *update)
{
    bool is_asked = message->is_pre
                        ? core->role == CONSENSUS_PRE_CANDIDATE && message->term == core->term + 1
                        : core->role == CONSENSUS_CANDIDATE && message->term == core->term;
    unsigned at = members_find(&core->members, message->from);
    if (at != MEMBER_NONE)
        take_late_pre_vote(core, message, at);
    if (!message->is_good && is_asked && !message->is_pre && !message->wait_us && at != MEMBER_NONE)
        take_split(core, at, now_us);
    if (!message->is_good)
        take_refusal(core, message, now_us, update);
    if (!message->is_good || !is_asked || at == MEMBER_NONE)
        return;
    core->votes[at] = CONSENSUS_GRANTED;
    if (!has_majority(core) ||
        core->votes[members_find(&core->members, core->id)] != CONSENSUS_GRANTED)
        return;
    if (message->is_pre)
        stand(core, false, now_us, update);
    else
        append_lead(core, now_us, update);
}

/* ---- transfer ---------------------------------------------------------------------------------- */

static bool may_lead(const struct consensus *core, uint64_t id)
{
    unsigned at = members_find(&core->members, id);
    return members_has_voter(&core->members, id) && id != core->id && append_is_heard(core, id) &&
           !(core->progress[at].state & CONSENSUS_BEHIND);
}

void election_transfer(struct consensus *core, uint64_t to, uint64_t now_us,
                       struct consensus_update *update)
{
    update->is_refused = core->role < CONSENSUS_LEADING ||
                         (to && (core->role != CONSENSUS_SERVING || core->leading.transfer_to ||
                                 !may_lead(core, to)));
    if (update->is_refused)
        return;
    core->leading.transfer_to = to;
    core->leading.transfer_until_us = now_us + core->election_us;
}

/* The lease ends with the role, before HAND_OVER leaves. If no other copy leads within E, this one stands for the next term itself.
 * Its votes have the mark, since it has given its lease up for that term. A HAND_OVER that arrives after that has no effect, because
 * its term is over. */
void election_hand_over(struct consensus *core, uint64_t now_us, struct consensus_update *update)
{
    uint64_t to = core->leading.transfer_to;
    if (!to)
        return;
    unsigned at = members_find(&core->members, to);
    if (at == MEMBER_NONE || now_us >= core->leading.transfer_until_us) {
        core->leading.transfer_to = 0;
        return;
    }
    if (core->progress[at].match != core->last || core->committed != core->last)
        return;
    core_step_down(core, now_us);
    core->may_mark = true;
    core->deadline_us = now_us + core->election_us;
    (void)core_send(core, update, CONSENSUS_HAND_OVER, to);
}

void election_handed_over(struct consensus *core, const struct consensus_message *message,
                          uint64_t now_us, struct consensus_update *update)
{
    if (core->role < CONSENSUS_LEADING && rule_obeys_hand_over(core, message) && may_stand(core))
        stand(core, true, now_us, update);
}
