#include "tests/sim/sim_past.h"

#include "backend/consensus/members.h"
#include "shared/check.h"

#include <string.h>

/* A copy in the past: what its process knows. */
struct past_copy {
    struct sim_copy *disk;
    uint64_t synced;    /* records that are durable, of those that are written */
    uint64_t committed; /* as far as it knows */
    uint64_t leads;     /* in this term; 0: it does not */
    uint64_t probe;     /* a leader's */
    bool has_heard[PAST_COPIES];
    uint64_t acknowledged[PAST_COPIES]; /* in this term */
};

static struct past_copy past[PAST_COPIES];
static sim_chance_fn *past_chance;
static uint32_t past_value;

/* ---- logs -------------------------------------------------------------------------------------- */

static uint64_t last_of(const struct past_copy *copy)
{
    return copy->disk->written.last;
}

static uint32_t term_of(const struct past_copy *copy, uint64_t index)
{
    return index && index <= last_of(copy) ? copy->disk->written.record[index - 1].term : 0;
}

static struct consensus_members members_now(const struct past_copy *copy)
{
    return sim_log_members(&copy->disk->written, last_of(copy));
}

static void sync_log(struct past_copy *copy)
{
    copy->disk->durable = copy->disk->written;
    copy->synced = last_of(copy);
}

static void write_one(struct past_copy *copy, uint32_t value, uint32_t members)
{
    struct sim_log *log = &copy->disk->written;
    uint32_t term = (uint32_t)copy->leads;
    CHECK(log->last < SIM_RECORDS_MAX);
    log->record[log->last++] = (struct sim_record){term, term, value, members};
    if (past_chance(3))
        sync_log(copy);
}

/* Has `candidate` all records that `voter` has? */
static bool is_as_long(const struct past_copy *candidate, const struct past_copy *voter)
{
    uint32_t theirs = term_of(candidate, last_of(candidate));
    uint32_t ours = term_of(voter, last_of(voter));
    return theirs > ours || (theirs == ours && last_of(candidate) >= last_of(voter));
}

/* ---- elections --------------------------------------------------------------------------------- */

static struct past_copy *copy_of(uint64_t id)
{
    return &past[id - 1];
}

static void follow_nobody(struct past_copy *copy)
{
    copy->leads = 0;
}

static void learn_term(struct past_copy *copy, uint64_t term)
{
    if (term <= copy->disk->term)
        return;
    follow_nobody(copy);
    copy->disk->term = term;
    copy->disk->vote = 0;
}

static bool would_grant(const struct past_copy *candidate, const struct past_copy *voter)
{
    return candidate == voter || (!voter->leads && is_as_long(candidate, voter) &&
                                  voter->disk->term <= candidate->disk->term);
}

static bool wins_pre_vote(const struct past_copy *candidate)
{
    struct consensus_members members = members_now(candidate);
    uint64_t granted[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < members.count; i++)
        granted[i] = would_grant(candidate, copy_of(members.list[i].id));
    return members_majority(&members, granted) > 0;
}

/* A voter that leads hears no votes. */
static bool gets_vote(struct past_copy *candidate, struct past_copy *voter)
{
    uint64_t term = candidate->disk->term;
    if (candidate == voter)
        return true;
    if (voter->leads || past_chance(3) == 0)
        return false;
    learn_term(voter, term);
    if (voter->disk->term != term || voter->disk->vote || !is_as_long(candidate, voter))
        return false;
    voter->disk->vote = candidate->disk->id;
    return true;
}

static void lead(struct past_copy *copy)
{
    copy->leads = copy->disk->term;
    copy->probe = last_of(copy) + 1;
    memset(copy->has_heard, 0, sizeof copy->has_heard);
    memset(copy->acknowledged, 0, sizeof copy->acknowledged);
    write_one(copy, 0, 0);
}

static void stand_for_term(struct past_copy *copy)
{
    struct consensus_members members = members_now(copy);
    uint64_t granted[CONSENSUS_MEMBERS_MAX] = {0};
    if (!members_has_voter(&members, copy->disk->id) || copy->leads || !wins_pre_vote(copy))
        return;
    copy->disk->term++;
    copy->disk->vote = copy->disk->id;
    for (unsigned i = 0; i < members.count; i++)
        granted[i] =
            members.list[i].kind == CONSENSUS_VOTER && gets_vote(copy, copy_of(members.list[i].id));
    if (members_majority(&members, granted))
        lead(copy);
}

/* ---- a leader ---------------------------------------------------------------------------------- */

/* Itself, too. */
static struct past_copy *any_member(const struct past_copy *leader)
{
    struct consensus_members members = members_now(leader);
    return copy_of(members.list[past_chance(members.count)].id);
}

/* The last record that may leave: a record of the members only when it is durable. */
static uint64_t end_of_sent(const struct past_copy *leader)
{
    uint64_t end = leader->synced;
    while (end < last_of(leader) && !leader->disk->written.record[end].members)
        end++;
    return end;
}

static uint64_t equal_up_to(const struct past_copy *one, const struct past_copy *other)
{
    uint64_t at = 0;
    while (at < last_of(one) && at < last_of(other) &&
           memcmp(&one->disk->written.record[at], &other->disk->written.record[at],
                  sizeof(struct sim_record)) == 0)
        at++;
    return at;
}

static void copy_records(struct past_copy *copy, const struct past_copy *leader, uint64_t from,
                         uint64_t end)
{
    struct sim_log *log = &copy->disk->written;
    CHECK(from >= copy->committed);
    memset(log->record + from, 0, (log->last - from) * sizeof *log->record);
    memcpy(log->record + from, leader->disk->written.record + from,
           (end - from) * sizeof *log->record);
    log->last = end;
    if (copy->synced > from)
        copy->synced = from;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void replicate(struct past_copy *leader, struct past_copy *copy)
{
    uint64_t equal = equal_up_to(leader, copy);
    uint64_t end = end_of_sent(leader);
    if (leader == copy || copy->disk->term > leader->leads || equal < leader->disk->base)
        return;
    learn_term(copy, leader->leads);
    uint64_t upto = equal + past_chance(end > equal ? end - equal + 1 : 1);
    upto = end > equal && past_chance(2) ? end : upto;
    if (upto > equal)
        copy_records(copy, leader, equal, upto);
    if (past_chance(3))
        sync_log(copy);
    leader->has_heard[copy - past] = true;
    leader->acknowledged[copy - past] = least_of(upto, copy->synced);
    uint64_t committed = least_of(leader->committed, leader->acknowledged[copy - past]);
    if (committed > copy->committed)
        copy->committed = committed;
}

static void commit_some(struct past_copy *leader)
{
    struct consensus_members members = members_now(leader);
    uint64_t have[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < members.count; i++) {
        const struct past_copy *copy = copy_of(members.list[i].id);
        have[i] = copy == leader ? leader->synced : leader->acknowledged[copy - past];
    }
    uint64_t index = least_of(leader->synced, members_majority(&members, have));
    if (index > leader->committed && term_of(leader, index) == leader->leads)
        leader->committed = index;
}

static bool takes_records(const struct past_copy *leader)
{
    return leader->leads && leader->committed >= leader->probe;
}

/* One member more, one less, or a learner that becomes a voter. */
static void draw_change(struct consensus_members *members)
{
    uint64_t id = 1 + past_chance(PAST_COPIES);
    unsigned at = members_find(members, id);
    if (at == MEMBER_NONE) {
        members->list[members->count++] = (struct consensus_member){id, CONSENSUS_LEARNER};
    } else if (members->list[at].kind == CONSENSUS_LEARNER && past_chance(4)) {
        members->list[at].kind = CONSENSUS_VOTER;
    } else {
        members->list[at] = members->list[--members->count];
        members->list[members->count] = (struct consensus_member){0};
    }
}

/* rule_may_change */
static bool may_become(const struct past_copy *leader, const struct consensus_members *before,
                       const struct consensus_members *members)
{
    uint64_t heard[CONSENSUS_MEMBERS_MAX] = {0};
    for (unsigned i = 0; i < members->count; i++) {
        const struct past_copy *copy = copy_of(members->list[i].id);
        bool is_new = members->list[i].kind == CONSENSUS_VOTER &&
                      !members_has_voter(before, members->list[i].id);
        heard[i] = copy == leader || leader->has_heard[copy - past];
        if (is_new && (!heard[i] || leader->acknowledged[copy - past] < leader->committed))
            return false;
    }
    return leader->committed >= before->index && members_are_valid(members) &&
           members_has_voter(members, leader->disk->id) && members_differ_by_one(before, members) &&
           members_majority(members, heard) > 0;
}

static void change_some_member(struct past_copy *leader)
{
    struct consensus_members before = members_now(leader);
    struct consensus_members members = before;
    draw_change(&members);
    if (!takes_records(leader) || !may_become(leader, &before, &members))
        return;
    members.index = 0;
    write_one(leader, ++past_value, sim_members_number(&members));
}

static void append_some(struct past_copy *leader)
{
    if (takes_records(leader))
        write_one(leader, ++past_value, 0);
}

/* rule_may_install */
static void install_at(struct past_copy *leader, struct past_copy *copy)
{
    uint64_t base = leader->disk->base;
    uint64_t index = base + past_chance(leader->committed - base + 1);
    if (!index || leader == copy || copy->disk->term > leader->leads)
        return;
    learn_term(copy, leader->leads);
    if (copy->committed >= index || term_of(copy, index) == term_of(leader, index))
        return;
    sim_copy_install(copy->disk, &leader->disk->written, index, copy->disk->term, copy->disk->vote);
    memset(copy->disk->written.record + index, 0,
           (SIM_RECORDS_MAX - index) * sizeof(struct sim_record));
    sync_log(copy);
    copy->committed = index;
}

/* ---- a copy ------------------------------------------------------------------------------------ */

static void crash_in_past(struct past_copy *copy, bool has_power)
{
    follow_nobody(copy);
    if (!has_power)
        copy->disk->written = copy->disk->durable;
    copy->committed = copy->disk->filed;
    sync_log(copy);
}

static void trim_some(struct past_copy *copy)
{
    struct sim_copy *disk = copy->disk;
    disk->filed += past_chance(copy->committed - disk->filed + 1);
    if (past_chance(2))
        disk->base += past_chance(disk->filed - disk->base + 1);
}

static void step_of_leader(struct past_copy *leader)
{
    switch (past_chance(12)) {
    case 0:
        follow_nobody(leader);
        break;
    case 1:
        append_some(leader);
        break;
    case 2:
    case 3:
        change_some_member(leader);
        break;
    case 4:
        install_at(leader, any_member(leader));
        break;
    case 5:
    case 6:
        commit_some(leader);
        break;
    default:
        replicate(leader, any_member(leader));
        break;
    }
}

static void step_of_past(struct past_copy *copy)
{
    uint64_t dice = past_chance(20);
    if (dice == 0)
        crash_in_past(copy, past_chance(2));
    else if (dice == 1)
        trim_some(copy);
    else if (copy->leads)
        step_of_leader(copy);
    else if (dice == 2)
        learn_term(copy, past[past_chance(PAST_COPIES)].disk->term);
    else if (dice < 8)
        stand_for_term(copy);
}

/* Most steps are those of leaders, so that the past has records. */
static struct past_copy *any_in_past(void)
{
    struct past_copy *copy = &past[past_chance(PAST_COPIES)];
    for (unsigned tries = 0; tries < 3 && !copy->leads; tries++)
        copy = &past[past_chance(PAST_COPIES)];
    return copy;
}

void sim_past_make(struct sim_copy copies[PAST_COPIES], unsigned steps, sim_chance_fn *chance)
{
    struct consensus_members members = {.epoch = 1};
    past_chance = chance;
    past_value = 0;
    members.count = (const unsigned[]){1, 2, 3, 3, 3, 4, 5}[chance(7)];
    for (unsigned i = 0; i < members.count; i++)
        members.list[i] = (struct consensus_member){i + 1, CONSENSUS_VOTER};
    for (unsigned i = 0; i < PAST_COPIES; i++) {
        sim_copy_new(&copies[i], i + 1, i < members.count ? &members : NULL);
        past[i] = (struct past_copy){
            .disk = &copies[i], .synced = copies[i].written.last, .committed = copies[i].filed};
    }
    while (steps-- > 0)
        step_of_past(any_in_past());
    for (unsigned i = 0; i < PAST_COPIES; i++)
        crash_in_past(&past[i], chance(2));
}
