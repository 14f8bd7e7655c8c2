/*
 * test_live_select.c - what becomes of a command of a source's stream when not everything is copied.
 */
#include "backend/copy/live_select.h"
#include "shared/check.h"
#include "shared/resp.h"
#include "tests/unit/suite.h"

#include <stdio.h>

enum { WORDS_MAX = 16, TEXT_MAX = 200 };

static const struct copy_options everything = {.has_functions = true, .to.db = -1};

static struct copy_options carts(void)
{
    struct copy_options options = everything;
    options.match = (struct copy_globs){.all = {BYTES("cart:*")}, .count = 1};
    return options;
}

static struct copy_options renamed(void)
{
    struct copy_options options = everything;
    options.strip = BYTES("cart:");
    options.add = BYTES("old:");
    return options;
}

/* Databases 0 and 3, and 3 into 5. */
static struct copy_options two_dbs(void)
{
    struct copy_options options = everything;
    options.dbs = (struct copy_dbs){.from = {0, 3}, .to = {0, 5}, .count = 2};
    return options;
}

/* The words of a text, as a command. */
static struct bytes frame_of(const char *text)
{
    struct bytes words[WORDS_MAX];
    uint32_t count = 0;
    struct out out;
    out_init(&out);
    for (const char *word = text; *word; word += strspn(word, " ")) {
        words[count++] = (struct bytes){word, strcspn(word, " ")};
        word += words[count - 1].len;
    }
    resp_write_words(&out, words, count);
    return out_take(&out);
}

/* "5 DEL a": the database and the words in the target; "nothing", "flushes", or "!" and the reason. */
static void describe(const struct selected *selected, struct bytes frame, char to[TEXT_MAX])
{
    struct resp_value value;
    size_t at = 0;
    struct bytes sent = selected->as == SELECTED_MADE ? selected->frame : frame;
    int len = snprintf(to, TEXT_MAX, "%d", (int)selected->db);
    if (selected->as == SELECTED_NOTHING || selected->as == SELECTED_FLUSHES) {
        (void)snprintf(to, TEXT_MAX, selected->as == SELECTED_NOTHING ? "nothing" : "flushes");
        return;
    }
    if (selected->as == SELECTED_REFUSED) {
        (void)snprintf(to, TEXT_MAX, "!%s", selected->refusal);
        return;
    }
    ck_assert(resp_value_next(sent, &at, &value));
    while (at < sent.len) {
        ck_assert(resp_value_next(sent, &at, &value));
        len += snprintf(to + len, (size_t)(TEXT_MAX - len), " %.*s", (int)value.text.len,
                        value.text.data);
    }
}

static void expect(const struct copy_options *options, uint64_t db, const char *command,
                   const char *expected)
{
    char found[TEXT_MAX];
    struct selector selector;
    selector_init(&selector, options);
    struct bytes frame = frame_of(command);
    struct selected selected = selector_take(&selector, frame, db);
    describe(&selected, frame, found);
    if (*expected == '!') /* which sentence it is, is no promise */
        ck_assert_msg(*found == '!', "%s: %s", command, found);
    else
        ck_assert_msg(strcmp(found, expected) == 0, "%s: %s, not %s", command, found, expected);
    free((char *)frame.data);
    selector_fini(&selector);
}

START_TEST(without_a_selection_everything_is_copied)
{
    expect(&everything, 7, "SUNIONSTORE a b c", "7 SUNIONSTORE a b c");
    expect(&everything, 7, "FLUSHALL", "7 FLUSHALL");
    expect(&everything, 7, "UNHEARD OF", "7 UNHEARD OF");
}
END_TEST

START_TEST(keys_get_their_names_in_the_target)
{
    struct copy_options options = renamed();
    expect(&options, 2, "SET cart:1 v PXAT 5", "2 SET old:1 v PXAT 5");
    expect(&options, 2, "SET cart v", "nothing");
    expect(&options, 2, "SUNIONSTORE cart:1 cart:2 cart:3", "2 SUNIONSTORE old:1 old:2 old:3");
    expect(&options, 2, "XGROUP CREATE cart:x cart:g $", "2 XGROUP CREATE old:x cart:g $");
    expect(&options, 2, "ZUNIONSTORE cart:1 2 cart:2 cart:3 WEIGHTS 1 2",
           "2 ZUNIONSTORE old:1 2 old:2 old:3 WEIGHTS 1 2");
    expect(&options, 2, "COPY cart:1 cart:2 DB 3 REPLACE", "2 COPY old:1 old:2 DB 3 REPLACE");
    expect(&options, 2, "SORT cart:1 BY nosort STORE cart:2", "2 SORT old:1 BY nosort STORE old:2");
    expect(&options, 2, "GEORADIUS cart:1 1 2 3 km STORE cart:2",
           "2 GEORADIUS old:1 1 2 3 km STORE old:2");
}
END_TEST

START_TEST(keys_that_are_not_copied_are_left_out)
{
    struct copy_options options = carts();
    expect(&options, 0, "SET other v", "nothing");
    expect(&options, 0, "DEL other cart:1 cart:2", "0 DEL cart:1 cart:2");
    expect(&options, 0, "UNLINK cart:1 other", "0 UNLINK cart:1");
    expect(&options, 0, "MSET other 1 cart:1 2 other:2 3 cart:2 4", "0 MSET cart:1 2 cart:2 4");
    expect(&options, 0, "MSETNX cart:1 2 other 1", "0 MSETNX cart:1 2");
    expect(&options, 0, "MSET other 1 cart:1", "!");
    expect(&options, 0, "MSETNX other 1 cart:1", "!");
    expect(&options, 0, "SUNIONSTORE other cart:1", "nothing");
    expect(&options, 0, "COPY cart:1 other", "nothing");
    expect(&options, 0, "PFMERGE other cart:1", "nothing");
}
END_TEST

START_TEST(what_leaves_the_copied_keys_or_comes_with_its_value_is_known)
{
    struct copy_options options = carts();
    expect(&options, 0, "RENAME cart:1 other", "0 DEL cart:1");
    expect(&options, 0, "RENAMENX cart:1 other", "0 DEL cart:1");
    expect(&options, 0, "SMOVE cart:1 other m", "0 SREM cart:1 m");
    expect(&options, 0, "SMOVE other cart:1 m", "0 SADD cart:1 m");
    expect(&options, 0, "RPOPLPUSH cart:1 other", "0 RPOP cart:1");
    expect(&options, 0, "LMOVE cart:1 other left right", "0 LPOP cart:1");
    expect(&options, 0, "LMOVE cart:1 other RIGHT LEFT", "0 RPOP cart:1");
}
END_TEST

START_TEST(what_depends_on_keys_that_are_not_copied_is_refused)
{
    struct copy_options options = carts();
    expect(&options, 0, "RENAME other cart:1", "!");
    expect(&options, 0, "LMOVE other cart:1 LEFT LEFT", "!");
    expect(&options, 0, "RPOPLPUSH other cart:1", "!");
    expect(&options, 0, "SUNIONSTORE cart:1 cart:2 other", "!");
    expect(&options, 0, "SUNIONSTORE cart:1 other", "!");
    expect(&options, 0, "COPY other cart:1", "!");
    expect(&options, 0, "BITOP AND cart:1 cart:2 other", "!");
    expect(&options, 0, "SORT cart:1 BY weight:* STORE cart:2", "!");
    expect(&options, 0, "SORT cart:1 GET # GET cart:* STORE cart:2", "!");
    expect(&options, 0, "SORT cart:1 BY weight:* STORE other", "nothing");
    expect(&options, 0, "EVAL x 0", "!");
    expect(&options, 0, "UNHEARD cart:1", "!");
    expect(&options, 0, "SET cart:1", "!");
}
END_TEST

START_TEST(databases_are_chosen_and_renumbered)
{
    struct copy_options options = two_dbs();
    expect(&options, 0, "SET k v", "0 SET k v");
    expect(&options, 3, "SUNIONSTORE a b c", "5 SUNIONSTORE a b c");
    expect(&options, 1, "SET k v", "nothing");
    expect(&options, 1, "UNHEARD OF", "nothing");
    expect(&options, 3, "MOVE k 0", "5 MOVE k 0");
    expect(&options, 0, "MOVE k 3", "0 MOVE k 5");
    expect(&options, 3, "MOVE k 1", "5 DEL k");
    expect(&options, 1, "MOVE k 3", "!");
    expect(&options, 1, "MOVE k 2", "nothing");
    expect(&options, 0, "COPY k l DB 3", "0 COPY k l DB 5");
    expect(&options, 0, "COPY k l DB 1", "nothing");
    expect(&options, 1, "COPY k l DB 3 REPLACE", "!");
    expect(&options, 1, "EVAL x 0", "nothing");
    options.dbs = (struct copy_dbs){.count = 0};
    options.to.db = 5;
    expect(&options, 0, "SET k v", "5 SET k v");
    expect(&options, 0, "MOVE k 3", "nothing");
    expect(&options, 0, "COPY k k DB 3", "nothing");
    expect(&options, 0, "COPY k l DB 3", "5 COPY k l DB 5");
}
END_TEST

START_TEST(a_flush_deletes_what_was_copied_and_nothing_else)
{
    struct copy_options options = two_dbs();
    expect(&options, 3, "FLUSHDB ASYNC", "5 FLUSHDB ASYNC");
    expect(&options, 1, "FLUSHDB", "nothing");
    expect(&options, 1, "FLUSHALL", "flushes");
    options.dbs.to[1] = 0; /* both go into database 0 */
    expect(&options, 3, "FLUSHDB", "!");
    expect(&options, 1, "FLUSHALL", "flushes");
    options = carts();
    expect(&options, 3, "FLUSHDB", "3 FLUSHDB");
    expect(&options, 3, "FLUSHALL", "3 FLUSHALL");
    options.existing = EXISTING_REPLACE;
    options.has_existing = true; /* there may have been other keys */
    expect(&options, 3, "FLUSHDB", "!");
    expect(&options, 3, "FLUSHALL", "!");
    options = everything;
    options.to.db = 5;
    expect(&options, 0, "FLUSHDB", "!");
    expect(&options, 0, "FLUSHALL", "flushes");
}
END_TEST

START_TEST(functions_come_unless_they_are_left_out)
{
    struct copy_options options = two_dbs();
    expect(&options, 1, "FUNCTION DELETE lib", "0 FUNCTION DELETE lib");
    options.has_functions = false;
    expect(&options, 0, "FUNCTION DELETE lib", "nothing");
}
END_TEST

START_TEST(selections_have_names)
{
    struct copy_options options[] = {everything, carts(), renamed(), two_dbs(), two_dbs(), carts()};
    struct selector selectors[COUNT_OF(options)];
    options[4].dbs.to[1] = 6;
    options[5].existing = EXISTING_REPLACE; /* it forbids flushes, so it may not be forgotten */
    options[5].has_existing = true;
    for (unsigned i = 0; i < COUNT_OF(options); i++)
        selector_init(&selectors[i], &options[i]);
    ck_assert_str_eq(selectors[0].name, "");
    for (unsigned i = 0; i < COUNT_OF(options); i++)
        for (unsigned j = 0; j < i; j++)
            ck_assert_str_ne(selectors[i].name, selectors[j].name);
    ck_assert(selector_writes_db(&selectors[1], 9));
    ck_assert(selector_writes_db(&selectors[3], 5));
    ck_assert(!selector_writes_db(&selectors[3], 3));
    for (unsigned i = 0; i < COUNT_OF(options); i++)
        selector_fini(&selectors[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("live_select");
    TCase *tests = tcase_create("live_select");
    command_init();
    tcase_add_test(tests, without_a_selection_everything_is_copied);
    tcase_add_test(tests, keys_get_their_names_in_the_target);
    tcase_add_test(tests, keys_that_are_not_copied_are_left_out);
    tcase_add_test(tests, what_leaves_the_copied_keys_or_comes_with_its_value_is_known);
    tcase_add_test(tests, what_depends_on_keys_that_are_not_copied_is_refused);
    tcase_add_test(tests, databases_are_chosen_and_renumbered);
    tcase_add_test(tests, a_flush_deletes_what_was_copied_and_nothing_else);
    tcase_add_test(tests, functions_come_unless_they_are_left_out);
    tcase_add_test(tests, selections_have_names);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
