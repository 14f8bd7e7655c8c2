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

static inline void glob_set_remove(struct glob_set *set, uint8_t byte)
{
    set->bits[byte / 64] &= ~(1ULL << byte % 64);
}

static inline bool glob_set_has(const struct glob_set *set, uint8_t byte)
{
    return set->bits[byte / 64] >> byte % 64 & 1;
}

/* Adds the bytes `from` to `to`, in the order of unsigned bytes; none if `to` is less. */
static inline void glob_set_add_range(struct glob_set *set, uint8_t from, uint8_t to)
{
    for (unsigned i = from / 64; i <= to / 64u && from <= to; i++) {
        uint64_t word = ~0ULL;
        if (i == from / 64u)
            word &= ~0ULL << from % 64;
        if (i == to / 64u)
            word &= ~0ULL >> (63 - to % 64);
        set->bits[i] |= word;
    }
}

/* The byte as Redis compares it: signed, and in lower case when `nocase`. */
signed char glob_fold(char c, bool nocase);
/* Reads the class whose '[' is before *at. Advances *at to after the class. */
struct glob_set glob_read_class(struct bytes pattern, size_t *at, bool nocase);
