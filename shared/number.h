/*
 * number.h - text to numbers and back, with exactly Redis' rules (util.c: string2ll, ld2string ...).
 */
#pragma once

#include "shared/bytes.h"

enum {
    INT64_TEXT_MAX = 21, /* "-9223372036854775808" and one spare byte */
    DOUBLE_TEXT_MAX = 128,
    LONG_DOUBLE_TEXT_MAX = 5 * 1024,
};

/* The whole text must be a number of at most 20 characters without spaces, '+' or leading zeros. */
bool number_parse_int64(struct bytes text, int64_t *value);
bool number_parse_uint64(struct bytes text, uint64_t *value); /* same rules, unsigned */
/* Redis' getDoubleFromObject: the whole text, no leading space, no nan; inf is allowed, overflow to inf is not. */
bool number_parse_double(struct bytes text, double *value);
/* Redis' getLongDoubleFromObject; nan is refused. */
bool number_parse_long_double(struct bytes text, long double *value);
/* The functions below write text without a terminator and return its length. */
size_t number_format_int64(char *to, int64_t value); /* to: INT64_TEXT_MAX */
/* "%.17g", integers without exponent, inf / -inf, as Redis 7.0 prints scores. to: DOUBLE_TEXT_MAX. */
size_t number_format_double(char *to, double value);
/* "%.17Lf" without trailing zeros (LD_STR_HUMAN). to: LONG_DOUBLE_TEXT_MAX. */
size_t number_format_long_double(char *to, long double value);
