#include "shared/clock.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

/* In a time namespace the machine seems to have been suspended. */
START_TEST(the_time_of_promises_goes_on_while_the_machine_is_suspended)
{
    enum { SUSPENDED_S = 5000, CANNOT = 77 };
    pid_t child = fork();
    if (child == 0) {
        int fd = unshare(CLONE_NEWTIME) == 0 ? open("/proc/self/timens_offsets", O_WRONLY) : -1;
        if (fd < 0 || dprintf(fd, "boottime %d 0\n", SUSPENDED_S) < 0 || close(fd) != 0)
            _exit(CANNOT);
        pid_t inside = fork();
        if (inside == 0)
            /* the clocks are read one after the other */
            _exit(clock_boot_us() - clock_mono_us() < (SUSPENDED_S - 1) * UINT64_C(1000000));
        int status;
        _exit(waitpid(inside, &status, 0) == inside && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) != CANNOT)
        ck_assert_int_eq(WEXITSTATUS(status), 0);
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
    tcase_add_test(tests, the_time_of_promises_goes_on_while_the_machine_is_suspended);
    tcase_add_test(tests, every_random_bit_is_sometimes_set_and_sometimes_not);
    tcase_add_test(tests, threads_draw_different_numbers);
    tcase_add_test(tests, random_bytes_fill_all_and_no_more);
    return suite_run(suite);
}
