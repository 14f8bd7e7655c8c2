/*
 * test_foretold.c - which keys follow a key: by items of replies and arguments, and by numbers.
 */
#include "backend/keyspace/foretold.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

/* foretold_fn: appends the key to a text; a key with '!' is here already. */
static bool append(void *owner, struct bytes key)
{
    char *text = owner;
    bool is_here = memchr(key.data, '!', key.len);
    if (!is_here)
        (void)snprintf(text + strlen(text), 200 - strlen(text), "%s%.*s", *text ? " " : "",
                       (int)key.len, key.data);
    return !is_here;
}

static void check_next(struct foretold *foretold, const char *key, uint32_t max,
                       const char *expected)
{
    char found[200] = "";
    foretold_next(foretold, bytes_of(key), max, append, found);
    ck_assert_str_eq(found, expected);
}

START_TEST(items_follow_in_four_times_as_many)
{
    struct foretold *foretold = foretold_new();
    foretold_add_reply(foretold,
                       bytes_of("*8\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nc!\r\n$1\r\nd\r\n$1\r\ne\r\n"
                                "$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n"));
    check_next(foretold, "j:a:x", 100, "j:b:x");
    check_next(foretold, "j:b:x", 100, "j:d:x j:e:x j:f:x j:g:x");
    check_next(foretold, "j:b:y", 100, "j:d:y");
    check_next(foretold, "j:b:x", 1, "j:d:x");
    foretold_begin(foretold);
    check_next(foretold, "j:b:x", 100, "");
    foretold_add_words(foretold, (struct bytes[]){bytes_of("b"), bytes_of("g"), bytes_of("h")}, 3);
    check_next(foretold, "j:b:x", 100, "j:g:x j:h:x");
    foretold_free(foretold);
}
END_TEST

/* foretold_fn */
static bool count(void *owner, struct bytes key)
{
    (void)key;
    ++*(unsigned *)owner;
    return true;
}

/* A script that goes through 69 000 keys runs no more often than for 10 000. */
START_TEST(a_long_list_follows_in_few_steps)
{
    enum { ITEMS = 69000 };
    static char texts[ITEMS][12];
    struct foretold *foretold = foretold_new();
    unsigned runs = 0;
    for (int i = 0; i < ITEMS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%05d", i);
        foretold_add_item(foretold, bytes_of(texts[i]));
    }
    for (unsigned used = 0; used < ITEMS - 1; runs++) {
        unsigned more = 0;
        foretold_next(foretold, bytes_of(texts[used]), UINT32_MAX, count, &more);
        ck_assert(more > 0);
        used += more;
    }
    ck_assert_uint_eq(runs, 7);
    foretold_free(foretold);
}
END_TEST

START_TEST(nested_pages_are_one_list)
{
    struct foretold *foretold = foretold_new();
    foretold_add_reply(foretold, bytes_of("*2\r\n$2\r\n17\r\n*2\r\n$4\r\nkey1\r\n$4\r\nkey7\r\n"));
    foretold_add_reply(foretold, bytes_of("*2\r\n$1\r\n0\r\n*1\r\n$4\r\nkey9\r\n"));
    foretold_add_reply(foretold, bytes_of("+OK\r\n"));
    foretold_add_reply(foretold, bytes_of("$-1\r\n"));
    check_next(foretold, "key1", 100, "key7");
    check_next(foretold, "key7", 100, "0 key9");
    foretold_free(foretold);
}
END_TEST

START_TEST(names_that_a_scan_will_reply_follow_the_reply)
{
    struct foretold *foretold = foretold_new();
    foretold_add_reply(foretold, bytes_of("*1\r\n$4\r\nkey1\r\n"));
    foretold_add_item(foretold, bytes_of("key1"));
    foretold_add_item(foretold, bytes_of("key7"));
    check_next(foretold, "key1", 100, "key7");
    foretold_free(foretold);
}
END_TEST

START_TEST(numbers_follow)
{
    struct foretold *foretold = foretold_new();
    check_next(foretold, "n:1:x", 100, "");
    check_next(foretold, "n:3:x", 100, "n:4:x");
    check_next(foretold, "n:5:x", 100, "n:6:x n:7:x n:8:x n:9:x");
    check_next(foretold, "n:2:x", 100, "");
    check_next(foretold, "n:3:x", 100, "n:4:x");
    check_next(foretold, "n:900:x", 100, "");
    check_next(foretold, "n:007:x", 100, "");
    check_next(foretold, "none", 100, "");
    check_next(foretold, "", 100, "");
    foretold_free(foretold);
}
END_TEST

START_TEST(the_prefix_of_all_keys_is_no_item_although_it_is_an_argument)
{
    struct foretold *foretold = foretold_new();
    foretold_add_words(foretold, (struct bytes[]){bytes_of("bull:mail:"), bytes_of("99")}, 2);
    foretold_add_reply(foretold, bytes_of("*3\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n"));
    check_next(foretold, "bull:mail:7:logs", 100, "bull:mail:8:logs");
    check_next(foretold, "bull:mail:8:logs", 100, "bull:mail:9:logs");
    check_next(foretold, "bull:mail:7", 100, "bull:mail:8");
    foretold_begin(foretold);
    foretold_add_words(foretold, (struct bytes[]){bytes_of("u1"), bytes_of("u2")}, 2);
    check_next(foretold, "u1:logs", 100, "u2:logs");
    foretold_free(foretold);
}
END_TEST

START_TEST(kinds_are_limited)
{
    char key[300];
    struct foretold *foretold = foretold_new();
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "%c%cx%d", 'a' + i % 26, 'a' + i / 26, 7);
        check_next(foretold, key, 100, "");
    }
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    check_next(foretold, key, 100, "");
    foretold_free(foretold);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("foretold");
    TCase *tests = tcase_create("keys");
    tcase_add_test(tests, items_follow_in_four_times_as_many);
    tcase_add_test(tests, a_long_list_follows_in_few_steps);
    tcase_add_test(tests, nested_pages_are_one_list);
    tcase_add_test(tests, names_that_a_scan_will_reply_follow_the_reply);
    tcase_add_test(tests, numbers_follow);
    tcase_add_test(tests, the_prefix_of_all_keys_is_no_item_although_it_is_an_argument);
    tcase_add_test(tests, kinds_are_limited);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
