/*
 * members_row.h - the row 'g' (CF_SYSTEM): the members of the group of copies that a store belongs to. A record of type MEMBERS
 * (effects.h) writes it.
 *
 *   u8 1 | u32 generation | u64 group | u64 map epoch | u8 n | per member: u64 id, u8 kind, u8 length, address
 *
 * A group is founded once and has a random number. Its generation is 8 times the seconds since 2026, plus the copy's place in the map, and
 * is raised to that again when an operator makes a copy a group of its own. So groups of one origin differ, and the later one has the
 * higher generation. The map epoch is that of the shard map which asked for these members: a change for an older map is refused. Ids are
 * random, and are not used again.
 *
 * Integers are big-endian. A store without the row has one copy.
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define SYSTEM_MEMBERS "g"

enum {
    MEMBERS_MAX = 8,
    MEMBER_ADDRESS_MAX = 255,
};

enum member_kind {
    MEMBER_VOTER = 1,
    MEMBER_LEARNER = 2, /* has the data, and no vote */
    MEMBER_WITNESS = 3, /* votes, and has the log only */
};

struct member {
    uint64_t id; /* not 0 */
    enum member_kind kind;
    struct bytes address; /* host:port, not empty; when it is read: borrowed from the row */
};

struct members {
    uint32_t generation;
    uint64_t group; /* not 0 */
    uint64_t epoch; /* of the map */
    unsigned count;
    struct member list[MEMBERS_MAX];
};

struct bytes members_row_write(struct arena *arena, const struct members *members);
/* False: the bytes are no such row: among others without a member, with an id twice, or with an unknown kind. */
bool members_row_read(struct bytes row, struct members *members);
/* Reads the row that a record of type MEMBERS writes; addresses are borrowed from the record. False: it writes none that can be read. */
bool members_of_record(struct bytes record, struct members *members);
