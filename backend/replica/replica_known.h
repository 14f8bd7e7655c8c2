/*
 * replica_known.h - what the copies of a group know of each other, so that a disk which was set back to an older state is noticed.
 *
 *   leader a   acknowledged by b and committed: 70 ── REPLICA_KNOWN {b, start 4, 70} ──► c keeps it, too
 *   b          its disk is yesterday's: start 3, log up to 40  ── hello ──► a or c:  "you had start 4 and 70"  ─► b is LOST
 *
 * What is known is true for ever: numbers of starts grow, and a committed record is in every log that had it. So it may come late or
 * twice. A copy that says more than is true would make others LOST: what it says of them counts only while it leads. It is kept in memory only. A copy that has just started votes when a majority has said hello, and thereby
 * what they know about it; a disk that went back is missed only if all that know better are gone at the same time.
 */
#pragma once

#include "backend/replica/replica_message.h"

#include <stdbool.h>

/* All zero: nothing is known. */
struct replica_known {
    unsigned count;
    struct replica_known_copy copies[REPLICA_KNOWN_MAX];
};

/* Adds what was heard of the copy; what is older than known changes nothing. With all places taken by others it is forgotten. True: it was
 * new. */
bool replica_known_add(struct replica_known *known, const struct replica_known_copy *heard);
/* Forgets all copies but those with these ids. */
void replica_known_keep(struct replica_known *known, const uint64_t *ids, unsigned count);
/* What is known of the copy; all zero: nothing. */
struct replica_known_copy replica_known_of(const struct replica_known *known, uint64_t id);
/* Is this copy, with these numbers, an older state of what others know? */
bool replica_known_is_newer(const struct replica_known_copy *known, uint64_t starts, uint64_t run,
                            uint64_t last);
