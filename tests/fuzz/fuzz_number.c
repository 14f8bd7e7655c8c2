/*
 * fuzz_number.c - a printed number is parsed back to the same value, and the parser accepts exactly the texts that the
 * C library accepts and prints unchanged.
 *
 * Input: used first as the bits of numbers, then as text.
 */
#include "shared/check.h"
#include "shared/number.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { TEXT_MAX = 200 };

static void check_int64_bits(int64_t value)
{
    char text[INT64_TEXT_MAX];
    char wanted[32];
    int64_t back;
    size_t len = number_format_int64(text, value);
    CHECK((int)len == snprintf(wanted, sizeof(wanted), "%" PRId64, value));
    CHECK(memcmp(text, wanted, len) == 0);
    CHECK(number_parse_int64((struct bytes){text, len}, &back));
    CHECK(back == value);
}

static void check_double_bits(double value)
{
    char text[DOUBLE_TEXT_MAX];
    char wanted[DOUBLE_TEXT_MAX];
    if (isnan(value))
        return;
    double back;
    size_t len = number_format_double(text, value);
    CHECK((int)len == snprintf(wanted, sizeof(wanted), "%.17g", value));
    CHECK(memcmp(text, wanted, len) == 0);
    CHECK(number_parse_double((struct bytes){text, len}, &back));
    CHECK(memcmp(&back, &value, sizeof(value)) == 0);
}

static void check_long_double(long double value)
{
    static char text[LONG_DOUBLE_TEXT_MAX];
    static char again[LONG_DOUBLE_TEXT_MAX];
    if (isnan(value))
        return;
    long double back;
    size_t len = number_format_long_double(text, value);
    CHECK(len > 0 && len < LONG_DOUBLE_TEXT_MAX);
    CHECK(isinf(value) || !memchr(text, 'e', len));
    CHECK(number_parse_long_double((struct bytes){text, len}, &back));
    CHECK(fabsl(back - value) <= 1e-17L || back == value || fabsl(value) > 1);
    CHECK(number_format_long_double(again, back) == len);
    CHECK(memcmp(text, again, len) == 0);
}

/* The strict parsers accept exactly the texts that print as themselves. */
static void check_integers(const char *text, size_t len)
{
    char again[32];
    struct bytes bytes = {text, len};
    int64_t value;
    errno = 0;
    long long wanted = strtoll(text, NULL, 10);
    bool ok = errno == 0 && (size_t)snprintf(again, sizeof(again), "%lld", wanted) == len &&
              memcmp(text, again, len) == 0;
    CHECK(number_parse_int64(bytes, &value) == ok);
    CHECK(!ok || value == wanted);

    uint64_t size;
    errno = 0;
    unsigned long long wanted_size = strtoull(text, NULL, 10);
    ok = errno == 0 && (size_t)snprintf(again, sizeof(again), "%llu", wanted_size) == len &&
         memcmp(text, again, len) == 0;
    CHECK(number_parse_uint64(bytes, &size) == ok);
    CHECK(!ok || size == wanted_size);
}

static void check_doubles(const char *text, size_t len)
{
    struct bytes bytes = {text, len};
    double value;
    char *end;
    errno = 0;
    double wanted = strtod(text, &end);
    bool ok = len > 0 && !isspace((unsigned char)text[0]) && end == text + len && !isnan(wanted) &&
              !(errno == ERANGE && (isinf(wanted) || wanted == 0));
    CHECK(number_parse_double(bytes, &value) == ok);
    CHECK(!ok || memcmp(&value, &wanted, sizeof(value)) == 0);
    if (ok)
        check_double_bits(value);

    long double long_value;
    if (number_parse_long_double(bytes, &long_value))
        check_long_double(long_value);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    int64_t bits = 0;
    double value;
    memcpy(&bits, input, size < sizeof(bits) ? size : sizeof(bits));
    memcpy(&value, &bits, sizeof(value));
    check_int64_bits(bits);
    check_double_bits(value);
    check_long_double((long double)value);

    char text[TEXT_MAX + 1];
    size_t len = size < TEXT_MAX ? size : TEXT_MAX;
    memcpy(text, input, len);
    text[len] = '\0';
    check_integers(text, len);
    check_doubles(text, len);
    return 0;
}
