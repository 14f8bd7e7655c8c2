/*
 * name_range.h - ranges of names in the order of their bytes: members of sorted sets, fields of hashes.
 *
 *   [name  an end, included        (name  an end, excluded        -  before the first name        +  after the last name
 */
#pragma once

#include "shared/bytes.h"

#define NAME_RANGE_INVALID "ERR min or max not valid string range item"

/* An end of the range. */
struct name_end {
    int side; /* -1: before all members, 1: after all members, 0: at the member */
    struct bytes member;
    bool is_open; /* the member itself is excluded */
};

/* Parses an end, whose name is borrowed from `text`. Returns false if the text is not valid. */
bool name_end_parse(struct bytes text, struct name_end *end);
/* Is the name not below a range that begins here, or not above one that ends here? */
bool name_reaches(struct bytes name, const struct name_end *from);
bool name_within(struct bytes name, const struct name_end *to);
/* Can no name lie between these two ends? Then nothing needs to be read. */
bool names_are_empty(const struct name_end *from, const struct name_end *to);
