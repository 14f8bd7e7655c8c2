/*
 * fuzz_bitfield.c - arguments of BITFIELD: accepted values lie within the bounds of their type, and a written value is
 * read back without a change of the bits around it.
 *
 * Input: 8 bytes of a value, 8 of an increment, one of an overflow policy, then "type offset" with a zero byte between
 * them.
 */
#include "backend/format/bits.h"
#include "shared/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES_MAX = 1 << 29 };

static void check_field(struct field_type type, uint64_t offset, int64_t value)
{
    char before[FIELD_BYTES_MAX];
    char data[FIELD_BYTES_MAX];
    unsigned at = (unsigned)(offset % 8);
    memset(before, (int)(value & 0xff), sizeof before);
    memcpy(data, before, sizeof data);
    field_write(data, at, type, value);
    CHECK(field_read(data, at, type) == value);
    for (unsigned bit = 0; bit < FIELD_BYTES_MAX * 8; bit++)
        if (bit < at || bit >= at + type.bits)
            CHECK(bits_get(data, bit) == bits_get(before, bit));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t value;
    int64_t increment;
    struct field_type type;
    uint64_t offset;
    int64_t result;
    if (size < 17)
        return 0;
    memcpy(&value, data, sizeof value);
    memcpy(&increment, data + 8, sizeof increment);
    enum field_overflow policy = (enum field_overflow)(data[16] % 3);
    struct bytes text = {(const char *)data + 17, size - 17};
    size_t len = strnlen(text.data, text.len);
    if (!field_type_parse((struct bytes){text.data, len}, &type))
        return 0;
    CHECK(type.bits >= 1 && type.bits <= (type.is_signed ? 64 : 63));
    size_t skipped = len < text.len ? len + 1 : len;
    text = (struct bytes){text.data + skipped, text.len - skipped};
    if (!bit_offset_parse(text, type.bits, BYTES_MAX, &offset))
        offset = 0;
    CHECK(offset / 8 < BYTES_MAX);
    if (field_add(type, policy, value, increment, &result))
        check_field(type, offset, result);
    return 0;
}
