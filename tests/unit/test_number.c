#include "guard.h"
#include "shared/number.h"
#include "tests/unit/suite.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(strict_integers_are_parsed)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},
        {"1", 1},
        {"-1", -1},
        {"10", 10},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"-9223372036854775807", -INT64_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct guard guard;
        guard_init(&guard, rows[i].text, strlen(rows[i].text));
        int64_t value = 77;
        ck_assert(number_parse_int64((struct bytes){guard.data, guard.len}, &value));
        ck_assert_int_eq(value, rows[i].value);
        guard_fini(&guard);
    }
}
END_TEST

START_TEST(loose_integers_are_refused)
{
    static const char *const rows[] = {"",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "01",
                                       "-0",
                                       "-01",
                                       "00",
                                       "1.0",
                                       "1e3",
                                       "0x1",
                                       "abc",
                                       "1a",
                                       "--1",
                                       "9223372036854775808",
                                       "/",
                                       ":",
                                       "1\n",
                                       "\t1",
                                       "1\xff",
                                       "1:",
                                       "1/",
                                       "-9223372036854775809",
                                       "99999999999999999999",
                                       "100000000000000000000",
                                       "-10000000000000000000"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct guard guard;
        guard_init(&guard, rows[i], strlen(rows[i]));
        int64_t value = 77;
        ck_assert_msg(!number_parse_int64((struct bytes){guard.data, guard.len}, &value), "%s",
                      rows[i]);
        ck_assert_int_eq(value, 77);
        guard_fini(&guard);
    }
}
END_TEST

START_TEST(unsigned_integers_are_as_strict)
{
    uint64_t value;
    ck_assert(number_parse_uint64(BYTES("18446744073709551615"), &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(number_parse_uint64(BYTES("0"), &value));
    ck_assert_uint_eq(value, 0);
    ck_assert(!number_parse_uint64(BYTES("18446744073709551616"), &value));
    ck_assert(!number_parse_uint64(BYTES("99999999999999999999"), &value));
    ck_assert(!number_parse_uint64(BYTES("-1"), &value));
    ck_assert(!number_parse_uint64(BYTES("01"), &value));
    ck_assert(!number_parse_uint64(BYTES(""), &value));
}
END_TEST

static void expect_int(int64_t value)
{
    char got[INT64_TEXT_MAX];
    char wanted[32];
    size_t len = number_format_int64(got, value);
    ck_assert_uint_eq(len, (size_t)snprintf(wanted, sizeof(wanted), "%" PRId64, value));
    ck_assert_mem_eq(got, wanted, len);
    int64_t back;
    ck_assert(number_parse_int64((struct bytes){got, len}, &back));
    ck_assert_int_eq(back, value);
}

START_TEST(integers_of_every_length_survive_printing_and_parsing)
{
    expect_int(0);
    expect_int(INT64_MIN);
    expect_int(INT64_MAX);
    for (int64_t value = 1; value < INT64_MAX / 10; value *= 10) {
        expect_int(value);
        expect_int(-value);
        expect_int(value - 1);
        expect_int(value * 9 + 5);
    }
    for (int64_t value = -1100; value < 1100; value++)
        expect_int(value);
}
END_TEST

START_TEST(doubles_are_parsed_as_redis_does)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"0", 0},
                {"1.5", 1.5},
                {"+1", 1},
                {"-.5", -.5},
                {"5.", 5},
                {"1e5", 1e5},
                {"0x10", 16},
                {"0x1p3", 8},
                {"inf", INFINITY},
                {"-Infinity", -INFINITY},
                {"1e-320", 1e-320},
                {"007", 7},
                {"123456789012345", 123456789012345},
                {"9007199254740993", 9007199254740992.0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct guard guard;
        guard_init(&guard, rows[i].text, strlen(rows[i].text));
        double value;
        ck_assert_msg(number_parse_double((struct bytes){guard.data, guard.len}, &value), "%s",
                      rows[i].text);
        ck_assert(value == rows[i].value);
        guard_fini(&guard);
    }
    double zero;
    ck_assert(number_parse_double(BYTES("-0"), &zero));
    ck_assert(signbit(zero));
}
END_TEST

START_TEST(invalid_doubles_are_refused)
{
    static const char *const rows[] = {"",     " 1",    "1 ",      "\t1",    "nan",    "-nan",
                                       "e5",   "1_",    "1e400",   "-1e400", "1e-400", "1,5",
                                       "1.5x", "--1.5", "infinit", "0x"};
    double value;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        ck_assert_msg(!number_parse_double(bytes_of(rows[i]), &value), "%s", rows[i]);
    ck_assert(!number_parse_double(BYTES("1\0"), &value));
    ck_assert(!number_parse_double(BYTES("\0"), &value));
}
END_TEST

START_TEST(a_very_long_double_is_parsed)
{
    static char text[10001];
    memset(text, '0', 10000);
    text[9999] = '7';
    double value;
    ck_assert(number_parse_double(bytes_of(text), &value));
    ck_assert(value == 7);
}
END_TEST

static void expect_double(double value, const char *wanted)
{
    char text[DOUBLE_TEXT_MAX + 1];
    text[number_format_double(text, value)] = '\0';
    ck_assert_str_eq(text, wanted);
}

START_TEST(doubles_are_printed_with_17_digits)
{
    expect_double(0, "0");
    expect_double(-0.0, "-0");
    expect_double(3, "3");
    expect_double(-17, "-17");
    expect_double(0.1, "0.10000000000000001");
    expect_double(1e15, "1000000000000000");
    expect_double(1e16, "10000000000000000");
    expect_double(1e17, "1e+17");
    expect_double(1e-5, "1.0000000000000001e-05");
    expect_double(INFINITY, "inf");
    expect_double(-INFINITY, "-inf");
    expect_double(DBL_MAX, "1.7976931348623157e+308");
    expect_double(-DBL_TRUE_MIN, "-4.9406564584124654e-324");
}
END_TEST

START_TEST(whole_doubles_are_printed_as_printf_would)
{
    for (double value = 1; value < 1e25; value *= 7)
        for (int sign = -1; sign <= 1; sign += 2) {
            char wanted[DOUBLE_TEXT_MAX];
            (void)snprintf(wanted, sizeof(wanted), "%.17g", sign * value);
            expect_double(sign * value, wanted);
        }
}
END_TEST

static void expect_human(const char *text, const char *wanted)
{
    static char got[LONG_DOUBLE_TEXT_MAX + 1];
    long double value;
    ck_assert_msg(number_parse_long_double(bytes_of(text), &value), "%s", text);
    got[number_format_long_double(got, value)] = '\0';
    ck_assert_str_eq(got, wanted);
}

START_TEST(long_doubles_are_printed_without_exponent_and_trailing_zeros)
{
    expect_human("0.1", "0.1");
    expect_human("3.0e3", "3000");
    expect_human("0x10", "16");
    expect_human("-0", "0");
    expect_human("-1e-20", "0");
    expect_human("1e-17", "0.00000000000000001");
    expect_human("1e-18", "0");
    expect_human("100", "100");
    expect_human("123456789.123456789123", "123456789.12345678912242875");
    expect_human("inf", "inf");
    expect_human("-inf", "-inf");

    static char text[LONG_DOUBLE_TEXT_MAX];
    char sum[LONG_DOUBLE_TEXT_MAX];
    ck_assert_uint_eq(number_format_long_double(text, LDBL_MAX), 4933);
    size_t len = number_format_long_double(sum, 0.1L + 0.2L);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(sum, "0.3", 3);
}
END_TEST

START_TEST(invalid_long_doubles_are_refused)
{
    static const char *const rows[] = {"", " 1", "1 ", "nan", "1e5000", "1e-5000", "abc", "1x"};
    static char text[LONG_DOUBLE_TEXT_MAX + 1];
    long double value;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        ck_assert_msg(!number_parse_long_double(bytes_of(rows[i]), &value), "%s", rows[i]);
    memset(text, '0', LONG_DOUBLE_TEXT_MAX);
    ck_assert(!number_parse_long_double((struct bytes){text, LONG_DOUBLE_TEXT_MAX}, &value));
    ck_assert(number_parse_long_double((struct bytes){text, LONG_DOUBLE_TEXT_MAX - 1}, &value));
    ck_assert(!number_parse_long_double(BYTES("1\0"), &value));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("number");
    TCase *tests = tcase_create("number");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, strict_integers_are_parsed);
    tcase_add_test(tests, loose_integers_are_refused);
    tcase_add_test(tests, unsigned_integers_are_as_strict);
    tcase_add_test(tests, integers_of_every_length_survive_printing_and_parsing);
    tcase_add_test(tests, doubles_are_parsed_as_redis_does);
    tcase_add_test(tests, invalid_doubles_are_refused);
    tcase_add_test(tests, a_very_long_double_is_parsed);
    tcase_add_test(tests, doubles_are_printed_with_17_digits);
    tcase_add_test(tests, whole_doubles_are_printed_as_printf_would);
    tcase_add_test(tests, long_doubles_are_printed_without_exponent_and_trailing_zeros);
    tcase_add_test(tests, invalid_long_doubles_are_refused);
    return suite_run(suite);
}
