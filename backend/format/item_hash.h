/*
 * item_hash.h - hashes of the items of Bloom filters, count-min sketches and top-k lists.
 *
 *   item ── XXH3 ── 64 bits ── mixed with the number of a round ── 64 other bits for each round
 *
 * Both functions are part of the format on disk: other functions would search items in the wrong pages.
 */
#pragma once

#include "shared/bytes.h"

uint64_t item_hash(struct bytes item);
/* SplitMix64 (Steele, Lea and Flood). */
uint64_t item_mix(uint64_t hash, uint32_t round);

/* A number below `limit`, evenly distributed, from the high bits of a hash. */
static inline uint32_t item_scale(uint64_t hash, uint32_t limit)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint32_t)((wide)hash * limit >> 64);
}

/* The number of an item's cell in one row of a grid, whose rows of `width` cells lie one behind the other. */
static inline uint32_t item_place(uint64_t hash, uint32_t row, uint32_t width)
{
    return row * width + item_scale(item_mix(hash, row), width);
}
