/*
 * consensus.c - breaks a promise of backend/consensus/rules.h, chosen by sim_broken (tests/sim/sim_break.h): these functions are
 * linked into test_consensus and its relatives in place of the program's.
 */
#include "backend/consensus/members.h"
#include "backend/consensus/rules.h"
#include "tests/sim/sim_break.h"

uint64_t __real_rule_start_promise(const struct consensus *core, uint64_t now_us);
uint64_t __wrap_rule_start_promise(const struct consensus *core, uint64_t now_us);
bool __real_rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                          uint64_t now_us);
bool __wrap_rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                          uint64_t now_us);
bool __real_rule_may_grant(const struct consensus *core, const struct consensus_message *vote);
bool __wrap_rule_may_grant(const struct consensus *core, const struct consensus_message *vote);
uint64_t __real_rule_refusal_term(const struct consensus *core,
                                  const struct consensus_message *vote);
uint64_t __wrap_rule_refusal_term(const struct consensus *core,
                                  const struct consensus_message *vote);
uint64_t __real_rule_own_copy(const struct consensus *core);
uint64_t __wrap_rule_own_copy(const struct consensus *core);
uint64_t __real_rule_acknowledged(const struct consensus *core);
uint64_t __wrap_rule_acknowledged(const struct consensus *core);
bool __real_rule_term_counts(const struct consensus *core, uint64_t index);
bool __wrap_rule_term_counts(const struct consensus *core, uint64_t index);
uint64_t __real_rule_commit_heard(const struct consensus *core);
uint64_t __wrap_rule_commit_heard(const struct consensus *core);
bool __real_rule_takes_batch(const struct consensus *core, uint64_t term);
bool __wrap_rule_takes_batch(const struct consensus *core, uint64_t term);
bool __real_rule_may_change(const struct consensus *core, const struct consensus_members *members);
bool __wrap_rule_may_change(const struct consensus *core, const struct consensus_members *members);
uint64_t __real_rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                                uint64_t now_us);
uint64_t __wrap_rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                                uint64_t now_us);
uint64_t __real_rule_lease_us(const struct consensus *core, uint64_t promise_us);
uint64_t __wrap_rule_lease_us(const struct consensus *core, uint64_t promise_us);
bool __real_rule_is_serving(const struct consensus *core);
bool __wrap_rule_is_serving(const struct consensus *core);
bool __real_rule_has_lease(const struct consensus *core);
bool __wrap_rule_has_lease(const struct consensus *core);
uint64_t __real_core_split_patience(struct consensus *core);
uint64_t __wrap_core_split_patience(struct consensus *core);

uint64_t __real_members_majority(const struct consensus_members *members,
                                 const uint64_t values[CONSENSUS_MEMBERS_MAX]);
uint64_t __wrap_members_majority(const struct consensus_members *members,
                                 const uint64_t values[CONSENSUS_MEMBERS_MAX]);

/* ---- votes ------------------------------------------------------------------------------------- */

uint64_t __wrap_rule_start_promise(const struct consensus *core, uint64_t now_us)
{
    return sim_broken == BREAK_START_FORGETS ? now_us : __real_rule_start_promise(core, now_us);
}

bool __wrap_rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                          uint64_t now_us)
{
    if (sim_broken == BREAK_NO_PROMISE)
        return core->role >= CONSENSUS_LEADING;
    if (sim_broken == BREAK_LEADER_VOTES && core->role >= CONSENSUS_LEADING)
        return false;
    return __real_rule_is_bound(core, vote, now_us);
}

bool __wrap_rule_may_grant(const struct consensus *core, const struct consensus_message *vote)
{
    if (sim_broken == BREAK_TWO_VOTES || sim_broken == BREAK_SHORT_LOG) {
        struct consensus other = *core;
        struct consensus_message longer = *vote;
        if (sim_broken == BREAK_TWO_VOTES)
            other.vote = 0;
        else
            longer.index_term = UINT64_MAX;
        return __real_rule_may_grant(&other, &longer);
    }
    if (sim_broken == BREAK_PROMOTED_SILENT && !members_has_voter(&core->members, core->id))
        return false;
    return __real_rule_may_grant(core, vote);
}

uint64_t __wrap_rule_refusal_term(const struct consensus *core,
                                  const struct consensus_message *vote)
{
    if (sim_broken == BREAK_REFUSAL_NO_TERM)
        return vote->term - 1;
    return __real_rule_refusal_term(core, vote);
}

uint64_t __wrap_core_split_patience(struct consensus *core)
{
    return sim_broken == BREAK_SPLIT_WAITS ? UINT64_MAX / 2 : __real_core_split_patience(core);
}

/* ---- records ----------------------------------------------------------------------------------- */

uint64_t __wrap_rule_own_copy(const struct consensus *core)
{
    return sim_broken == BREAK_OWN_UNSYNCED ? core->last : __real_rule_own_copy(core);
}

uint64_t __wrap_rule_acknowledged(const struct consensus *core)
{
    return sim_broken == BREAK_ACK_UNSYNCED ? core->following.matched
                                            : __real_rule_acknowledged(core);
}

uint64_t __wrap_members_majority(const struct consensus_members *members,
                                 const uint64_t values[CONSENSUS_MEMBERS_MAX])
{
    uint64_t most = __real_members_majority(members, values);
    for (unsigned i = 0; sim_broken == BREAK_ONE_COPY && i < members->count; i++)
        if (members->list[i].kind == CONSENSUS_VOTER && values[i] > most)
            most = values[i];
    return most;
}

bool __wrap_rule_term_counts(const struct consensus *core, uint64_t index)
{
    return sim_broken == BREAK_OLD_TERM_COUNTS || __real_rule_term_counts(core, index);
}

uint64_t __wrap_rule_commit_heard(const struct consensus *core)
{
    if (sim_broken != BREAK_UNMATCHED_COMMIT)
        return __real_rule_commit_heard(core);
    return core->following.heard_commit < core->last ? core->following.heard_commit : core->last;
}

bool __wrap_rule_takes_batch(const struct consensus *core, uint64_t term)
{
    if (sim_broken == BREAK_OLD_BATCH)
        return core->role == CONSENSUS_SERVING && !core->leading.transfer_to;
    return __real_rule_takes_batch(core, term);
}

/* ---- members ----------------------------------------------------------------------------------- */

bool __wrap_rule_may_change(const struct consensus *core, const struct consensus_members *members)
{
    struct consensus other = *core;
    switch (sim_broken) {
    case BREAK_TWO_CHANGES:
        other.members.index = 0;
        break;
    case BREAK_OLD_MAP_MEMBERS:
        other.members.epoch = 0;
        break;
    case BREAK_BIG_CHANGE:
        return members_are_valid(members) && members_has_voter(members, core->id);
    default:
        break;
    }
    return __real_rule_may_change(&other, members);
}

/* ---- reading ----------------------------------------------------------------------------------- */

uint64_t __wrap_rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                                uint64_t now_us)
{
    return sim_broken == BREAK_LEASE_OF_REPLY ? now_us
                                              : __real_rule_lease_sent(core, reply, now_us);
}

uint64_t __wrap_rule_lease_us(const struct consensus *core, uint64_t promise_us)
{
    return __real_rule_lease_us(core,
                                sim_broken == BREAK_LONG_LEASE ? core->election_us : promise_us);
}

bool __wrap_rule_is_serving(const struct consensus *core)
{
    return sim_broken == BREAK_EARLY_SERVING || __real_rule_is_serving(core);
}

bool __wrap_rule_has_lease(const struct consensus *core)
{
    return sim_broken == BREAK_LEASE_UNSERVED ? core->role == CONSENSUS_SERVING
                                              : __real_rule_has_lease(core);
}
