/*
 * replica_members.h - the members of a copy's group with their addresses, as the newest record in its log has them, and the next single
 * change towards the shard map.
 *
 *   log      MEMBERS {1 a:1 voter, 2 b:1 learner}     map: a:1, b:1, c:1
 *                                                     hello of c:1: id 3, EMPTY ─► proposal {1, 2, 3 c:1 learner}
 */
#pragma once

#include "backend/format/members_row.h"

struct replica_hello;

/* Not to be copied: the addresses lie in the struct itself. */
struct replica_members {
    struct members named; /* count 0: none */
    char addresses[MEMBERS_MAX][MEMBER_ADDRESS_MAX];
};

/* Are the two addresses one? As in shard maps, case does not count. */
bool replica_address_equal(struct bytes a, struct bytes b);
/* Copies the members with their addresses. */
void replica_members_set(struct replica_members *members, const struct members *from);
/* Takes those of a record of type MEMBERS. False: it cannot be read, and nothing changes. */
bool replica_members_read(struct replica_members *members, struct bytes record);
/* The address of the member; empty: it is not one. */
struct bytes replica_members_address(const struct replica_members *members, uint64_t id);
bool replica_members_has(const struct replica_members *members, uint64_t id);
/* The only voter is `id`. */
bool replica_members_is_alone(const struct replica_members *members, uint64_t id);
/* Fills *to with these members and, as a learner, the copy that said hello, for a map of `epoch`; false: it is a member already, it may
 * not join, its address is that of a member, or there is no room. `again`: so may one of the group that is no member. The addresses are
 * borrowed. */
bool replica_members_with(const struct replica_members *members, const struct replica_hello *hello,
                          uint64_t epoch, bool again, struct members *to);
/* Fills *to with these members but `id`, which is one of them, for a map of `epoch`. The addresses are borrowed. */
void replica_members_without(const struct replica_members *members, uint64_t id, uint64_t epoch,
                             struct members *to);
