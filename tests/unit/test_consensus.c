/*
 * test_consensus.c - one copy's part in consensus, event by event; whole groups under failures are in tests/sim/test_consensus.c.
 */
#include "backend/consensus/consensus.h"
#include "backend/consensus/members.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { E = 500000, NOW = 1000000 };

static struct consensus core;
static struct consensus_update update;
static uint64_t now_us;

/* ---- a copy ------------------------------------------------------------------------------------ */

static struct consensus_members members_of(unsigned voters)
{
    struct consensus_members members = {.epoch = 1, .count = voters};
    for (unsigned i = 0; i < voters; i++)
        members.list[i] = (struct consensus_member){i + 1, CONSENSUS_VOTER};
    return members;
}

/* Copy 1 of a group of so many voters, with a log of `last` records of term 1, all synced. */
static void begin(unsigned voters, uint64_t last)
{
    const struct term_run run = {1, 1};
    struct consensus_start start = {
        .id = 1,
        .random = 7,
        .election_us = E,
        .window = 100,
        .term = last ? 1 : 0,
        .run = &run,
        .run_count = last > 0,
        .last = last,
        .synced = last,
        .members = members_of(voters),
        .members_before = members_of(voters),
    };
    now_us = NOW;
    consensus_init(&core, &start, now_us);
}

static void step(struct consensus_event event)
{
    event.now_us = now_us;
    consensus_step(&core, &event, &update);
}

static void tick(uint64_t after_us)
{
    now_us += after_us;
    step((struct consensus_event){.kind = CONSENSUS_TICK});
}

static void hear(struct consensus_message message)
{
    message.to = 1;
    step((struct consensus_event){.kind = CONSENSUS_MESSAGE, .message = &message});
}

static void saved(void)
{
    step((struct consensus_event){.kind = CONSENSUS_SAVED});
}

static void synced(uint64_t index)
{
    step((struct consensus_event){.kind = CONSENSUS_SYNCED, .index = index, .cuts = core.cuts});
}

static const struct consensus_message *sent(unsigned at)
{
    ck_assert_uint_lt(at, update.message_count);
    return &update.messages[at];
}

/* Copy 1 of three leads in the next term, and has asked both others to append its PROBE. */
static void lead(void)
{
    tick(2 * E);
    ck_assert_int_eq(update.role, CONSENSUS_PRE_CANDIDATE);
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = 2, .term = core.term + 1,
                                    .is_pre = true, .is_good = true});
    ck_assert_int_eq(update.role, CONSENSUS_CANDIDATE);
    ck_assert(update.has_save && update.save_vote == 1);
    saved();
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = 2, .term = core.term,
                                    .is_good = true});
    ck_assert_int_eq(update.role, CONSENSUS_LEADING);
    ck_assert_int_eq(update.append, CONSENSUS_APPEND_PROBE);
}

static void match(uint64_t from, uint64_t index, uint64_t sent_us)
{
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = from, .term = core.term,
                                    .is_good = true, .index = index, .sent_us = sent_us,
                                    .promise_us = E});
}

/* … and serves: copy 2 has all records. */
static void serve(void)
{
    lead();
    synced(core.last);
    match(2, core.last, now_us);
    ck_assert_int_eq(update.role, CONSENSUS_SERVING);
    step((struct consensus_event){.kind = CONSENSUS_SERVES, .term = core.term});
}

/* The leader 2 of `term` sends records of `records_term` behind the record `index`. */
static struct consensus_message append(uint64_t term, uint64_t index, uint64_t index_term,
                                       uint32_t count, uint64_t commit)
{
    return (struct consensus_message){CONSENSUS_APPEND,
                                      .from = 2,
                                      .term = term,
                                      .index = index,
                                      .index_term = index_term,
                                      .count = count,
                                      .records_term = count ? term : 0,
                                      .commit = commit,
                                      .sent_us = 77};
}

/* ---- elections --------------------------------------------------------------------------------- */

START_TEST(a_group_of_one_leads_when_its_vote_is_saved)
{
    begin(1, 0);
    tick(E - 1);
    ck_assert_int_eq(update.role, CONSENSUS_FOLLOWER);
    tick(E);
    ck_assert_int_eq(update.role, CONSENSUS_CANDIDATE);
    ck_assert(update.has_save && update.save_term == 1 && update.save_vote == 1);
    saved();
    ck_assert_int_eq(update.role, CONSENSUS_LEADING);
    ck_assert(update.append == CONSENSUS_APPEND_PROBE && update.append_first == 1);
    ck_assert_uint_eq(update.committed, 0);
    synced(1);
    ck_assert(update.role == CONSENSUS_SERVING && update.committed == 1);
    ck_assert_uint_eq(update.lease_until_us, 0);
    step((struct consensus_event){.kind = CONSENSUS_SERVES, .term = 1});
    ck_assert_uint_eq(update.lease_until_us, now_us + E * 4 / 5);
}
END_TEST

START_TEST(a_voter_is_silent_for_a_timeout_after_its_start)
{
    struct consensus_message vote = {CONSENSUS_VOTE, .from = 2, .term = 5, .index = 3,
                                     .index_term = 4};
    begin(3, 3);
    now_us += E - 1;
    hear(vote);
    ck_assert(!sent(0)->is_good && sent(0)->wait_us == 1 && !update.has_save);
    ck_assert_uint_eq(sent(0)->term, 1);
    now_us += 1;
    hear(vote);
    ck_assert(sent(0)->is_good && update.has_save && update.save_term == 5 &&
              update.save_vote == 2);
    vote.from = 3;
    hear(vote);
    ck_assert(!sent(0)->is_good && !update.has_save);
}
END_TEST

START_TEST(a_voter_that_hears_a_leader_grants_only_marked_votes)
{
    struct consensus_message vote = {CONSENSUS_VOTE, .from = 3, .term = 3, .index = 9,
                                     .index_term = 2};
    begin(3, 3);
    now_us += E;
    hear(append(2, 3, 1, 0, 0));
    hear(vote);
    ck_assert(!sent(0)->is_good && sent(0)->wait_us == E && update.term == 2);
    vote.is_marked = true;
    vote.term = 4;
    hear(vote);
    ck_assert(!sent(0)->is_good && update.term == 2);
    vote.term = 3;
    hear(vote);
    ck_assert(sent(0)->is_good && update.term == 3);
}
END_TEST

START_TEST(a_shorter_log_is_refused_with_the_voters_term)
{
    begin(3, 3);
    now_us += E;
    hear((struct consensus_message){CONSENSUS_VOTE, .from = 2, .term = 1, .is_pre = true,
                                    .index = 3, .index_term = 1});
    ck_assert(!sent(0)->is_good && sent(0)->term == 1);
    hear((struct consensus_message){CONSENSUS_VOTE, .from = 2, .term = 2, .index = 2,
                                    .index_term = 1});
    ck_assert(!sent(0)->is_good && sent(0)->term == 2 && update.save_vote == 0);
}
END_TEST

START_TEST(a_candidate_takes_over_the_term_of_a_refusal)
{
    begin(3, 3);
    tick(2 * E);
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = 2, .term = 6, .is_pre = true});
    ck_assert(update.term == 6 && update.has_save);
    tick(0);
    ck_assert(sent(0)->is_pre && sent(0)->term == 7);
}
END_TEST

START_TEST(a_late_refusal_of_a_pre_vote_ends_no_candidacy)
{
    begin(5, 3);
    tick(2 * E);
    for (uint64_t from = 2; from <= 3; from++)
        hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = from, .term = 2,
                                        .is_pre = true, .is_good = true});
    ck_assert_int_eq(update.role, CONSENSUS_CANDIDATE);
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = 4, .term = 1, .is_pre = true,
                                    .wait_us = 1});
    tick(2);
    ck_assert_int_eq(update.role, CONSENSUS_CANDIDATE);
}
END_TEST

static void answer_vote_of(uint64_t from, bool is_pre, bool is_good)
{
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = from, .term = 2, .is_pre = is_pre,
                                    .is_good = is_good});
}

/* Copy 2 grants the pre-vote, and then has voted for itself. */
static void split_votes(void)
{
    begin(3, 3);
    tick(2 * E);
    answer_vote_of(2, true, true);
    ck_assert_int_eq(update.role, CONSENSUS_CANDIDATE);
    saved();
}

START_TEST(split_votes_stand_again_soon_though_the_old_leader_is_gone)
{
    split_votes();
    answer_vote_of(2, false, false);
    ck_assert_uint_le(consensus_next_us(&core), now_us + E / 4);
    tick(E / 4);
    ck_assert(update.role == CONSENSUS_PRE_CANDIDATE && sent(0)->is_pre && sent(0)->term == 3);
}
END_TEST

START_TEST(votes_are_not_split_while_one_may_still_come)
{
    split_votes();
    answer_vote_of(3, true, true);
    answer_vote_of(2, false, false);
    ck_assert_uint_ge(consensus_next_us(&core), now_us + E);
    answer_vote_of(3, false, false);
    ck_assert_uint_le(consensus_next_us(&core), now_us + E / 4);
}
END_TEST

START_TEST(a_copy_that_was_silent_before_may_vote)
{
    split_votes();
    answer_vote_of(3, false, true);
    ck_assert_int_eq(update.role, CONSENSUS_LEADING);
}
END_TEST

START_TEST(a_group_that_was_just_founded_waits_for_no_promise)
{
    const struct consensus_start start = {.id = 1,
                                          .random = 42,
                                          .election_us = E,
                                          .has_promised_nothing = true,
                                          .window = 4,
                                          .term = 1,
                                          .vote = 1,
                                          .members = members_of(1)};
    now_us = NOW;
    consensus_init(&core, &start, now_us);
    ck_assert_uint_eq(consensus_next_us(&core), now_us);
    tick(0);
    saved();
    ck_assert(update.role == CONSENSUS_LEADING && update.term == 2);
}
END_TEST

START_TEST(a_copy_that_is_behind_stands_later_though_the_leaders_connection_broke)
{
    begin(3, 3);
    step((struct consensus_event){.kind = CONSENSUS_STATE, .state = CONSENSUS_BEHIND});
    hear(append(2, 3, 1, 0, 0));
    step((struct consensus_event){.kind = CONSENSUS_DISCONNECTED, .id = 2});
    tick(2 * E - 1);
    ck_assert_int_eq(update.role, CONSENSUS_FOLLOWER);
    tick(E / 10 + 1);
    ck_assert_int_eq(update.role, CONSENSUS_PRE_CANDIDATE);
}
END_TEST

START_TEST(a_leader_without_a_majority_steps_down)
{
    begin(3, 3);
    serve();
    tick(E - 1);
    ck_assert_int_eq(update.role, CONSENSUS_SERVING);
    tick(1);
    ck_assert(update.role == CONSENSUS_FOLLOWER && update.lease_until_us == 0);
}
END_TEST

START_TEST(a_term_that_no_election_can_have_given_is_not_taken_over)
{
    const uint64_t far = (uint64_t)1 << 32;
    begin(3, 3);
    now_us += 2 * E;
    hear((struct consensus_message){CONSENSUS_VOTE, .from = 2, .term = far + 1, .index_term = far});
    hear((struct consensus_message){CONSENSUS_APPEND, .from = 2, .term = UINT64_MAX / 2});
    hear((struct consensus_message){CONSENSUS_VOTE_REPLY, .from = 2, .term = far + 1});
    ck_assert_uint_eq(core.term, 1);
    ck_assert_uint_eq(core.leader, 0);
    hear((struct consensus_message){CONSENSUS_APPEND, .from = 2, .term = far});
    ck_assert_uint_eq(core.term, far);
    ck_assert_uint_eq(core.leader, 2);
}
END_TEST

START_TEST(a_leader_grants_nothing)
{
    begin(3, 3);
    serve();
    hear((struct consensus_message){CONSENSUS_VOTE, .from = 3, .term = core.term + 1,
                                    .is_marked = true, .index = 99, .index_term = core.term});
    ck_assert(!sent(0)->is_good && update.role == CONSENSUS_SERVING);
}
END_TEST

START_TEST(leadership_is_handed_over_when_the_target_has_all)
{
    begin(3, 3);
    serve();
    step((struct consensus_event){.kind = CONSENSUS_APPENDED, .term = 2, .index = 5});
    step((struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = 2});
    ck_assert(!update.is_refused && update.role == CONSENSUS_SERVING);
    step((struct consensus_event){.kind = CONSENSUS_APPENDED, .term = 2, .index = 6});
    ck_assert(update.is_refused);
    synced(5);
    match(2, 5, now_us);
    ck_assert(update.role == CONSENSUS_FOLLOWER && update.lease_until_us == 0);
    ck_assert_int_eq(sent(update.message_count - 1)->kind, CONSENSUS_HAND_OVER);
    tick(E); /* no copy leads: it stands itself */
    ck_assert(sent(0)->is_marked && !sent(0)->is_pre && sent(0)->term == 3);
    tick(2 * E);
    ck_assert(sent(0)->is_pre && !sent(0)->is_marked);
}
END_TEST

START_TEST(a_late_transfer_is_void)
{
    struct consensus_message transfer = {CONSENSUS_HAND_OVER, .from = 2, .term = 2};
    begin(3, 3);
    hear(append(2, 3, 1, 0, 0));
    hear(transfer);
    ck_assert(update.role == CONSENSUS_CANDIDATE && sent(0)->is_marked && sent(0)->term == 3);
    hear(transfer);
    ck_assert_uint_eq(update.term, 3);
}
END_TEST

/* ---- records ----------------------------------------------------------------------------------- */

START_TEST(records_of_earlier_terms_are_not_counted)
{
    begin(3, 3);
    lead();
    match(2, 3, now_us);
    ck_assert_uint_eq(update.committed, 0);
    match(2, 4, now_us);
    ck_assert_uint_eq(update.committed, 0); /* its own copy is not synced */
    synced(4);
    ck_assert_uint_eq(update.committed, 4);
}
END_TEST

START_TEST(a_new_leader_sends_its_record_at_once)
{
    begin(3, 300); /* more than the window: what the others have is not known yet */
    lead();
    ck_assert(sent(0)->index == 300 && sent(0)->count == 1);
}
END_TEST

START_TEST(a_heartbeat_commits_only_what_matches)
{
    begin(3, 3); /* its record 3 is not the leader's */
    hear(append(2, 2, 1, 0, 3));
    ck_assert(sent(0)->is_good && sent(0)->index == 2 && update.committed == 2);
    hear(append(2, 3, 2, 0, 3));
    ck_assert(!sent(0)->is_good && sent(0)->hint == 2 && sent(0)->sent_us == 0);
    ck_assert_uint_eq(update.committed, 2);
}
END_TEST

START_TEST(what_the_leader_says_outside_of_the_log_commits_only_what_matches_in_its_term)
{
    begin(3, 3);
    const struct consensus_event said = {.kind = CONSENSUS_COMMITTED, .term = 2, .index = 4};
    step(said); /* no leader of the term was heard */
    ck_assert_uint_eq(update.committed, 0);
    hear(append(2, 2, 1, 0, 0));
    step((struct consensus_event){.kind = CONSENSUS_COMMITTED, .term = 1, .index = 3});
    ck_assert_uint_eq(update.committed, 0);
    step(said);
    ck_assert_uint_eq(update.committed, 2);
    hear(append(2, 2, 1, 2, 0)); /* the rest comes */
    synced(4);
    ck_assert_uint_eq(update.committed, 4);
}
END_TEST

START_TEST(records_that_differ_are_cut_and_acknowledged_when_synced)
{
    begin(3, 3);
    hear(append(2, 1, 1, 3, 4));
    ck_assert(update.has_truncate && update.truncate_after == 1);
    ck_assert(update.append == CONSENSUS_APPEND_RECORDS && update.append_first == 2 &&
              update.append_last == 4);
    ck_assert(update.message_count == 0 && update.committed == 1);
    step((struct consensus_event){.kind = CONSENSUS_SYNCED, .index = 3, .cuts = 0});
    ck_assert_uint_eq(update.message_count, 0); /* a sync from before the cut */
    synced(4);
    ck_assert(sent(0)->is_good && sent(0)->index == 4 && update.committed == 4);
    hear(append(2, 1, 1, 3, 4)); /* doubled */
    ck_assert(update.append == CONSENSUS_APPEND_NONE && sent(0)->index == 4);
}
END_TEST

START_TEST(another_record_where_one_is_committed_ends_the_process)
{
    begin(3, 3);
    hear(append(2, 3, 1, 0, 3));
    ck_assert_uint_eq(update.committed, 3);
    hear(append(3, 2, 1, 1, 3));
    ck_assert_int_eq(update.fault, CONSENSUS_CUTS_COMMITTED);
}
END_TEST

START_TEST(a_refusal_of_an_old_term_says_nothing_about_the_log)
{
    begin(3, 3);
    hear(append(2, 3, 1, 0, 0));
    hear(append(1, 3, 1, 0, 0));
    ck_assert(!sent(0)->is_good && sent(0)->term == 2);
    ck_assert(sent(0)->index == 0 && sent(0)->hint == 0);
}
END_TEST

START_TEST(a_leader_of_two_terms_announces_no_snapshot_for_a_refusal_of_the_first)
{
    begin(3, 3);
    serve();
    step((struct consensus_event){.kind = CONSENSUS_TRIMMED, .index = 3});
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 3, .term = 2});
    ck_assert_uint_eq(update.message_count, 0);
}
END_TEST

START_TEST(a_batch_of_another_term_is_refused)
{
    begin(3, 3);
    serve();
    step((struct consensus_event){.kind = CONSENSUS_APPENDED, .term = 1, .index = 5});
    ck_assert(update.is_refused && core.last == 4);
    step((struct consensus_event){.kind = CONSENSUS_APPENDED, .term = 2, .index = 5});
    ck_assert(!update.is_refused && core.last == 5);
    ck_assert(sent(0)->count == 1 && sent(0)->index == 4); /* to 2; 3 has not replied yet */
    ck_assert_uint_eq(update.message_count, 1);
}
END_TEST

START_TEST(a_member_that_lacks_what_is_trimmed_gets_a_snapshot)
{
    begin(3, 3);
    serve();
    step((struct consensus_event){.kind = CONSENSUS_TRIMMED, .index = 3});
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 3, .term = 2, .index = 3,
                                    .hint = 1});
    ck_assert(sent(0)->kind == CONSENSUS_SNAPSHOT && sent(0)->index == 3);
    step((struct consensus_event){.kind = CONSENSUS_SNAPSHOT_SENT, .id = 3, .index = 3});
    tick(E / 5);
    ck_assert(sent(1)->to == 3 && sent(1)->index == 3 && sent(1)->count == 1);
}
END_TEST

START_TEST(a_snapshot_takes_no_place_of_its_own_last_record)
{
    begin(3, 3);
    ck_assert(!consensus_may_install(&core, 1, 2, 1));
    ck_assert(consensus_may_install(&core, 1, 9, 1));
    ck_assert(!consensus_may_install(&core, 2, 9, 1));
}
END_TEST

START_TEST(the_lease_begins_when_the_message_was_sent)
{
    begin(3, 3);
    serve();
    uint64_t first_us = now_us;
    now_us += E / 10;
    match(2, 4, first_us + 5);
    ck_assert_uint_eq(update.lease_until_us, first_us + 5 + E * 4 / 5);
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 3, .term = 1, .is_good = true,
                                    .index = 1, .sent_us = now_us + 10 * E});
    ck_assert_uint_eq(update.lease_until_us, first_us + 5 + E * 4 / 5);
}
END_TEST

START_TEST(the_lease_is_no_longer_than_what_followers_promise)
{
    begin(3, 3);
    lead();
    synced(core.last);
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 2, .term = 2, .is_good = true,
                                    .index = core.last, .sent_us = now_us, .promise_us = E / 2});
    step((struct consensus_event){.kind = CONSENSUS_SERVES, .term = core.term});
    ck_assert_uint_eq(update.lease_until_us, now_us + E / 2 * 4 / 5);
    match(3, core.last, now_us);
    ck_assert_uint_eq(update.lease_until_us, now_us + E * 4 / 5);
}
END_TEST

START_TEST(a_follower_says_how_long_it_grants_nothing)
{
    begin(3, 3);
    hear(append(2, 3, 1, 0, 0));
    ck_assert(sent(0)->is_good && sent(0)->promise_us == E);
}
END_TEST

/* ---- members ----------------------------------------------------------------------------------- */

static void change(struct consensus_members members)
{
    step((struct consensus_event){
        .kind = CONSENSUS_MEMBERS, .term = core.term, .members = &members});
}

START_TEST(members_change_one_at_a_time)
{
    struct consensus_members four = members_of(4), five = members_of(5);
    begin(3, 3);
    serve();
    change(four);
    ck_assert(update.is_refused); /* it would vote, and has nothing */
    four.list[3].kind = five.list[3].kind = five.list[4].kind = CONSENSUS_LEARNER;
    change(five);
    ck_assert(update.is_refused);
    four.epoch = 0;
    change(four);
    ck_assert(update.is_refused);
    four.epoch = 2;
    change(four);
    ck_assert(!update.is_refused && core.last == 5 && core.members.count == 4);
    five.epoch = 2;
    change(five);
    ck_assert(update.is_refused);
    synced(5);
    match(2, 5, now_us);
    change(five);
    ck_assert(!update.is_refused);
}
END_TEST

START_TEST(members_change_after_a_record_of_the_own_term)
{
    struct consensus_members four = members_of(4);
    begin(3, 3);
    lead();
    synced(4);
    four.list[3].kind = CONSENSUS_LEARNER;
    change(four);
    ck_assert(update.is_refused);
    match(2, 3, now_us);
    change(four);
    ck_assert(update.is_refused);
    match(2, 4, now_us);
    change(four);
    ck_assert(!update.is_refused);
}
END_TEST

START_TEST(a_learner_is_promoted_when_it_has_caught_up)
{
    struct consensus_members four = members_of(4);
    begin(3, 3);
    serve();
    four.list[3].kind = CONSENSUS_LEARNER;
    change(four);
    synced(5);
    match(2, 5, now_us);
    four.list[3].kind = CONSENSUS_VOTER;
    change(four);
    ck_assert(update.is_refused);
    match(4, 5, now_us);
    change(four);
    ck_assert(!update.is_refused);
    synced(6);
    match(2, 6, now_us);
    ck_assert_uint_eq(update.committed, 5); /* three of four */
    match(4, 6, now_us);
    ck_assert_uint_eq(update.committed, 6);
}
END_TEST

/* A group of copy 1 and a learner, which has the log up to its record, 5. */
static void lead_a_learner(void)
{
    struct consensus_members two = members_of(2);
    begin(1, 3);
    tick(2 * E);
    saved();
    synced(4);
    two.list[1].kind = CONSENSUS_LEARNER;
    change(two);
    synced(5);
    match(2, 5, now_us);
}

START_TEST(a_learner_whose_disk_was_set_back_gets_records_again)
{
    lead_a_learner();
    step((struct consensus_event){.kind = CONSENSUS_WENT_BACK, .id = 2, .index = 3});
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 2, .term = core.term,
                                    .index = 5, .hint = 3});
    ck_assert(sent(0)->kind == CONSENSUS_APPEND && sent(0)->index == 3 && sent(0)->count > 0);
}
END_TEST

/* The reply of the process before the restart comes on its own connection, behind the news from the next one. */
START_TEST(a_late_reply_of_a_learner_does_not_undo_that_its_disk_was_set_back)
{
    lead_a_learner();
    step((struct consensus_event){.kind = CONSENSUS_WENT_BACK, .id = 2, .index = 3});
    match(2, 5, now_us);
    hear((struct consensus_message){CONSENSUS_APPEND_REPLY, .from = 2, .term = core.term,
                                    .index = 5, .hint = 3});
    ck_assert(sent(0)->kind == CONSENSUS_APPEND && sent(0)->index == 3 && sent(0)->count > 0);
    match(2, 5, now_us + 1);
    ck_assert_uint_eq(core.progress[1].match, 5);
}
END_TEST

START_TEST(a_learner_that_is_silent_is_not_promoted)
{
    struct consensus_members two = members_of(2);
    lead_a_learner();
    for (unsigned i = 0; i < 3; i++)
        tick(E);
    ck_assert_int_eq(update.role, CONSENSUS_SERVING);
    change(two);
    ck_assert(update.is_refused); /* nothing could be committed any more */
    match(2, 5, now_us);
    change(two);
    ck_assert(!update.is_refused);
}
END_TEST

/* … and serves for 3 E, in which copy 3 is silent. */
static void serve_without_one(void)
{
    serve();
    for (unsigned i = 0; i < 15; i++) {
        match(2, core.last, now_us);
        tick(E / 5);
    }
}

START_TEST(a_voter_that_is_needed_is_not_removed)
{
    struct consensus_members rest = members_of(3);
    begin(3, 3);
    serve_without_one();
    rest.list[1] = rest.list[--rest.count];
    change(rest);
    ck_assert(update.role == CONSENSUS_SERVING && update.is_refused);
    change(members_of(2));
    ck_assert(!update.is_refused);
}
END_TEST

START_TEST(leadership_is_not_handed_over_to_a_silent_copy)
{
    begin(3, 3);
    serve_without_one();
    step((struct consensus_event){.kind = CONSENSUS_TRANSFER, .id = 3});
    ck_assert(update.is_refused && update.role == CONSENSUS_SERVING);
}
END_TEST

START_TEST(a_cut_record_of_members_ends_its_force)
{
    struct consensus_members two = members_of(2);
    struct consensus_message message = append(2, 3, 1, 1, 0);
    begin(3, 3);
    two.index = 4;
    message.to = 1;
    step((struct consensus_event){.kind = CONSENSUS_MESSAGE, .message = &message, .members = &two});
    ck_assert_uint_eq(core.members.count, 2);
    message = append(3, 3, 1, 1, 0);
    message.from = 3;
    hear(message);
    ck_assert(update.has_truncate && core.members.count == 3);
}
END_TEST

START_TEST(members_of_an_unknown_kind_end_the_process)
{
    struct consensus_members three = members_of(3);
    struct consensus_message message = append(2, 3, 1, 1, 0);
    begin(3, 3);
    three.index = 4;
    three.list[2].kind = CONSENSUS_WITNESS;
    message.to = 1;
    step((struct consensus_event){
        .kind = CONSENSUS_MESSAGE, .message = &message, .members = &three});
    ck_assert_int_eq(update.fault, CONSENSUS_UNKNOWN_KIND);
}
END_TEST

START_TEST(a_majority_is_more_than_half)
{
    const uint64_t values[CONSENSUS_MEMBERS_MAX] = {5, 9, 7, 3, 1};
    struct consensus_members members = members_of(5);
    ck_assert_uint_eq(members_majority(&members, values), 5);
    members.count = 4;
    ck_assert_uint_eq(members_majority(&members, values), 5);
    members.list[3].kind = CONSENSUS_LEARNER;
    ck_assert_uint_eq(members_majority(&members, values), 7);
    members.count = 2;
    ck_assert_uint_eq(members_majority(&members, values), 5);
}
END_TEST

/* ---- terms ------------------------------------------------------------------------------------- */

START_TEST(terms_of_records_are_runs)
{
    struct term_runs runs;
    term_runs_init(&runs, 7, 3);
    term_runs_append(&runs, 8, 3);
    term_runs_append(&runs, 10, 4);
    term_runs_append(&runs, 12, 6);
    ck_assert_uint_eq(term_runs_at(&runs, 6), 0);
    ck_assert_uint_eq(term_runs_at(&runs, 9), 3);
    ck_assert_uint_eq(term_runs_at(&runs, 11), 4);
    ck_assert_uint_eq(term_runs_last_of(&runs, 8, 13), 9);
    ck_assert_uint_eq(term_runs_last_of(&runs, 12, 13), 13);
    ck_assert_uint_eq(term_runs_first_of(&runs, 11), 10);
    term_runs_cut(&runs, 11);
    ck_assert(runs.count == 2 && term_runs_last(&runs) == 4);
    term_runs_cut(&runs, 9);
    ck_assert_uint_eq(runs.count, 1);
    term_runs_append(&runs, 10, 9);
    term_runs_trim(&runs, 11);
    ck_assert(term_runs_base(&runs) == 11 && term_runs_at(&runs, 11) == 9 && runs.count == 1);
}
END_TEST

START_TEST(the_oldest_run_makes_room_if_it_is_committed)
{
    struct term_runs runs;
    term_runs_init(&runs, 0, 0);
    for (uint64_t i = 1; i < TERM_RUNS_MAX; i++)
        term_runs_append(&runs, i, i);
    ck_assert(!term_runs_has_room(&runs, 500, 0));
    ck_assert(term_runs_has_room(&runs, TERM_RUNS_MAX - 1, 0));
    ck_assert(term_runs_has_room(&runs, 500, 1));
    term_runs_append(&runs, 500, 500);
    ck_assert_uint_eq(term_runs_base(&runs), 1);
}
END_TEST

/* A log whose every record has a term of its own. */
static struct consensus_start start_with_terms(unsigned count, uint64_t committed)
{
    static struct term_run runs[2 * TERM_RUNS_MAX];
    for (unsigned i = 0; i < count; i++)
        runs[i] = (struct term_run){i + 1, i + 1};
    return (struct consensus_start){.id = 1,
                                    .election_us = E,
                                    .window = 100,
                                    .run = runs,
                                    .run_count = count,
                                    .last = count,
                                    .synced = count,
                                    .committed = committed,
                                    .members = members_of(3)};
}

START_TEST(a_start_forgets_old_terms_that_are_committed)
{
    enum { LAST = 2 * TERM_RUNS_MAX };
    struct consensus_start start = start_with_terms(LAST, LAST - 10);
    consensus_init(&core, &start, NOW);
    ck_assert(core.term == LAST && consensus_term_at(&core, LAST - 10) == LAST - 10);
    ck_assert_uint_le(term_runs_base(&core.runs), core.committed);
}
END_TEST

START_TEST(records_of_too_many_terms_are_replaced_and_followed)
{
    enum { LAST = TERM_RUNS_MAX - 1 };
    struct consensus_message message = append(200, LAST, LAST, 1, 50);
    struct consensus_start start = start_with_terms(LAST, 0);
    consensus_init(&core, &start, NOW);
    now_us = NOW;
    hear(message); /* no room for its record yet */
    ck_assert(update.append == CONSENSUS_APPEND_NONE && update.committed == 50);
    ck_assert(sent(0)->is_good && sent(0)->index == LAST);
    hear(message);
    ck_assert(update.append == CONSENSUS_APPEND_RECORDS && update.append_first == LAST + 1);
    consensus_init(&core, &start, NOW);
    hear(append(200, 1, 1, 1, 0)); /* replaces all but the first one */
    ck_assert(update.has_truncate && update.truncate_after == 1 && update.append_first == 2);
}
END_TEST

START_TEST(a_start_with_too_many_terms_that_are_not_committed_ends)
{
    struct consensus_start start = start_with_terms(TERM_RUNS_MAX + 1, 1);
    consensus_init(&core, &start, NOW);
}
END_TEST

/* ---- bytes of messages ------------------------------------------------------------------------- */

static const struct consensus_message EXAMPLES[] = {
    {CONSENSUS_VOTE, 1, 2, 9, .is_pre = true, .index = 7, .index_term = 8},
    {CONSENSUS_VOTE, 1, 2, 9, .is_marked = true, .index = 7, .index_term = 8},
    {CONSENSUS_VOTE_REPLY, 1, 2, 9, .is_good = true},
    {CONSENSUS_VOTE_REPLY, 1, 2, 9, .wait_us = 300},
    {CONSENSUS_APPEND, 1, 2, 9, .index = 7, .index_term = 8, .commit = 3, .sent_us = 5},
    {CONSENSUS_APPEND, 1, 2, 9, .index = 7, .index_term = 8, .records_term = 9, .count = 4},
    {CONSENSUS_APPEND_REPLY, 1, 2, 9, .is_good = true, .index = 7, .promise_us = 5, .state = 1},
    {CONSENSUS_APPEND_REPLY, 1, 2, 9, .index = 7, .hint = 4},
    {CONSENSUS_SNAPSHOT, 1, 2, 9, .index = 7, .index_term = 8},
    {CONSENSUS_HAND_OVER, 1, 2, .term = 9},
};
enum { EXAMPLE_COUNT = sizeof EXAMPLES / sizeof *EXAMPLES };

START_TEST(messages_are_read_as_they_were_written)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX + 1];
    char again[CONSENSUS_MESSAGE_BYTES_MAX];
    struct consensus_message message;
    unsigned len = consensus_message_write(&EXAMPLES[_i], bytes);
    struct bytes rest = {bytes, len + 1};
    ck_assert(consensus_message_read(&rest, &message));
    ck_assert_uint_eq(rest.len, 1);
    ck_assert_uint_eq(consensus_message_write(&message, again), len);
    ck_assert_mem_eq(again, bytes, len);
    ck_assert(message.kind == EXAMPLES[_i].kind && message.term == 9 && message.from == 1 &&
              message.index == EXAMPLES[_i].index && message.hint == EXAMPLES[_i].hint &&
              message.count == EXAMPLES[_i].count && message.wait_us == EXAMPLES[_i].wait_us &&
              message.is_pre == EXAMPLES[_i].is_pre && message.is_good == EXAMPLES[_i].is_good);
}
END_TEST

START_TEST(cut_messages_are_refused)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    unsigned len = consensus_message_write(&EXAMPLES[_i], bytes);
    for (unsigned cut = 0; cut < len; cut++) {
        struct guard guard;
        struct consensus_message message;
        guard_init(&guard, bytes, cut);
        struct bytes rest = {guard.data, guard.len};
        ck_assert(!consensus_message_read(&rest, &message));
        guard_fini(&guard);
    }
}
END_TEST

START_TEST(a_vote_has_these_bytes)
{
    static const char GOLDEN[] = "\1\2\0"
                                 "\1\0\0\0\0\0\0\0"
                                 "\2\0\0\0\0\0\0\0"
                                 "\11\0\0\0\0\0\0\0"
                                 "\7\0\0\0\0\0\0\0"
                                 "\10\0\0\0\0\0\0\0";
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    ck_assert_uint_eq(consensus_message_write(&EXAMPLES[1], bytes), sizeof GOLDEN - 1);
    ck_assert_mem_eq(bytes, GOLDEN, sizeof GOLDEN - 1);
}
END_TEST

START_TEST(a_refusal_of_a_copy_without_a_term_can_be_read)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    struct consensus_message message;
    begin(3, 0);
    hear((struct consensus_message){CONSENSUS_VOTE, .from = 2, .term = 1, .is_pre = true});
    ck_assert(!sent(0)->is_good && sent(0)->term == 0);
    struct bytes rest = {bytes, consensus_message_write(sent(0), bytes)};
    ck_assert(consensus_message_read(&rest, &message));
}
END_TEST

static const struct consensus_message BAD[] = {
    {CONSENSUS_VOTE, 0, 2, 9, .index_term = 8},
    {CONSENSUS_VOTE, 2, 2, 9, .index_term = 8},
    {CONSENSUS_VOTE, 1, 2, .term = 0},
    {CONSENSUS_VOTE, 1, 2, 7, .index_term = 8},
    {CONSENSUS_VOTE, 1, 2, 9, .is_good = true},
    {CONSENSUS_VOTE, 1, 2, 9, .is_pre = true, .is_marked = true},
    {CONSENSUS_VOTE, 1, 2, 9, .index = UINT64_MAX},
    {CONSENSUS_VOTE, 1, 2, .term = UINT64_MAX},
    {CONSENSUS_APPEND, 1, 2, 9, .count = 1},
    {CONSENSUS_APPEND, 1, 2, 9, .records_term = 1},
    {CONSENSUS_APPEND, 1, 2, 9, .count = 1, .records_term = 10},
    {CONSENSUS_APPEND, 1, 2, 9, .count = 1, .records_term = 3, .index_term = 4},
    {CONSENSUS_APPEND, 1, 2, 9, .count = CONSENSUS_RECORDS_MAX + 1, .records_term = 9},
    {CONSENSUS_APPEND_REPLY, 1, 2, 9, .state = 16},
    {CONSENSUS_APPEND_REPLY, 1, 2, .term = 0},
    {CONSENSUS_VOTE_REPLY, 1, 2, .term = 0, .is_good = true},
    {CONSENSUS_HAND_OVER, 1, 2, 9, .state = 1},
};
enum { BAD_COUNT = sizeof BAD / sizeof *BAD };

START_TEST(values_that_no_member_sends_are_refused)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    struct consensus_message message;
    struct bytes rest = {bytes, consensus_message_write(&BAD[_i], bytes)};
    ck_assert(!consensus_message_read(&rest, &message));
}
END_TEST

static void add_bytes(TCase *tcase)
{
    tcase_add_loop_test(tcase, messages_are_read_as_they_were_written, 0, EXAMPLE_COUNT);
    tcase_add_loop_test(tcase, cut_messages_are_refused, 0, EXAMPLE_COUNT);
    tcase_add_test(tcase, a_vote_has_these_bytes);
    tcase_add_test(tcase, a_refusal_of_a_copy_without_a_term_can_be_read);
    tcase_add_loop_test(tcase, values_that_no_member_sends_are_refused, 0, BAD_COUNT);
}

static void add_elections(TCase *tcase)
{
    tcase_add_test(tcase, a_group_of_one_leads_when_its_vote_is_saved);
    tcase_add_test(tcase, a_voter_is_silent_for_a_timeout_after_its_start);
    tcase_add_test(tcase, a_voter_that_hears_a_leader_grants_only_marked_votes);
    tcase_add_test(tcase, a_shorter_log_is_refused_with_the_voters_term);
    tcase_add_test(tcase, a_candidate_takes_over_the_term_of_a_refusal);
    tcase_add_test(tcase, a_late_refusal_of_a_pre_vote_ends_no_candidacy);
    tcase_add_test(tcase, split_votes_stand_again_soon_though_the_old_leader_is_gone);
    tcase_add_test(tcase, votes_are_not_split_while_one_may_still_come);
    tcase_add_test(tcase, a_copy_that_was_silent_before_may_vote);
    tcase_add_test(tcase, a_group_that_was_just_founded_waits_for_no_promise);
    tcase_add_test(tcase, a_copy_that_is_behind_stands_later_though_the_leaders_connection_broke);
    tcase_add_test(tcase, a_leader_without_a_majority_steps_down);
    tcase_add_test(tcase, a_leader_grants_nothing);
    tcase_add_test(tcase, a_term_that_no_election_can_have_given_is_not_taken_over);
    tcase_add_test(tcase, leadership_is_handed_over_when_the_target_has_all);
    tcase_add_test(tcase, a_late_transfer_is_void);
}

static void add_records(TCase *tcase)
{
    tcase_add_test(tcase, records_of_earlier_terms_are_not_counted);
    tcase_add_test(tcase, a_new_leader_sends_its_record_at_once);
    tcase_add_test(tcase, a_heartbeat_commits_only_what_matches);
    tcase_add_test(tcase,
                   what_the_leader_says_outside_of_the_log_commits_only_what_matches_in_its_term);
    tcase_add_test(tcase, records_that_differ_are_cut_and_acknowledged_when_synced);
    tcase_add_test(tcase, another_record_where_one_is_committed_ends_the_process);
    tcase_add_test(tcase, a_refusal_of_an_old_term_says_nothing_about_the_log);
    tcase_add_test(tcase, a_leader_of_two_terms_announces_no_snapshot_for_a_refusal_of_the_first);
    tcase_add_test(tcase, a_batch_of_another_term_is_refused);
    tcase_add_test(tcase, a_member_that_lacks_what_is_trimmed_gets_a_snapshot);
    tcase_add_test(tcase, a_learner_whose_disk_was_set_back_gets_records_again);
    tcase_add_test(tcase, a_late_reply_of_a_learner_does_not_undo_that_its_disk_was_set_back);
    tcase_add_test(tcase, a_snapshot_takes_no_place_of_its_own_last_record);
    tcase_add_test(tcase, the_lease_begins_when_the_message_was_sent);
    tcase_add_test(tcase, the_lease_is_no_longer_than_what_followers_promise);
    tcase_add_test(tcase, a_follower_says_how_long_it_grants_nothing);
    tcase_add_test(tcase, terms_of_records_are_runs);
    tcase_add_test(tcase, the_oldest_run_makes_room_if_it_is_committed);
    tcase_add_test(tcase, a_start_forgets_old_terms_that_are_committed);
    tcase_add_test(tcase, records_of_too_many_terms_are_replaced_and_followed);
    tcase_add_test_raise_signal(tcase, a_start_with_too_many_terms_that_are_not_committed_ends,
                                SIGABRT);
}

static void add_members(TCase *tcase)
{
    tcase_add_test(tcase, members_change_one_at_a_time);
    tcase_add_test(tcase, members_change_after_a_record_of_the_own_term);
    tcase_add_test(tcase, a_learner_is_promoted_when_it_has_caught_up);
    tcase_add_test(tcase, a_learner_that_is_silent_is_not_promoted);
    tcase_add_test(tcase, a_voter_that_is_needed_is_not_removed);
    tcase_add_test(tcase, leadership_is_not_handed_over_to_a_silent_copy);
    tcase_add_test(tcase, a_cut_record_of_members_ends_its_force);
    tcase_add_test(tcase, members_of_an_unknown_kind_end_the_process);
    tcase_add_test(tcase, a_majority_is_more_than_half);
}

int main(void)
{
    Suite *suite = suite_create("consensus");
    TCase *tcase = tcase_create("consensus");
    add_elections(tcase);
    add_records(tcase);
    add_members(tcase);
    add_bytes(tcase);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
