#include "backend/format/item_hash.h"

#include "backend/format/xxh3.h"

uint64_t item_hash(struct bytes item)
{
    struct xxh3 hash;
    xxh3_init(&hash);
    xxh3_add(&hash, item);
    return xxh3_result(&hash);
}

uint64_t item_mix(uint64_t hash, uint32_t round)
{
    uint64_t value = hash + (round + 1) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}
