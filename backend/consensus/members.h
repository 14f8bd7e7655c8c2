/*
 * members.h - the members of a group by the newest record: which of them vote, what a majority has, and one change at a time.
 *
 * Changes are of single members, so that any majority before and any majority after a change have a member in common. Two records
 * are kept, the newest and the one before: the newest may be cut with the tail of the log, the one before is committed.
 */
#pragma once

#include "backend/consensus/consensus.h"

enum { MEMBER_NONE = CONSENSUS_MEMBERS_MAX };

/* The place of the id in the list; MEMBER_NONE: it is not a member. */
unsigned members_find(const struct consensus_members *members, uint64_t id);
bool members_has_voter(const struct consensus_members *members, uint64_t id);
/* The greatest value that a majority of the voters has reached; values[i] is that of members->list[i]. */
uint64_t members_majority(const struct consensus_members *members,
                          const uint64_t values[CONSENSUS_MEMBERS_MAX]);
/* Known kinds, no id twice, and a voter. */
bool members_are_valid(const struct consensus_members *members);
/* Is exactly one member added, removed, or of another kind? */
bool members_differ_by_one(const struct consensus_members *a, const struct consensus_members *b);
/* Puts an appended record of the members in force. */
void members_append(struct consensus *core, const struct consensus_members *members,
                    uint64_t now_us);
/* The log was cut: if the newest record was behind `after`, the one before it is in force. */
void members_cut(struct consensus *core, uint64_t after);
