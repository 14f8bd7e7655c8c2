#include "backend/format/bits.h"

#include "shared/check.h"
#include "shared/number.h"

static uint64_t load_word(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* Each byte of the result is the number of one bits in that byte of the word. */
static uint64_t count_bytes(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    return (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
}

static uint64_t sum_bytes(uint64_t word)
{
    word = (word & UINT64_C(0x00ff00ff00ff00ff)) + (word >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    return word * UINT64_C(0x0001000100010001) >> 48;
}

uint64_t bits_count(struct bytes data)
{
    enum { RUN = 31 * 8 }; /* words whose sum has no byte above 255 */
    uint64_t count = 0;
    size_t i = 0;
    while (i + 8 <= data.len) {
        uint64_t sum = 0;
        size_t end = data.len - i < RUN ? data.len : i + RUN;
        for (; i + 8 <= end; i += 8)
            sum += count_bytes(load_word(data.data + i));
        count += sum_bytes(sum);
    }
    for (; i < data.len; i++)
        count += count_bytes((uint8_t)data.data[i]);
    return count;
}

int64_t bits_find(struct bytes data, uint64_t from, bool bit)
{
    char dull = (char)(bit ? 0x00 : 0xff); /* a byte without the wanted bit */
    uint64_t dull_word = bit ? 0 : UINT64_MAX;
    uint64_t i = from / 8;
    for (uint64_t at = from; at % 8 != 0 && i < data.len; at++) {
        if (bits_get(data.data, at) == bit)
            return (int64_t)at;
        if (at % 8 == 7)
            i++;
    }
    while (i + 8 <= data.len && load_word(data.data + i) == dull_word)
        i += 8;
    while (i < data.len && data.data[i] == dull)
        i++;
    if (i >= data.len)
        return -1;
    uint64_t at = i * 8;
    while (bits_get(data.data, at) != bit)
        at++;
    return (int64_t)at;
}

static uint64_t combine_words(enum bits_operation operation, uint64_t a, uint64_t b)
{
    switch (operation) {
    case BITS_AND:
        return a & b;
    case BITS_OR:
        return a | b;
    case BITS_XOR:
        return a ^ b;
    case BITS_AND_NOT:
        return a & ~b;
    }
    return 0;
}

void bits_combine(enum bits_operation operation, char *to, const char *from, size_t len)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t word = combine_words(operation, load_word(to + i), load_word(from + i));
        memcpy(to + i, &word, sizeof word);
    }
    for (; i < len; i++)
        to[i] = (char)combine_words(operation, (uint8_t)to[i], (uint8_t)from[i]);
}

void bits_invert(char *data, size_t len)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t word = ~load_word(data + i);
        memcpy(data + i, &word, sizeof word);
    }
    for (; i < len; i++)
        data[i] = (char)~data[i];
}

/* ---- integers of any width ---- */

/* wide enough for the 72 bits that a field can span, and for every sum */
__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 signed_wide;

bool field_type_parse(struct bytes text, struct field_type *type)
{
    int64_t bits;
    if (text.len == 0 || (text.data[0] != 'i' && text.data[0] != 'u'))
        return false;
    type->is_signed = text.data[0] == 'i';
    struct bytes digits = {text.data + 1, strnlen(text.data + 1, text.len - 1)};
    if (!number_parse_int64(digits, &bits) || bits < 1 || bits > (type->is_signed ? 64 : 63))
        return false;
    type->bits = (uint8_t)bits;
    return true;
}

bool bit_offset_parse(struct bytes text, uint8_t width, uint64_t bytes_max, uint64_t *offset)
{
    int64_t value;
    bool is_place = width > 0 && text.len > 0 && text.data[0] == '#';
    if (is_place)
        text = (struct bytes){text.data + 1, text.len - 1};
    if (!number_parse_int64(text, &value) || value < 0 ||
        (is_place && __builtin_mul_overflow(value, (int64_t)width, &value)))
        return false;
    *offset = (uint64_t)value;
    return *offset / 8 < bytes_max;
}

/* Loads the 72 bits as one number, highest bit first. */
static wide load_field(const char *data)
{
    wide all = 0;
    for (size_t i = 0; i < FIELD_BYTES_MAX; i++)
        all = all << 8 | (uint8_t)data[i];
    return all;
}

static uint64_t low_bits(unsigned bits)
{
    return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static int64_t extend(uint64_t value, struct field_type type)
{
    if (type.is_signed && value >> (type.bits - 1) & 1)
        value |= ~low_bits(type.bits);
    return (int64_t)value;
}

int64_t field_read(const char *data, unsigned at, struct field_type type)
{
    CHECK(at < 8);
    unsigned behind = FIELD_BYTES_MAX * 8 - at - type.bits;
    return extend((uint64_t)(load_field(data) >> behind) & low_bits(type.bits), type);
}

void field_write(char *data, unsigned at, struct field_type type, int64_t value)
{
    CHECK(at < 8);
    unsigned behind = FIELD_BYTES_MAX * 8 - at - type.bits;
    wide mask = (wide)low_bits(type.bits) << behind;
    wide all = load_field(data) & ~mask;
    all |= (wide)((uint64_t)value & low_bits(type.bits)) << behind;
    for (size_t i = FIELD_BYTES_MAX; i-- > 0; all >>= 8)
        data[i] = (char)(uint8_t)all;
}

bool field_add(struct field_type type, enum field_overflow policy, int64_t value, int64_t increment,
               int64_t *result)
{
    signed_wide max = (signed_wide)low_bits(type.is_signed ? type.bits - 1 : type.bits);
    signed_wide min = type.is_signed ? -max - 1 : 0;
    signed_wide sum =
        (type.is_signed ? (signed_wide)value : (signed_wide)(uint64_t)value) + increment;
    if (sum >= min && sum <= max) {
        *result = (int64_t)sum;
        return true;
    }
    bool too_big = sum > max || (type.bits < 64 && max - value > INT64_MAX);
    if (policy == FIELD_SAT)
        *result = (int64_t)(too_big ? max : min);
    else
        *result = extend((uint64_t)sum & low_bits(type.bits), type);
    return policy != FIELD_FAIL;
}
