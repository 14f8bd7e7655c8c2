/*
 * number.h - text to numbers and back, exactly as strict as Redis (util.c: string2ll, ld2string ...).
 */
#pragma once

#include "shared/bytes.h"

enum {
    INT64_TEXT_MAX = 21, /* "-9223372036854775808" and a spare byte */
    DOUBLE_TEXT_MAX = 128,
    LONG_DOUBLE_TEXT_MAX = 5 * 1024,
};

/* No spaces, no '+', no leading zeros, the whole text, at most 20 characters. */
bool number_parse_int64(struct bytes text, int64_t *value);
bool number_parse_uint64(struct bytes text, uint64_t *value); /* same strictness, unsigned */
/* As Redis' getDoubleFromObject: whole text, no leading space, no nan, inf allowed, no overflow to inf. */
bool number_parse_double(struct bytes text, double *value);
/* As Redis' getLongDoubleFromObject; nan refused. */
bool number_parse_long_double(struct bytes text, long double *value);
/* These write text without terminator and return its length. */
size_t number_format_int64(char *to, int64_t value); /* to: INT64_TEXT_MAX */
/* "%.17g", integers plain, inf / -inf, as Redis 7.0 prints scores. to: DOUBLE_TEXT_MAX. */
size_t number_format_double(char *to, double value);
/* "%.17Lf" with trailing zeros trimmed (LD_STR_HUMAN). to: LONG_DOUBLE_TEXT_MAX. */
size_t number_format_long_double(char *to, long double value);
