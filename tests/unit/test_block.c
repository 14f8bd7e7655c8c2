#include "shared/big_memory.h"
#include "shared/block.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The thread's cache is emptied, so that a test begins with nothing. */
static void drain_cache(void)
{
    for (int i = 0; i < 32; i++)
        block_cache_decay();
    ck_assert_uint_eq(block_bytes_total(), 0);
}

START_TEST(a_small_size_gives_a_standard_block)
{
    drain_cache();
    struct block *block = block_new(1);
    ck_assert_uint_eq(block->size, BLOCK_SIZE);
    ck_assert_uint_eq(block->used, 0);
    ck_assert_uint_eq(block->refs, 1);
    memset(block->data, 'x', block->size);
    ck_assert_uint_eq(block_bytes_total(), BLOCK_SIZE);
    block_unref(block);
    drain_cache();
}
END_TEST

START_TEST(the_last_reference_gives_the_block_to_the_cache)
{
    drain_cache();
    struct block *block = block_new(BLOCK_SIZE);
    ck_assert_ptr_eq(block_ref(block), block);
    block->used = 7;
    block_unref(block);
    ck_assert_uint_eq(block->refs, 1);
    block_unref(block);
    ck_assert_uint_eq(block_bytes_total(), BLOCK_SIZE);

    struct block *again = block_new(10);
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(again->used, 0);
    again->data[BLOCK_SIZE - 1] = 'x'; /* readable and writable again */
    block_unref(again);
    drain_cache();
}
END_TEST

START_TEST(a_big_block_has_its_size_and_is_never_cached)
{
    drain_cache();
    struct block *block = block_new(BLOCK_SIZE + 1);
    ck_assert_uint_eq(block->size, BLOCK_SIZE + 1);
    block_unref(block);
    ck_assert_uint_eq(block_bytes_total(), 0);
}
END_TEST

static void count_release(void *owner)
{
    ++*(int *)owner;
}

START_TEST(borrowed_bytes_are_released_with_the_last_reference)
{
    drain_cache();
    static char bytes[BLOCK_SIZE]; /* as long as a cached block is */
    int released = 0;
    struct block *block = block_new_borrowed(bytes, sizeof bytes, count_release, &released);
    ck_assert_ptr_eq(block->data, bytes);
    ck_assert_uint_eq(block->size, sizeof bytes);
    ck_assert_uint_eq(block_bytes_total(), sizeof bytes);
    block_ref(block);
    block_unref(block);
    ck_assert_int_eq(released, 0);
    block_unref(block);
    ck_assert_int_eq(released, 1);
    ck_assert_uint_eq(block_bytes_total(), 0);
}
END_TEST

START_TEST(an_exact_block_has_its_size_and_is_never_cached)
{
    drain_cache();
    struct block *block = block_new_exact(100);
    ck_assert_uint_eq(block->size, 100);
    ck_assert_uint_eq(block_bytes_total(), 100);
    block_unref(block);
    ck_assert_uint_eq(block_bytes_total(), 0);
}
END_TEST

START_TEST(an_impossible_size_gives_null)
{
    ck_assert_ptr_null(block_new(SIZE_MAX));
    ck_assert_ptr_null(block_new_exact(SIZE_MAX - 1));
}
END_TEST

START_TEST(decay_gives_back_half_of_the_cache_each_time)
{
    drain_cache();
    struct block *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = block_new(1);
    for (int i = 0; i < 8; i++)
        block_unref(blocks[i]);
    size_t left[] = {4, 2, 1, 0, 0};
    for (int i = 0; i < 5; i++) {
        block_cache_decay();
        ck_assert_uint_eq(block_bytes_total(), left[i] * BLOCK_SIZE);
    }
}
END_TEST

START_TEST(the_cache_is_bounded)
{
    enum { COUNT = 300 };
    drain_cache();
    static struct block *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = block_new(1);
    for (int i = 0; i < COUNT; i++)
        block_unref(blocks[i]);
    ck_assert_uint_eq(block_bytes_total(), (size_t)256 * BLOCK_SIZE);
    drain_cache();
}
END_TEST

static void *use_blocks(void *ok)
{
    block_unref(block_new(1));
    return block_bytes_total() == BLOCK_SIZE ? ok : NULL;
}

START_TEST(threads_have_own_caches_that_end_with_them)
{
    drain_cache();
    pthread_t thread;
    void *result;
    char mark;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_blocks, &mark), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, &mark);
    /* no check when blocks remain: the leak sanitizer reports them */
    ck_assert_uint_eq(block_bytes_total(), 0);
}
END_TEST

START_TEST(a_block_of_megabytes_grows_with_its_bytes_or_stays)
{
    static const size_t sizes[] = {100000, 5 << 20, 40 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct block *block = block_new_exact(sizes[i]);
        memset(block->data, 'x', sizes[i]);
        block->used = sizes[i];
        struct block *grown = block_grow(block, 50 << 20);
        if (grown) {
            block = grown;
            ck_assert_uint_eq(block->size, 50 << 20);
            memset(block->data + sizes[i], 'y', block->size - sizes[i]);
        }
        ck_assert_uint_eq(block->used, sizes[i]);
        ck_assert_int_eq(block->data[0], 'x');
        ck_assert_int_eq(block->data[sizes[i] - 1], 'x');
        ck_assert_uint_eq(block_bytes_total(), block->size);
        block_unref(block);
        ck_assert_uint_eq(block_bytes_total(), 0);
    }
}
END_TEST

/* At each distance from a page, into new memory and into a part of it that has bytes around. */
START_TEST(a_big_copy_is_whole_and_changes_nothing_around_it)
{
    enum { BIG = 33 << 20, AROUND = 8192 };
    char *from = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        from[i] = (char)(i * 7 + i / 251);
    for (size_t at = 0; at < AROUND / 2; at += 1365) {
        char *to = big_alloc(BIG + AROUND);
        memset(to, 'x', at);
        memset(to + at + BIG, 'y', AROUND - at);
        big_copy(to + at, from, BIG);
        ck_assert(memcmp(to + at, from, BIG) == 0);
        ck_assert(at == 0 || (to[0] == 'x' && to[at - 1] == 'x'));
        ck_assert(to[at + BIG] == 'y' && to[BIG + AROUND - 1] == 'y');
        big_free(to, BIG + AROUND);
    }
    big_copy(from, NULL, 0);
    free(from);
}
END_TEST

START_TEST(unref_of_null_is_allowed)
{
    block_unref(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block");
    TCase *tests = tcase_create("block");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_small_size_gives_a_standard_block);
    tcase_add_test(tests, the_last_reference_gives_the_block_to_the_cache);
    tcase_add_test(tests, a_big_block_has_its_size_and_is_never_cached);
    tcase_add_test(tests, borrowed_bytes_are_released_with_the_last_reference);
    tcase_add_test(tests, an_exact_block_has_its_size_and_is_never_cached);
    tcase_add_test(tests, an_impossible_size_gives_null);
    tcase_add_test(tests, decay_gives_back_half_of_the_cache_each_time);
    tcase_add_test(tests, the_cache_is_bounded);
    tcase_add_test(tests, threads_have_own_caches_that_end_with_them);
    tcase_add_test(tests, a_block_of_megabytes_grows_with_its_bytes_or_stays);
    tcase_add_test(tests, a_big_copy_is_whole_and_changes_nothing_around_it);
    tcase_add_test(tests, unref_of_null_is_allowed);
    return suite_run(suite);
}
