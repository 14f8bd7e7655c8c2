#include "backend/format/bloom.h"

#include "backend/format/item_hash.h"
#include "tests/unit/arena_fixture.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <string.h>

START_TEST(layers_have_these_sizes)
{
    struct bloom bloom;
    bloom_init(&bloom, 0.01, 100, 0);
    ck_assert_uint_eq(bloom.layers[0].pages, 1);
    ck_assert_uint_eq(bloom.layers[0].hashes, 7);
    ck_assert(bloom.layers[0].page_bits >= 959 && bloom.layers[0].page_bits <= 1000);
    bloom_init(&bloom, 0.01, 1000000, 0);
    ck_assert_uint_eq(bloom.layers[0].page_bits, 4096);
    double bits = (double)bloom_sums(&bloom).bytes * 8 / 1e6;
    ck_assert(bits > 9.585 &&
              bits < 10.2); /* a filter without pages needs 9.585 bits for each item */
    bloom_init(&bloom, BLOOM_ERROR_MIN, BLOOM_FIRST_CAPACITY_MAX, 0);
    bits = (double)bloom_sums(&bloom).bytes * 8 / (double)BLOOM_FIRST_CAPACITY_MAX;
    ck_assert(bits > 43.1 && bits < 60);
    bloom_init(&bloom, 0.999, 1, 0);
    ck_assert_uint_eq(bloom.layers[0].hashes, 1);
}
END_TEST

START_TEST(the_expected_rate_of_each_layer_is_below_its_part_of_the_filters_rate)
{
    const double errors[] = {0.9, 0.1, 0.01, 1e-4, BLOOM_ERROR_MIN};
    const uint64_t capacities[] = {1, 7, 100, 4000, 100000};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++)
        for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++) {
            struct bloom bloom;
            double sum = 0;
            bloom_init(&bloom, errors[e], capacities[c], 2);
            while (bloom.count < 12 && bloom_grow(&bloom))
                continue;
            for (uint8_t i = 0; i < bloom.count; i++)
                sum += bloom_layer_rate(&bloom.layers[i]);
            ck_assert(sum <= errors[e]);
            bloom_init(&bloom, errors[e], capacities[c], 0);
            ck_assert(bloom_layer_rate(&bloom.layers[0]) <= errors[e]);
        }
}
END_TEST

START_TEST(a_filter_grows_up_to_its_limits)
{
    struct bloom bloom;
    bloom_init(&bloom, 0.01, 1, 1);
    while (bloom_grow(&bloom))
        continue;
    ck_assert_uint_eq(bloom.count, BLOOM_LAYERS_MAX);
    bloom_init(&bloom, 0.01, BLOOM_FIRST_CAPACITY_MAX, 32768);
    ck_assert(!bloom_grow(&bloom));
    bloom_init(&bloom, 0.01, BLOOM_FIRST_CAPACITY_MAX, 8);
    ck_assert(bloom_grow(&bloom));
    ck_assert(!bloom_grow(&bloom));
    ck_assert_uint_eq(bloom_sums(&bloom).capacity, 9 * BLOOM_FIRST_CAPACITY_MAX);
}
END_TEST

START_TEST(items_have_these_bits)
{
    struct bloom_layer layer = {.pages = 1000, .page_bits = 64, .hashes = 3};
    uint64_t hash = item_hash(BYTES("item"));
    char page[8] = {0};
    char again[8] = {0};
    ck_assert_uint_lt(bloom_page(&layer, hash), 1000);
    ck_assert_uint_eq(bloom_page(&layer, 0), 0);
    ck_assert_uint_eq(bloom_page(&layer, UINT64_MAX), 999);
    ck_assert(!bloom_has(&layer, page, hash));
    bloom_add(&layer, page, hash);
    ck_assert(bloom_has(&layer, page, hash));
    int bits = 0;
    for (int i = 0; i < 64; i++)
        bits += page[i / 8] >> i % 8 & 1;
    ck_assert(bits > 0 && bits <= 3);
    bloom_add(&layer, again, hash);
    ck_assert_mem_eq(page, again, sizeof page);
}
END_TEST

START_TEST(a_filter_comes_back_as_it_was_and_damaged_bytes_are_refused)
{
    struct bloom bloom, again = {0};
    bloom_init(&bloom, 0.01, 100, 2);
    ck_assert(bloom_grow(&bloom) && bloom_grow(&bloom));
    bloom.layers[1].items = 7;
    struct bytes data = bloom_encode(&arena, &bloom);
    ck_assert(bloom_decode(data, &again));
    ck_assert_mem_eq(&again, &bloom, sizeof bloom);
    for (size_t len = 0; len < data.len; len++)
        ck_assert(!bloom_decode((struct bytes){data.data, len}, &again));
    char copy[256];
    memcpy(copy, data.data, data.len);
    copy[12] = 33; /* layers */
    ck_assert(!bloom_decode((struct bytes){copy, data.len}, &again));
    memcpy(copy, data.data, data.len);
    memset(copy, 0xff, 8); /* the error rate is not a number */
    ck_assert(!bloom_decode((struct bytes){copy, data.len}, &again));
    memcpy(copy, data.data, data.len);
    memset(copy + 13 + 8, 0xff, 8); /* more items than the capacity */
    ck_assert(!bloom_decode((struct bytes){copy, data.len}, &again));
}
END_TEST

START_TEST(pages_have_sub_keys)
{
    struct bloom bloom;
    uint8_t layer;
    uint32_t page;
    bloom_init(&bloom, 0.01, 100000, 2);
    ck_assert(bloom_sub_decode(&bloom, bloom_sub(&arena, 0, 5), &layer, &page));
    ck_assert(layer == 0 && page == 5);
    ck_assert(bytes_equal(bloom_sub(&arena, 1, 258), BYTES("\1\0\0\1\2")));
    ck_assert(!bloom_sub_decode(&bloom, bloom_sub(&arena, 1, 0), &layer, &page));
    ck_assert(
        !bloom_sub_decode(&bloom, bloom_sub(&arena, 0, bloom.layers[0].pages), &layer, &page));
    ck_assert(!bloom_sub_decode(&bloom, BYTES("\0\0\0\0"), &layer, &page));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bloom");
    TCase *tests = tcase_create("bloom");
    tcase_add_checked_fixture(tests, arena_setup, arena_teardown);
    tcase_add_test(tests, layers_have_these_sizes);
    tcase_add_test(tests, the_expected_rate_of_each_layer_is_below_its_part_of_the_filters_rate);
    tcase_add_test(tests, a_filter_grows_up_to_its_limits);
    tcase_add_test(tests, items_have_these_bits);
    tcase_add_test(tests, a_filter_comes_back_as_it_was_and_damaged_bytes_are_refused);
    tcase_add_test(tests, pages_have_sub_keys);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
