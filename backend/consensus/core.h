/*
 * core.h - what the files of the core call of each other.
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

/* A message of this update to a member, with its head filled in. */
struct consensus_message *core_send(const struct consensus *core, struct consensus_update *update,
                                    enum consensus_message_kind kind, uint64_t to);
/* Term and vote are to be saved. */
void core_save(struct consensus *core, struct consensus_update *update);
/* A random time from E to 1.5 E, from which this copy stands. */
uint64_t core_patience(struct consensus *core);
uint64_t core_random(struct consensus *core, uint64_t below);
/* Has no leader in this term, and leads no longer. */
void core_step_down(struct consensus *core, uint64_t now_us);
/* A higher term was seen. */
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
/* The transfer, if there is one, ends when its target has all records. */
void election_hand_over(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void election_handed_over(struct consensus *core, const struct consensus_message *message,
                          uint64_t now_us, struct consensus_update *update);

/* ---- append.c: a leader's side ----------------------------------------------------------------- */

void append_lead(struct consensus *core, uint64_t now_us, struct consensus_update *update);
void append_tick(struct consensus *core, uint64_t now_us, struct consensus_update *update);
/* To each member an APPEND, with records if it may get some. */
void append_heartbeats(struct consensus *core, uint64_t now_us, struct consensus_update *update);
/* A batch or a record of the members is appended, up to `last`. */
void append_own(struct consensus *core, uint64_t last, uint64_t now_us,
                struct consensus_update *update);
void append_reply(struct consensus *core, const struct consensus_message *message, uint64_t now_us,
                  struct consensus_update *update);
void append_snapshot_sent(struct consensus *core, uint64_t id, uint64_t index);
/* Counts copies again. */
void append_advance(struct consensus *core);
/* The newest time at which a majority followed; `now_us` for a group of one. */
uint64_t append_confirmed(const struct consensus *core, uint64_t now_us);

/* ---- follow.c: a follower's side --------------------------------------------------------------- */

void follow_append(struct consensus *core, const struct consensus_event *event,
                   struct consensus_update *update);
void follow_snapshot(struct consensus *core, const struct consensus_message *message,
                     uint64_t now_us, struct consensus_update *update);
/* The leader of this term is alive. */
void follow_hear(struct consensus *core, uint64_t now_us);
void follow_synced(struct consensus *core, struct consensus_update *update);
/* Forgets all records behind `after`. */
void follow_cut(struct consensus *core, uint64_t after);
