/*
 * test_script_keys.c - which keys a script will use, after runs in which it had to wait for some.
 */
#include "backend/keyspace/script_keys.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 4 };

struct call {
    struct bytes words[WORDS];
    struct script_words script;
};

/* A call of the script with these words, of which the first NULL is the end. */
static const struct script_words *call_of(struct call *call, const char *words[WORDS])
{
    call->script = (struct script_words){.script = bytes_of("sha"), .words = call->words};
    while (call->script.count < WORDS && words[call->script.count]) {
        call->words[call->script.count] = bytes_of(words[call->script.count]);
        call->script.count++;
    }
    return &call->script;
}

#define CALL(...) call_of(&(struct call){0}, (const char *[WORDS]){__VA_ARGS__})

struct guesses {
    char text[400];
    uint32_t last; /* pattern */
};

/* script_keys_fn: appends the key, with a '!' if it is written */
static void append(void *owner, struct bytes key, bool writes, uint32_t pattern)
{
    struct guesses *guesses = owner;
    size_t len = strlen(guesses->text);
    (void)snprintf(guesses->text + len, sizeof guesses->text - len, "%s%.*s%s", len ? " " : "",
                   (int)key.len, key.data, writes ? "!" : "");
    guesses->last = pattern;
}

/* Returns the last pattern. */
static uint32_t check_guesses(struct script_keys *keys, const struct script_words *call,
                              const char *expected)
{
    struct guesses guesses = {.last = 0};
    script_keys_guess(keys, call, true, append, &guesses);
    ck_assert_str_eq(guesses.text, expected);
    return guesses.last;
}

static void learn(struct script_keys *keys, const struct script_words *call, const char *key)
{
    script_keys_learn(keys, call, bytes_of(key), false);
}

START_TEST(names_are_made_of_words_stem_and_text)
{
    struct script_keys *keys = script_keys_new();
    const struct script_words *call = CALL("bull:mail:17", "worker-1", "17");
    check_guesses(keys, call, "");
    learn(keys, call, "bull:mail:17:lock");
    script_keys_learn(keys, call, bytes_of("bull:mail:wait"), true);
    learn(keys, call, "acks.worker-1.17");
    learn(keys, call, "constant");
    check_guesses(keys, CALL("bull:mail:9", "worker-2", "9"),
                  "bull:mail:9:lock bull:mail:wait! acks.worker-2.9 constant");
    script_keys_free(keys);
}
END_TEST

START_TEST(nothing_is_learned_from_another_namespace)
{
    struct script_keys *keys = script_keys_new();
    struct script_words theirs = *CALL("a:b");
    theirs.space = bytes_of("other");
    learn(keys, &theirs, "secret");
    check_guesses(keys, CALL("a:b"), "");
    check_guesses(keys, &theirs, "secret");
    script_keys_free(keys);
}
END_TEST

START_TEST(a_key_that_was_written_once_is_written)
{
    struct script_keys *keys = script_keys_new();
    learn(keys, CALL("a:b"), "a:c");
    script_keys_learn(keys, CALL("a:b"), bytes_of("a:c"), true);
    learn(keys, CALL("a:b"), "a:c");
    check_guesses(keys, CALL("a:b"), "a:c!");
    script_keys_free(keys);
}
END_TEST

START_TEST(short_words_count_only_as_whole_fields)
{
    struct script_keys *keys = script_keys_new();
    learn(keys, CALL("q:x", "ai"), "q:mail");
    learn(keys, CALL("q:x", "ai"), "q:ai:y");
    check_guesses(keys, CALL("q:x", "no"), "q:mail q:no:y");
    script_keys_free(keys);
}
END_TEST

START_TEST(numbers_that_ascend_are_counted)
{
    struct script_keys *keys = script_keys_new();
    const struct script_words *call = CALL("bull:mail:wait");
    learn(keys, call, "bull:mail:4");
    check_guesses(keys, call, "bull:mail:4");
    learn(keys, call, "bull:mail:6");
    check_guesses(keys, call, "bull:mail:7");
    check_guesses(keys, call, "bull:mail:8");
    learn(keys, call, "bull:mail:6");
    check_guesses(keys, call, "bull:mail:7");
    script_keys_free(keys);
}
END_TEST

START_TEST(what_was_wrong_three_times_is_guessed_no_more_until_it_is_needed_again)
{
    struct script_keys *keys = script_keys_new();
    const struct script_words *call = CALL("a:b");
    learn(keys, call, "a:c");
    for (int i = 0; i < 2; i++)
        script_keys_judge(keys, check_guesses(keys, call, "a:c"), false);
    script_keys_judge(keys, check_guesses(keys, call, "a:c"), true);
    for (int i = 0; i < 3; i++)
        script_keys_judge(keys, check_guesses(keys, call, "a:c"), false);
    check_guesses(keys, call, "");
    learn(keys, call, "a:c");
    check_guesses(keys, call, "a:c");
    script_keys_free(keys);
}
END_TEST

START_TEST(random_numbers_are_soon_guessed_no_more)
{
    static const int numbers[] = {8000, 7, 555, 100000, 42, 7000};
    struct script_keys *keys = script_keys_new();
    const struct script_words *call = CALL("job:x");
    struct guesses guesses = {.last = 0};
    char key[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        guesses = (struct guesses){.last = 0};
        script_keys_guess(keys, call, true, append, &guesses);
        (void)snprintf(key, sizeof key, "job:%d", numbers[i]);
        learn(keys, call, key);
        if (guesses.last)
            script_keys_judge(keys, guesses.last, false);
    }
    check_guesses(keys, call, "");
    learn(keys, call, "job:7003");
    check_guesses(keys, call, "job:7004");
    script_keys_free(keys);
}
END_TEST

START_TEST(names_of_single_things_are_not_learned)
{
    char key[600];
    struct script_keys *keys = script_keys_new();
    const struct script_words *call = CALL("job:x");
    learn(keys, call, "job:1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed");
    learn(keys, call, "job:007");
    learn(keys, call, "job:1:2");
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    learn(keys, call, key);
    key[100] = '\0';
    learn(keys, call, key);
    check_guesses(keys, call, "");
    script_keys_free(keys);
}
END_TEST

START_TEST(a_call_with_fewer_words_gets_what_can_be_made)
{
    struct script_keys *keys = script_keys_new();
    learn(keys, CALL("a:b", "word", "last"), "a:last");
    learn(keys, CALL("a:b", "word", "last"), "a:x");
    check_guesses(keys, CALL("a:b", "word"), "a:x");
    check_guesses(keys, CALL(NULL), "");
    script_keys_free(keys);
}
END_TEST

START_TEST(a_script_has_few_patterns)
{
    struct script_keys *keys = script_keys_new();
    struct guesses guesses = {.last = 0};
    char key[] = "a:..";
    for (int i = 0; i < 100; i++) {
        key[2] = (char)('a' + i / 10);
        key[3] = (char)('a' + i % 10);
        learn(keys, CALL("a:b"), key);
    }
    script_keys_guess(keys, CALL("a:b"), true, append, &guesses);
    ck_assert_uint_eq(strlen(guesses.text), 16 * 5 - 1);
    ck_assert_ptr_nonnull(strstr(guesses.text, "a:jj"));
    script_keys_free(keys);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script_keys");
    TCase *tests = tcase_create("keys");
    tcase_add_test(tests, names_are_made_of_words_stem_and_text);
    tcase_add_test(tests, nothing_is_learned_from_another_namespace);
    tcase_add_test(tests, a_key_that_was_written_once_is_written);
    tcase_add_test(tests, short_words_count_only_as_whole_fields);
    tcase_add_test(tests, numbers_that_ascend_are_counted);
    tcase_add_test(tests, what_was_wrong_three_times_is_guessed_no_more_until_it_is_needed_again);
    tcase_add_test(tests, random_numbers_are_soon_guessed_no_more);
    tcase_add_test(tests, names_of_single_things_are_not_learned);
    tcase_add_test(tests, a_call_with_fewer_words_gets_what_can_be_made);
    tcase_add_test(tests, a_script_has_few_patterns);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
