/*
 * glob.h - Redis' pattern language: * ? [a-z] [^a-z] and \ to escape; bytes, not characters.
 *
 *   glob_match(pattern, text)                                     one text; short patterns are not compiled
 *   glob_new(arena, pattern) ─► glob_fits(glob, text) ─► …        one pattern, many texts
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

/* Longest pattern that a client may send, unless it is literal. Bounds the work for a text to the text's length times
 * GLOB_PATTERN_MAX / 64. */
enum { GLOB_PATTERN_MAX = 16 * 1024 };

struct glob;

bool glob_match(struct bytes pattern, struct bytes text);
bool glob_match_nocase(struct bytes pattern, struct bytes text);
/* True when the pattern has no special character: it matches itself only. */
bool glob_is_literal(struct bytes pattern);
/* May a client use it? */
static inline bool glob_is_bounded(struct bytes pattern)
{
    return pattern.len <= GLOB_PATTERN_MAX || glob_is_literal(pattern);
}

/* Compiles the pattern into the arena; `pattern` itself is not needed afterwards. */
struct glob *glob_new(struct arena *arena, struct bytes pattern, bool nocase);
/* Like glob_match. Makes tables in the arena when it first needs them. */
bool glob_fits(struct glob *glob, struct bytes text);
