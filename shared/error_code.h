/*
 * error_code.h - the first word of an error is its code.
 *
 * A program that decides by an error compares this word. The sentence behind it is for people, and may change.
 */
#pragma once

#include "shared/bytes.h"

/* Is this the code of the error, which is a RESP frame or its text? */
static inline bool error_has_code(struct bytes error, const char *code)
{
    size_t skip = error.len && *error.data == '-';
    size_t len = strlen(code);
    return error.len > skip + len && memcmp(error.data + skip, code, len) == 0 &&
           (error.data[skip + len] == ' ' || error.data[skip + len] == '\r');
}
