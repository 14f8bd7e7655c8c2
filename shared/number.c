#include "shared/number.h"

#include "shared/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_ON_STACK = 512 };

/* Parses digits without a sign: no leading zero except "0" itself, at most `max`. */
static bool parse_digits(const char *at, const char *end, uint64_t max, uint64_t *value)
{
    if (at == end || end - at > 20)
        return false;
    if (*at == '0') {
        *value = 0;
        return end - at == 1;
    }
    uint64_t sum = 0;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9)
            return false;
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *value = sum;
    return sum <= max;
}

bool number_parse_int64(struct bytes text, int64_t *value)
{
    const char *end = text.data + text.len;
    uint64_t size;
    if (text.len == 0 || text.len > 20)
        return false;
    if (text.data[0] != '-') {
        if (!parse_digits(text.data, end, INT64_MAX, &size))
            return false;
        *value = (int64_t)size;
        return true;
    }
    if (!parse_digits(text.data + 1, end, (uint64_t)INT64_MAX + 1, &size) || size == 0)
        return false;
    *value = (int64_t)(0 - size);
    return true;
}

bool number_parse_uint64(struct bytes text, uint64_t *value)
{
    if (text.len == 0)
        return false;
    return parse_digits(text.data, text.data + text.len, UINT64_MAX, value);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* `text` with a terminator, for the C library: in `room`, or on the heap when it is too long. */
static char *terminated(struct bytes text, char room[TEXT_ON_STACK])
{
    char *copy = room;
    if (text.len >= TEXT_ON_STACK)
        copy = malloc(text.len + 1);
    CHECK(copy);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

bool number_parse_double(struct bytes text, double *value)
{
    int64_t whole;
    if (text.len <= 15 && number_parse_int64(text, &whole)) {
        *value = (double)whole; /* exact, because it has at most 15 digits */
        return true;
    }
    if (text.len == 0 || is_space(text.data[0]))
        return false;

    char room[TEXT_ON_STACK];
    char *copy = terminated(text, room);
    char *end;
    errno = 0;
    double result = strtod(copy, &end);
    bool lost = errno == ERANGE && (isinf(result) || fpclassify(result) == FP_ZERO);
    bool ok = end == copy + text.len && !lost && !isnan(result);
    if (copy != room)
        free(copy);
    if (ok)
        *value = result;
    return ok;
}

bool number_parse_long_double(struct bytes text, long double *value)
{
    if (text.len == 0 || text.len >= LONG_DOUBLE_TEXT_MAX || is_space(text.data[0]))
        return false;

    char copy[LONG_DOUBLE_TEXT_MAX];
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    char *end;
    errno = 0;
    long double result = strtold(copy, &end);
    bool lost = errno == ERANGE && (isinf(result) || fpclassify(result) == FP_ZERO);
    if (end != copy + text.len || lost || isnan(result))
        return false;
    *value = result;
    return true;
}

/* "00" "01" ... "99" */
static const char pairs[200] = "0001020304050607080910111213141516171819"
                               "2021222324252627282930313233343536373839"
                               "4041424344454647484950515253545556575859"
                               "6061626364656667686970717273747576777879"
                               "8081828384858687888990919293949596979899";

size_t number_format_int64(char *to, int64_t value)
{
    char text[20];
    char *at = text + sizeof(text);
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    while (size >= 100) {
        at -= 2;
        memcpy(at, pairs + size % 100 * 2, 2);
        size /= 100;
    }
    *--at = pairs[size * 2 + 1];
    if (size >= 10)
        *--at = pairs[size * 2];
    if (value < 0)
        *--at = '-';
    size_t len = (size_t)(text + sizeof(text) - at);
    memcpy(to, at, len);
    return len;
}

/* Checks the result of snprintf: the texts always fit. */
static size_t printed(int len, size_t max)
{
    CHECK(len > 0);
    CHECK((size_t)len < max);
    return (size_t)len;
}

size_t number_format_double(char *to, double value)
{
    if (isinf(value)) {
        size_t len = value > 0 ? 3 : 4;
        memcpy(to, value > 0 ? "inf" : "-inf", len);
        return len;
    }
    if (value > -1e15 && value < 1e15 && (double)(int64_t)value == value &&
        !(value == 0 && signbit(value)))
        return number_format_int64(to, (int64_t)value);
    return printed(snprintf(to, DOUBLE_TEXT_MAX, "%.17g", value), DOUBLE_TEXT_MAX);
}

size_t number_format_long_double(char *to, long double value)
{
    if (isinf(value))
        return number_format_double(to, (double)value);
    int got = snprintf(to, LONG_DOUBLE_TEXT_MAX, "%.17Lf", value);
    size_t len = printed(got, LONG_DOUBLE_TEXT_MAX);
    if (memchr(to, '.', len)) {
        while (to[len - 1] == '0')
            len--;
        if (to[len - 1] == '.')
            len--;
    }
    if (len == 2 && memcmp(to, "-0", 2) == 0) {
        to[0] = '0';
        len = 1;
    }
    return len;
}
