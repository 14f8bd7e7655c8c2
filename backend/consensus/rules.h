/*
 * rules.h - the promises on which the safety of a group rests, each one a function that reads and changes nothing.
 *
 * The other files call these. The tests replace one at a time by a wrong rule, and must detect what that breaks. Numbers in
 * parentheses are sections of Ongaro's dissertation, "Consensus: Bridging Theory and Practice".
 *
 * A candidate stands: it begins an election for the next term. The mark of a VOTE means that the leader of the term before has given
 * up its lease for this candidate, so a voter need not keep its promise to that leader.
 */
#pragma once

#include "backend/consensus/consensus.h"

/* ---- terms ------------------------------------------------------------------------------------- */

/* May the message be of a copy that obeys? Terms grow by one with an election: a term that is 2^32 ahead is a damaged or forged one, and
 * whoever took it over would soon have used up all terms. */
bool rule_is_term_near(const struct consensus *core, const struct consensus_message *message);

/* ---- votes ------------------------------------------------------------------------------------- */

/* The time until which a copy grants no vote after a start: just before the start it may have answered a leader whose lease still
 * holds (6.4.1). */
uint64_t rule_start_promise(const struct consensus *core, uint64_t now_us);
/* Must this copy refuse the VOTE without even taking over its term? Always while it leads; else for E after it has heard a leader
 * (4.2.3), unless the vote's mark counts. */
bool rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                   uint64_t now_us);
/* Has the leader of the voter's own term given up its lease for this candidate? A mark counts only in a vote for the next term: in
 * another term it is about another leader than the one that this copy has heard last. */
bool rule_mark_counts(const struct consensus *core, const struct consensus_message *vote);
/* May this copy vote for the candidate? Once in a term (3.4), and only if the candidate's log has all records of this one (3.6.1). A
 * copy that is a learner by its own record of the members votes too: it may not have the record yet that makes it a voter. */
bool rule_may_grant(const struct consensus *core, const struct consensus_message *vote);
/* The term that a refusal has, and that the candidate takes over. Without this, two copies, one with the higher term and one with the
 * longer log, would refuse each other for ever. */
uint64_t rule_refusal_term(const struct consensus *core, const struct consensus_message *vote);
/* May this copy stand at once because of a HAND_OVER? Only if the message is of the present term and its leader. */
bool rule_obeys_hand_over(const struct consensus *core, const struct consensus_message *message);
/* May this copy send votes with the mark though it got no HAND_OVER? Only if it led this term itself and has handed leadership over. */
bool rule_may_mark(const struct consensus *core);

/* ---- records ----------------------------------------------------------------------------------- */

/* Does a reply belong to this term of this leader? */
bool rule_reply_counts(const struct consensus *core, const struct consensus_message *reply);
/* The last record of the leader's own log that counts as its copy: the last durable one. */
uint64_t rule_own_copy(const struct consensus *core);
/* The last record that a follower acknowledges: up to it, its log is durable and equals the leader's. */
uint64_t rule_acknowledged(const struct consensus *core);
/* Is a record that a majority has committed? Only if it is of the leader's own term (3.6.2); it commits those before. */
bool rule_term_counts(const struct consensus *core, uint64_t index);
/* A follower's commit index: the leader's, but at most the last record that is durable here and equals the leader's. */
uint64_t rule_commit_heard(const struct consensus *core);
/* May a leader's batch, closed in `term`, be appended? */
bool rule_takes_batch(const struct consensus *core, uint64_t term);
/* May a snapshot that was announced in `term` replace the log? Not if the log has the snapshot's last record: this copy may have
 * acknowledged the records behind it. */
bool rule_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                      uint64_t index_term);

/* ---- members ----------------------------------------------------------------------------------- */

/* One change at a time, after a record of the own term (4.1, and the correction of 2015), by no older map; no voter that lags, and
 * most voters are heard. */
bool rule_may_change(const struct consensus *core, const struct consensus_members *members);

/* ---- reading ----------------------------------------------------------------------------------- */

/* The time at which a reply proves that the member followed: when the message that it answers was sent, since the member's promise
 * began after that. */
uint64_t rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                         uint64_t now_us);
/* How long after that time a lease may last, if the follower promises to grant nothing for `promise_us`: it may have another E than this
 * copy, while an operator changes it. */
uint64_t rule_lease_us(const struct consensus *core, uint64_t promise_us);
/* All records of earlier terms are committed when the own PROBE is. */
bool rule_is_serving(const struct consensus *core);
/* May the leader have a lease? Only when the owner of the data has reported (SERVES) that it serves in this very term. */
bool rule_has_lease(const struct consensus *core);
