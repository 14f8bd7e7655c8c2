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

static void no_max(struct arena_meter *meter)
{
    meter->max = SIZE_MAX;
}

static void end_after_some(struct arena_meter *meter, size_t work)
{
    static size_t done;
    done += work;
    meter->is_over = done > 20000;
}

START_TEST(a_sort_that_is_ended_loses_no_element)
{
    enum { COUNT = 3000 };
    static struct item items[COUNT];
    static bool seen[COUNT];
    struct arena_meter meter = {.on_max = no_max, .on_work = end_after_some};
    struct arena arena;
    size_t compares = 0;
    arena_init(&arena);
    arena.meter = &meter;
    fill(items, COUNT);
    ck_assert(!merge_sort(&arena, items, COUNT, sizeof *items, by_key, &compares));
    for (int i = 0; i < COUNT; i++) {
        ck_assert(!seen[items[i].place]);
        seen[items[i].place] = true;
    }
    arena_fini(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge_sort");
    TCase *tests = tcase_create("merge_sort");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, elements_are_in_order_and_equal_ones_stay_in_theirs);
    tcase_add_test(tests, a_sort_that_is_ended_loses_no_element);
    return suite_run(suite);
}
