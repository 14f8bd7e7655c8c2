/*
 * test_json_place.c - finding a value in the text, compared with the parsed tree: the value found is equal, and so is
 * the document after a change.
 */
#include "backend/format/json/json_place.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20000, TEXT_MAX = 1 << 16 };

static const struct json_layout COMPACT;
static struct arena arena;
static unsigned seed;
static char made[TEXT_MAX];
static size_t made_len;

static unsigned below(unsigned limit)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % limit;
}

static void setup(void)
{
    arena_init(&arena);
    json_use(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static void add(const char *text)
{
    made_len += (size_t)snprintf(made + made_len, TEXT_MAX - made_len, "%s", text);
}

/* Some names are equal after unescaping, are escaped in several ways, or contain JSON syntax. */
static const char *const NAMES[] = {"a", "b", "", "x\\\"y", "\\u0061", "c\\\\", "{,]:", "\\u00e9"};
static const char *const LEAVES[] = {"0",
                                     "-0",
                                     "-0.0",
                                     "9223372036854775807",
                                     "9223372036854775808",
                                     "-92233720368547758090",
                                     "1.5e3",
                                     "1e16",
                                     "true",
                                     "null",
                                     "\"\"",
                                     "\"},{[\\\"\"",
                                     "\"\\\\\"",
                                     "[]",
                                     "{}",
                                     "\"\\u0000\\/\"",
                                     "1e-7",
                                     "\"\\ud83d\\ude00\""};

static void add_value(unsigned depth)
{
    unsigned kind = below(3);
    if (depth == 0 || kind == 0) {
        add(LEAVES[below(sizeof LEAVES / sizeof *LEAVES)]);
        return;
    }
    add(kind == 1 ? "{ " : "[ ");
    for (unsigned i = 0, count = below(5); i < count; i++) {
        add(i ? " , " : "");
        if (kind == 1) {
            add("\"");
            add(NAMES[below(sizeof NAMES / sizeof *NAMES)]);
            add("\" : ");
        }
        add_value(depth - 1);
    }
    add(kind == 1 ? "}" : "]");
}

static const char *random_path(void)
{
    static const char *const PARTS[] = {".a",        ".b",       "['']",         "['x\"y']",
                                        "['c\\\\']", "['{,]:']", "['\xc3\xa9']", "[0]",
                                        "[1]",       "[3]",      "[-1]",         ".*"};
    static char path[256];
    size_t len = (size_t)snprintf(path, sizeof path, "$");
    for (unsigned i = 0, count = below(4); i < count; i++)
        len += (size_t)snprintf(path + len, sizeof path - len, "%s",
                                PARTS[below(sizeof PARTS / sizeof *PARTS)]);
    return path;
}

static struct bytes print(const json *value)
{
    struct json_text text;
    json_text_init(&text, &arena);
    json_print(&text, value, &COMPACT, 0);
    return json_text_bytes(&text);
}

static json *replaced(json *root, const struct json_match *match, json *value)
{
    if (!match->parent)
        return value;
    if (match->name.data)
        json_object_put(match->parent->value, match->name, value);
    else
        json_array_put(match->parent->value, match->index, value);
    return root;
}

static bool is_definite(const char *path)
{
    return !strstr(path, "-1") && !strchr(path, '*');
}

/* Compares the text with the tree. True: the path was found in the text. */
static bool compare(const char *path_text)
{
    char error[JSON_ERROR_MAX];
    struct json_path path;
    struct json_matches matches;
    struct bytes place;
    json *root = json_parse((struct bytes){made, made_len}, error);
    ck_assert_msg(root, "%s: %s", error, made);
    ck_assert(json_path_parse(&arena, bytes_of(path_text), &path, error));
    ck_assert(json_path_find(&arena, &path, root, &matches));
    struct bytes text = print(root);
    bool found = json_place_find(&arena, &path, text, &place);
    ck_assert_msg(!found || matches.count == 1, "%s of %s", path_text, made);
    if (!found) {
        ck_assert_msg(matches.count == 0 || !is_definite(path_text), "%s of %s", path_text, made);
        return false;
    }
    ck_assert(is_definite(path_text));
    ck_assert(bytes_equal(print(matches.items[0]->value), place));
    struct bytes edited = json_place_put(&arena, text, place, BYTES("[-7]"));
    json *value = json_parse(BYTES("[-7]"), error);
    ck_assert(bytes_equal(print(replaced(root, matches.items[0], value)), edited));
    return true;
}

START_TEST(a_place_has_the_value_found_in_the_tree)
{
    unsigned places = 0;
    seed = 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        made_len = 0;
        add_value(5);
        places += compare(random_path());
        arena_fini(&arena);
        setup();
    }
    ck_assert_uint_gt(places, ROUNDS / 10);
}
END_TEST

/* A string of `xs` letters x, escaped backslashes, an escaped quote and brackets: it begins and ends at any position
 * of a block. */
static void check_escapes(const char *opening, unsigned xs, unsigned backslashes,
                          const char *closing)
{
    char error[JSON_ERROR_MAX];
    struct json_path path;
    struct bytes place;
    made_len = 0;
    add(opening);
    for (unsigned i = 0; i < xs; i++)
        add("x");
    for (unsigned i = 0; i < backslashes; i++)
        add("\\\\");
    add("\\\"]}");
    add(closing);
    add(",7]");
    ck_assert(json_path_parse(&arena, BYTES("$[1]"), &path, error));
    ck_assert(json_place_find(&arena, &path, (struct bytes){made, made_len}, &place));
    ck_assert_msg(bytes_equal(place, BYTES("7")), "%.*s in %s", (int)place.len, place.data, made);
}

START_TEST(a_string_may_begin_and_end_at_any_position)
{
    for (unsigned xs = 0; xs < 40; xs++)
        for (unsigned backslashes = 0; backslashes < 20; backslashes++) {
            check_escapes("[\"", xs, backslashes, "\"");
            check_escapes("[[{\"a\":\"", xs, backslashes, "\"}]");
        }
}
END_TEST

START_TEST(cut_text_is_not_read_past_its_end)
{
    static const char text[] = "{\"a\":[{\"b\\\"\":1},\"\\\\\"],\"c\":2}";
    char error[JSON_ERROR_MAX];
    struct json_path path;
    struct bytes place;
    ck_assert(json_path_parse(&arena, BYTES("$.a[1].x"), &path, error));
    for (size_t len = 0; len < sizeof text; len++) {
        char *copy = malloc(len + 1);
        memcpy(copy, text, len);
        copy[len] = '"';
        ck_assert(!json_place_find(&arena, &path, (struct bytes){copy, len}, &place));
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_place");
    TCase *tcase = tcase_create("json_place");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_place_has_the_value_found_in_the_tree);
    tcase_add_test(tcase, a_string_may_begin_and_end_at_any_position);
    tcase_add_test(tcase, cut_text_is_not_read_past_its_end);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
