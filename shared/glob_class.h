/*
 * glob_class.h - a [class] of a pattern as a set of bytes; for glob.c and glob_compiled.c.
 */
#pragma once

#include "shared/bytes.h"

struct glob_set {
    uint64_t bits[4];
};

static inline void glob_set_add(struct glob_set *set, uint8_t byte)
{
    set->bits[byte / 64] |= 1ULL << byte % 64;
}

static inline bool glob_set_has(const struct glob_set *set, uint8_t byte)
{
    return set->bits[byte / 64] >> byte % 64 & 1;
}

/* Redis compares signed bytes. */
signed char glob_fold(char c, bool nocase);
/* The class whose '[' stands before *at. Moves *at behind it. */
struct glob_set glob_read_class(struct bytes pattern, size_t *at, bool nocase);
