#include "guard.h"
#include "shared/glob.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

/* Matches with both texts placed directly before unreadable memory. */
static bool guarded(bool (*match)(struct bytes, struct bytes), struct bytes pattern,
                    struct bytes text)
{
    struct guard p;
    struct guard t;
    guard_init(&p, pattern.data, pattern.len);
    guard_init(&t, text.data, text.len);
    bool result = match((struct bytes){p.data, p.len}, (struct bytes){t.data, t.len});
    guard_fini(&p);
    guard_fini(&t);
    return result;
}

/* The same match with a pattern that is compiled first. */
static bool fits_as(struct bytes pattern, struct bytes text, bool nocase)
{
    struct arena arena;
    arena_init(&arena);
    struct glob *glob = glob_new(&arena, pattern, nocase);
    bool result = glob_fits(glob, text);
    ck_assert(glob_fits(glob, text) == result);
    arena_fini(&arena);
    return result;
}

static bool fits(struct bytes pattern, struct bytes text)
{
    return fits_as(pattern, text, false);
}

static void yes(const char *pattern, const char *text)
{
    ck_assert_msg(guarded(glob_match, bytes_of(pattern), bytes_of(text)), "%s ~ %s", pattern, text);
    ck_assert_msg(guarded(fits, bytes_of(pattern), bytes_of(text)), "%s fits %s", pattern, text);
}

static void no(const char *pattern, const char *text)
{
    ck_assert_msg(!guarded(glob_match, bytes_of(pattern), bytes_of(text)), "%s ~ %s", pattern,
                  text);
    ck_assert_msg(!guarded(fits, bytes_of(pattern), bytes_of(text)), "%s fits %s", pattern, text);
}

START_TEST(plain_text_matches_itself_only)
{
    yes("abc", "abc");
    no("abc", "abd");
    no("abc", "ab");
    no("ab", "abc");
    yes("", "");
    no("", "a");
    no("a", "");
}
END_TEST

START_TEST(a_question_mark_takes_exactly_one_byte)
{
    yes("h?llo", "hello");
    no("h?llo", "hllo");
    no("?", "");
    yes("??", "ab");
}
END_TEST

START_TEST(a_star_takes_any_run)
{
    yes("*", "anything");
    yes("*", "");
    yes("a*", "a");
    yes("a*c", "abbbc");
    yes("a*b*c", "a1b2b3c");
    yes("*a*b", "xaaxbab");
    yes("a**b", "ab");
    yes("a**", "a");
    no("a*c", "abbbd");
    no("*aab", "aaaa");
    yes("*aab", "aaaab");
}
END_TEST

START_TEST(of_the_patterns_with_stars_only_the_single_one_matches_the_empty_text)
{
    no("**", ""); /* as in Redis 7.0 */
    no("*?", "");
}
END_TEST

START_TEST(a_class_takes_one_of_its_bytes)
{
    yes("h[ae]llo", "hallo");
    no("h[ae]llo", "hillo");
    yes("[a-c]", "b");
    yes("[c-a]", "b");
    no("[a-c]", "d");
    yes("[^a-c]", "d");
    no("[^a-c]", "b");
    yes("[a\\]b]", "]");
    yes("[\\-x]", "-");
    no("[]", "a");
    yes("[^]", "a");
    yes("*[0-9]x", "a1b2x");
}
END_TEST

START_TEST(an_unclosed_class_ends_with_the_pattern)
{
    yes("[abc", "b");
    no("[abc", "d");
    no("[", "a");
    yes("[^", "a");
    yes("[a-", "-");
    yes("[a-c", "b");
    yes("[\\", "\\");
}
END_TEST

START_TEST(a_backslash_takes_away_the_special_meaning)
{
    yes("\\*", "*");
    no("\\*", "a");
    yes("a\\?b", "a?b");
    yes("\\\\", "\\");
    yes("a\\", "a\\");
    yes("\\[a]", "[a]");
}
END_TEST

START_TEST(bytes_may_be_binary)
{
    ck_assert(guarded(glob_match, BYTES("a\0*"), BYTES("a\0b\xff")));
    ck_assert(!guarded(glob_match, BYTES("a\0b"), BYTES("a\0c")));
    ck_assert(guarded(glob_match, BYTES("[\x80-\xff]"), BYTES("\xe4")));
    /* char is signed, as in Redis */
    ck_assert(!guarded(glob_match, BYTES("[a-\xff]"), BYTES("z")));
}
END_TEST

START_TEST(nocase_folds_ascii_letters)
{
    ck_assert(glob_match_nocase(BYTES("HE[L-M]lo*"), BYTES("hellOW")));
    ck_assert(glob_match_nocase(BYTES("[A-C]"), BYTES("b")));
    ck_assert(glob_match_nocase(BYTES("[xB]"), BYTES("b")));
    ck_assert(!glob_match(BYTES("HELLO"), BYTES("hello")));
}
END_TEST

START_TEST(a_pattern_is_literal_without_special_bytes)
{
    ck_assert(glob_is_literal(BYTES("plain:{key}-]^")));
    ck_assert(glob_is_literal(BYTES("")));
    ck_assert(glob_is_literal(BYTES("a\0b")));
    ck_assert(!glob_is_literal(BYTES("a*")));
    ck_assert(!glob_is_literal(BYTES("a?")));
    ck_assert(!glob_is_literal(BYTES("[a]")));
    ck_assert(!glob_is_literal(BYTES("\\a")));
}
END_TEST

START_TEST(a_pattern_has_a_shortest_text)
{
    ck_assert_uint_eq(glob_text_min(BYTES(""), SIZE_MAX), 0);
    ck_assert_uint_eq(glob_text_min(BYTES("***"), SIZE_MAX), 0);
    ck_assert_uint_eq(glob_text_min(BYTES("a*?[^]x]**\\*[abc"), SIZE_MAX), 7);
    ck_assert_uint_eq(glob_text_min(BYTES("abcdef"), 3), 3);
}
END_TEST

/* Names are matched with each pattern that a client sends: the pattern is read once, and no further than a name is long. */
START_TEST(long_patterns_cost_little_for_many_names)
{
    enum { LENGTH = 8 << 20, NAMES = 100000 };
    struct arena arena;
    arena_init(&arena);
    char *text = malloc(LENGTH);
    memset(text, 'a', LENGTH);
    struct bytes patterns[] = {{text, LENGTH}, BYTES("*b?"), {text, 20}};
    struct globs *globs = globs_new(&arena, patterns, 3, true);
    ck_assert_uint_lt(arena.bytes, 1 << 16);
    for (int i = 0; i < NAMES; i++) {
        ck_assert(globs_fit(globs, BYTES("xxBx")));
        ck_assert(!globs_fit(globs, BYTES("xxxx")));
        ck_assert(!glob_match_nocase(patterns[0], BYTES("aaaa")));
    }
    ck_assert(globs_fit(globs, (struct bytes){text, 20}));
    free(text);
    arena_fini(&arena);
}
END_TEST

START_TEST(many_stars_against_a_long_text_stay_cheap)
{
    static char text[20001];
    memset(text, 'a', sizeof(text) - 1);
    no("a*a*a*a*a*a*a*a*a*a*a*a*a*b", text);
    yes("a*a*a*a*a*a*a*a*a*a*a*a*a*a", text);
}
END_TEST

/* A matcher that backtracks needs 20 000 million steps for each of these and would not end within the test's time. */
START_TEST(a_hostile_pattern_costs_little_more_than_the_text)
{
    enum { TEXT = 2 << 20, ELEMENTS = 10000 };
    char *text = malloc(TEXT);
    char *pattern = malloc(ELEMENTS + 8);
    memset(text, 'a', TEXT);
    memset(pattern, 'b', ELEMENTS + 8);
    memcpy(pattern, "*[", 2);
    pattern[ELEMENTS] = ']';
    ck_assert(!glob_match((struct bytes){pattern, ELEMENTS + 1}, (struct bytes){text, TEXT}));
    text[TEXT - 1] = 'b';
    ck_assert(glob_match((struct bytes){pattern, ELEMENTS + 1}, (struct bytes){text, TEXT}));

    memset(pattern, 'a', ELEMENTS);
    memcpy(pattern, "*a?", 3);
    memcpy(pattern + ELEMENTS, "?c*", 3);
    ck_assert(!glob_match((struct bytes){pattern, ELEMENTS + 3}, (struct bytes){text, TEXT}));
    text[TEXT - 1] = 'c';
    ck_assert(glob_match((struct bytes){pattern, ELEMENTS + 3}, (struct bytes){text, TEXT}));
    ck_assert(glob_match_nocase((struct bytes){pattern, ELEMENTS + 3}, (struct bytes){text, TEXT}));
    free(text);
    free(pattern);
}
END_TEST

/* Random patterns of few letters: the direct and the compiled match agree, also for segments longer than a machine
 * word has bits. */
struct asked {
    int left;
    size_t work;
};

/* glob_goes_on_fn */
static bool ask(void *owner, size_t work)
{
    struct asked *asked = owner;
    asked->work += work;
    return asked->left-- > 0;
}

START_TEST(a_long_search_ends_when_its_owner_wants_it)
{
    static char pattern[GLOB_PATTERN_MAX];
    static char text[1 << 20];
    memset(pattern, 'a', sizeof pattern);
    memcpy(pattern, "*?", 2);
    pattern[sizeof pattern - 1] = '*';
    memset(text, 'a', sizeof text);
    struct bytes all = {pattern, sizeof pattern};
    struct asked asked = {.left = 1000};
    ck_assert(glob_match_asking(all, (struct bytes){text, sizeof text}, ask, &asked));
    pattern[sizeof pattern - 2] = 'b';
    ck_assert(!glob_match_asking(all, (struct bytes){text, sizeof text}, ask, &asked));
    ck_assert_uint_ge(asked.work, sizeof text * sizeof pattern / 64 / 100);
    text[sizeof text - 1] = 'b';
    asked.left = 1000;
    ck_assert(glob_match_asking(all, (struct bytes){text, sizeof text}, ask, &asked));
    asked.left = 10;
    ck_assert(!glob_match_asking(all, (struct bytes){text, sizeof text}, ask, &asked));
    ck_assert_int_eq(asked.left, -1); /* it ended at the first answer "no" */
}
END_TEST

START_TEST(a_pattern_that_was_read_first_matches_the_same_texts)
{
    static const char *const parts[] = {"a",    "b",     "?",          "*",      "[ab]",
                                        "[^a]", "\\b",   "aaaaaaaaab", "[a-",    "b]",
                                        "B",    "[@-`]", "\\A",        "[^A-B]", "[z-A\\b]"};
    enum { PARTS = sizeof parts / sizeof *parts };
    unsigned random = 1;
    int matched = 0;
    for (int round = 0; round < 20000; round++) {
        char pattern[1024] = "";
        char text[200];
        for (unsigned i = 0, count = 1 + (random >> 8) % (round % 10 ? 6 : 90); i < count; i++) {
            random = random * 1103515245 + 12345;
            (void)strcat(pattern, parts[(random >> 16) % PARTS]);
        }
        size_t len = (random >> 10) % (round % 10 ? 12 : sizeof text);
        for (size_t i = 0; i < len; i++) {
            random = random * 1103515245 + 12345;
            text[i] = (random >> 16) % 8 ? 'a' : "bAB"[(random >> 20) % 3];
        }
        struct bytes whole = {text, len};
        bool expected = glob_match(bytes_of(pattern), whole);
        bool expected_nocase = glob_match_nocase(bytes_of(pattern), whole);
        matched += expected;
        ck_assert_msg(fits_as(bytes_of(pattern), whole, false) == expected, "%s ~ %.*s", pattern,
                      (int)len, text);
        ck_assert_msg(fits_as(bytes_of(pattern), whole, true) == expected_nocase, "%s ~ %.*s",
                      pattern, (int)len, text);
        ck_assert(!expected_nocase || glob_text_min(bytes_of(pattern), SIZE_MAX) <= len);
    }
    ck_assert_int_gt(matched, 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("glob");
    TCase *tests = tcase_create("glob");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, plain_text_matches_itself_only);
    tcase_add_test(tests, a_question_mark_takes_exactly_one_byte);
    tcase_add_test(tests, a_star_takes_any_run);
    tcase_add_test(tests, of_the_patterns_with_stars_only_the_single_one_matches_the_empty_text);
    tcase_add_test(tests, a_class_takes_one_of_its_bytes);
    tcase_add_test(tests, an_unclosed_class_ends_with_the_pattern);
    tcase_add_test(tests, a_backslash_takes_away_the_special_meaning);
    tcase_add_test(tests, bytes_may_be_binary);
    tcase_add_test(tests, nocase_folds_ascii_letters);
    tcase_add_test(tests, a_pattern_is_literal_without_special_bytes);
    tcase_add_test(tests, a_pattern_has_a_shortest_text);
    tcase_add_test(tests, long_patterns_cost_little_for_many_names);
    tcase_add_test(tests, many_stars_against_a_long_text_stay_cheap);
    tcase_add_test(tests, a_hostile_pattern_costs_little_more_than_the_text);
    tcase_add_test(tests, a_long_search_ends_when_its_owner_wants_it);
    tcase_add_test(tests, a_pattern_that_was_read_first_matches_the_same_texts);
    return suite_run(suite);
}
