#include "shared/arena.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

START_TEST(allocations_are_aligned_and_do_not_overlap)
{
    struct arena arena;
    arena_init(&arena);
    char *before = NULL;
    for (size_t size = 1; size < 200; size++) {
        char *room = arena_alloc(&arena, size);
        ck_assert_uint_eq((uintptr_t)room % 8, 0);
        memset(room, (int)size, size);
        if (before)
            ck_assert_int_eq(before[size - 2], (char)(size - 1));
        before = room;
    }
    arena_fini(&arena);
}
END_TEST

START_TEST(a_big_allocation_leaves_the_open_chunk_in_use)
{
    struct arena arena;
    arena_init(&arena);
    char *first = arena_alloc(&arena, 8);
    char *big = arena_alloc(&arena, 1 << 20);
    memset(big, 1, 1 << 20);
    char *second = arena_alloc(&arena, 8);
    ck_assert_ptr_eq(second, first + 8);
    ck_assert_uint_eq(arena.bytes, (1 << 20) + 16);
    arena_fini(&arena);
}
END_TEST

START_TEST(reset_keeps_one_chunk_and_forgets_the_rest)
{
    struct arena arena;
    arena_init(&arena);
    (void)arena_alloc(&arena, 1 << 20);
    char *small = arena_alloc(&arena, 8);
    arena_reset(&arena);
    ck_assert_uint_eq(arena.bytes, 0);
    ck_assert_ptr_eq(arena_alloc(&arena, 8), small);
    arena_reset(&arena);
    arena_reset(&arena);
    arena_fini(&arena);
}
END_TEST

START_TEST(only_big_allocations_and_then_reset_keep_nothing)
{
    struct arena arena;
    arena_init(&arena);
    (void)arena_alloc(&arena, 1 << 20);
    arena_reset(&arena);
    ck_assert_ptr_null(arena.chunk);
    arena_fini(&arena);
}
END_TEST

START_TEST(a_copy_is_equal_and_may_be_empty)
{
    struct arena arena;
    arena_init(&arena);
    char text[] = "abc";
    struct bytes copy = arena_copy(&arena, bytes_of(text));
    text[0] = 'x';
    ck_assert(bytes_equal(copy, BYTES("abc")));
    ck_assert_uint_eq(arena_copy(&arena, (struct bytes){NULL, 0}).len, 0);
    arena_fini(&arena);
}
END_TEST

START_TEST(a_mark_keeps_what_was_allocated_before_it)
{
    struct arena arena;
    arena_init(&arena);
    for (size_t old = 0; old < 3 * 16384;
         old += 5000) { /* also without a chunk, and with a full one */
        char *kept = old ? memset(arena_alloc(&arena, old), 7, old) : NULL;
        struct arena_mark mark = arena_mark(&arena);
        for (int i = 0; i < 2; i++) {
            for (size_t size = 1; size < 300000; size *= 3)
                memset(arena_alloc(&arena, size), 1, size);
            arena_release(&arena, &mark);
        }
        ck_assert_uint_eq(arena.bytes, mark.bytes);
        for (size_t i = 0; i < old; i++)
            ck_assert_int_eq(kept[i], 7);
    }
    arena_fini(&arena);
}
END_TEST

START_TEST(a_shared_allocation_stays_when_the_arena_forgets_it)
{
    enum { BIG = 33 << 20 };
    struct arena arena;
    arena_init(&arena);
    char *small = arena_alloc(&arena, 8);
    const struct arena_mark mark = arena_mark(&arena);
    char *big = memset(arena_alloc(&arena, BIG), 7, BIG);
    ck_assert_ptr_null(arena_share(&arena, (struct bytes){small, 8}));
    ck_assert_ptr_null(arena_share(&arena, (struct bytes){big + BIG, BIG}));
    ck_assert_ptr_null(arena_share(&arena, (struct bytes){big, BIG / 3})); /* the rest would stay */
    struct arena_chunk *chunk = arena_share(&arena, (struct bytes){big + 3, BIG - 3});
    ck_assert_ptr_eq(arena_share(&arena, (struct bytes){big, BIG}), chunk);
    arena_release(&arena, &mark);
    char *next = memset(arena_alloc(&arena, BIG), 8, BIG);
    struct arena_chunk *other = arena_share(&arena, (struct bytes){next, BIG});
    arena_unshare(other); /* before the arena forgets it */
    arena_fini(&arena);
    arena_unshare(chunk);
    ck_assert_int_eq(big[0], 7);
    ck_assert_int_eq(big[BIG - 1], 7);
    arena_unshare(chunk);
}
END_TEST

static void refuse(struct arena_meter *meter)
{
    meter->is_over = true;
    meter->max = SIZE_MAX;
}

START_TEST(a_meter_counts_chunks_and_reports_once)
{
    struct arena_meter meter = {.max = 1 << 20, .on_max = refuse};
    struct arena arena;
    arena_init(&arena);
    arena.meter = &meter;
    struct arena_mark mark = arena_mark(&arena);
    for (int i = 0; i < 100; i++) { /* each is freed before the next one */
        (void)arena_alloc(&arena, 900000);
        arena_release(&arena, &mark);
    }
    ck_assert(!meter.is_over);
    ck_assert_uint_eq(meter.held, 0);
    for (int i = 0; i < 3; i++)
        (void)arena_alloc(&arena, 900000);
    ck_assert(meter.is_over);
    ck_assert_uint_ge(meter.held, 2700000);
    arena_reset(&arena);
    ck_assert_uint_eq(meter.held, 0);
    arena_fini(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = tcase_create("arena");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, allocations_are_aligned_and_do_not_overlap);
    tcase_add_test(tests, a_big_allocation_leaves_the_open_chunk_in_use);
    tcase_add_test(tests, reset_keeps_one_chunk_and_forgets_the_rest);
    tcase_add_test(tests, only_big_allocations_and_then_reset_keep_nothing);
    tcase_add_test(tests, a_copy_is_equal_and_may_be_empty);
    tcase_add_test(tests, a_mark_keeps_what_was_allocated_before_it);
    tcase_add_test(tests, a_shared_allocation_stays_when_the_arena_forgets_it);
    tcase_add_test(tests, a_meter_counts_chunks_and_reports_once);
    return suite_run(suite);
}
