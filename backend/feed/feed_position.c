#include "backend/feed/feed_position.h"

#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEX_DIGITS = 16, FIELDS = 4 };

struct bytes feed_position_write(const struct feed_position *position, char to[FEED_POSITION_MAX])
{
    int len = snprintf(to, FEED_POSITION_MAX, "%016" PRIx64 ".%" PRIu64 ".%016" PRIx64 ".%" PRIu64,
                       position->log_id, position->index, position->sum, position->number);
    return (struct bytes){to, (size_t)len};
}

static int position_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct bytes text, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = position_digit(text.data[i]);
        if (digit < 0)
            return false;
        *number = *number << 4 | (unsigned)digit;
    }
    return text.len == HEX_DIGITS;
}

static bool read_decimal(struct bytes text, uint64_t *number)
{
    int64_t count;
    bool is_count = number_parse_int64(text, &count) && count >= 0;
    *number = is_count ? (uint64_t)count : 0;
    return is_count;
}

/* Cuts the text at its points. */
static bool split_fields(struct bytes text, struct bytes fields[FIELDS])
{
    for (int i = 0; i + 1 < FIELDS; i++) {
        const char *point = text.len ? memchr(text.data, '.', text.len) : NULL;
        if (!point)
            return false;
        fields[i] = (struct bytes){text.data, (size_t)(point - text.data)};
        text = (struct bytes){point + 1, text.len - fields[i].len - 1};
    }
    fields[FIELDS - 1] = text;
    return true;
}

bool feed_position_read(struct bytes text, struct feed_position *position)
{
    struct bytes fields[FIELDS];
    return split_fields(text, fields) && read_hex(fields[0], &position->log_id) &&
           read_decimal(fields[1], &position->index) && read_hex(fields[2], &position->sum) &&
           read_decimal(fields[3], &position->number);
}
