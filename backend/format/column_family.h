/*
 * column_family.h - the column families of a store. Their numbers are on disk (effects.h): a new one goes after the
 * others.
 */
#pragma once

#include <stdbool.h>

enum cf {
    CF_SYSTEM,     /* counters, database map, batch header, slot records, functions */
    CF_METADATA,   /* one row per key */
    CF_DATA,       /* rows of collections */
    CF_ZSET_SCORE, /* score | member */
    CF_STREAM,     /* stream entries */
    CF_RANK,       /* counts of blocks of rows */
    CF_EXPIRE,     /* expiry index */
    CF_COUNT,
};

/* Do its rows belong to collections? Then their keys begin with the collection's prefix (encoding.h). */
static inline bool cf_has_collections(enum cf cf)
{
    return cf == CF_DATA || cf == CF_ZSET_SCORE || cf == CF_STREAM || cf == CF_RANK;
}
