#include "backend/consensus/rules.h"

#include "backend/consensus/core.h"
#include "backend/consensus/members.h"

static const uint64_t terms_near = (uint64_t)1 << 32;

bool rule_is_term_near(const struct consensus *core, const struct consensus_message *message)
{
    return message->term <= core->term || message->term - core->term < terms_near;
}

uint64_t rule_start_promise(const struct consensus *core, uint64_t now_us)
{
    return now_us + core->election_us;
}

bool rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                   uint64_t now_us)
{
    if (core->role >= CONSENSUS_LEADING)
        return true;
    return now_us < core->promised_us && !rule_mark_counts(core, vote);
}

bool rule_mark_counts(const struct consensus *core, const struct consensus_message *vote)
{
    return vote->is_marked && vote->term == core->term + 1;
}

bool rule_may_grant(const struct consensus *core, const struct consensus_message *vote)
{
    uint64_t last_term = term_runs_last(&core->runs);
    bool is_complete = vote->index_term > last_term ||
                       (vote->index_term == last_term && vote->index >= core->last);
    if (vote->is_pre)
        return is_complete && vote->term > core->term;
    return is_complete && vote->term == core->term && (!core->vote || core->vote == vote->from);
}

uint64_t rule_refusal_term(const struct consensus *core, const struct consensus_message *vote)
{
    (void)vote;
    return core->term;
}

bool rule_obeys_hand_over(const struct consensus *core, const struct consensus_message *message)
{
    return message->term == core->term && message->from == core->leader;
}

bool rule_may_mark(const struct consensus *core)
{
    return core->may_mark;
}

bool rule_reply_counts(const struct consensus *core, const struct consensus_message *reply)
{
    return reply->term == core->term;
}

uint64_t rule_own_copy(const struct consensus *core)
{
    return core->synced;
}

uint64_t rule_acknowledged(const struct consensus *core)
{
    return lesser(core->following.matched, core->synced);
}

bool rule_term_counts(const struct consensus *core, uint64_t index)
{
    return term_runs_at(&core->runs, index) == core->term;
}

uint64_t rule_commit_heard(const struct consensus *core)
{
    return lesser(core->following.heard_commit, lesser(core->following.matched, core->synced));
}

bool rule_takes_batch(const struct consensus *core, uint64_t term)
{
    return core->role == CONSENSUS_SERVING && term == core->term && !core->leading.transfer_to;
}

bool rule_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                      uint64_t index_term)
{
    return core->term == term && core->role <= CONSENSUS_FOLLOWER && core->committed < index &&
           consensus_term_at(core, index) != index_term;
}

/* Is every new voter, one that was no voter before, caught up? */
static bool are_voters_caught_up(const struct consensus *core,
                                 const struct consensus_members *members)
{
    for (unsigned i = 0; i < members->count; i++) {
        uint64_t id = members->list[i].id;
        if (members->list[i].kind == CONSENSUS_VOTER && !members_has_voter(&core->members, id) &&
            !consensus_is_caught_up(core, id))
            return false;
    }
    return true;
}

/* Could these members commit a record now? Members are in force from the append on, so a change that could not be committed could
 * not be undone either. */
static bool are_most_heard(const struct consensus *core, const struct consensus_members *members)
{
    uint64_t heard[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < members->count; i++)
        heard[i] = append_is_heard(core, members->list[i].id);
    return members_majority(members, heard) > 0;
}

bool rule_may_change(const struct consensus *core, const struct consensus_members *members)
{
    return core->committed >= core->leading.probe && core->committed >= core->members.index &&
           members->epoch >= core->members.epoch && members_are_valid(members) &&
           members_has_voter(members, core->id) && members_differ_by_one(&core->members, members) &&
           are_voters_caught_up(core, members) && are_most_heard(core, members);
}

uint64_t rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                         uint64_t now_us)
{
    (void)core;
    (void)now_us;
    return reply->sent_us;
}

/* If this clock is slower than the follower's by a fifth, 0.8 E here last as long as E there. */
uint64_t rule_lease_us(const struct consensus *core, uint64_t promise_us)
{
    return lesser(promise_us, core->election_us) * 4 / 5;
}

bool rule_is_serving(const struct consensus *core)
{
    return core->committed >= core->leading.probe;
}

bool rule_has_lease(const struct consensus *core)
{
    return core->role == CONSENSUS_SERVING && core->serves_term == core->term;
}
