#include "shared/metrics.h"

#include "shared/command/command_cells.h"
#include "shared/metric_text.h"
#include "tests/unit/suite.h"

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
    ck_assert_ptr_nonnull(strstr(text, "# HELP scree_proxy_clients Open client connections.\n"
                                       "# TYPE scree_proxy_clients gauge\n"
                                       "scree_proxy_clients 12\n"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE scree_proxy_requests_total counter\n"));
    ck_assert_ptr_null(strstr(text, "scree_backend"));
    free(text);
}
END_TEST

static char *text_of(struct out *out)
{
    char *text = calloc(1, out->bytes + 1);
    out_copy(out, text);
    out_clear(out);
    return text;
}

enum { HITS, SECONDS, WORDS = SECONDS + HISTOGRAM_WORDS };

static const struct label_family families[] = {
    {LABEL_COUNTER, HITS, "x_hits_total", "Hits.", 0, 0, 0},
    {LABEL_HISTOGRAM, SECONDS, "x_seconds", "Times.", 1e6, 0, 4},
};

START_TEST(cells_of_a_value_are_summed_and_values_never_counted_are_not_printed)
{
    struct labels *labels = labels_new(WORDS, 10);
    struct out out;
    out_init(&out);
    cell_add(labels_cell(labels, BYTES("a\"\n"), 0), HITS, 2);
    cell_add(labels_cell(labels, BYTES("a\"\n"), 1), HITS, 3);
    (void)labels_cell(labels, BYTES("b"), 0);
    ck_assert_ptr_eq(labels_cell(labels, BYTES("b"), 0), labels_cell(labels, BYTES("b"), 0));
    labels_print(labels, &out, "name", families, 1, 10);
    char *text = text_of(&out);
    ck_assert_str_eq(text, "# HELP x_hits_total Hits.\n# TYPE x_hits_total counter\n"
                           "x_hits_total{name=\"a\\\"%0a\"} 5\n");
    free(text);
    labels_free(labels);
}
END_TEST

START_TEST(a_histogram_has_each_value_in_the_first_bucket_it_fits)
{
    struct labels *labels = labels_new(WORDS, 10);
    struct metric_cell *cell = labels_cell(labels, BYTES("a"), 0);
    struct out out;
    out_init(&out);
    const uint64_t values[] = {0, 1, 2, 3, 4, 5, 16, 17, UINT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        cell_observe(cell, SECONDS, values[i]);
    labels_print(labels, &out, "name", families + 1, 1, 10);
    char *text = text_of(&out);
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"1e-06\"} 2\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"2e-06\"} 3\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"4e-06\"} 5\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"8e-06\"} 6\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"1.6e-05\"} 7\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\",le=\"+Inf\"} 9\n"));
    ck_assert_ptr_nonnull(strstr(text, "x_seconds_count{name=\"a\"} 9\n"));
    free(text);
    labels_free(labels);
}
END_TEST

START_TEST(a_quantile_lies_within_its_bucket)
{
    uint64_t words[HISTOGRAM_BUCKETS] = {0};
    ck_assert_double_eq(histogram_quantile(words, 0.99), 0);
    words[3] = 90; /* bucket of 4 to 8 */
    words[7] = 10; /* bucket of 64 to 128 */
    ck_assert_double_eq(histogram_quantile(words, 0.45), 6);
    ck_assert_double_eq(histogram_quantile(words, 0.9), 8);
    ck_assert_double_eq_tol(histogram_quantile(words, 0.99), 121.6, 1e-9);
    /* this bucket has no upper bound: its lower bound counts */
    words[HISTOGRAM_BUCKETS - 1] = 1000;
    ck_assert_double_eq(histogram_quantile(words, 0.99), 1 << 26);
}
END_TEST

START_TEST(beyond_the_bounds_values_count_as_other_which_never_goes_back)
{
    struct labels *labels = labels_new(WORDS, 3);
    struct out out;
    out_init(&out);
    cell_add(labels_cell(labels, BYTES("a"), 0), HITS, 10);
    cell_add(labels_cell(labels, BYTES("b"), 0), HITS, 9);
    cell_add(labels_cell(labels, BYTES("c"), 0), HITS, 8);
    cell_add(labels_cell(labels, BYTES("d"), 0), HITS, 1);
    ck_assert_ptr_eq(labels_cell(labels, BYTES("e"), 0), labels_cell(labels, BYTES("other"), 0));
    labels_print(labels, &out, "name", families, 1, 2);
    char *text = text_of(&out);
    ck_assert_ptr_nonnull(strstr(text, "{name=\"a\"} 10\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"b\"} 9\n"));
    ck_assert_ptr_nonnull(strstr(text, "{name=\"other\"} 9\n"));
    ck_assert_ptr_null(strstr(text, "{name=\"c\"}"));
    free(text);
    cell_add(labels_cell(labels, BYTES("d"), 0), HITS, 100); /* "other" now has the highest count */
    cell_add(labels_cell(labels, BYTES("c"), 0), HITS, 2);
    labels_print(labels, &out, "name", families, 1, 2);
    text = text_of(&out);
    ck_assert_ptr_nonnull(strstr(text, "{name=\"other\"} "));
    ck_assert_ptr_null(strstr(text, "{name=\"other\"} 8"));
    free(text);
    labels_free(labels);
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
    tcase_add_test(tests, cells_of_a_value_are_summed_and_values_never_counted_are_not_printed);
    tcase_add_test(tests, a_histogram_has_each_value_in_the_first_bucket_it_fits);
    tcase_add_test(tests, a_quantile_lies_within_its_bucket);
    tcase_add_test(tests, beyond_the_bounds_values_count_as_other_which_never_goes_back);
    tcase_add_test(tests, sets_of_all_threads_are_summed);
    tcase_add_test(tests, a_gauge_may_rise_on_one_thread_and_fall_on_another);
    tcase_add_test(tests, the_text_has_help_type_and_value_of_the_wanted_program_only);
    tcase_add_test(tests, no_count_is_lost_between_threads);
    return suite_run(suite);
}
