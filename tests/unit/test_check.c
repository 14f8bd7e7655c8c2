#include "shared/check.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct box {
    int first;
    int second;
};

START_TEST(a_true_condition_does_nothing)
{
    CHECK(1 + 1 == 2);
}
END_TEST

START_TEST(a_false_condition_prints_its_text_and_aborts)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        CHECK(1 + 1 == 3);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);

    char text[512] = "";
    ck_assert_int_gt(read(ends[0], text, sizeof(text) - 1), 0);
    ck_assert_ptr_nonnull(strstr(text, "test_check.c:"));
    ck_assert_ptr_nonnull(strstr(text, "check failed: 1 + 1 == 3\n"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

START_TEST(container_of_leads_from_a_member_to_its_owner)
{
    struct box box;
    int *member = &box.second;
    ck_assert_ptr_eq(container_of(member, struct box, second), &box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check");
    TCase *tests = tcase_create("check");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_true_condition_does_nothing);
    tcase_add_test(tests, a_false_condition_prints_its_text_and_aborts);
    tcase_add_test(tests, container_of_leads_from_a_member_to_its_owner);
    return suite_run(suite);
}
