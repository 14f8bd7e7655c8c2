/*
 * glob.h - Redis' pattern language: * ? [a-z] [^a-z] and \ to escape; bytes, not characters.
 */
#pragma once

#include "shared/bytes.h"

/* Linear in practice: a run of stars counts as one, and backtracking is bounded to the last star. */
bool glob_match(struct bytes pattern, struct bytes text);
bool glob_match_nocase(struct bytes pattern, struct bytes text);
/* True when the pattern has no special character: it matches itself only. */
bool glob_is_literal(struct bytes pattern);
