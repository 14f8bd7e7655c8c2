/*
 * test_json_path.c - JSON paths: the matches in a document, and the paths that are refused.
 */
#include "backend/format/json/json_path.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

static const struct json_layout COMPACT;
static const char STORE[] = "{\"books\":[{\"t\":\"a\",\"price\":5},{\"t\":\"b\",\"price\":15,"
                            "\"tags\":[\"x\",\"y\"]},{\"t\":\"c\"}],"
                            "\"A-1\":{\"free\":3},\"max\":10,\"it's\":true}";

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
    json_use(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

/* The texts of the matches, separated by spaces; "error" for an invalid path, "many" for too many matches. */
static const char *found(const char *document, const char *path_text)
{
    char error[JSON_ERROR_MAX];
    struct json_path path;
    struct json_matches matches;
    struct json_text text;
    if (!json_path_parse(&arena, bytes_of(path_text), &path, error))
        return "error";
    json *root = json_parse(bytes_of(document), error);
    ck_assert_msg(root, "%s", error);
    if (!json_path_find(&arena, &path, root, &matches))
        return "many";
    json_text_init(&text, &arena);
    for (size_t i = 0; i < matches.count; i++) {
        json_text_add(&text, bytes_of(i ? " " : ""));
        json_print(&text, matches.items[i]->value, &COMPACT, 0);
    }
    json_text_add(&text, (struct bytes){"", 1});
    return text.data;
}

struct example {
    const char *path;
    const char *want;
};

static void check_examples(const char *document, const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *got = found(document, examples[i].path);
        ck_assert_msg(strcmp(got, examples[i].want) == 0, "%s means %s, not %s", examples[i].path,
                      got, examples[i].want);
    }
}

START_TEST(names_and_wildcards)
{
    static const struct example examples[] = {
        {"$.max", "10"},
        {"$['max']", "10"},
        {"$[\"max\"]", "10"},
        {"$.A-1.free", "3"},
        {"$['A-1'].free", "3"},
        {"$['it\\'s']", "true"},
        {"$.books[*].t", "\"a\" \"b\" \"c\""},
        {"$.books.*.t", "\"a\" \"b\" \"c\""},
        {"$['max','nope','max']", "10 10"},
        {"$.nope.more", ""},
        {"$.max.more", ""},
        {".max", "10"},
        {"max", "10"},
        {"books[1].t", "\"b\""},
        {"['max']", "10"},
    };
    check_examples(STORE, examples, sizeof examples / sizeof *examples);
}
END_TEST

START_TEST(indexes_slices_and_unions)
{
    static const struct example examples[] = {
        {"$[0]", "0"},
        {"$[-1]", "4"},
        {"$[5]", ""},
        {"$[-6]", ""},
        {"$[1:3]", "1 2"},
        {"$[:2]", "0 1"},
        {"$[3:]", "3 4"},
        {"$[-2:]", "3 4"},
        {"$[::2]", "0 2 4"},
        {"$[::-1]", "4 3 2 1 0"},
        {"$[3:0:-2]", "3 1"},
        {"$[::0]", ""},
        {"$[0,2]", "0 2"},
        {"$[0, 3:, -5]", "0 3 4 0"},
        {"$[-9223372036854775808:9223372036854775807]", "0 1 2 3 4"},
        {"$[0:5:9223372036854775807]", "0"},
        {"$[4::-9223372036854775808]", "4"},
    };
    check_examples("[0,1,2,3,4]", examples, sizeof examples / sizeof *examples);
}
END_TEST

START_TEST(descent_goes_containers_first)
{
    static const struct example examples[] = {
        {"$..a", "{\"a\":1} 1"},
        {"$..*", "{\"a\":1} 1 [2] 2"},
        {"$..['b','a','a']", "{\"a\":1} {\"a\":1} 1 1 [2]"},
        {"$..[0]", "2"},
        {"$..nope", ""},
    };
    static const struct example nested[] = {
        {"$..a", "{\"x\":2} [5] {\"y\":1}"},
        {"$..a[0]", "5"},
        {"$..[?(@.a)]", "{\"a\":{\"x\":2}} {\"a\":{\"y\":1}}"},
        {"$..x", "2"},
    };
    static const struct example slices[] = {
        {"$..[1:]", "[1,2,3] 2 3"}, {"$..[::2]", "0 1 3"}, {"$..[::-2]", "[1,2,3] 1 3"},
        {"$..[-1]", "[1,2,3] 3"},   {"$..[2,0]", "0 1 3"}, {"$..[5:1:-1]", "3"},
    };
    check_examples("{\"a\":{\"a\":1},\"b\":[2]}", examples, sizeof examples / sizeof *examples);
    check_examples("{\"one\":{\"a\":{\"x\":2}},\"a\":[5],\"two\":{\"a\":{\"y\":1}}}", nested,
                   sizeof nested / sizeof *nested);
    check_examples("[0,[1,2,3]]", slices, sizeof slices / sizeof *slices);
}
END_TEST

START_TEST(filters)
{
    static const struct example examples[] = {
        {"$.books[?(@.price < 10)].t", "\"a\""},
        {"$.books[?(@.price < $.max)].t", "\"a\""},
        {"$.books[?(@.price >= 5 && @.t == 'b')].t", "\"b\""},
        {"$.books[?(@.price == 5 || @.t=='c')].t", "\"a\" \"c\""},
        {"$.books[?(@.t=='a' || @.t=='b' && @.price>99)].t", "\"a\""},
        {"$.books[?((@.t=='a' || @.t=='b') && @.price>9)].t", "\"b\""},
        {"$.books[?(!@.price)].t", "\"c\""},
        {"$.books[?(!(@.price > 9))].t", "\"a\" \"c\""},
        {"$.books[?(@.tags)].t", "\"b\""},
        {"$.books[?(@.tags[1] == 'y')].t", "\"b\""},
        {"$.books[?(@.price < 'a')].t", ""},
        {"$..[?(@.free > 2.5)]", "{\"free\":3}"},
    };
    check_examples(STORE, examples, sizeof examples / sizeof *examples);
}
END_TEST

START_TEST(invalid_paths)
{
    static const char *const paths[] = {
        "",
        "$.",
        "$[",
        "$[0",
        "$['a",
        "$[]",
        "$x",
        "$.a..",
        "$..",
        "$[?(@.a",
        "$[?(@.a==)]",
        "$[?(@.a &&)]",
        "$[?(1)]",
        "$[1:x]",
        "$.a b",
        "$[99999999999999999999]",
        "$['a' 'b']",
        "$.\xff",
        "$[?(@.a=='\xff')]",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ck_assert_msg(strcmp(found("{}", paths[i]), "error") == 0, "%s is a path", paths[i]);
}
END_TEST

/* `first`, `count` copies of `more`, `last`. */
static struct bytes repeated(const char *first, const char *more, size_t count, const char *last)
{
    size_t len = strlen(first) + strlen(more) * count + strlen(last);
    char *text = malloc(len + 1);
    char *to = stpcpy(text, first);
    for (size_t i = 0; i < count; i++)
        to = stpcpy(to, more);
    (void)stpcpy(to, last);
    return (struct bytes){text, len};
}

static bool is_path(struct bytes text)
{
    char error[JSON_ERROR_MAX];
    struct json_path path;
    bool is_good = json_path_parse(&arena, text, &path, error);
    free((char *)text.data);
    return is_good;
}

START_TEST(a_path_of_many_names_takes_memory_for_each_once)
{
    enum { NAMES = 2000, BYTES_EACH = 500 };
    ck_assert(is_path(repeated("$['a'", ",'a'", NAMES, "]")));
    ck_assert_uint_lt(arena_mark(&arena).bytes, NAMES * BYTES_EACH);
    ck_assert(!is_path(repeated("$[", "'a',", NAMES, "'a]")));
    ck_assert(!is_path(repeated("$['", "\\'", NAMES, "")));
}
END_TEST

START_TEST(a_filter_of_too_many_terms_is_refused)
{
    static const char *const more[] = {"||@", "&&@"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ck_assert(is_path(repeated("$[?@", more[i], JSON_FILTER_TERMS_MAX, "]")));
        ck_assert(!is_path(repeated("$[?@", more[i], JSON_FILTER_TERMS_MAX + 1, "]")));
        ck_assert(!is_path(repeated("$[?@", more[i], 100000, "]")));
    }
    ck_assert(!is_path(repeated("$[", "?@||@,", JSON_FILTER_TERMS_MAX + 1, "0]")));
}
END_TEST

START_TEST(containers_are_equal_by_their_contents)
{
    static const struct example examples[] = {
        {"$[?@.a==@.b].n", "1 2 5"},
        {"$[?@.a!=@.b].n", "3 4 6 7"},
    };
    check_examples(
        "[{\"n\":1,\"a\":[1,{\"x\":\"y\",\"z\":null}],\"b\":[1,{\"z\":null,\"x\":\"y\"}]},"
        "{\"n\":2,\"a\":{},\"b\":{}},{\"n\":3,\"a\":[1,2],\"b\":[1]},"
        "{\"n\":4,\"a\":{\"x\":1},\"b\":{\"y\":1}},{\"n\":5,\"a\":[true,1.5],\"b\":[true,1.5]},"
        "{\"n\":6,\"a\":[1],\"b\":[1.0]},{\"n\":7,\"a\":[\"x\"],\"b\":[\"y\"]}]",
        examples, sizeof examples / sizeof *examples);
}
END_TEST

START_TEST(every_cut_of_a_path_ends)
{
    static const char path[] = "$.books[?(@.price<$['max'] && !(@.t=='b'))]..tags[-1:0:-1,'x']";
    char cut[sizeof path];
    for (size_t len = 0; len < sizeof path; len++) {
        memcpy(cut, path, len);
        cut[len] = 0;
        (void)found(STORE, cut);
    }
    ck_assert_str_ne(found(STORE, path), "error");
}
END_TEST

START_TEST(the_last_name_can_be_split_off)
{
    char error[JSON_ERROR_MAX];
    struct json_path path;
    struct json_path parent;
    struct bytes name;
    ck_assert(json_path_parse(&arena, BYTES("$.a[0]['b']"), &path, error));
    ck_assert(json_path_split(&path, &parent, &name));
    ck_assert(bytes_equal(name, BYTES("b")));
    ck_assert_uint_eq(parent.count, 2);
    ck_assert(!json_path_split(&parent, &parent, &name));
    ck_assert(json_path_parse(&arena, BYTES("$..a"), &path, error));
    ck_assert(!json_path_split(&path, &parent, &name));
}
END_TEST

START_TEST(too_many_matches_are_refused)
{
    char document[2 * JSON_DEPTH_MAX + 1] = {0};
    memset(document, '[', JSON_DEPTH_MAX);
    memset(document + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    ck_assert_str_eq(found(document, "$..*..*..*..*..*..*"), "many");
}
END_TEST

START_TEST(numbers_print_as_short_as_they_read_back)
{
    static const struct example examples[] = {
        {"1.0", "1.0"},
        {"-0.0", "-0.0"},
        {"0.1", "0.1"},
        {"25.5", "25.5"},
        {"-19.99", "-19.99"},
        {"100.0", "100.0"},
        {"1200.0625", "1200.0625"},
        {"999999999.9999", "999999999.9999"},
        {"1.00005", "1.00005"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e16"},
        {"0.000001", "1e-6"},
        {"1.7976931348623157e308", "1.7976931348623157e308"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9.223372036854776e18"},
        {"-9223372036854775809", "-9.223372036854776e18"},
        {"123456789012345678901234567890", "1.2345678901234568e29"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        ck_assert_str_eq(found(examples[i].path, "$"), examples[i].want);
}
END_TEST

START_TEST(every_price_prints_as_it_was_written)
{
    char text[32];
    for (int i = 100; i < 200000; i += 7) {
        (void)snprintf(text, sizeof text, "%d.%d%d", i / 100, i / 10 % 10, i % 10);
        size_t len = strlen(text);
        if (text[len - 1] == '0' && text[len - 2] != '.')
            text[len - 1] = 0;
        ck_assert_str_eq(found(text, "$"), text);
        arena_reset(&arena);
    }
}
END_TEST

START_TEST(texts_are_escaped_where_they_must_be)
{
    static const char document[] = "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0000\\u001f\x7f\xc3\xa9/\"";
    ck_assert_str_eq(found(document, "$"), document);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_path");
    TCase *tcase = tcase_create("json_path");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, names_and_wildcards);
    tcase_add_test(tcase, indexes_slices_and_unions);
    tcase_add_test(tcase, descent_goes_containers_first);
    tcase_add_test(tcase, filters);
    tcase_add_test(tcase, invalid_paths);
    tcase_add_test(tcase, a_path_of_many_names_takes_memory_for_each_once);
    tcase_add_test(tcase, a_filter_of_too_many_terms_is_refused);
    tcase_add_test(tcase, containers_are_equal_by_their_contents);
    tcase_add_test(tcase, every_cut_of_a_path_ends);
    tcase_add_test(tcase, the_last_name_can_be_split_off);
    tcase_add_test(tcase, too_many_matches_are_refused);
    tcase_add_test(tcase, numbers_print_as_short_as_they_read_back);
    tcase_add_test(tcase, every_price_prints_as_it_was_written);
    tcase_add_test(tcase, texts_are_escaped_where_they_must_be);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
