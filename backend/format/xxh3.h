/*
 * xxh3.h - XXH3, the 64-bit hash of DIGEST and IFDEQ, with seed 0 and the default secret.
 *
 *   up to 240 bytes   mixed directly
 *   more              16 stripes of 64 bytes are a block; after each block the 8 accumulators are scrambled
 *
 *      ├──────── block ────────┤├──────── block ────────┤├─ rest ─┤
 *                                                   └─ last stripe ─┘   the last 64 bytes, whatever was mixed before
 *
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
 */
#pragma once

#include "shared/bytes.h"

enum { XXH3_STRIPE_BYTES = 64, XXH3_BLOCK_BYTES = 1024, XXH3_HEX_DIGITS = 16 };

/* The input so far. */
struct xxh3 {
    uint64_t accumulators[8];
    uint64_t len; /* of the whole input */
    size_t held;  /* bytes of the unfinished block; full blocks wait here until more bytes come */
    char last[XXH3_STRIPE_BYTES]; /* the end of the block before */
    char block[XXH3_BLOCK_BYTES];
};

void xxh3_init(struct xxh3 *hash);
void xxh3_add(struct xxh3 *hash, struct bytes data);
void xxh3_add_zeros(struct xxh3 *hash, uint64_t count);
uint64_t xxh3_result(const struct xxh3 *hash);

/* The hash as hexadecimal digits, the highest first. */
void xxh3_format(uint64_t value, char text[XXH3_HEX_DIGITS]);
/* Parses exactly XXH3_HEX_DIGITS digits, in upper or lower case. */
bool xxh3_parse(struct bytes text, uint64_t *value);
