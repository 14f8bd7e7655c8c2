#include "backend/format/topk.h"

#include "backend/format/item_hash.h"
#include "tests/unit/arena_fixture.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <string.h>

START_TEST(sizes_have_limits)
{
    ck_assert(topk_size_ok(1, 1) && topk_size_ok(TOPK_BUCKETS_MAX, 1));
    ck_assert(topk_size_ok(TOPK_BUCKETS_MAX / 64, 64));
    ck_assert(!topk_size_ok(TOPK_BUCKETS_MAX, 2) && !topk_size_ok(1, 65));
    ck_assert(!topk_size_ok(0, 1) && !topk_size_ok(1, 0) && !topk_size_ok(UINT64_MAX, 2));
    const struct topk topk = {.k = 1, .width = 13, .depth = 5, .decay = 0.9};
    ck_assert_uint_eq(topk_page_bytes(&topk, 0), TOPK_PAGE_BYTES);
    ck_assert_uint_eq(topk_page_bytes(&topk, 1), 8);
}
END_TEST

/* They are on disk: a change of the hashes would lose all counts. */
START_TEST(items_have_these_buckets)
{
    const struct topk topk = {.k = 1, .width = 1000, .depth = 5, .decay = 0.9};
    uint64_t hash = item_hash(BYTES("item"));
    for (uint32_t row = 0; row < 5; row++)
        ck_assert_uint_eq(topk_place(&topk, row, hash),
                          row * 1000 + item_scale(item_mix(hash, row), 1000));
    ck_assert_uint_eq(topk_fingerprint(hash), (uint32_t)item_mix(hash, 64));
}
END_TEST

START_TEST(a_bucket_counts_the_item_that_has_it)
{
    char bucket[TOPK_BUCKET_BYTES] = {0};
    struct topk_random random = {.seed = 1};
    ck_assert_uint_eq(topk_count(bucket, 7), 0);
    ck_assert_uint_eq(topk_add(bucket, 7, 0, 0.5, &random), 0);
    ck_assert_uint_eq(topk_add(bucket, 7, 3, 0.5, &random), 3);
    ck_assert_uint_eq(topk_add(bucket, 7, 2, 0.5, &random), 5);
    ck_assert_uint_eq(topk_count(bucket, 7), 5);
    ck_assert_uint_eq(topk_count(bucket, 8), 0);
    ck_assert_uint_eq(random.drawn, 0);
    ck_assert_uint_eq(topk_add(bucket, 7, UINT32_MAX, 0.5, &random), UINT32_MAX);
}
END_TEST

START_TEST(with_decay_1_each_increment_of_another_item_decrements_the_count)
{
    char bucket[TOPK_BUCKET_BYTES] = {0};
    struct topk_random random = {.seed = 1};
    ck_assert_uint_eq(topk_add(bucket, 7, 5, 1, &random), 5);
    ck_assert_uint_eq(topk_add(bucket, 8, 3, 1, &random), 0);
    ck_assert_uint_eq(topk_count(bucket, 7), 2);
    ck_assert_uint_eq(topk_add(bucket, 8, 6, 1, &random),
                      5); /* the increment that made it 0 counts */
    ck_assert_uint_eq(topk_count(bucket, 7), 0);
    ck_assert_uint_eq(topk_count(bucket, 8), 5);
}
END_TEST

/* The number of decrements that `tries` increments of another item make to a bucket with this count, one by one or together. */
static uint32_t decrements(uint32_t count, double decay, uint32_t tries, bool together,
                           struct topk_random *random)
{
    char bucket[TOPK_BUCKET_BYTES] = {0};
    topk_add(bucket, 7, count, decay, random);
    if (together)
        topk_add(bucket, 8, tries, decay, random);
    for (uint32_t i = 0; i < tries && !together; i++)
        topk_add(bucket, 8, 1, decay, random);
    return count - topk_count(bucket, 7);
}

/* The expected number of decrements, from the distribution of the count after each try. */
static double expected_decrements(uint32_t count, double decay, uint32_t tries)
{
    enum { COUNT_MAX = 600 };
    double chances[COUNT_MAX] = {0};
    double mean = 0;
    ck_assert_uint_lt(count, COUNT_MAX);
    chances[count] = 1;
    for (uint32_t i = 0; i < tries; i++)
        for (uint32_t at = 1; at <= count; at++) {
            double moved = chances[at] * pow(decay, at);
            chances[at] -= moved;
            chances[at - 1] += moved;
        }
    for (uint32_t at = 0; at <= count; at++)
        mean += chances[at] * (count - at);
    return mean;
}

START_TEST(counts_decay_as_often_as_documented)
{
    static const struct {
        uint32_t count;
        double decay;
        uint32_t tries;
    } cases[] = {{1, 0.9, 1},    {5, 0.9, 1},        {30, 0.9, 100},     {10, 0.5, 300},
                 {20, 0.99, 10}, {500, 0.999, 1000}, {500, 0.9999, 700}, {70, 0.9999, 80}};
    enum { ROUNDS = 5000 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int together = 0; together < 2; together++) {
            struct topk_random random = {.seed = 3};
            double sum = 0;
            for (int round = 0; round < ROUNDS; round++)
                sum +=
                    decrements(cases[i].count, cases[i].decay, cases[i].tries, together, &random);
            double expected = expected_decrements(cases[i].count, cases[i].decay, cases[i].tries);
            double deviation = sqrt(expected / ROUNDS); /* at most; the counts are spread less */
            ck_assert_msg(fabs(sum / ROUNDS - expected) < 5 * deviation,
                          "case %zu: %f instead of %f decrements", i, sum / ROUNDS, expected);
        }
}
END_TEST

START_TEST(counting_many_increments_needs_few_random_numbers)
{
    static const double decays[] = {1e-9,  0.5,     0.9,      0.98,      0.985, 0.99,
                                    0.999, 0.99999, 1 - 1e-9, 1 - 1e-16, 1};
    static const uint32_t counts[] = {1, 63, 64, 1000, 50000, 99999, 100000, 1000000, UINT32_MAX};
    for (size_t i = 0; i < sizeof decays / sizeof decays[0]; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            struct topk_random random = {.seed = i};
            uint32_t made = decrements(counts[j], decays[i], 100000, true, &random);
            ck_assert_msg(random.drawn < 1500, "%u numbers for %u decrements", random.drawn, made);
            ck_assert_uint_le(made, counts[j]);
            if (decays[i] == 1)
                ck_assert_uint_eq(made, counts[j] < 100000 ? counts[j] : 100000);
        }
}
END_TEST

START_TEST(a_high_count_does_not_decay)
{
    struct topk_random random = {.seed = 5};
    ck_assert_uint_eq(decrements(UINT32_MAX, 0.9, 100000, true, &random), 0);
    ck_assert_uint_eq(decrements(400, 0.5, 100000, true, &random), 0);
    ck_assert_uint_eq(decrements(1, 1e-300, 100000, true, &random), 0);
}
END_TEST

START_TEST(a_list_comes_back_as_it_was_and_damaged_bytes_are_refused)
{
    const struct topk topk = {
        .k = 3, .width = 8, .depth = 7, .decay = 0.9, .listed = 3, .last = {2, 5}, .changes = 6};
    static const struct {
        size_t at;
        const char *bytes;
        size_t len;
    } damages[] = {
        {0, "\0\0\0\0", 4},                          /* k is 0 */
        {0, "\0\1\x86\xa1", 4},                      /* k is 100001 */
        {4, "\xff\xff\xff\xff", 4},                  /* too wide */
        {8, "\0\0\0\x41", 4},                        /* too deep */
        {12, "\x3f\xf0\0\0\0\0\0\1", 8},             /* the decay is above 1 */
        {12, "\0\0\0\0\0\0\0\0", 8},                 /* it is 0 */
        {12, "\xff\xff\xff\xff\xff\xff\xff\xff", 8}, /* it is not a number */
        {20, "\0\0\0\4", 4},                         /* more items than k */
        {20, "\0\0\0\2", 4},                         /* not full, with a last item */
        {24, "\0\0\0\0", 4},                         /* full, and the last item has no count */
        {28, "\0\0\0\0\0\0\0\0", 8},                 /* … and no change has put it there */
        {28, "\0\0\0\0\0\0\0\7", 8},                 /* … or one that did not happen yet */
    };
    struct topk again;
    struct bytes data = topk_encode(&arena, &topk);
    ck_assert(topk_decode(data, &again));
    ck_assert(bytes_equal(topk_encode(&arena, &again), data));
    ck_assert(again.k == 3 && again.width == 8 && again.depth == 7 && again.decay == 0.9);
    ck_assert(again.listed == 3 && again.last.count == 2 && again.last.change == 5);
    ck_assert(again.changes == 6 && !again.is_by_name);
    for (size_t len = 0; len < data.len; len++)
        ck_assert(len == 28 || !topk_decode((struct bytes){data.data, len}, &again));
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char copy[64];
        memcpy(copy, data.data, data.len);
        memcpy(copy + damages[i].at, damages[i].bytes, damages[i].len);
        ck_assert_msg(!topk_decode((struct bytes){copy, data.len}, &again), "damage %zu", i);
    }
}
END_TEST

START_TEST(a_list_of_an_older_version_comes_back_as_it_was)
{
    struct bytes data = BYTES("\0\0\0\1\0\0\0\x8\0\0\0\7\x3f\xe0\0\0\0\0\0\0\0\0\0\1\0\0\0\2");
    struct topk topk;
    struct topk_spot spot;
    struct bytes item;
    ck_assert(topk_decode(data, &topk));
    ck_assert(topk.is_by_name && topk.k == 1 && topk.listed == 1 && topk.last.count == 2);
    ck_assert(bytes_equal(topk_encode(&arena, &topk), data));
    spot = (struct topk_spot){2, 0};
    ck_assert(
        bytes_equal(topk_order_sub(&arena, &topk, spot, BYTES("x")), BYTES("c\xff\xff\xff\xfdx")));
    ck_assert(topk_order_decode(&topk, BYTES("c\xff\xff\xff\xfcyz"), &spot, &item));
    ck_assert(spot.count == 3 && !spot.change && bytes_equal(item, BYTES("yz")));
    ck_assert(!topk_order_decode(&topk, BYTES("c\xff\xff\xff"), &spot, &item));
    ck_assert(bytes_equal(topk_item_value(&arena, &topk, spot), BYTES("\0\0\0\3")));
    ck_assert(topk_item_value_decode(&topk, BYTES("\0\0\0\7"), &spot) && spot.count == 7);
    ck_assert(!topk_item_value_decode(&topk, BYTES("\0\0\0\7\0\0\0\0\0\0\0\1"), &spot));
}
END_TEST

START_TEST(rows_have_sub_keys)
{
    const struct topk topk = {.k = 1, .width = 13, .depth = 5, .decay = 0.9, .changes = 9};
    struct topk_spot spot = {2, 3};
    struct bytes item;
    uint32_t number;
    ck_assert(bytes_equal(topk_page_sub(&arena, 258), BYTES("b\0\0\1\2")));
    ck_assert(topk_page_decode(&topk, topk_page_sub(&arena, 1), &number) && number == 1);
    ck_assert(!topk_page_decode(&topk, topk_page_sub(&arena, 2), &number));
    ck_assert(!topk_page_decode(&topk, BYTES("b\0\0\0"), &number));
    struct bytes sub = topk_order_sub(&arena, &topk, spot, BYTES("x"));
    ck_assert(bytes_equal(sub, BYTES("c\xff\xff\xff\xfd\xff\xff\xff\xff\xff\xff\xff\xfcx")));
    ck_assert(bytes_compare(topk_order_sub(&arena, &topk, (struct topk_spot){3, 1}, BYTES("z")),
                            sub) < 0);
    ck_assert(bytes_compare(topk_order_sub(&arena, &topk, (struct topk_spot){2, 4}, BYTES("z")),
                            sub) < 0); /* the later change is first */
    spot = (struct topk_spot){0};
    ck_assert(topk_order_decode(&topk, sub, &spot, &item));
    ck_assert(spot.count == 2 && spot.change == 3 && bytes_equal(item, BYTES("x")));
    ck_assert(!topk_order_decode(&topk, (struct bytes){sub.data, 12}, &spot, &item));
    ck_assert(!topk_order_decode(&topk, BYTES("c\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfcx"),
                                 &spot, &item)); /* count 0 */
    ck_assert(!topk_order_decode(&topk, BYTES("c\xff\xff\xff\xfd\xff\xff\xff\xff\xff\xff\xff\xffx"),
                                 &spot, &item)); /* change 0 */
    ck_assert(!topk_order_decode(&topk, BYTES("c\xff\xff\xff\xfd\xff\xff\xff\xff\xff\xff\xff\xf5x"),
                                 &spot, &item)); /* change 10 of 9 */
    ck_assert(topk_item_decode(topk_item_sub(&arena, BYTES("x")), &item));
    ck_assert(bytes_equal(item, BYTES("x")));
    ck_assert(!topk_item_decode(BYTES(""), &item) && !topk_item_decode(BYTES("cx"), &item));
    spot = (struct topk_spot){7, 9};
    struct bytes value = topk_item_value(&arena, &topk, spot);
    ck_assert(bytes_equal(value, BYTES("\0\0\0\7\0\0\0\0\0\0\0\x9")));
    spot = (struct topk_spot){0};
    ck_assert(topk_item_value_decode(&topk, value, &spot) && spot.count == 7 && spot.change == 9);
    ck_assert(!topk_item_value_decode(&topk, BYTES("\0\0\0\0\0\0\0\0\0\0\0\x9"), &spot));
    ck_assert(!topk_item_value_decode(&topk, BYTES("\0\0\0\7"), &spot));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topk");
    TCase *tests = tcase_create("topk");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, arena_setup, arena_teardown);
    tcase_add_test(tests, sizes_have_limits);
    tcase_add_test(tests, items_have_these_buckets);
    tcase_add_test(tests, a_bucket_counts_the_item_that_has_it);
    tcase_add_test(tests, with_decay_1_each_increment_of_another_item_decrements_the_count);
    tcase_add_test(tests, counts_decay_as_often_as_documented);
    tcase_add_test(tests, counting_many_increments_needs_few_random_numbers);
    tcase_add_test(tests, a_high_count_does_not_decay);
    tcase_add_test(tests, a_list_comes_back_as_it_was_and_damaged_bytes_are_refused);
    tcase_add_test(tests, a_list_of_an_older_version_comes_back_as_it_was);
    tcase_add_test(tests, rows_have_sub_keys);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
