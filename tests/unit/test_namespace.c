/*
 * test_namespace.c - which token opens which namespace, and where its keys are stored.
 */
#include "shared/namespace.h"

#include "shared/check.h"
#include "shared/slot.h"

static struct namespace item(const char *name, const char *token)
{
    return (struct namespace){.name = (char *)(uintptr_t)name, .token = (char *)(uintptr_t)token};
}

static struct namespaces *sample(void)
{
    struct namespaces *set = namespaces_new();
    const struct namespace items[] = {item("shop", "s1"), item("test_*", "tt"),
                                      item("test_special", "sp"), item("test_[ab]*", "never"),
                                      item("open", "")};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        namespaces_add(set, &items[i]);
    return set;
}

static void test_a_token_without_a_name_opens_its_exact_namespace(void)
{
    struct namespaces *set = sample();
    struct namespace_match match;
    CHECK(namespaces_login(set, BYTES("s1"), &match) && bytes_equal(match.name, BYTES("shop")));
    CHECK(!namespaces_login(set, BYTES("tt"), &match));
    CHECK(!namespaces_login(set, BYTES(""), &match));
    CHECK(!namespaces_login(set, BYTES("s"), &match));
    CHECK(!namespaces_login(set, BYTES("s11"), &match));
    namespaces_unref(set);
}

static void test_a_name_and_a_token_open_exact_and_pattern_namespaces(void)
{
    struct namespaces *set = sample();
    struct namespace_match match;
    CHECK(namespaces_login_as(set, BYTES("shop"), BYTES("s1"), &match));
    CHECK(!namespaces_login_as(set, BYTES("shop"), BYTES("tt"), &match));
    CHECK(namespaces_login_as(set, BYTES("test_gw7"), BYTES("tt"), &match));
    CHECK(bytes_equal(match.name, BYTES("test_gw7")) && match.entry->is_pattern);
    CHECK(!namespaces_login_as(set, BYTES("test_gw7"), BYTES("s1"), &match));
    CHECK(!namespaces_login_as(set, BYTES("other"), BYTES("tt"), &match));
    CHECK(!namespaces_login_as(set, BYTES("open"), BYTES(""), &match));
    namespaces_unref(set);
}

static void test_an_exact_name_is_never_taken_by_a_pattern(void)
{
    struct namespaces *set = sample();
    struct namespace_match match;
    CHECK(!namespaces_login_as(set, BYTES("test_special"), BYTES("tt"), &match));
    CHECK(namespaces_login_as(set, BYTES("test_special"), BYTES("sp"), &match));
    CHECK(!namespaces_login_as(set, BYTES("test_a"), BYTES("never"), &match));
    CHECK(!namespaces_login_as(set, BYTES("test_*"), BYTES("sp"), &match));
    namespaces_unref(set);
}

static void test_names_have_limits(void)
{
    char longest[NAMESPACE_NAME_MAX + 1];
    memset(longest, 'x', sizeof longest);
    CHECK(namespace_name_valid((struct bytes){longest, NAMESPACE_NAME_MAX}));
    CHECK(!namespace_name_valid((struct bytes){longest, NAMESPACE_NAME_MAX + 1}));
    CHECK(!namespace_name_valid(BYTES("")));
    CHECK(!namespace_name_valid(BYTES("a\0b")));
    CHECK(!namespace_name_valid(BYTES("default")));
    struct namespaces *set = namespaces_new();
    struct namespace all = item("*", "t");
    struct namespace_match match;
    namespaces_add(set, &all);
    CHECK(namespaces_login_as(set, BYTES("x"), BYTES("t"), &match));
    CHECK(!namespaces_login_as(set, BYTES("default"), BYTES("t"), &match));
    namespaces_unref(set);
}

static void test_a_listener_finds_its_namespace_by_name(void)
{
    struct namespaces *set = sample();
    struct namespace_match match;
    CHECK(namespaces_find(set, BYTES("open"), &match) && strcmp(match.entry->name, "open") == 0);
    CHECK(namespaces_find(set, BYTES("test_1"), &match) &&
          strcmp(match.entry->name, "test_*") == 0);
    CHECK(!namespaces_find(set, BYTES("nobody"), &match));
    namespaces_unref(set);
}

static uint16_t slot_by(const char *rule_text, struct bytes key)
{
    struct namespace ns = {0};
    CHECK(slot_rule_parse(bytes_of(rule_text), &ns.slot_rule));
    return namespace_slot(&ns, key);
}

static void test_slot_rules_choose_what_is_hashed(void)
{
    struct bytes key = BYTES("seats:1:A-1");
    CHECK(namespace_slot(NULL, key) == slot_of(key));
    CHECK(slot_by("tag", BYTES("a{t}b")) == slot_of(BYTES("t")));
    CHECK(slot_by("prefix:::2", key) == slot_of(BYTES("seats:1")));
    CHECK(slot_by("prefix:::1", key) == slot_of(BYTES("seats")));
    CHECK(slot_by("prefix:::3", key) == slot_of(key));
    CHECK(slot_by("prefix:::9", key) == slot_of(key));
    CHECK(slot_by("prefix:--:1", BYTES("a--b--c")) == slot_of(BYTES("a")));
    CHECK(slot_by("prefix:::1", BYTES("")) == slot_of(BYTES("")));
    CHECK(slot_by("prefix:::1", BYTES(":x")) == slot_of(BYTES("")));
    CHECK(slot_by("prefix:::1", BYTES("a:{t}:b")) == slot_of(BYTES("t")));
    CHECK(slot_by("fixed:77", key) == 77);
}

static void test_slot_rules_read_back_what_they_print(void)
{
    const char *const rules[] = {"tag",           "prefix:::2", "prefix:-:1",
                                 "prefix: :1000", "fixed:0",    "fixed:16383"};
    char text[SLOT_RULE_TEXT_MAX];
    struct slot_rule rule;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        CHECK(slot_rule_parse(bytes_of(rules[i]), &rule));
        CHECK(bytes_equal((struct bytes){text, slot_rule_format(&rule, text)}, bytes_of(rules[i])));
    }
    const char *const bad[] = {"",          "tags",       "prefix:",    "prefix:2",    "prefix::2",
                               "prefix:::", "prefix:::0", "prefix:::x", "fixed:16384", "fixed:",
                               "fixed:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!slot_rule_parse(bytes_of(bad[i]), &rule));
}

static void test_snapshots_compare_and_count_references(void)
{
    struct namespaces *a = sample();
    struct namespaces *b = sample();
    CHECK(namespaces_equal(a, b));
    b->items[0].ephemeral = true;
    CHECK(!namespaces_equal(a, b));
    CHECK(namespaces_ref(a) == a);
    namespaces_unref(a);
    CHECK(a->count == 5);
    namespaces_unref(a);
    namespaces_unref(b);
    namespaces_unref(NULL);
}

static void test_secrets_are_compared_completely(void)
{
    CHECK(secret_equal(BYTES("abc"), BYTES("abc")));
    CHECK(!secret_equal(BYTES("abc"), BYTES("abd")));
    CHECK(!secret_equal(BYTES("abc"), BYTES("ab")));
    CHECK(secret_equal(BYTES(""), BYTES("")));
}

int main(void)
{
    test_a_token_without_a_name_opens_its_exact_namespace();
    test_a_name_and_a_token_open_exact_and_pattern_namespaces();
    test_an_exact_name_is_never_taken_by_a_pattern();
    test_names_have_limits();
    test_a_listener_finds_its_namespace_by_name();
    test_slot_rules_choose_what_is_hashed();
    test_slot_rules_read_back_what_they_print();
    test_snapshots_compare_and_count_references();
    test_secrets_are_compared_completely();
    return 0;
}
