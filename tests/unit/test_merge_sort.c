#include "shared/merge_sort.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

struct item {
    int key;
    int place;
};

static int by_key(const void *a, const void *b, void *owner)
{
    size_t *compares = owner;
    ++*compares;
    return ((const struct item *)a)->key - ((const struct item *)b)->key;
}

static void fill(struct item *items, int count)
{
    for (int i = 0; i < count; i++)
        items[i] = (struct item){(int)((unsigned)i * 7919u % 97u), i};
}

START_TEST(elements_are_in_order_and_equal_ones_stay_in_theirs)
{
    struct arena arena;
    static struct item items[3000];
    arena_init(&arena);
    for (int count = 0; count < 3000; count += 1 + count / 3) {
        size_t compares = 0;
        fill(items, count);
        ck_assert(merge_sort(&arena, items, (size_t)count, sizeof *items, by_key, &compares));
        for (int i = 1; i < count; i++)
            ck_assert(items[i - 1].key < items[i].key ||
                      (items[i - 1].key == items[i].key && items[i - 1].place < items[i].place));
    }
    ck_assert_uint_eq(arena.bytes, 0);
    arena_fini(&arena);
}
END_TEST

/* Fills in `runs` parts whose keys rise by turns. */
static void fill_runs(struct item *items, int count, int runs)
{
    int length = (count + runs - 1) / runs;
    for (int i = 0; i < count; i++)
        items[i] = (struct item){i % length * 2 + i / length % 2, i};
}

START_TEST(few_parts_that_are_in_order_take_few_comparisons)
{
    enum { COUNT = 3000 };
    static const struct {
        int runs;
        size_t compares;
    } cases[] = {{1, COUNT}, {2, 2 * COUNT}, {3, 3 * COUNT}, {16, 5 * COUNT}, {63, 7 * COUNT}};
    static struct item items[COUNT];
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t compares = 0;
        fill_runs(items, COUNT, cases[i].runs);
        ck_assert(merge_sort(&arena, items, COUNT, sizeof *items, by_key, &compares));
        ck_assert_uint_le(compares, cases[i].compares);
        for (int at = 1; at < COUNT; at++)
            ck_assert(items[at - 1].key < items[at].key || (items[at - 1].key == items[at].key &&
                                                            items[at - 1].place < items[at].place));
    }
    ck_assert_uint_eq(arena.bytes, 0);
    arena_fini(&arena);
}
END_TEST

static void no_max(struct arena_meter *meter)
{
    meter->max = SIZE_MAX;
}

static size_t work_left;

static void end_after_some(struct arena_meter *meter, size_t work)
{
    meter->is_over = work >= work_left;
    work_left -= work < work_left ? work : work_left;
}

/* Ends the sort of these elements, and looks for each of them. */
static void end_sort(struct item *items, int count)
{
    struct arena_meter meter = {.on_max = no_max, .on_work = end_after_some};
    struct arena arena;
    size_t compares = 0;
    bool *seen = calloc((size_t)count, sizeof *seen);
    ck_assert_ptr_nonnull(seen);
    arena_init(&arena);
    arena.meter = &meter;
    work_left = 11000;
    ck_assert(!merge_sort(&arena, items, (size_t)count, sizeof *items, by_key, &compares));
    for (int i = 0; i < count; i++) {
        ck_assert(!seen[items[i].place]);
        seen[items[i].place] = true;
    }
    free(seen);
    arena_fini(&arena);
}

START_TEST(a_sort_that_is_ended_loses_no_element)
{
    enum { COUNT = 3000 };
    static struct item items[COUNT];
    fill(items, COUNT);
    end_sort(items, COUNT);
    for (int runs = 2; runs < 64; runs += 3) {
        fill_runs(items, COUNT, runs);
        end_sort(items, COUNT);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge_sort");
    TCase *tests = tcase_create("merge_sort");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, elements_are_in_order_and_equal_ones_stay_in_theirs);
    tcase_add_test(tests, few_parts_that_are_in_order_take_few_comparisons);
    tcase_add_test(tests, a_sort_that_is_ended_loses_no_element);
    return suite_run(suite);
}
