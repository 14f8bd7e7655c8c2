/*
 * Slice-by-8: eight bytes per step. The CRC so far is xored into the first two bytes. Because a CRC is linear, the
 * contribution of each byte is a table lookup that does not depend on the other lookups.
 *
 *   b0^hi(crc)  b1^lo(crc)  b2  b3  b4  b5  b6  b7
 *     [7]         [6]       [5] [4] [3] [2] [1] [0]   tables; the xor of their values = the new CRC
 *
 * The bytes that do not fill a step of eight come first, padded with leading zero bytes, which do not change the CRC.
 */
#include "shared/slot.h"

#include "shared/slot_crc.h"

/* The CRC of eight more bytes after bytes with CRC `crc`. */
static inline unsigned crc_of_eight(const unsigned char *at, unsigned crc)
{
    unsigned last = slot_crc[5][at[2]] ^ slot_crc[4][at[3]] ^ slot_crc[3][at[4]] ^
                    slot_crc[2][at[5]] ^ slot_crc[1][at[6]] ^ slot_crc[0][at[7]];
    return last ^ (slot_crc[7][at[0] ^ (crc >> 8)] ^ slot_crc[6][at[1] ^ (crc & 0xff)]);
}

uint16_t slot_crc16(struct bytes data)
{
    const unsigned char *at = (const unsigned char *)data.data;
    size_t odd = data.len % 8;
    unsigned crc = 0;
    for (size_t i = 0; i < odd; i++)
        crc ^= slot_crc[odd - 1 - i][at[i]];
    for (size_t i = odd; i < data.len; i += 8)
        crc = crc_of_eight(at + i, crc);
    return (uint16_t)crc;
}

struct bytes slot_tag(struct bytes key)
{
    const char *open = key.len ? memchr(key.data, '{', key.len) : NULL;
    if (!open)
        return key;
    const char *tag = open + 1;
    const char *end = key.data + key.len;
    const char *close = memchr(tag, '}', (size_t)(end - tag));
    if (!close || close == tag)
        return key;
    return (struct bytes){tag, (size_t)(close - tag)};
}

uint16_t slot_of(struct bytes key)
{
    return slot_crc16(slot_tag(key)) & (SLOT_COUNT - 1);
}

/* The finalizer of splitmix64. */
uint64_t slot_term(uint16_t slot)
{
    uint64_t x = (slot + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}
