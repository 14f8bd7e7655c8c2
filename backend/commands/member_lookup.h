/*
 * member_lookup.h - finds members in a set or sorted set that are sought in byte order, as those of another collection come.
 *
 *   sought   a     c  d        g      a few times fewer than rows: one iterator passes over the rows
 *   rows     a  b  c  d  e  f  g  h
 *
 *   sought   c        r               far fewer: each is looked up by its key
 *   rows     a  b  c  d  e  ……  z
 *
 * A step of an iterator is about ten times cheaper than a lookup.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct member_lookup {
    struct call *call;
    struct entry *entry; /* borrowed */
    bool is_stepping;
    bool is_begun; /* the iterator was opened */
    bool is_open;  /* and is not yet closed */
    bool has_row;  /* `it` is at a row */
    struct sub_iter it;
};

/* `sought`: how many members will be sought, at most. The entry may be that of a missing key. */
void member_lookup_init(struct member_lookup *lookup, struct call *call, struct entry *entry,
                        uint64_t sought);
/* As sub_get() in CF_DATA. Each member comes behind the one before. The value is borrowed until the next call. */
int member_lookup_find(struct member_lookup *lookup, struct bytes member, struct bytes *value);
/* False: the call has failed. No effects may be made before. */
bool member_lookup_fini(struct member_lookup *lookup);
