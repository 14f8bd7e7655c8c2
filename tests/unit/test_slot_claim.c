/*
 * test_slot_claim.c - the epoch of a slot that an operator forces (slot_owners_inner.h).
 */
#include "backend/slots/slot_owners_inner.h"
#include "tests/unit/suite.h"

START_TEST(a_newer_map_gives_a_higher_epoch_also_if_less_is_known)
{
    ck_assert_uint_gt(owners_forced_epoch(1, 7), owners_forced_epoch(4, 6));
    ck_assert_uint_gt(owners_forced_epoch(1, 8), owners_forced_epoch(owners_forced_epoch(4, 6), 7));
    ck_assert_uint_gt(owners_forced_epoch(1, 7), owners_forced_epoch(2, 6)); /* equal sums */
}
END_TEST

START_TEST(the_epoch_is_higher_than_the_known_one)
{
    static const uint64_t epochs[] = {
        1, 1 << 20, (7 << 20) + 5, EPOCH_TOLD_MAX - 1, EPOCH_TOLD_MAX, UINT64_MAX - 1};
    static const uint64_t maps[] = {1, 7, UINT64_C(1) << 41, UINT64_C(1) << 50, UINT64_MAX};
    for (size_t e = 0; e < sizeof epochs / sizeof *epochs; e++)
        for (size_t m = 0; m < sizeof maps / sizeof *maps; m++)
            ck_assert_uint_gt(owners_forced_epoch(epochs[e], maps[m]), epochs[e]);
    ck_assert_uint_eq(owners_forced_epoch(UINT64_MAX, 7), UINT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot_claim");
    TCase *tests = tcase_create("epochs");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_newer_map_gives_a_higher_epoch_also_if_less_is_known);
    tcase_add_test(tests, the_epoch_is_higher_than_the_known_one);
    return suite_run(suite);
}
