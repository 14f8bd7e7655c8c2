#include "shared/metrics.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

static char *printed(const char *prefix)
{
    struct out out;
    out_init(&out);
    metrics_print(&out, prefix);
    char *text = calloc(1, out.bytes + 1);
    out_copy(&out, text);
    out_clear(&out);
    return text;
}

START_TEST(sets_of_all_threads_are_summed)
{
    struct metrics *one = metrics_new();
    struct metrics *two = metrics_new();
    uint64_t before = metrics_sum(METRIC_BACKEND_COMMANDS);
    metric_add(one, METRIC_BACKEND_COMMANDS, 3);
    metric_add(two, METRIC_BACKEND_COMMANDS, 4);
    ck_assert_uint_eq(metrics_sum(METRIC_BACKEND_COMMANDS) - before, 7);
}
END_TEST

START_TEST(a_gauge_may_rise_on_one_thread_and_fall_on_another)
{
    struct metrics *one = metrics_new();
    struct metrics *two = metrics_new();
    metric_set(one, METRIC_PROXY_INFLIGHT, 5);
    metric_sub(two, METRIC_PROXY_INFLIGHT, 2);
    ck_assert_uint_eq(metrics_sum(METRIC_PROXY_INFLIGHT), 3);
    metric_sub(two, METRIC_PROXY_INFLIGHT, 4);
    char *text = printed("scree_proxy_inflight");
    ck_assert_ptr_nonnull(strstr(text, "scree_proxy_inflight -1\n"));
    free(text);
    metric_set(one, METRIC_PROXY_INFLIGHT, 0);
    metric_set(two, METRIC_PROXY_INFLIGHT, 0);
}
END_TEST

START_TEST(the_text_has_help_type_and_value_of_the_wanted_program_only)
{
    struct metrics *set = metrics_new();
    metric_set(set, METRIC_PROXY_CLIENTS, 12);
    char *text = printed("scree_proxy");
    ck_assert_ptr_nonnull(strstr(text, "# HELP scree_proxy_clients Client connections open now.\n"
                                       "# TYPE scree_proxy_clients gauge\n"
                                       "scree_proxy_clients 12\n"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE scree_proxy_requests_total counter\n"));
    ck_assert_ptr_null(strstr(text, "scree_backend"));
    free(text);
}
END_TEST

enum { THREADS = 4, ROUNDS = 20000 };

static void *count(void *unused)
{
    struct metrics *set = metrics_new();
    for (int i = 0; i < ROUNDS; i++)
        metric_add(set, METRIC_BACKEND_HITS, 1);
    return unused;
}

START_TEST(no_count_is_lost_between_threads)
{
    uint64_t before = metrics_sum(METRIC_BACKEND_HITS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    uint64_t seen = metrics_sum(METRIC_BACKEND_HITS);
    ck_assert_uint_le(seen - before, THREADS * ROUNDS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(metrics_sum(METRIC_BACKEND_HITS) - before, THREADS * ROUNDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, sets_of_all_threads_are_summed);
    tcase_add_test(tests, a_gauge_may_rise_on_one_thread_and_fall_on_another);
    tcase_add_test(tests, the_text_has_help_type_and_value_of_the_wanted_program_only);
    tcase_add_test(tests, no_count_is_lost_between_threads);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
