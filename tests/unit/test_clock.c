#include "shared/clock.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

START_TEST(wall_time_is_that_of_the_system)
{
    uint64_t now_s = (uint64_t)time(NULL);
    uint64_t wall_s = clock_wall_us() / 1000000;
    ck_assert_uint_ge(wall_s + 1, now_s);
    ck_assert_uint_le(wall_s, now_s + 60);
}
END_TEST

START_TEST(monotonic_time_never_steps_back)
{
    uint64_t before = clock_mono_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = clock_mono_us();
        ck_assert_uint_ge(now, before);
        before = now;
    }
}
END_TEST

START_TEST(every_random_bit_is_sometimes_set_and_sometimes_not)
{
    uint64_t ever = 0;
    uint64_t always = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = clock_random();
        ever |= value;
        always &= value;
    }
    ck_assert_uint_eq(ever, UINT64_MAX);
    ck_assert_uint_eq(always, 0);
}
END_TEST

static void *draw(void *to)
{
    *(uint64_t *)to = clock_random();
    return NULL;
}

START_TEST(threads_draw_different_numbers)
{
    uint64_t drawn[2];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, draw, &drawn[i]), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_uint_ne(drawn[0], drawn[1]);
}
END_TEST

START_TEST(random_bytes_fill_all_and_no_more)
{
    char bytes[1001];
    char zeros[40] = "";
    memset(bytes, 0, sizeof(bytes));
    clock_random_bytes(bytes, 1000);
    ck_assert_int_ne(memcmp(bytes, zeros, 40), 0);
    ck_assert_int_ne(memcmp(bytes + 960, zeros, 40), 0);
    ck_assert_int_eq(bytes[1000], 0);
    clock_random_bytes(bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tests = tcase_create("clock");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, wall_time_is_that_of_the_system);
    tcase_add_test(tests, monotonic_time_never_steps_back);
    tcase_add_test(tests, every_random_bit_is_sometimes_set_and_sometimes_not);
    tcase_add_test(tests, threads_draw_different_numbers);
    tcase_add_test(tests, random_bytes_fill_all_and_no_more);
    return suite_run(suite);
}
