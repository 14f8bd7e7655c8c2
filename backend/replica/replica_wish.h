/*
 * replica_wish.h - the next single change of a group's members towards its shard map.
 *
 *   map: a b c       a voter │                       b waits, empty   ─► b learner
 *                    a voter │ b learner             c waits, empty   ─► c learner
 *                    a voter │ b learner │ c learner b, c caught up   ─► b voter    both are, before the first is one: of two voters
 *                    a voter │ b voter   │ c learner                  ─► c voter    none may be lost
 *   map: a c d       a, b, c voters                  d waits, empty   ─► d learner ─► d voter ─► without b     its successor is first
 *   map: a b c       a, b, c voters                  at b's address another disk waits, empty  ─► without b ─► the new one is a learner …
 *
 * The map is what the operator wishes, and the newest record of the members is what is. Pure: what a leader sees is copied into struct
 * replica_wish. The core has the last word on a change (rule_may_change).
 */
#pragma once

#include "backend/replica/replica_links.h"
#include "backend/replica/replica_members.h"

/* An address of the map, as the leader sees it. */
struct replica_wished {
    const char *address;
    const struct replica_hello *hello; /* what the copy there has said last; NULL: nothing */
};

struct replica_wish {
    const struct replica_members *members;
    uint64_t own;    /* id of the leader */
    bool has_voters; /* else the leader stays the only voter */
    uint64_t epoch;  /* of the map */
    unsigned count;  /* of its addresses; 0: it does not have the shard, and nothing is wished */
    struct replica_wished places[REPLICA_ADDRESSES_MAX];
    bool is_caught_up[MEMBERS_MAX]; /* of members->named.list */
};

/* Fills *to with the members after the next change; false: there is none to be made now. The addresses are borrowed. */
bool replica_wish_next(const struct replica_wish *wish, struct members *to);
/* The member that is to lead, since the leader's own address is gone from the map; 0: none. It hands over as soon as a voter
 * of the map has all: a map keeps one voter at least, since copies that are all new would found a group. */
uint64_t replica_wish_successor(const struct replica_wish *wish);
unsigned replica_wish_voters(const struct replica_wish *wish);
/* Are most addresses of the map those of voters? */
bool replica_wish_has_most(const struct replica_wish *wish);
