/*
 * core.h - functions that the files of the core share with each other. Callers of the core include consensus.h only.
 */
#pragma once

#include "backend/consensus/consensus.h"

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- consensus.c ------------------------------------------------------------------------------- */

/* Adds a message to the update, with kind, sender, receiver and term; the caller sets the other fields. */
struct consensus_message *core_send(const struct consensus *core, struct consensus_update *update,
                                    enum consensus_message_kind kind, uint64_t to);
/* Requests in the update that the caller saves the present term and vote. */
void core_save(struct consensus *core, struct consensus_update *update);
/* The time without a leader after which this copy begins an election: random between E and 1.5 E, and one E more in state BEHIND. */
uint64_t core_patience(struct consensus *core);
/* The time after which a candidate stands again whose votes are split: random and short, so that one candidate is ahead of the others by a
 * round of messages and a save. */
uint64_t core_split_patience(struct consensus *core);
uint64_t core_random(struct consensus *core, uint64_t below);
/* Makes this copy a follower that has no leader. */
void core_step_down(struct consensus *core, uint64_t now_us);
/* Takes over a higher term: steps down, forgets the vote of the old term, and saves term and vote. */
void core_take_over(struct consensus *core, uint64_t term, uint64_t now_us,
                    struct consensus_update *update);

/* ---- election.c -------------------------------------------------------------------------------- */

void election_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void election_vote(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                   struct consensus_update *update);
void election_vote_reply(struct consensus *core, const struct consensus_message *message,
                         uint64_t now_us, struct consensus_update *update);
void election_saved(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void election_transfer(struct consensus *core, uint64_t to, uint64_t now_us,
                       struct consensus_update *update);
/* If a transfer is under way: hands leadership over when its target has all records; gives the transfer up after E. */
void election_hand_over(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void election_handed_over(struct consensus *core, const struct consensus_message *message,
                          uint64_t now_us, struct consensus_update *update);

/* ---- append.c: a leader's side ----------------------------------------------------------------- */

void append_lead(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void append_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update);
/* Sends each member an APPEND, with the records that it may get now, or without records. */
void append_heartbeats(struct consensus *core, uint64_t now_us, struct consensus_update *update);
/* Adds the records up to `last` (a batch, or a record of the members) to the leader's log, and sends them. */
void append_own(struct consensus *core, uint64_t last, uint64_t now_us,
                struct consensus_update *update);
void append_reply(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                  struct consensus_update *update);
void append_snapshot_sent(struct consensus *core, uint64_t id, uint64_t index);
void append_went_back(struct consensus *core, uint64_t id, uint64_t index, uint64_t now_us);
/* Has the member answered within the last two E? */
bool append_is_heard(const struct consensus *core, uint64_t id);
/* Counts copies again. */
void append_advance(struct consensus *core);
/* The newest time at which a majority still followed this leader; `now_us` for a group of one. */
uint64_t append_confirmed(const struct consensus *core, uint64_t now_us);
/* No other copy can be elected before, since a majority has promised it; 0: at any time. */
uint64_t append_leased(const struct consensus *core, uint64_t now_us);

/* ---- follow.c: a follower's side --------------------------------------------------------------- */

void follow_append(struct consensus *core, const struct consensus_event *event,
                   struct consensus_update *update);
void follow_snapshot(struct consensus *core, const struct consensus_message *message,
                     uint64_t now_us, struct consensus_update *update);
/* To be called when the leader of this term was heard: promises it E without votes for others, and puts the next election off. */
void follow_hear(struct consensus *core, uint64_t now_us);
void follow_synced(struct consensus *core, struct consensus_update *update);
void follow_committed(struct consensus *core, uint64_t term, uint64_t index);
/* Removes all records behind `after` from what the core records of the log; the caller truncates the log itself. */
void follow_cut(struct consensus *core, uint64_t after);
