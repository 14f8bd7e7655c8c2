#include "backend/format/xxh3.h"

#include "shared/byte_order.h"

enum {
    SECRET_BYTES = 192,
    STRIPES = XXH3_BLOCK_BYTES / XXH3_STRIPE_BYTES,
    SHORT_MAX = 240, /* longer inputs use accumulators */
    SCRAMBLE_AT = SECRET_BYTES - XXH3_STRIPE_BYTES,
    LAST_AT = SCRAMBLE_AT - 7,
    MERGE_AT = 11,
};

static const uint64_t PRIME32_1 = 0x9E3779B1U;
static const uint64_t PRIME32_2 = 0x85EBCA77U;
static const uint64_t PRIME32_3 = 0xC2B2AE3DU;
static const uint64_t PRIME64_1 = 0x9E3779B185EBCA87ULL;
static const uint64_t PRIME64_2 = 0xC2B2AE3D27D4EB4FULL;
static const uint64_t PRIME64_3 = 0x165667B19E3779F9ULL;
static const uint64_t PRIME64_4 = 0x85EBCA77C2B2AE63ULL;
static const uint64_t PRIME64_5 = 0x27D4EB2F165667C5ULL;
static const uint64_t PRIME_MX1 = 0x165667919E3779F9ULL;
static const uint64_t PRIME_MX2 = 0x9FB21C651E98DF25ULL;

static const uint8_t SECRET[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

__extension__ typedef unsigned __int128 wide;

static uint64_t secret_word(size_t at)
{
    return get_le64((const char *)SECRET + at);
}

static uint32_t secret_half(size_t at)
{
    return get_le32((const char *)SECRET + at);
}

static uint64_t rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t multiply_fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t value)
{
    value ^= value >> 37;
    value *= PRIME_MX1;
    return value ^ value >> 32;
}

static uint64_t avalanche_short(uint64_t value)
{
    value ^= value >> 33;
    value *= PRIME64_2;
    value ^= value >> 29;
    value *= PRIME64_3;
    return value ^ value >> 32;
}

/* ---- up to 240 bytes ---- */

static uint64_t hash_to_3(const char *data, size_t len)
{
    uint32_t combined = (uint8_t)data[len - 1] | (uint32_t)len << 8 |
                        (uint32_t)(uint8_t)data[0] << 16 | (uint32_t)(uint8_t)data[len / 2] << 24;
    return avalanche_short((uint64_t)(secret_half(0) ^ secret_half(4)) ^ combined);
}

static uint64_t hash_to_8(const char *data, size_t len)
{
    uint64_t combined = get_le32(data + len - 4) | (uint64_t)get_le32(data) << 32;
    uint64_t value = secret_word(8) ^ secret_word(16) ^ combined;
    value ^= rotate(value, 49) ^ rotate(value, 24);
    value *= PRIME_MX2;
    value ^= (value >> 35) + len;
    value *= PRIME_MX2;
    return value ^ value >> 28;
}

static uint64_t hash_to_16(const char *data, size_t len)
{
    uint64_t low = secret_word(24) ^ secret_word(32) ^ get_le64(data);
    uint64_t high = secret_word(40) ^ secret_word(48) ^ get_le64(data + len - 8);
    return avalanche(len + __builtin_bswap64(low) + high + multiply_fold(low, high));
}

static uint64_t mix(const char *data, size_t secret_at)
{
    return multiply_fold(get_le64(data) ^ secret_word(secret_at),
                         get_le64(data + 8) ^ secret_word(secret_at + 8));
}

static uint64_t hash_to_128(const char *data, size_t len)
{
    uint64_t sum = len * PRIME64_1;
    for (size_t i = (len - 1) / 32 + 1; i-- > 0;) {
        sum += mix(data + i * 16, i * 32);
        sum += mix(data + len - i * 16 - 16, i * 32 + 16);
    }
    return avalanche(sum);
}

static uint64_t hash_to_240(const char *data, size_t len)
{
    uint64_t sum = len * PRIME64_1;
    for (size_t i = 0; i < 8; i++)
        sum += mix(data + i * 16, i * 16);
    sum = avalanche(sum);
    for (size_t i = 8; i < len / 16; i++)
        sum += mix(data + i * 16, (i - 8) * 16 + 3);
    sum += mix(data + len - 16, 119);
    return avalanche(sum);
}

static uint64_t hash_short(const char *data, size_t len)
{
    if (len == 0)
        return avalanche_short(secret_word(56) ^ secret_word(64));
    if (len <= 3)
        return hash_to_3(data, len);
    if (len <= 8)
        return hash_to_8(data, len);
    if (len <= 16)
        return hash_to_16(data, len);
    return len <= 128 ? hash_to_128(data, len) : hash_to_240(data, len);
}

/* ---- more than 240 bytes ---- */

static void add_stripe(uint64_t accumulators[8], const char *stripe, size_t secret_at)
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t word = get_le64(stripe + i * 8);
        uint64_t value = word ^ secret_word(secret_at + i * 8);
        accumulators[i ^ 1] += word;
        accumulators[i] += (uint64_t)(uint32_t)value * (value >> 32);
    }
}

static void finish_block(struct xxh3 *hash)
{
    for (size_t i = 0; i < STRIPES; i++)
        add_stripe(hash->accumulators, hash->block + i * XXH3_STRIPE_BYTES, i * 8);
    for (size_t i = 0; i < 8; i++) {
        uint64_t value = hash->accumulators[i];
        hash->accumulators[i] =
            (value ^ value >> 47 ^ secret_word(SCRAMBLE_AT + i * 8)) * PRIME32_1;
    }
    memcpy(hash->last, hash->block + XXH3_BLOCK_BYTES - XXH3_STRIPE_BYTES, sizeof hash->last);
    hash->held = 0;
}

/* The last 64 bytes of the input. */
static void last_stripe(const struct xxh3 *hash, char stripe[XXH3_STRIPE_BYTES])
{
    size_t before = hash->held < XXH3_STRIPE_BYTES ? XXH3_STRIPE_BYTES - hash->held : 0;
    memcpy(stripe, hash->last + XXH3_STRIPE_BYTES - before, before);
    memcpy(stripe + before, hash->block + hash->held - (XXH3_STRIPE_BYTES - before),
           XXH3_STRIPE_BYTES - before);
}

static uint64_t hash_long(const struct xxh3 *hash)
{
    uint64_t accumulators[8];
    char stripe[XXH3_STRIPE_BYTES];
    memcpy(accumulators, hash->accumulators, sizeof accumulators);
    for (size_t i = 0; i < (hash->held - 1) / XXH3_STRIPE_BYTES; i++)
        add_stripe(accumulators, hash->block + i * XXH3_STRIPE_BYTES, i * 8);
    last_stripe(hash, stripe);
    add_stripe(accumulators, stripe, LAST_AT);
    uint64_t sum = hash->len * PRIME64_1;
    for (size_t i = 0; i < 8; i += 2)
        sum += multiply_fold(accumulators[i] ^ secret_word(MERGE_AT + i * 8),
                             accumulators[i + 1] ^ secret_word(MERGE_AT + i * 8 + 8));
    return avalanche(sum);
}

void xxh3_init(struct xxh3 *hash)
{
    const uint64_t first[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                               PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    hash->len = 0;
    hash->held = 0;
    memcpy(hash->accumulators, first, sizeof first);
}

void xxh3_add(struct xxh3 *hash, struct bytes data)
{
    hash->len += data.len;
    while (data.len) {
        if (hash->held == XXH3_BLOCK_BYTES)
            finish_block(hash);
        size_t room = XXH3_BLOCK_BYTES - hash->held;
        size_t len = data.len < room ? data.len : room;
        memcpy(hash->block + hash->held, data.data, len);
        hash->held += len;
        data = (struct bytes){data.data + len, data.len - len};
    }
}

void xxh3_add_zeros(struct xxh3 *hash, uint64_t count)
{
    static const char ZEROS[XXH3_BLOCK_BYTES];
    while (count) {
        size_t len = count < sizeof ZEROS ? (size_t)count : sizeof ZEROS;
        xxh3_add(hash, (struct bytes){ZEROS, len});
        count -= len;
    }
}

uint64_t xxh3_result(const struct xxh3 *hash)
{
    return hash->len > SHORT_MAX ? hash_long(hash) : hash_short(hash->block, (size_t)hash->len);
}

/* ---- as text ---- */

void xxh3_format(uint64_t value, char text[XXH3_HEX_DIGITS])
{
    for (size_t i = XXH3_HEX_DIGITS; i-- > 0; value >>= 4)
        text[i] = "0123456789abcdef"[value & 15];
}

bool xxh3_parse(struct bytes text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint64_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        *value = *value << 4 | digit;
    }
    return text.len == XXH3_HEX_DIGITS;
}
