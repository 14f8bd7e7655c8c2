#include "shared/client_filter.h"

#include "tests/unit/suite.h"
#include <stdio.h>

enum { WORDS_MAX = 16 };

static bool is_user(const void *owner, struct bytes name)
{
    (void)owner;
    return bytes_is(name, "joe") || bytes_is(name, "default");
}

static const struct client_facts FACTS = {
    .id = 7,
    .age_s = 100,
    .idle_s = 10,
    .db = 2,
    .addr = "127.0.0.1:4000",
    .laddr = "127.0.0.1:6379",
    .flags = "xt",
    .name = "app",
    .lib_name = "lib",
    .lib_version = "1.2",
    .user = {"joe", 3},
};

/* Does FACTS match the filter in `text`? -1: the filter is refused. */
static int matches(const char *text, bool may_repeat, const struct client_facts *facts)
{
    struct bytes argv[WORDS_MAX];
    uint32_t argc = 0;
    struct out out;
    struct reply reply = {.out = &out, .resp = 2};
    out_init(&out);
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, " ");
        argv[argc++] = (struct bytes){at, len};
        at += len + (at[len] == ' ');
    }
    const struct client_filter_rules rules = {
        .may_repeat = may_repeat, .databases = 16, .is_user = is_user};
    struct client_filter *filter = client_filter_parse(argv, argc, 0, &rules, &reply);
    ck_assert_int_eq(filter == NULL, out.bytes > 0);
    out_clear(&out);
    if (!filter)
        return -1;
    char *copy = malloc(client_filter_size(filter)); /* it works from a copy */
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, filter, client_filter_size(filter));
    free(filter);
    bool result = client_filter_matches((const struct client_filter *)copy, facts);
    free(copy);
    return result;
}

START_TEST(each_field_matches_and_can_be_negated)
{
    static const char *const fits[] = {
        "ID 7",
        "TYPE normal",
        "USER joe",
        "ADDR 127.0.0.1:4000",
        "LADDR 127.0.0.1:6379",
        "IP 127.0.0.1",
        "NAME app",
        "FLAGS x",
        "FLAGS tx",
        "LIB-NAME lib",
        "LIB-VER 1.2",
        "DB 2",
        "name app db 2",
    };
    static const char *const others[] = {
        "ID 8",       "TYPE pubsub", "TYPE replica", "USER default", "ADDR 127.0.0.1:400",
        "LADDR x",    "IP 127.0.0",  "NAME ap",      "FLAGS N",      "FLAGS xN",
        "LIB-NAME l", "LIB-VER 1",   "DB 0",         "CAPA r",
    };
    char text[64];
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        ck_assert_int_eq(matches(fits[i], true, &FACTS), 1);
        if (strcmp(fits[i], "name app db 2") == 0)
            continue;
        (void)snprintf(text, sizeof text, "NOT-%s", fits[i]);
        ck_assert_int_eq(matches(text, true, &FACTS), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_int_eq(matches(others[i], true, &FACTS), 0);
        (void)snprintf(text, sizeof text, "NOT-%s", others[i]);
        ck_assert_int_eq(matches(text, true, &FACTS), 1);
    }
    ck_assert_int_eq(matches("", true, &FACTS), 1);
}
END_TEST

START_TEST(ages_are_lower_limits)
{
    ck_assert_int_eq(matches("MAXAGE 100", false, &FACTS), 1);
    ck_assert_int_eq(matches("MAXAGE 101", false, &FACTS), 0);
    ck_assert_int_eq(matches("IDLE 10 MAXAGE 1", false, &FACTS), 1);
    ck_assert_int_eq(matches("IDLE 11 MAXAGE 1", false, &FACTS), 0);
}
END_TEST

START_TEST(one_of_several_ids_is_enough)
{
    ck_assert_int_eq(matches("ID 1 2 7", true, &FACTS), 1);
    ck_assert_int_eq(matches("ID 1 2", true, &FACTS), 0);
    ck_assert_int_eq(matches("ID 1 2 7 DB 2", true, &FACTS), 1);
    ck_assert_int_eq(matches("ID 1 7 DB 1", true, &FACTS), 0);
    ck_assert_int_eq(matches("NOT-ID 1 2", true, &FACTS), 1);
    ck_assert_int_eq(matches("NOT-ID 1 7", true, &FACTS), 0);
    ck_assert_int_eq(matches("ID 7 NOT-ID 7", true, &FACTS), 0);
    ck_assert_int_eq(matches("ID 1 7", false, &FACTS), -1);
    ck_assert_int_eq(matches("NOT-ID 1 7", false, &FACTS), 0);
    ck_assert_int_eq(matches("NOT-ID 1 2 DB 2", false, &FACTS), 1);
}
END_TEST

START_TEST(addresses_of_any_kind_have_an_ip)
{
    struct client_facts facts = FACTS;
    facts.addr = "[::1]:5";
    ck_assert_int_eq(matches("IP ::1", false, &facts), 1);
    facts.addr = "/run/scree.sock:0";
    ck_assert_int_eq(matches("IP /run/scree.sock", false, &facts), 1);
    facts.addr = "odd";
    ck_assert_int_eq(matches("IP odd", false, &facts), 1);
    facts.name = NULL;
    ck_assert_int_eq(matches("NAME app", false, &facts), 0);
}
END_TEST

START_TEST(invalid_filters_are_refused)
{
    static const char *const bad[] = {
        "ID",         "ID x",       "ID 1 x",       "TYPE x",     "USER nobody", "FLAGS 7",
        "CAPA q",     "DB x",       "DB -1",        "DB 16",      "NOT-DB 16",   "NOT-ID x",
        "NOT-ID 0",   "NOT-CAPA q", "MAXAGE 0",     "MAXAGE x",   "IDLE -1",     "IDLE x",
        "NOT-IDLE 1", "NOT-",       "SKIPME maybe", "NONSENSE x", "NAME",        "NOT-MAXAGE 1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(matches(bad[i], true, &FACTS), -1);
    ck_assert_int_eq(matches("ID 0", false, &FACTS), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_filter");
    TCase *tcase = tcase_create("client_filter");
    tcase_add_test(tcase, each_field_matches_and_can_be_negated);
    tcase_add_test(tcase, ages_are_lower_limits);
    tcase_add_test(tcase, one_of_several_ids_is_enough);
    tcase_add_test(tcase, addresses_of_any_kind_have_an_ip);
    tcase_add_test(tcase, invalid_filters_are_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
