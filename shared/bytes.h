/*
 * bytes.h - a borrowed run of bytes: a pointer and a length, no terminator, never owned.
 *
 * A `struct bytes` argument is borrowed for the call; a function that keeps it documents until when.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
    const char *data;
    size_t len;
};

/* The bytes of a string literal. */
#define BYTES(literal) ((struct bytes){(literal), sizeof(literal) - 1})

static inline struct bytes bytes_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Copies the bytes to *end and advances *end. */
static inline struct bytes bytes_copy_to(char **end, struct bytes bytes)
{
    struct bytes copy = {*end, bytes.len};
    if (bytes.len)
        memcpy(*end, bytes.data, bytes.len);
    *end += bytes.len;
    return copy;
}

/* Compares without regard to ASCII case, as Redis does for command names and options. */
static inline bool bytes_is(struct bytes a, const char *word)
{
    return a.len == strlen(word) && strncasecmp(a.data, word, a.len) == 0;
}

/* Order of memcmp; a prefix sorts first. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}
