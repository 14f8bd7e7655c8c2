/*
 * test_hll.c - HyperLogLogs: the bytes redis-server 7.0.15 makes, both encodings against each other, and damage.
 */
#include "backend/format/hll.h"
#include "tests/unit/guard.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPARSE_MAX = 3000 };

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

#define VALUE(literal) ((struct bytes){(literal), sizeof(literal) - 1})

static enum hll_change add(struct hll *hll, struct bytes element)
{
    uint32_t index;
    uint8_t rank;
    hll_hash(element, &index, &rank);
    return hll_raise(hll, index, rank, SPARSE_MAX);
}

static void add_numbers(struct hll *hll, int count)
{
    for (int i = 0; i < count; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "%d", i);
        ck_assert_int_ne(add(hll, (struct bytes){text, (size_t)len}), HLL_BAD);
    }
}

static uint64_t count(const struct hll *hll)
{
    uint8_t registers[HLL_REGISTERS] = {0};
    ck_assert(hll_merge(registers, hll_bytes(hll)));
    return hll_count(registers);
}

START_TEST(sparse_bytes_are_those_of_redis)
{
    static const char *const more[] = {"b", "c", "hello world", "1234567", "12345678", ""};
    struct hll hll;
    hll_init(&hll, &arena);
    hll_uncache(hll.data);
    ck_assert(bytes_equal(hll_bytes(&hll), VALUE("HYLL\1\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff")));
    ck_assert_int_eq(add(&hll, BYTES("a")), HLL_CHANGED);
    ck_assert(
        bytes_equal(hll_bytes(&hll), VALUE("HYLL\1\0\0\0\0\0\0\0\0\0\0\x80\x71\xa6\x84\x4e\x57")));
    ck_assert_int_eq(add(&hll, BYTES("a")), HLL_SAME);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        ck_assert_int_eq(add(&hll, bytes_of(more[i])), HLL_CHANGED);
    ck_assert_uint_eq(count(&hll), 7);
    hll_cache(hll.data, 7);
    ck_assert(bytes_equal(hll_bytes(&hll),
                          VALUE("HYLL\1\0\0\0\7\0\0\0\0\0\0\0\x57\x31\x84\x49\xc0\x80\x43\xc1\x8c"
                                "\x43\x9e\x88\x40\xfa\x88\x48\x52\x84\x4b\xfb\x80\x42\x5a")));
}
END_TEST

START_TEST(lengths_and_estimates_are_those_of_redis)
{
    static const struct {
        int numbers;
        size_t len;
        uint64_t count;
    } WANT[] = {{10, 48, 10},
                {100, 287, 100},
                {1000, 1923, 1001},
                {1400, 2604, 1411},
                {1500, 2766, 1512},
                {2000, HLL_DENSE_BYTES, 2007},
                {100000, HLL_DENSE_BYTES, 99565}};
    for (size_t i = 0; i < sizeof WANT / sizeof WANT[0]; i++) {
        struct hll hll;
        hll_init(&hll, &arena);
        add_numbers(&hll, WANT[i].numbers);
        ck_assert_uint_eq(hll.len, WANT[i].len);
        ck_assert_uint_eq(count(&hll), WANT[i].count);
    }
}
END_TEST

START_TEST(the_cache_says_when_it_is_stale)
{
    struct hll hll;
    uint64_t cardinality;
    hll_init(&hll, &arena);
    ck_assert(hll_cached(hll.data, &cardinality) && cardinality == 0);
    hll_cache(hll.data, 0x0102030405060708);
    ck_assert(hll_cached(hll.data, &cardinality) && cardinality == 0x0102030405060708);
    ck_assert_int_eq(hll.data[HLL_CACHE_AT], 8);
    hll_uncache(hll.data);
    ck_assert(!hll_cached(hll.data, &cardinality));
}
END_TEST

/* Random registers are raised again and again, in a sparse value without a size limit and in a dense one. */
START_TEST(both_encodings_hold_the_same_registers)
{
    uint8_t registers[2][HLL_REGISTERS] = {{0}};
    struct hll sparse;
    struct hll dense;
    uint64_t seed = 1;
    hll_init(&sparse, &arena);
    hll_init(&dense, &arena);
    ck_assert(hll_make_dense(&dense));
    for (int i = 0; i < 3000; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t index = (uint32_t)(seed >> 33) % (i % 2 ? 100 : HLL_REGISTERS);
        uint8_t rank = (uint8_t)(1 + (seed >> 60) % (i % 3 ? 3 : 16));
        ck_assert_int_eq(hll_raise(&sparse, index, rank, UINT64_MAX),
                         hll_raise(&dense, index, rank, UINT64_MAX));
    }
    ck_assert_int_eq(hll_encoding(sparse.data), HLL_SPARSE);
    ck_assert(hll_merge(registers[0], hll_bytes(&sparse)));
    ck_assert(hll_merge(registers[1], hll_bytes(&dense)));
    ck_assert_int_eq(memcmp(registers[0], registers[1], HLL_REGISTERS), 0);
    ck_assert(hll_make_dense(&sparse) && bytes_equal(hll_bytes(&sparse), hll_bytes(&dense)));
}
END_TEST

START_TEST(a_rank_no_run_can_hold_makes_it_dense)
{
    struct hll hll;
    hll_init(&hll, &arena);
    ck_assert_int_eq(hll_raise(&hll, 16383, 32, SPARSE_MAX), HLL_CHANGED);
    ck_assert_int_eq(hll_encoding(hll.data), HLL_SPARSE);
    ck_assert_int_eq(hll_raise(&hll, 16382, 33, SPARSE_MAX), HLL_CHANGED);
    ck_assert_int_eq(hll_encoding(hll.data), HLL_DENSE);
    ck_assert_int_eq(hll_raise(&hll, 16383, 32, SPARSE_MAX), HLL_SAME);
}
END_TEST

START_TEST(only_whole_headers_of_known_encodings_count)
{
    ck_assert(hll_is_header("HYLL\1\0\0\0\0\0\0\0\0\0\0", 16));
    ck_assert(hll_is_header("HYLL\0\0\0\0\0\0\0\0\0\0\0", HLL_DENSE_BYTES));
    ck_assert(!hll_is_header("HYLL\0\0\0\0\0\0\0\0\0\0\0", HLL_DENSE_BYTES - 1));
    ck_assert(!hll_is_header("HYLL\2\0\0\0\0\0\0\0\0\0\0", HLL_DENSE_BYTES));
    ck_assert(!hll_is_header("HYLX\1\0\0\0\0\0\0\0\0\0\0", 16));
    ck_assert(!hll_is_header("HYLL\1\0\0\0\0\0\0\0\0\0\0", 15));
}
END_TEST

START_TEST(damaged_runs_are_refused_without_reading_behind_them)
{
    static const char *const runs[] = {
        "", "\x40", "\x7f", "\x7f\xfe", "\x7f\xff\x80", "\x7f\xfe\x41", "\x3f\x83"};
    uint8_t registers[HLL_REGISTERS] = {0};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct guard guard;
        struct hll hll;
        char value[64] = "HYLL\1";
        size_t len = HLL_HEADER_BYTES + strlen(runs[i]);
        memcpy(value + HLL_HEADER_BYTES, runs[i], strlen(runs[i]));
        guard_init(&guard, value, len);
        ck_assert(!hll_merge(registers, (struct bytes){guard.data, len}));
        hll_init_copy(&hll, &arena, (struct bytes){guard.data, len});
        ck_assert(!hll_make_dense(&hll));
        if (i != 4 && i != 5) /* the runs of these values are valid up to this register */
            ck_assert_int_eq(hll_raise(&hll, 16383, 1, SPARSE_MAX), HLL_BAD);
        guard_fini(&guard);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("hll");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, sparse_bytes_are_those_of_redis);
    tcase_add_test(tests, lengths_and_estimates_are_those_of_redis);
    tcase_add_test(tests, the_cache_says_when_it_is_stale);
    tcase_add_test(tests, both_encodings_hold_the_same_registers);
    tcase_add_test(tests, a_rank_no_run_can_hold_makes_it_dense);
    tcase_add_test(tests, only_whole_headers_of_known_encodings_count);
    tcase_add_test(tests, damaged_runs_are_refused_without_reading_behind_them);
    Suite *suite = suite_create("hll");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
