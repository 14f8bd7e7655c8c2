/*
 * test_memory_plan.c - [store] memory is divided completely and never exceeded, at any size and with any sizes given.
 */
#include "config/memory_plan.h"

#include "tests/unit/suite.h"

#define MB ((uint64_t)1 << 20)
#define GB ((uint64_t)1 << 30)

static struct backend_config config;

static void setup(void)
{
    config_init_defaults(&config.head, &backend_schema);
}

static void teardown(void)
{
    config_fini(&config.head);
}

static uint64_t planned(const struct memory_plan *plan)
{
    uint64_t partitions = (uint64_t)config.partitions;
    return plan->block_cache + plan->row_cache + plan->range_cache + plan->rank_cache +
           plan->plain_keys + partitions * (plan->memtables + 3 * plan->write_buffer);
}

START_TEST(auto_is_half_of_the_machine_and_percentages_are_of_it)
{
    ck_assert_uint_eq(memory_plan_of(&config, 24 * GB).memory, 12 * GB);
    ck_assert_uint_eq(memory_plan_of(&config, 256 * MB).memory, 128 * MB);
    ck_assert_uint_eq(memory_plan_of(&config, 0).memory, GB);
    config.store_memory_bytes = 3 * GB;
    ck_assert_uint_eq(memory_plan_of(&config, 24 * GB).memory, 3 * GB);
    config.store_memory_bytes = BYTES_PART(25);
    ck_assert_uint_eq(memory_plan_of(&config, 100 * GB).memory, 25 * GB);
}
END_TEST

START_TEST(shares_fit_into_memory_and_use_most_of_it)
{
    for (uint64_t memory = 16 * MB; memory <= 1024 * GB; memory += memory / 5)
        for (config.partitions = 1; config.partitions <= 64; config.partitions *= 4) {
            config.store_memory_bytes = memory;
            const struct memory_plan plan = memory_plan_of(&config, 0);
            /* where a partition has less than 32 MB, the smallest sizes may come on top of the shares */
            bool is_tight = memory < (uint64_t)config.partitions * 32 * MB;
            uint64_t smallest = (uint64_t)config.partitions * 2 * MB + MB;
            ck_assert_uint_le(planned(&plan), memory + (is_tight ? smallest : 0));
            ck_assert_uint_ge(plan.block_cache, MB);
            ck_assert_uint_ge(plan.memtable, 256 << 10);
            ck_assert_uint_ge(plan.memtables, 4 * plan.memtable);
            ck_assert_uint_ge(plan.write_buffer, 256 << 10);
            ck_assert_uint_eq(plan.excess, 0);
            if (memory >= GB && memory <= 8 * GB && config.partitions == 1)
                ck_assert_uint_ge(planned(&plan), memory * 4 / 5);
        }
}
END_TEST

START_TEST(sizes_that_are_given_stay_and_shares_make_room)
{
    config.store_memory_bytes = GB;
    const struct memory_plan alone = memory_plan_of(&config, 0);
    config.store_row_cache_bytes = 0;
    struct memory_plan plan = memory_plan_of(&config, 0);
    ck_assert_uint_eq(plan.row_cache, 0);
    ck_assert_uint_eq(plan.block_cache, alone.block_cache); /* a small size leaves memory unused */
    config.store_row_cache_bytes = 800 * MB;
    plan = memory_plan_of(&config, 0);
    ck_assert_uint_eq(plan.row_cache, 800 * MB);
    ck_assert_uint_lt(plan.block_cache, alone.block_cache / 2);
    ck_assert_uint_le(planned(&plan), GB);
    ck_assert_uint_eq(plan.excess, 0);
    config.store_row_cache_bytes = 2 * GB;
    plan = memory_plan_of(&config, 0);
    ck_assert_uint_gt(plan.excess, GB);
    ck_assert_uint_ge(plan.block_cache, MB);
    config.store_row_cache_bytes = BYTES_AUTO;
    config.store_memtable_bytes = 8 * MB;
    plan = memory_plan_of(&config, 0);
    ck_assert_uint_eq(plan.memtable, 8 * MB);
    ck_assert_uint_ge(plan.memtables, (uint64_t)config.store_memtables * 8 * MB);
}
END_TEST

START_TEST(all_sizes_can_be_given)
{
    config.store_memory_bytes = GB;
    config.store_block_cache_bytes = 1 * MB;
    config.store_row_cache_bytes = 2 * MB;
    config.store_range_cache_bytes = 3 * MB;
    config.store_rank_cache_bytes = 4 * MB;
    config.store_memtable_bytes = 5 * MB;
    config.store_write_buffer_bytes = 6 * MB;
    const struct memory_plan plan = memory_plan_of(&config, 0);
    ck_assert(plan.block_cache == 1 * MB && plan.row_cache == 2 * MB && plan.range_cache == 3 * MB);
    ck_assert(plan.rank_cache == 4 * MB && plan.memtable == 5 * MB && plan.write_buffer == 6 * MB);
    ck_assert_uint_eq(plan.excess, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_plan");
    TCase *tests = tcase_create("memory_plan");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, auto_is_half_of_the_machine_and_percentages_are_of_it);
    tcase_add_test(tests, shares_fit_into_memory_and_use_most_of_it);
    tcase_add_test(tests, sizes_that_are_given_stay_and_shares_make_room);
    tcase_add_test(tests, all_sizes_can_be_given);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
