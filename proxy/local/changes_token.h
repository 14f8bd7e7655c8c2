/*
 * changes_token.h - how far a client has read the changes of all shards, as text: the token of SCREE CHANGES READ.
 *
 *   1,a=3f9c01a27be45d10.812.88a1c0ffee000001.0,b=…,?00ab…,#00ab…,*0.9007199254740994.5f0c….0-99+300-400
 *   │ └ shard and position in its log               └ sum of the slots' owners (changes_slots.h)
 *   └ version                                                      └ while keys are copied: database, cursor of SCAN, sum of the filter, and
 *                                                                    the slots, if these are not all
 *
 * The positions come from the shards; the proxy only passes them on. A shard of the map that the token
 * does not have has joined since, and is read from the first batch of its log.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/shard_map.h"
#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

enum { CHANGES_POSITION_MAX = 96 };

struct changes_part {
    char name[SHARD_NAME_MAX + 1];
    char position[CHANGES_POSITION_MAX + 1]; /* empty: the beginning of its log */
};

/* Keys that exist are being listed: of this database, from this cursor on. */
struct changes_copy {
    bool is_on;
    uint8_t database;
    uint64_t cursor; /* of SCAN through the proxy */
    uint64_t filter; /* of the options: others would list other keys */
    bool is_part;    /* only of these slots */
    bool is_in[SLOT_COUNT];
};

/* Sums over all shards of which slots each owned (slot_table_sum), when a round was at the end of all logs; 0: not known. `settled` was equal in
 * two rounds one after the other, so all positions are behind a moment at which the slots had these owners. */
struct changes_owners {
    uint64_t seen;
    uint64_t settled;
};

struct changes_token {
    struct changes_copy copy;
    struct changes_owners owners;
    char removed[SHARD_NAME_MAX + 1]; /* a shard that is not among the parts; empty: none */
    uint32_t count;
    struct changes_part *parts; /* of all shards of the map, in its order */
};

/* Reads a token into the parts, whose names are set. False: the text is no token. */
bool changes_token_read(struct bytes text, struct changes_token *token);
/* Sets the position of a part. False: it is too long. */
bool changes_part_set(struct changes_part *part, struct bytes position);
void changes_token_write(const struct changes_token *token, struct out *out);
