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

/* The byte as Redis compares it: signed, and in lower case when `nocase`. */
signed char glob_fold(char c, bool nocase);
/* Reads the class whose '[' is before *at. Advances *at to after the class. */
struct glob_set glob_read_class(struct bytes pattern, size_t *at, bool nocase);
