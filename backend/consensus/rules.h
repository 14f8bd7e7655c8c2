/*
 * rules.h - the promises on which the safety of a group rests, each one a function that reads and changes nothing.
 *
 * The other files ask these; the tests replace them one at a time, and must find what breaks. Sections are those of
 * Ongaro's dissertation, "Consensus: Bridging Theory and Practice".
 */
#pragma once

#include "backend/consensus/consensus.h"

/* ---- votes ------------------------------------------------------------------------------------- */

/* After a start a copy grants nothing until then: it may have answered a leader just before, whose lease still holds (6.4.1). */
uint64_t rule_start_promise(const struct consensus *core, uint64_t now_us);
/* Must it refuse this VOTE without even taking over its term? So for E after it heard a leader (4.2.3), while it leads itself, but
 * not if the vote's mark counts. */
bool rule_is_bound(const struct consensus *core, const struct consensus_message *vote,
                   uint64_t now_us);
/* Has the leader of the voter's own term given up its lease for this candidate? For exactly the next term: a mark of any other term
 * says nothing about the leader that was heard last. */
bool rule_mark_counts(const struct consensus *core, const struct consensus_message *vote);
/* One vote a term (3.4), and only for a log that has all that this one has (3.6.1). What the copy's own record says of its kind does
 * not matter: it may not have the record of its promotion yet. */
bool rule_may_grant(const struct consensus *core, const struct consensus_message *vote);
/* The term in a refusal, which the candidate takes over: else two copies, one with the higher term and one with the longer log,
 * refuse each other for ever. */
uint64_t rule_refusal_term(const struct consensus *core, const struct consensus_message *vote);
/* May it stand at once because of a TRANSFER? Only for the term after the one in which it was sent. */
bool rule_obeys_hand_over(const struct consensus *core, const struct consensus_message *message);
/* May its votes have the mark though it got no TRANSFER? It led this term, and gave it up. */
bool rule_may_mark(const struct consensus *core);

/* ---- records ----------------------------------------------------------------------------------- */

/* Does a reply belong to this term of this leader? */
bool rule_reply_counts(const struct consensus *core, const struct consensus_message *reply);
/* How much of the own log counts: what is durable. */
uint64_t rule_own_copy(const struct consensus *core);
/* Up to where a follower says "durable and equal". */
uint64_t rule_acknowledged(const struct consensus *core);
/* A majority has the record: is it committed? Only if it is of the leader's own term (3.6.2). */
bool rule_term_counts(const struct consensus *core, uint64_t index);
/* A follower's commit index: not behind what equals the leader's log, and durable. */
uint64_t rule_commit_heard(const struct consensus *core);
/* May a leader's batch, closed in `term`, be appended? */
bool rule_takes_batch(const struct consensus *core, uint64_t term);
/* May a snapshot that was announced in `term` replace the log? Not a log that has the snapshot's last record: it may have acknowledged
 * what follows. */
bool rule_may_install(const struct consensus *core, uint64_t term, uint64_t index,
                      uint64_t index_term);

/* ---- members ----------------------------------------------------------------------------------- */

/* One change at a time, after a record of the own term (4.1, and the correction of 2015), by no older map; no voter that lags. */
bool rule_may_change(const struct consensus *core, const struct consensus_members *members);

/* ---- reading ----------------------------------------------------------------------------------- */

/* The time that a reply proves: when its message was sent, since the follower's promise began later. */
uint64_t rule_lease_sent(const struct consensus *core, const struct consensus_message *reply,
                         uint64_t now_us);
/* All records of earlier terms are committed when the own PROBE is. */
bool rule_is_serving(const struct consensus *core);
/* May there be a lease? Only when the owner of the data serves in this very term. */
bool rule_has_lease(const struct consensus *core);
