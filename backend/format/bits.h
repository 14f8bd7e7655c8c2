/*
 * bits.h - runs of bits in bytes: counting, finding, combining, and the integers of BITFIELD.
 *
 *   bit 0 is the highest of byte 0:   byte 0          byte 1
 *                                     0 1 2 3 4 5 6 7 8 9 …
 *
 * Pure functions on bytes. Long runs are worked through 64 bits at a time.
 */
#pragma once

#include "shared/bytes.h"

/* Number of bits that are 1. */
uint64_t bits_count(struct bytes data);
/* Position of the first bit with this value at or after `from`; -1: there is none. */
int64_t bits_find(struct bytes data, uint64_t from, bool bit);

enum bits_operation { BITS_AND, BITS_OR, BITS_XOR, BITS_AND_NOT };
/* to = to (operation) from, `len` bytes. */
void bits_combine(enum bits_operation operation, char *to, const char *from, size_t len);
void bits_invert(char *data, size_t len);

static inline bool bits_get(const char *data, uint64_t bit)
{
    return data[bit / 8] >> (7 - bit % 8) & 1;
}

/* ---- integers of any width ---- */

enum {
    FIELD_BYTES_MAX = 9, /* 64 bits that begin inside a byte span 9 bytes */
};

struct field_type {
    bool is_signed;
    uint8_t bits; /* signed 1 to 64, unsigned 1 to 63 */
};

enum field_overflow { FIELD_WRAP, FIELD_SAT, FIELD_FAIL };

/* Parses "i16", "u8" … */
bool field_type_parse(struct bytes text, struct field_type *type);
/* Parses the offset of a bit: "100", or with `width` > 0 also "#5", which is 5 * width. It must be below 8 *
 * bytes_max. */
bool bit_offset_parse(struct bytes text, uint8_t width, uint64_t bytes_max, uint64_t *offset);
/* The integer at bit `at` (0 to 7) of data[FIELD_BYTES_MAX]; a signed type is sign-extended. */
int64_t field_read(const char *data, unsigned at, struct field_type type);
void field_write(char *data, unsigned at, struct field_type type, int64_t value);
/* Adds the increment within the range of the type. False: it does not fit and the policy is to fail. As in Redis, some
 * values far below the range count as too big: negative ones for an unsigned type, and values more than 2^63 - 1 below
 * the maximum of a signed one. */
bool field_add(struct field_type type, enum field_overflow policy, int64_t value, int64_t increment,
               int64_t *result);
