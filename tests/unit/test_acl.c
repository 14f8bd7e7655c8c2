/*
 * test_acl.c - sets of users: cases that test_acl.py does not compare with redis-server.
 */
#include "shared/acl/acl_command.h"

#include "shared/acl/channel.h"
#include "shared/check.h"
#include "shared/glob.h"

#include <stdio.h>
#include <stdlib.h>

static char reason[ACL_ERROR_MAX];

static struct acl *parse(const char *text)
{
    struct acl *acl = acl_parse(bytes_of(text), false, reason, sizeof reason);
    CHECK(acl);
    return acl;
}

static const struct acl_user *user_of(const struct acl *acl, const char *name)
{
    const struct acl_user *user = acl_user_find(acl, bytes_of(name));
    CHECK(user);
    return user;
}

static char *text_of(struct out *out)
{
    char *text = calloc(1, out->bytes + 1);
    CHECK(text);
    out_copy(out, text);
    out_clear(out);
    return text;
}

static char *rules_of(const struct acl_user *user)
{
    struct out out;
    out_init(&out);
    acl_user_rules(user, &out);
    return text_of(&out);
}

static void test_printed_users_read_back_equal(void)
{
    struct acl *acl =
        parse("user a on >x ~k* %R~r* &c* +@all -@admin -set (~z +get) (%W~w +set|x)\n"
              "user b off nopass +select|0 +config|get\n\n# a comment\nuser default off\n");
    struct out out;
    out_init(&out);
    acl_print(acl, &out);
    char *first = text_of(&out);
    struct acl *again = parse(first);
    acl_print(again, &out);
    char *second = text_of(&out);
    CHECK(strcmp(first, second) == 0);
    free(first);
    free(second);
    acl_unref(acl);
    acl_unref(again);
}

static void test_rules_without_secrets_make_the_same_rights(void)
{
    struct acl *acl = parse("user a on >secret #" /* a digest */
                            "6ca13d52ca70c883e0f0bb101e425a89e8624de51db2d2392593af6a84118090"
                            " ~k* &c* +@all -@admin (~z +get)\n");
    char *rules = rules_of(user_of(acl, "a"));
    char line[2048];
    CHECK(!strchr(rules, '#') && !strchr(rules, '>') && !strstr(rules, "nopass"));
    (void)snprintf(line, sizeof line, "user a on nopass %s", rules);
    struct acl *again = parse(line);
    char *same = rules_of(user_of(again, "a"));
    CHECK(strcmp(rules, same) == 0);
    free(rules);
    free(same);
    acl_unref(acl);
    acl_unref(again);
}

/* A proxy sends a user's rules to a backend as such a line, and ACL SAVE writes it. */
static void test_a_user_with_very_many_rules_keeps_them(void)
{
    enum { PATTERNS = 10000 };
    struct out out;
    out_init(&out);
    out_printf(&out, "user a on nopass -@all +get");
    for (unsigned i = 0; i < PATTERNS; i++)
        out_printf(&out, " %s~k%u", i % 2 ? "%R" : "", i);
    char *text = text_of(&out);
    struct acl *acl = parse(text);
    char *rules = rules_of(user_of(acl, "a"));
    CHECK(strstr(rules, "~k0 %R~k1 ") && strstr(rules, "%R~k9999"));
    free(rules);
    free(text);
    acl_unref(acl);
}

/* Each rule is looked for among those before it: a list of 100 000 would be walked 100 000 times. */
static void test_very_many_rules_take_no_longer_for_each(void)
{
    enum { RULES = 100000 };
    static const char *const HEAD[] = {"~k", "&c", "+select|", "(~k"};
    for (size_t kind = 0; kind < sizeof HEAD / sizeof *HEAD; kind++) {
        struct out out;
        out_init(&out);
        out_printf(&out, "user a on nopass resetchannels");
        for (unsigned i = 0; i < RULES; i++)
            out_printf(&out, " %s%u%s", HEAD[kind], i, *HEAD[kind] == '(' ? ")" : "");
        out_printf(&out, " ~last");
        char *text = text_of(&out);
        struct acl *acl = parse(text);
        char *rules = rules_of(user_of(acl, "a"));
        CHECK(strstr(rules, "99999") && strstr(rules, "~last"));
        free(rules);
        free(text);
        acl_unref(acl);
    }
}

static void test_unlimited_users(void)
{
    struct acl *acl = parse("user a on nopass ~* &* +@all\n"
                            "user b on nopass ~* &* +@all -get\n"
                            "user c on nopass ~* +@all\n"
                            "user d on nopass &* +@all ~k\n"
                            "user e on nopass +ping (~* &* +@all)\n"
                            "user f on nopass ~* &* +@all -get +@all\n");
    CHECK(acl_user_is_unlimited(user_of(acl, "default")));
    CHECK(acl_user_is_unlimited(user_of(acl, "a")));
    CHECK(!acl_user_is_unlimited(user_of(acl, "b")));
    CHECK(!acl_user_is_unlimited(user_of(acl, "c")));
    CHECK(!acl_user_is_unlimited(user_of(acl, "d")));
    CHECK(acl_user_is_unlimited(user_of(acl, "e")));
    CHECK(acl_user_is_unlimited(user_of(acl, "f")));
    acl_unref(acl);
}

static void test_users_that_may_read_all_keys(void)
{
    const struct command *sort = command_of(COMMAND_sort);
    const struct bytes argv[] = {BYTES("SORT"), BYTES("k")};
    struct acl *acl = parse("user a on nopass ~* +sort\n"
                            "user b on nopass %R~* +sort\n"
                            "user c on nopass %W~* ~k* +sort\n"
                            "user d on nopass ~* +get (~k +sort)\n");
    CHECK(acl_reads_all(user_of(acl, "a"), sort, argv, 2));
    CHECK(acl_reads_all(user_of(acl, "b"), sort, argv, 2));
    CHECK(!acl_reads_all(user_of(acl, "c"), sort, argv, 2));
    CHECK(!acl_reads_all(user_of(acl, "d"), sort, argv, 2));
    acl_unref(acl);
}

/* A request is checked in steps: the answer is that of one step, however small the steps are. */
static void test_steps_give_the_same_answer(void)
{
    struct acl *acl = parse("user bob on +get +mget ~a* ~b* (+mset ~c* ~d*) (+subscribe &x*)\n"
                            "user eve on nopass\n");
    const struct bytes requests[][5] = {
        {BYTES("MGET"), BYTES("a1"), BYTES("b1"), BYTES("a2"), BYTES("b2")},
        {BYTES("MGET"), BYTES("a1"), BYTES("b1"), BYTES("c1"), BYTES("b2")},
        {BYTES("MSET"), BYTES("c1"), BYTES("v"), BYTES("d1"), BYTES("v")},
        {BYTES("MSET"), BYTES("c1"), BYTES("v"), BYTES("a1"), BYTES("v")},
        {BYTES("SUBSCRIBE"), BYTES("x1"), BYTES("x2"), BYTES("x3"), BYTES("x4")},
        {BYTES("SUBSCRIBE"), BYTES("x1"), BYTES("x2"), BYTES("x3"), BYTES("y")},
        {BYTES("DEL"), BYTES("a1"), BYTES("b1"), BYTES("a2"), BYTES("b2")},
    };
    const struct {
        enum acl_denied denied;
        uint32_t index;
    } want[] = {{ACL_ALLOWED, 0},       {ACL_DENIED_KEY, 3}, {ACL_ALLOWED, 0},
                {ACL_DENIED_KEY, 3},    {ACL_ALLOWED, 0},    {ACL_DENIED_CHANNEL, 4},
                {ACL_DENIED_COMMAND, 0}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        for (size_t most = 1; most < 20; most++) {
            struct acl_check check;
            const struct command *command = command_find_argv(requests[i], 5);
            acl_check_begin(&check, user_of(acl, "bob"), command, requests[i], 5);
            while (acl_check_go_on(&check, most))
                ;
            acl_check_end(&check);
            CHECK(check.denied == want[i].denied && check.index == want[i].index);
        }
    }
    CHECK(acl_user_patterns(user_of(acl, "bob")) == 5);
    CHECK(acl_user_patterns(user_of(acl, "eve")) == 0);
    acl_unref(acl);
}

static void test_channel_rules(void)
{
    struct acl *acl = parse("user a on nopass &c*\nuser b on nopass (&*)\n");
    CHECK(acl_may_listen(user_of(acl, "a"), BYTES("chan"), false));
    CHECK(acl_may_listen(user_of(acl, "a"), BYTES("c*"), true));
    CHECK(!acl_may_listen(user_of(acl, "a"), BYTES("ch*"), true));
    CHECK(!acl_may_listen(user_of(acl, "a"), BYTES("x"), false));
    CHECK(acl_may_listen(user_of(acl, "b"), BYTES("x*"), true));
    acl_unref(acl);
}

/* ---- many patterns ---- */

enum { MANY = 40, TEXTS = 400, TEXT_MAX = 8 };

/* A text of up to TEXT_MAX - 2 of these letters. */
static struct bytes some_text(char *text, const char *letters, unsigned *state)
{
    size_t len = rand_r(state) % (TEXT_MAX - 1);
    for (size_t i = 0; i < len; i++)
        text[i] = letters[(size_t)rand_r(state) % strlen(letters)];
    text[len] = 0;
    return (struct bytes){text, len};
}

static bool matches_one(char patterns[][TEXT_MAX], struct bytes text, bool is_pattern)
{
    for (size_t i = 0; i < MANY; i++) {
        struct bytes pattern = bytes_of(patterns[i]);
        if (is_pattern ? bytes_equal(pattern, text) : glob_match(pattern, text))
            return true;
    }
    return false;
}

/* Gives the user keys that match the patterns from `from` to before `to`, and channels likewise. */
static void allow(struct acl_user *user, char patterns[][TEXT_MAX], size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        char words[2][TEXT_MAX + 1];
        (void)snprintf(words[0], sizeof words[0], "~%.*s", TEXT_MAX - 1, patterns[i]);
        (void)snprintf(words[1], sizeof words[1], "&%.*s", TEXT_MAX - 1, patterns[i]);
        const struct bytes rules[] = {bytes_of(words[0]), bytes_of(words[1])};
        (void)acl_user_set(user, rules, 2, reason, sizeof reason);
    }
}

static void compare_answers(const struct acl *acl, char patterns[][TEXT_MAX], unsigned *state)
{
    const struct acl_user *user = user_of(acl, "a");
    for (int i = 0; i < TEXTS; i++) {
        char room[TEXT_MAX];
        struct bytes text = some_text(room, "aab:*?[\\", state);
        const struct bytes argv[] = {BYTES("GET"), text};
        uint32_t index;
        bool may_get = acl_check(user, command_of(COMMAND_get), argv, 2, &index) == ACL_ALLOWED;
        CHECK(may_get == matches_one(patterns, text, false));
        CHECK(acl_may_listen(user, text, false) == matches_one(patterns, text, false));
        CHECK(acl_may_listen(user, text, true) == matches_one(patterns, text, true));
    }
}

/* What many patterns allow is what each of them matches: sorted, copied, with others behind them, and set anew. */
static void test_many_patterns_allow_what_each_of_them_matches(void)
{
    const struct bytes none[] = {BYTES("resetkeys"), BYTES("resetchannels")};
    char patterns[MANY][TEXT_MAX];
    for (unsigned seed = 1; seed <= 200; seed++) {
        unsigned state = seed;
        for (size_t i = 0; i < MANY; i++)
            do /* "*" gives all keys, and no pattern is accepted after it */
                (void)some_text(patterns[i], "aab:*?[]\\^", &state);
            while (strcmp(patterns[i], "*") == 0);
        struct acl *acl = parse("user a on nopass +get\n");
        allow(acl_user_find(acl, BYTES("a")), patterns, 0, MANY / 2);
        struct acl *copy = acl_copy(acl);
        acl_unref(acl);
        allow(acl_user_find(copy, BYTES("a")), patterns, MANY / 2, MANY);
        compare_answers(copy, patterns, &state);
        CHECK(acl_user_set(acl_user_find(copy, BYTES("a")), none, 2, reason, sizeof reason));
        allow(acl_user_find(copy, BYTES("a")), patterns, 0, MANY);
        acl = acl_copy(copy);
        acl_unref(copy);
        compare_answers(acl, patterns, &state);
        acl_unref(acl);
    }
}

/* A key is compared with the patterns that begin like it, not with all 2000. */
static void test_patterns_of_other_tenants_cost_nothing(void)
{
    struct acl *acl = parse("user a on nopass +get ~*:public &news:*\n");
    for (int i = 0; i < 2000; i++) {
        char word[32];
        (void)snprintf(word, sizeof word, "~app:%d:*", i);
        const struct bytes rule = bytes_of(word);
        CHECK(acl_user_set(acl_user_find(acl, BYTES("a")), &rule, 1, reason, sizeof reason));
    }
    CHECK(acl_user_patterns(user_of(acl, "a")) < 20);
    acl_unref(acl);
}

static void test_bad_files_are_refused_with_their_line(void)
{
    const char *const bad[] = {
        "user",       "user a +nonsense", "nobody",    "user a on\nuser a off",
        "user a (~x", "user a >",         "user a #12"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        *reason = 0;
        struct acl *acl = acl_parse(bytes_of(bad[i]), false, reason, sizeof reason);
        if (acl)
            acl_unref(acl);
        else
            CHECK(strncmp(reason, "line ", 5) == 0);
        CHECK(!acl || i == 5); /* an empty password is valid */
    }
}

static void add(struct acl_log *log, const char *user, uint64_t at_ms)
{
    const struct acl_event event = {.reason = ACL_DENIED_KEY,
                                    .at_ms = at_ms,
                                    .object = BYTES("k"),
                                    .user = bytes_of(user),
                                    .client = BYTES("id=1")};
    acl_log_add(log, &event, 3);
}

static const struct acl_event *newest(const struct acl_log *log)
{
    return container_of(log->entries.next, struct acl_event, link);
}

static void test_the_log_counts_repeats_and_forgets_the_oldest(void)
{
    struct acl_log log;
    acl_log_init(&log);
    add(&log, "a", 1000);
    add(&log, "b", 2000);
    add(&log, "a", 61000);
    CHECK(log.count == 2 && newest(&log)->times == 2 && newest(&log)->at_ms == 61000);
    add(&log, "a", 121001);
    CHECK(log.count == 3 && newest(&log)->times == 1);
    add(&log, "c", 121002);
    CHECK(log.count == 3 && bytes_equal(newest(&log)->user, BYTES("c")));
    acl_log_clear(&log);
    CHECK(log.count == 0 && list_empty(&log.entries));
}

int main(void)
{
    command_init();
    test_printed_users_read_back_equal();
    test_rules_without_secrets_make_the_same_rights();
    test_a_user_with_very_many_rules_keeps_them();
    test_very_many_rules_take_no_longer_for_each();
    test_unlimited_users();
    test_users_that_may_read_all_keys();
    test_steps_give_the_same_answer();
    test_channel_rules();
    test_many_patterns_allow_what_each_of_them_matches();
    test_patterns_of_other_tenants_cost_nothing();
    test_bad_files_are_refused_with_their_line();
    test_the_log_counts_repeats_and_forgets_the_oldest();
    return 0;
}
