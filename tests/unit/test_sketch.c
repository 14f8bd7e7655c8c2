#include "backend/format/sketch.h"

#include "backend/format/item_hash.h"
#include "tests/unit/arena_fixture.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(sizes_follow_from_the_promise)
{
    ck_assert(sketch_width(0.001) == 2000 && sketch_width(0.9) == 3);
    ck_assert(sketch_depth(0.01) == 7 && sketch_depth(0.5) == 1 && sketch_depth(1e-9) == 30);
    ck_assert(sketch_depth(0.9999999999999999) < 1);
    ck_assert(sketch_size_ok(1, 1) && sketch_size_ok(SKETCH_COUNTERS_MAX, 1));
    ck_assert(sketch_size_ok(SKETCH_COUNTERS_MAX / 64, 64));
    ck_assert(!sketch_size_ok(SKETCH_COUNTERS_MAX, 2) && !sketch_size_ok(1, 65));
    ck_assert(!sketch_size_ok(0, 1) && !sketch_size_ok(1, 0));
    ck_assert(!sketch_size_ok(UINT64_MAX, 2) && !sketch_size_ok(2, UINT64_MAX));
}
END_TEST

START_TEST(counters_lie_in_their_rows)
{
    const struct sketch sketch = {.width = 20, .depth = 5};
    uint64_t hash = item_hash(BYTES("item"));
    for (uint32_t row = 0; row < sketch.depth; row++)
        ck_assert_uint_eq(sketch_place(&sketch, row, hash) / sketch.width, row);
    ck_assert_uint_eq(sketch_bytes(&sketch), 400);
    ck_assert_uint_eq(sketch_page_bytes(&sketch, 0), 400);
    const struct sketch wide = {.width = 129, .depth = 2};
    ck_assert_uint_eq(sketch_page_bytes(&wide, 1), SKETCH_PAGE_BYTES);
    ck_assert_uint_eq(sketch_page_bytes(&wide, 2), 8);
}
END_TEST

/* They are on disk: a change of the hashes would lose all counts. */
START_TEST(items_have_these_places)
{
    const struct sketch sketch = {.width = 1000000, .depth = 3};
    uint64_t hash = item_hash(BYTES("item"));
    ck_assert_uint_eq(item_hash(BYTES("")),
                      UINT64_C(0x2d06800538d394c2));                 /* of the specification */
    ck_assert_uint_eq(item_mix(0, 0), UINT64_C(0xe220a8397b1dcdaf)); /* of SplitMix64 with seed 0 */
    for (uint32_t row = 0; row < 3; row++)
        ck_assert_uint_eq(sketch_place(&sketch, row, hash),
                          row * 1000000 + item_scale(item_mix(hash, row), 1000000));
}
END_TEST

START_TEST(a_sketch_comes_back_as_it_was_and_damaged_bytes_are_refused)
{
    const struct sketch sketch = {.count = 7, .width = 100, .depth = 5};
    struct sketch again;
    struct bytes data = sketch_encode(&arena, &sketch);
    ck_assert(sketch_decode(data, &again));
    ck_assert_mem_eq(&again, &sketch, sizeof sketch);
    for (size_t len = 0; len < data.len; len++)
        ck_assert(!sketch_decode((struct bytes){data.data, len}, &again));
    char copy[16];
    memcpy(copy, data.data, sizeof copy);
    memset(copy, 0xff, 8); /* more than INT64_MAX */
    ck_assert(!sketch_decode((struct bytes){copy, sizeof copy}, &again));
    memcpy(copy, data.data, sizeof copy);
    memset(copy + 8, 0xff, 4); /* too wide */
    ck_assert(!sketch_decode((struct bytes){copy, sizeof copy}, &again));
    memset(copy + 8, 0, 4);
    ck_assert(!sketch_decode((struct bytes){copy, sizeof copy}, &again));
}
END_TEST

START_TEST(pages_of_a_sketch_have_sub_keys)
{
    const struct sketch sketch = {.width = 129, .depth = 2};
    uint32_t page;
    ck_assert(sketch_sub_decode(&sketch, sketch_sub(&arena, 2), &page));
    ck_assert_uint_eq(page, 2);
    ck_assert(bytes_equal(sketch_sub(&arena, 258), BYTES("\0\0\1\2")));
    ck_assert(!sketch_sub_decode(&sketch, sketch_sub(&arena, 3), &page));
    ck_assert(!sketch_sub_decode(&sketch, BYTES("\0\0\0"), &page));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sketch");
    TCase *tests = tcase_create("sketch");
    tcase_add_checked_fixture(tests, arena_setup, arena_teardown);
    tcase_add_test(tests, sizes_follow_from_the_promise);
    tcase_add_test(tests, counters_lie_in_their_rows);
    tcase_add_test(tests, items_have_these_places);
    tcase_add_test(tests, a_sketch_comes_back_as_it_was_and_damaged_bytes_are_refused);
    tcase_add_test(tests, pages_of_a_sketch_have_sub_keys);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
