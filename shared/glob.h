/*
 * glob.h - Redis' pattern language: * ? [a-z] [^a-z] and \ to escape; bytes, not characters.
 *
 *   glob_match(pattern, text)                                     one text; short patterns are not compiled
 *   glob_new(arena, pattern) ─► glob_fits(glob, text) ─► …        one pattern, many texts
 *   globs_new(arena, patterns) ─► globs_fit(globs, name) ─► …     many patterns, many names
 */
#pragma once

#include "shared/arena.h"
#include "shared/bytes.h"

/* Longest pattern that a client may send, unless the pattern is literal. Matching a text then costs at most its
 * length times GLOB_PATTERN_MAX / 64 steps. */
enum { GLOB_PATTERN_MAX = 16 * 1024 };

/* No name of a command or option is longer. */
enum { GLOB_NAME_MAX = 255 };

struct glob;
struct globs;

bool glob_match(struct bytes pattern, struct bytes text);
bool glob_match_nocase(struct bytes pattern, struct bytes text);
/* True when the pattern has no special character, so that it matches only itself. */
bool glob_is_literal(struct bytes pattern);
/* Length of the part before the first special character: all texts that the pattern matches begin with this part. */
size_t glob_plain_length(struct bytes pattern);
/* The length of the shortest text that the pattern can match, or `enough` if it is longer; then the rest of the pattern is not read. */
size_t glob_text_min(struct bytes pattern, size_t enough);
/* Is the pattern short enough to be accepted from a client? */
static inline bool glob_is_bounded(struct bytes pattern)
{
    return pattern.len <= GLOB_PATTERN_MAX || glob_is_literal(pattern);
}

/* Compiles the pattern into the arena; `pattern` may be freed afterwards. */
struct glob *glob_new(struct arena *arena, struct bytes pattern, bool nocase);
/* Like glob_match. Allocates tables in the arena on first use. */
bool glob_fits(struct glob *glob, struct bytes text);

/* Asked while a long text is searched, with the work of the next steps in units of 10 ns. False ends the search, and nothing matches. */
typedef bool glob_goes_on_fn(void *owner, size_t work);
void glob_ask(struct glob *glob, glob_goes_on_fn *goes_on, void *owner);
/* glob_match that asks. */
bool glob_match_asking(struct bytes pattern, struct bytes text, glob_goes_on_fn *goes_on,
                       void *owner);

/* Several patterns for names; those that match only longer texts are left out. */
struct globs *globs_new(struct arena *arena, const struct bytes *patterns, uint32_t count,
                        bool nocase);
/* Does the name match one of the patterns? */
bool globs_fit(struct globs *globs, struct bytes name);
