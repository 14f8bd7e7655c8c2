#include "backend/format/cbor.h"

#include "backend/format/rdb.h"
#include "shared/byte_order.h"
#include "shared/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum major {
    CBOR_UINT,
    CBOR_NEGATIVE,
    CBOR_BYTES,
    CBOR_TEXT,
    CBOR_ARRAY,
    CBOR_MAP,
    CBOR_TAG,
    CBOR_OTHER
};

enum {
    SHORT_MAX = 23, /* greater arguments follow the first byte: 24 to 27 say in how many bytes */
    ARGUMENT_1 = 24,
    ARGUMENT_8 = 27,
    WITHOUT_LENGTH = 31, /* the length is not given: the end is marked */
    OTHER_FALSE = 20,
    OTHER_TRUE = 21,
    OTHER_NULL = 22,
    OTHER_HALF = 25,
    OTHER_FLOAT = 26,
    OTHER_DOUBLE = 27,
    BREAK = 0xff,
    TAG_BIG = 2,
    TAG_BIG_NEGATIVE = 3,
};

struct cbor {
    struct bytes rest;
    struct rdb_writer text; /* the JSON text */
    unsigned depth;
};

/* The first byte of an item, and the number that follows it. */
struct cbor_head {
    enum major major;
    uint8_t low;
    uint64_t argument;
};

static bool cbor_put_value(struct cbor *cbor);

static void put_words(struct cbor *cbor, const char *words)
{
    rdb_write_raw(&cbor->text, bytes_of(words));
}

static bool cbor_take(struct cbor *cbor, uint64_t len, struct bytes *part)
{
    if (len > cbor->rest.len)
        return false;
    *part = (struct bytes){cbor->rest.data, (size_t)len};
    cbor->rest.data += len;
    cbor->rest.len -= (size_t)len;
    return true;
}

static bool read_argument(struct cbor *cbor, struct cbor_head *head)
{
    struct bytes part;
    head->argument = head->low;
    if (head->low <= SHORT_MAX || head->low == WITHOUT_LENGTH)
        return true;
    if (head->low > ARGUMENT_8 || !cbor_take(cbor, UINT64_C(1) << (head->low - ARGUMENT_1), &part))
        return false;
    head->argument = 0;
    for (size_t i = 0; i < part.len; i++)
        head->argument = head->argument << 8 | (uint8_t)part.data[i];
    return true;
}

static bool read_cbor_head(struct cbor *cbor, struct cbor_head *head)
{
    struct bytes first;
    if (!cbor_take(cbor, 1, &first))
        return false;
    head->major = (enum major)((uint8_t)first.data[0] >> 5);
    head->low = first.data[0] & 0x1f;
    return read_argument(cbor, head);
}

/* Steps over the mark that ends an item without length. */
static bool at_break(struct cbor *cbor)
{
    bool is_break = cbor->rest.len && (uint8_t)cbor->rest.data[0] == BREAK;
    struct bytes mark;
    return is_break && cbor_take(cbor, 1, &mark);
}

/* ---- numbers ---- */

static bool write_unsigned(struct cbor *cbor, uint64_t value)
{
    char text[INT64_TEXT_MAX + 1];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    put_words(cbor, text);
    return true;
}

/* -1 - argument */
static bool write_negative(struct cbor *cbor, uint64_t argument)
{
    if (argument == UINT64_MAX)
        return false;
    put_words(cbor, "-");
    return write_unsigned(cbor, argument + 1);
}

/* The shortest digits that are read as the same number, and always as one with a fraction. */
static bool write_fraction(struct cbor *cbor, double value)
{
    char text[DOUBLE_TEXT_MAX];
    if (!isfinite(value))
        return false;
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value + 0.0);
        if (strtod(text, NULL) == value)
            break;
    }
    put_words(cbor, text);
    if (!strpbrk(text, ".e"))
        put_words(cbor, ".0");
    return true;
}

static double half_value(uint64_t bits)
{
    unsigned exponent = bits >> 10 & 0x1f;
    double fraction = (double)(bits & 0x3ff);
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (double)INFINITY
                                    : ldexp(fraction + 1024, (int)exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static double float_value(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
}

static double double_value(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Divides the big-endian number by ten; returns the rest. */
static unsigned divide_by_ten(uint8_t *number, size_t len)
{
    unsigned rest = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned value = rest << 8 | number[i];
        number[i] = (uint8_t)(value / 10);
        rest = value % 10;
    }
    return rest;
}

static bool is_zero(const uint8_t *number, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (number[i])
            return false;
    return true;
}

/* The bytes plus one: a negative number is stored as -1 - n. */
static void increment_bytes(uint8_t *number, size_t len)
{
    for (size_t i = len; i > 0 && ++number[i - 1] == 0; i--)
        continue;
}

/* Writes a tagged integer as a text in quotes. */
static bool cbor_put_big(struct cbor *cbor, bool is_negative)
{
    uint8_t number[CBOR_BIG_BYTES_MAX + 1] = {0};
    char digits[3 * CBOR_BIG_BYTES_MAX + 8];
    char *at = digits + sizeof digits;
    struct cbor_head head;
    struct bytes bytes;
    if (!read_cbor_head(cbor, &head) || head.major != CBOR_BYTES ||
        head.argument > CBOR_BIG_BYTES_MAX || head.low == WITHOUT_LENGTH ||
        !cbor_take(cbor, head.argument, &bytes))
        return false;
    memcpy(number + 1, bytes.data, bytes.len);
    if (is_negative)
        increment_bytes(number, bytes.len + 1);
    *--at = '\0';
    *--at = '"';
    do
        *--at = (char)('0' + divide_by_ten(number, bytes.len + 1));
    while (!is_zero(number, bytes.len + 1));
    if (is_negative)
        *--at = '-';
    *--at = '"';
    put_words(cbor, at);
    return true;
}

/* ---- texts ---- */

static void put_escaped(struct cbor *cbor, uint8_t byte)
{
    char text[8];
    if (byte == '"' || byte == '\\')
        (void)snprintf(text, sizeof text, "\\%c", byte);
    else
        (void)snprintf(text, sizeof text, "\\u%04x", byte);
    put_words(cbor, text);
}

static void put_characters(struct cbor *cbor, struct bytes text)
{
    for (size_t i = 0, done = 0; i <= text.len; i++) {
        bool is_end = i == text.len;
        uint8_t byte = is_end ? 0 : (uint8_t)text.data[i];
        if (!is_end && byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        rdb_write_raw(&cbor->text, (struct bytes){text.data + done, i - done});
        done = i + 1;
        if (!is_end)
            put_escaped(cbor, byte);
    }
}

/* A text without length is a list of texts. */
static bool write_chunks(struct cbor *cbor)
{
    struct cbor_head head;
    struct bytes text;
    while (!at_break(cbor)) {
        if (!read_cbor_head(cbor, &head) || head.major != CBOR_TEXT || head.low == WITHOUT_LENGTH ||
            !cbor_take(cbor, head.argument, &text))
            return false;
        put_characters(cbor, text);
    }
    return true;
}

static bool cbor_put_text(struct cbor *cbor, const struct cbor_head *head)
{
    struct bytes text = BYTES("");
    put_words(cbor, "\"");
    if (head->low == WITHOUT_LENGTH ? !write_chunks(cbor) : !cbor_take(cbor, head->argument, &text))
        return false;
    put_characters(cbor, text);
    put_words(cbor, "\"");
    return true;
}

/* ---- containers ---- */

static bool cbor_put_name(struct cbor *cbor)
{
    struct cbor_head head;
    bool is_good =
        read_cbor_head(cbor, &head) && head.major == CBOR_TEXT && cbor_put_text(cbor, &head);
    put_words(cbor, ":");
    return is_good;
}

/* Does another item follow in this container? */
static bool has_next(struct cbor *cbor, const struct cbor_head *head, uint64_t done)
{
    return head->low == WITHOUT_LENGTH ? !at_break(cbor) : done < head->argument;
}

static bool write_items(struct cbor *cbor, const struct cbor_head *head)
{
    for (uint64_t done = 0; has_next(cbor, head, done); done++) {
        if (done)
            put_words(cbor, ",");
        if (head->major == CBOR_MAP && !cbor_put_name(cbor))
            return false;
        if (!cbor_put_value(cbor))
            return false;
    }
    return true;
}

static bool write_container(struct cbor *cbor, const struct cbor_head *head)
{
    bool is_map = head->major == CBOR_MAP;
    if (++cbor->depth > CBOR_DEPTH_MAX)
        return false;
    put_words(cbor, is_map ? "{" : "[");
    bool is_good = write_items(cbor, head);
    put_words(cbor, is_map ? "}" : "]");
    cbor->depth--;
    return is_good;
}

/* ---- values ---- */

static bool write_other(struct cbor *cbor, const struct cbor_head *head)
{
    switch (head->low) {
    case OTHER_FALSE:
        put_words(cbor, "false");
        return true;
    case OTHER_TRUE:
        put_words(cbor, "true");
        return true;
    case OTHER_NULL:
        put_words(cbor, "null");
        return true;
    case OTHER_HALF:
        return write_fraction(cbor, half_value(head->argument));
    case OTHER_FLOAT:
        return write_fraction(cbor, float_value(head->argument));
    case OTHER_DOUBLE:
        return write_fraction(cbor, double_value(head->argument));
    default:
        return false;
    }
}

static bool cbor_put_value(struct cbor *cbor)
{
    struct cbor_head head;
    if (!read_cbor_head(cbor, &head))
        return false;
    bool has_length = head.low != WITHOUT_LENGTH;
    switch (head.major) {
    case CBOR_UINT:
        return has_length && write_unsigned(cbor, head.argument);
    case CBOR_NEGATIVE:
        return has_length && write_negative(cbor, head.argument);
    case CBOR_TEXT:
        return cbor_put_text(cbor, &head);
    case CBOR_ARRAY:
    case CBOR_MAP:
        return write_container(cbor, &head);
    case CBOR_TAG:
        return (head.argument == TAG_BIG || head.argument == TAG_BIG_NEGATIVE) &&
               cbor_put_big(cbor, head.argument == TAG_BIG_NEGATIVE);
    case CBOR_OTHER:
        return write_other(cbor, &head);
    default:
        return false;
    }
}

bool cbor_to_json(struct arena *arena, struct bytes bytes, struct bytes *json)
{
    struct cbor cbor = {.rest = bytes};
    rdb_writer_init(&cbor.text, arena);
    bool is_good = cbor_put_value(&cbor) && cbor.rest.len == 0;
    *json = (struct bytes){cbor.text.data, cbor.text.len};
    return is_good;
}
