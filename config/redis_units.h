/*
 * redis_units.h - our options under Redis' names, with Redis' units, words and error texts.
 *
 *   idle-timeout = 90s       CONFIG GET timeout ─► "90"            CONFIG SET timeout x ─► argument couldn't be parsed …
 *   log-level = info         CONFIG GET loglevel ─► "notice"
 *   durability = os          CONFIG GET appendfsync ─► "no"
 */
#pragma once

#include "config/option.h"

/* A size as Redis reads it: 100, 1k (1000), 1kb (1024), 2m, 2mb, 3g, 3gb, 5b; without digits 0. What does not fit is
 * UINT64_MAX (in Redis the product with the unit overflows). */
bool redis_bytes(struct bytes text, uint64_t *bytes);
/* Redis' error for the value of maxmemory-clients, which is a size or a percentage such as 5%; NULL: it has this form. */
const char *redis_refuse_percent(struct bytes text);
/* Is it a percentage, not a size? */
bool redis_is_percent(struct bytes text);
/* The option's value: seconds, bytes, Redis' words. Borrowed: points into `buffer` or into `owner`'s member. */
struct bytes redis_option_text(const struct option *option, const void *owner,
                               char buffer[OPTION_TEXT_MAX]);
/* Sets the option from a value in Redis' units. False: unchanged, and Redis' error text is in reason[size]. */
bool redis_option_set(const struct option *option, void *owner, struct bytes value, char *reason,
                      size_t size);
