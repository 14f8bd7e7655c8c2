/*
 * test_bits.c - operations on runs of bits, compared with one bit at a time; BITFIELD integers at their limits.
 */
#include "backend/format/bits.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { RUN = 40 }; /* bytes: several words and a rest */

static void fill(char *data, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        data[i] = (char)(seed >> 56);
    }
}

START_TEST(ones_are_counted_up_to_the_last_byte)
{
    char data[RUN];
    fill(data, sizeof data, 1);
    for (size_t len = 0; len <= RUN; len++) {
        struct guard guard;
        uint64_t want = 0;
        for (size_t bit = 0; bit < len * 8; bit++)
            want += bits_get(data, bit);
        guard_init(&guard, data, len);
        ck_assert_uint_eq(bits_count((struct bytes){guard.data, len}), want);
        guard_fini(&guard);
    }
}
END_TEST

/* A single differing bit is found from every starting position up to it, and from none after it. */
START_TEST(the_first_bit_behind_a_place_is_found)
{
    for (int bit = 0; bit < 2; bit++)
        for (size_t at = 0; at < RUN * 8; at++) {
            char data[RUN];
            memset(data, bit ? 0 : 0xff, sizeof data);
            data[at / 8] ^= (char)(0x80 >> at % 8);
            for (size_t from = 0; from < RUN * 8; from++)
                ck_assert_int_eq(bits_find((struct bytes){data, RUN}, from, bit),
                                 from <= at ? (int64_t)at : -1);
        }
}
END_TEST

START_TEST(nothing_is_found_in_nothing)
{
    ck_assert_int_eq(bits_find(BYTES(""), 0, true), -1);
    ck_assert_int_eq(bits_find(BYTES("\xff"), 7, false), -1);
    ck_assert_int_eq(bits_find(BYTES("\xff"), 9, true), -1);
}
END_TEST

START_TEST(runs_are_combined_byte_by_byte)
{
    char a[RUN];
    char b[RUN];
    char to[RUN];
    fill(a, sizeof a, 2);
    fill(b, sizeof b, 3);
    for (size_t len = 0; len <= RUN; len++)
        for (int operation = BITS_AND; operation <= BITS_AND_NOT; operation++) {
            memcpy(to, a, sizeof a);
            bits_combine((enum bits_operation)operation, to, b, len);
            for (size_t i = 0; i < RUN; i++) {
                int both[] = {a[i] & b[i], a[i] | b[i], a[i] ^ b[i], a[i] & ~b[i]};
                ck_assert_int_eq(to[i], i < len ? (char)both[operation] : a[i]);
            }
        }
    memcpy(to, a, sizeof a);
    bits_invert(to, RUN - 1);
    for (size_t i = 0; i + 1 < RUN; i++)
        ck_assert_int_eq(to[i], (char)~a[i]);
    ck_assert_int_eq(to[RUN - 1], a[RUN - 1]);
}
END_TEST

START_TEST(types_are_read_as_strictly_as_redis_reads_them)
{
    struct field_type type;
    ck_assert(field_type_parse(BYTES("i64"), &type) && type.is_signed && type.bits == 64);
    ck_assert(field_type_parse(BYTES("u63"), &type) && !type.is_signed && type.bits == 63);
    ck_assert(field_type_parse(BYTES("u8\0junk"), &type) && type.bits == 8);
    static const char *const bad[] = {"",    "u",  "i", "u64", "i65", "u0",
                                      "i-1", "U8", "8", "u08", "u 8"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert(!field_type_parse(bytes_of(bad[i]), &type));
}
END_TEST

START_TEST(offsets_are_bounded_before_they_mean_anything)
{
    uint64_t offset;
    ck_assert(bit_offset_parse(BYTES("4294967295"), 0, 1 << 29, &offset) && offset == 4294967295);
    ck_assert(!bit_offset_parse(BYTES("4294967296"), 0, 1 << 29, &offset));
    ck_assert(bit_offset_parse(BYTES("#3"), 5, 100, &offset) && offset == 15);
    static const char *const bad[] = {"",
                                      "#",
                                      "-1",
                                      "#-1",
                                      "##1",
                                      "1.5",
                                      "#9223372036854775807",
                                      "#2305843009213693952",
                                      "9223372036854775807"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert(!bit_offset_parse(bytes_of(bad[i]), 8, 1 << 29, &offset));
    ck_assert(!bit_offset_parse(BYTES("#3"), 0, 100, &offset));
}
END_TEST

static void write_and_read(struct field_type type, unsigned at, int64_t value)
{
    char data[FIELD_BYTES_MAX];
    char before[FIELD_BYTES_MAX];
    fill(data, sizeof data, at + type.bits);
    memcpy(before, data, sizeof data);
    field_write(data, at, type, value);
    ck_assert_int_eq(field_read(data, at, type), value);
    for (size_t bit = 0; bit < sizeof data * 8; bit++)
        if (bit < at || bit >= at + type.bits)
            ck_assert_int_eq(bits_get(data, bit), bits_get(before, bit));
}

START_TEST(every_width_is_written_at_every_bit)
{
    for (unsigned bits = 1; bits <= 64; bits++)
        for (unsigned at = 0; at < 8; at++) {
            struct field_type type = {.is_signed = true, .bits = (uint8_t)bits};
            int64_t min = (int64_t)(UINT64_MAX << (bits - 1));
            write_and_read(type, at, min);
            write_and_read(type, at, -(min + 1));
            type.is_signed = false;
            if (bits < 64)
                write_and_read(type, at, (int64_t)((1ULL << bits) - 1));
        }
}
END_TEST

static int64_t add(bool is_signed, uint8_t bits, enum field_overflow policy, int64_t value,
                   int64_t increment)
{
    struct field_type type = {is_signed, bits};
    int64_t result = 0;
    bool fits = field_add(type, policy, value, increment, &result);
    ck_assert_int_eq(fits, policy != FIELD_FAIL);
    return result;
}

START_TEST(sums_that_do_not_fit_follow_the_policy)
{
    ck_assert_int_eq(add(false, 8, FIELD_WRAP, 255, 1), 0);
    ck_assert_int_eq(add(false, 8, FIELD_SAT, 255, 1), 255);
    ck_assert_int_eq(add(false, 8, FIELD_WRAP, 0, -1), 255);
    ck_assert_int_eq(add(false, 8, FIELD_SAT, 0, -1), 0);
    ck_assert_int_eq(add(true, 8, FIELD_WRAP, 127, 1), -128);
    ck_assert_int_eq(add(true, 8, FIELD_SAT, -128, -1), -128);
    ck_assert_int_eq(add(true, 64, FIELD_SAT, INT64_MIN, -1), INT64_MIN);
    ck_assert_int_eq(add(true, 64, FIELD_WRAP, INT64_MAX, 1), INT64_MIN);
    ck_assert_int_eq(add(false, 63, FIELD_WRAP, INT64_MAX, 1), 0);
    (void)add(true, 8, FIELD_FAIL, 127, 1);
}
END_TEST

/* SET of a value that the field cannot hold: the result is that of Redis 7.0. */
START_TEST(values_far_below_a_type_saturate_at_the_top)
{
    ck_assert_int_eq(add(false, 8, FIELD_SAT, -1, 0), 255);
    ck_assert_int_eq(add(true, 13, FIELD_SAT, INT64_MIN, 0), 4095);
    ck_assert_int_eq(add(true, 13, FIELD_SAT, -5000, 0), -4096);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("bits");
    tcase_add_test(tests, ones_are_counted_up_to_the_last_byte);
    tcase_add_test(tests, the_first_bit_behind_a_place_is_found);
    tcase_add_test(tests, nothing_is_found_in_nothing);
    tcase_add_test(tests, runs_are_combined_byte_by_byte);
    tcase_add_test(tests, types_are_read_as_strictly_as_redis_reads_them);
    tcase_add_test(tests, offsets_are_bounded_before_they_mean_anything);
    tcase_add_test(tests, every_width_is_written_at_every_bit);
    tcase_add_test(tests, sums_that_do_not_fit_follow_the_policy);
    tcase_add_test(tests, values_far_below_a_type_saturate_at_the_top);
    Suite *suite = suite_create("bits");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
