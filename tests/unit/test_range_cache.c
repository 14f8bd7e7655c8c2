/*
 * test_range_cache.c - the range cache: which iterations store a run, which find one, and when a run is dropped.
 * sim/test_overlay shows that a run never differs from the store.
 */
#include "backend/storage/range_cache.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { CACHE_BYTES = 64 * 1024 };

static struct range_cache *cache;

static void setup(void)
{
    cache = range_cache_new(CACHE_BYTES);
}

static void teardown(void)
{
    range_cache_free(cache);
}

static struct run_place place_in(const char *collection, const char *from, bool is_reverse)
{
    return (struct run_place){.cf = CF_DATA,
                              .collection = bytes_of(collection),
                              .has_from = from != NULL,
                              .is_reverse = is_reverse,
                              .from = bytes_of(from ? from : "")};
}

/* Iterates over the rows, of one letter each, and stores a run. False: the cache did not take a run. */
static bool walk(const struct run_place *place, const char *rows, bool is_end)
{
    struct run_draft *draft = range_cache_draft(cache, place);
    if (!draft)
        return false;
    for (const char *row = rows; *row; row++)
        run_draft_add(draft, (struct bytes){row, 1}, BYTES("value"));
    run_draft_end(draft, is_end);
    return true;
}

static void iterate_twice(const char *collection, const char *from, bool is_reverse,
                          const char *rows, bool is_end)
{
    struct run_place place = place_in(collection, from, is_reverse);
    ck_assert(!walk(&place, rows, is_end));
    ck_assert(walk(&place, rows, is_end));
}

/* The rows of the run at this place; NULL: no run. Valid until the next call. */
static const char *found(const char *collection, const char *from, bool is_reverse)
{
    static char rows[RUN_ROWS_MAX + 1];
    struct run_place place = place_in(collection, from, is_reverse);
    const struct run *run = range_cache_find(cache, &place);
    if (!run)
        return NULL;
    for (uint32_t i = 0; i < run->count; i++) {
        rows[i] = *run_key(run, i).data;
        ck_assert(bytes_equal(run_value(run, i), BYTES("value")));
    }
    rows[run->count] = 0;
    range_cache_release(run);
    return rows;
}

START_TEST(a_place_where_two_iterations_began_has_a_run)
{
    ck_assert_ptr_null(found("c", NULL, false));
    iterate_twice("c", NULL, false, "abc", true);
    ck_assert_str_eq(found("c", NULL, false), "abc");
    ck_assert_ptr_null(found("d", NULL, false));
    struct run_place other = place_in("c", NULL, false);
    other.cf = CF_ZSET_SCORE;
    ck_assert_ptr_null(range_cache_find(cache, &other));
}
END_TEST

START_TEST(a_whole_collection_serves_every_place)
{
    iterate_twice("c", NULL, false, "bdf", true);
    static const char *const places[] = {"a", "b", "e", "z"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        ck_assert_str_eq(found("c", places[i], false), "bdf");
        ck_assert_str_eq(found("c", places[i], true), "bdf");
    }
    ck_assert_str_eq(found("c", NULL, true), "bdf");
}
END_TEST

START_TEST(a_part_serves_what_lies_between_its_ends)
{
    iterate_twice("c", "c", false, "dfh", false);
    ck_assert_ptr_null(found("c", NULL, false));
    ck_assert_ptr_null(found("c", NULL, true));
    ck_assert_ptr_null(found("c", "b", false));
    ck_assert_str_eq(found("c", "c", false), "dfh");
    ck_assert_str_eq(found("c", "h", true), "dfh");
    ck_assert_ptr_null(found("c", "i", true));
}
END_TEST

START_TEST(a_walk_backwards_leaves_its_rows_in_order)
{
    iterate_twice("c", "m", true, "lkj", false);
    ck_assert_str_eq(found("c", "m", true), "jkl");
    ck_assert_str_eq(found("c", "j", false), "jkl");
    ck_assert_ptr_null(found("c", "n", true));
    iterate_twice("d", NULL, true, "zy", true);
    ck_assert_str_eq(found("d", NULL, false), "yz");
    ck_assert_str_eq(found("d", NULL, true), "yz");
}
END_TEST

START_TEST(places_in_a_run_are_found)
{
    iterate_twice("c", NULL, false, "bdf", true);
    struct run_place place = place_in("c", NULL, false);
    const struct run *run = range_cache_find(cache, &place);
    ck_assert_uint_eq(run_before(run, BYTES("a"), false), 0);
    ck_assert_uint_eq(run_before(run, BYTES("d"), false), 1);
    ck_assert_uint_eq(run_before(run, BYTES("d"), true), 2);
    ck_assert_uint_eq(run_before(run, BYTES("e"), true), 2);
    ck_assert_uint_eq(run_before(run, BYTES("g"), false), 3);
    range_cache_release(run);
}
END_TEST

START_TEST(an_empty_collection_has_a_run_too)
{
    iterate_twice("c", NULL, false, "", true);
    ck_assert_str_eq(found("c", "x", true), "");
    struct run_place place = place_in("d", NULL, false);
    ck_assert(!walk(&place, "", false)); /* the iteration read no row and did not reach the end */
    ck_assert(walk(&place, "", false));
    ck_assert_ptr_null(found("d", NULL, false));
}
END_TEST

START_TEST(rows_that_are_too_many_end_a_run)
{
    char rows[RUN_ROWS_MAX + 2] = {0};
    memset(rows, 'a', RUN_ROWS_MAX);
    rows[RUN_ROWS_MAX] = 'b';
    iterate_twice("c", NULL, false, rows, true);
    ck_assert_uint_eq(strlen(found("c", NULL, false)), RUN_ROWS_MAX);
    ck_assert_ptr_null(found("c", NULL, true));
    ck_assert_ptr_null(found("c", "b", false));
}
END_TEST

START_TEST(a_row_that_is_too_big_ends_a_run)
{
    static char value[RUN_BYTES_MAX];
    struct run_place place = place_in("c", NULL, false);
    ck_assert_ptr_null(range_cache_draft(cache, &place));
    struct run_draft *draft = range_cache_draft(cache, &place);
    run_draft_add(draft, BYTES("a"), BYTES("value"));
    run_draft_add(draft, BYTES("b"), (struct bytes){value, sizeof value});
    run_draft_add(draft, BYTES("c"), BYTES("value"));
    run_draft_end(draft, true);
    ck_assert_str_eq(found("c", NULL, false), "a");
    ck_assert_ptr_null(found("c", "c", false));
}
END_TEST

START_TEST(only_one_run_is_written_at_a_time)
{
    struct run_place place = place_in("c", NULL, false);
    struct run_place other = place_in("d", NULL, false);
    ck_assert_ptr_null(range_cache_draft(cache, &place));
    ck_assert_ptr_null(range_cache_draft(cache, &other));
    struct run_draft *draft = range_cache_draft(cache, &place);
    ck_assert_ptr_nonnull(draft);
    ck_assert_ptr_null(range_cache_draft(cache, &other));
    run_draft_end(draft, false);
    draft = range_cache_draft(cache, &other);
    ck_assert_ptr_nonnull(draft);
    run_draft_end(draft, false);
}
END_TEST

START_TEST(runs_with_changed_rows_are_dropped)
{
    iterate_twice("c", NULL, false, "abc", true);
    iterate_twice("d", NULL, false, "xyz", true);
    range_cache_forget(cache, CF_ZSET_SCORE, BYTES("c"));
    ck_assert_str_eq(found("c", NULL, false), "abc");
    range_cache_forget(cache, CF_DATA, BYTES("c"));
    ck_assert_ptr_null(found("c", NULL, false));
    ck_assert_str_eq(found("d", NULL, false), "xyz");
    range_cache_clear(cache);
    ck_assert(range_cache_is_empty(cache));
    struct range_cache_figures figures;
    range_cache_figures(cache, &figures);
    ck_assert_uint_eq(figures.bytes, 0);
}
END_TEST

START_TEST(a_referenced_run_stays_when_it_is_dropped)
{
    iterate_twice("c", NULL, false, "abc", true);
    struct run_place place = place_in("c", NULL, false);
    const struct run *run = range_cache_find(cache, &place);
    range_cache_clear(cache);
    ck_assert_ptr_null(found("c", NULL, false));
    ck_assert(bytes_equal(run_key(run, 2), BYTES("c")));
    range_cache_release(run);
}
END_TEST

START_TEST(memory_is_bounded_and_what_is_used_stays)
{
    struct range_cache_figures figures;
    char collection[16];
    /* the filter of seen places is small: one place may be mistaken for another */
    int mistaken = 0;
    iterate_twice("hot", NULL, false, "abc", true);
    for (int i = 0; i < 5000; i++) {
        snprintf(collection, sizeof collection, "c%d", i);
        struct run_place place = place_in(collection, NULL, false);
        if (walk(&place, "abcdefghij", true))
            mistaken++;
        else
            ck_assert(walk(&place, "abcdefghij", true));
        ck_assert_str_eq(found("hot", NULL, false), "abc");
        range_cache_figures(cache, &figures);
        ck_assert_uint_le(figures.bytes, CACHE_BYTES);
    }
    ck_assert_int_le(mistaken, 5);
    ck_assert_ptr_null(found("c0", NULL, false));
    ck_assert_ptr_nonnull(found(collection, NULL, false));
}
END_TEST

START_TEST(a_collection_has_few_runs)
{
    char from[2] = {0};
    for (char at = 'a'; at <= 'z'; at++) {
        from[0] = at;
        iterate_twice("c", from, false, from, false);
    }
    int runs = 0;
    for (char at = 'a'; at <= 'z'; at++) {
        from[0] = at;
        runs += found("c", from, false) != NULL;
    }
    ck_assert_int_eq(runs, 8);
    ck_assert_str_eq(found("c", "z", false), "z");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("range_cache");
    TCase *cases = tcase_create("range_cache");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, a_place_where_two_iterations_began_has_a_run);
    tcase_add_test(cases, a_whole_collection_serves_every_place);
    tcase_add_test(cases, a_part_serves_what_lies_between_its_ends);
    tcase_add_test(cases, a_walk_backwards_leaves_its_rows_in_order);
    tcase_add_test(cases, places_in_a_run_are_found);
    tcase_add_test(cases, an_empty_collection_has_a_run_too);
    tcase_add_test(cases, rows_that_are_too_many_end_a_run);
    tcase_add_test(cases, a_row_that_is_too_big_ends_a_run);
    tcase_add_test(cases, only_one_run_is_written_at_a_time);
    tcase_add_test(cases, runs_with_changed_rows_are_dropped);
    tcase_add_test(cases, a_referenced_run_stays_when_it_is_dropped);
    tcase_add_test(cases, memory_is_bounded_and_what_is_used_stays);
    tcase_add_test(cases, a_collection_has_few_runs);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
