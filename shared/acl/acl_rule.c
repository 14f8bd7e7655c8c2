/*
 * acl_rule.c - parses and applies the rules of ACL SETUSER.
 */
#include "shared/acl/acl_order.h"
#include "shared/check.h"
#include "shared/digest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static const char UNKNOWN_NAME[] = "Unknown command or category name in ACL";
static const char SYNTAX[] = "Syntax error";

/* ---- commands ---- */

static void set_bit(struct acl_selector *selector, enum command_id id, bool allow)
{
    uint64_t bit = 1ULL << (id % 64);
    if (allow) {
        selector->allowed[id / 64] |= bit;
    } else {
        selector->allowed[id / 64] &= ~bit;
        selector->all_commands = false;
    }
}

static void forget_first_arguments(struct acl_selector *selector, enum command_id id)
{
    for (size_t i = selector->first_arguments.count; i-- > 0;)
        if (selector->first_arguments.items[i].tag == id)
            acl_texts_remove(&selector->first_arguments, i);
}

/* Does a new rule for `name` make this earlier rule void? Only if it is for `name` itself or a subcommand: "config|get" for "config". */
static bool is_void_after(struct bytes rule, struct bytes name)
{
    return rule.len >= name.len && memcmp(rule.data, name.data, name.len) == 0 &&
           (rule.len == name.len || rule.data[name.len] == '|');
}

static void note_rule(struct acl_selector *selector, struct bytes name, bool allow)
{
    struct acl_texts *rules = &selector->rules;
    bool has_subs = !memchr(name.data, '|', name.len);
    const struct acl_text *same = has_subs ? NULL : acl_texts_find(rules, name);
    if (same)
        acl_texts_remove(rules, (size_t)(same - rules->items));
    for (size_t i = has_subs ? rules->count : 0; i-- > 0;)
        if (is_void_after(rules->items[i].text, name))
            acl_texts_remove(rules, i);
    acl_texts_add(rules, name, allow);
}

static void set_command(struct acl_selector *selector, const struct command *command, bool allow)
{
    note_rule(selector, bytes_of(command->full_name), allow);
    set_bit(selector, command->id, allow);
    forget_first_arguments(selector, command->id);
    for (enum command_id sub = command->made.sub_first; sub != COMMAND_NONE;
         sub = command_of(sub)->made.sub_next)
        set_bit(selector, sub, allow);
}

void acl_set_all_commands(struct acl_selector *selector, bool allow)
{
    memset(selector->allowed, allow ? 0xff : 0, sizeof selector->allowed);
    selector->all_commands = selector->future_commands = allow;
    acl_texts_clear(&selector->first_arguments);
    acl_texts_clear(&selector->rules);
}

static void set_category(struct acl_selector *selector, uint32_t category, bool allow)
{
    char name[64];
    int len = snprintf(name, sizeof name, "@%s", command_acl_name((enum command_acl)category));
    note_rule(selector, (struct bytes){name, (size_t)len}, allow);
    for (enum command_id id = 1; id < COMMAND_COUNT; id++) {
        if (!(command_of(id)->acl & category))
            continue;
        set_bit(selector, id, allow);
        forget_first_arguments(selector, id);
    }
}

uint32_t acl_category(struct bytes name)
{
    for (uint32_t bit = 0; bit < 21; bit++)
        if (bytes_is(name, command_acl_name((enum command_acl)(1U << bit))))
            return 1U << bit;
    return 0;
}

/* Applies "+@read" or "-@read"; `name` has no sign. */
static const char *set_category_word(struct acl_selector *selector, struct bytes name, bool allow)
{
    if (bytes_is(name, "all")) {
        acl_set_all_commands(selector, allow);
        return NULL;
    }
    uint32_t category = acl_category(name);
    if (!category)
        return UNKNOWN_NAME;
    set_category(selector, category, allow);
    return NULL;
}

/* Applies "+config|get" or "+select|0"; `name` has no sign. */
static const char *allow_part(struct acl_selector *selector, struct bytes name, size_t bar)
{
    struct bytes part = {name.data + bar + 1, name.len - bar - 1};
    const struct command *command = command_find_full((struct bytes){name.data, bar});
    if (!command)
        return UNKNOWN_NAME;
    if (command->parent != COMMAND_NONE)
        return "Allowing first-arg of a subcommand is not supported";
    if (part.len == 0)
        return SYNTAX;
    if (!command_has_subs(command)) {
        acl_texts_add(&selector->first_arguments, part, command->id);
        note_rule(selector, name, true);
        return NULL;
    }
    command = command_find_full(name);
    if (!command)
        return UNKNOWN_NAME;
    set_command(selector, command, true);
    return NULL;
}

static const char *set_command_word(struct acl_selector *selector, struct bytes name, bool allow)
{
    size_t bar = name.len;
    while (bar > 0 && name.data[bar - 1] != '|')
        bar--;
    if (allow && bar > 0)
        return allow_part(selector, name, bar - 1);
    const struct command *command = command_find_full(name);
    if (!command)
        return UNKNOWN_NAME;
    set_command(selector, command, allow);
    return NULL;
}

/* ---- keys and channels ---- */

static bool has_space(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (isspace((unsigned char)text.data[i]) || text.data[i] == 0)
            return true;
    return false;
}

/* Parses the permissions between % and ~; *at is the index after the ~. 0: not a permission. */
static unsigned read_permission(struct bytes rule, size_t *at)
{
    unsigned permission = 0;
    for (*at = 1; *at < rule.len; ++*at) {
        int letter = toupper((unsigned char)rule.data[*at]);
        if (letter == 'R' && !(permission & ACL_READ_KEYS))
            permission |= ACL_READ_KEYS;
        else if (letter == 'W' && !(permission & ACL_WRITE_KEYS))
            permission |= ACL_WRITE_KEYS;
        else if (letter == '~' && permission)
            return ++*at, permission;
        else
            return 0;
    }
    return 0;
}

static const char *add_keys(struct acl_selector *selector, struct bytes rule)
{
    size_t at = 1;
    unsigned permission = ACL_ALL_KEYS;
    if (selector->all_keys)
        return "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does "
               "not have any effect. Try 'resetkeys' to start with an empty list of patterns";
    if (*rule.data == '%')
        permission = read_permission(rule, &at);
    struct bytes pattern = {rule.data + at, rule.len - at};
    if (!permission || has_space(pattern))
        return SYNTAX;
    struct acl_text *there = acl_texts_find(&selector->keys, pattern);
    if (there)
        there->tag |= permission;
    else
        acl_texts_add(&selector->keys, pattern, permission);
    return NULL;
}

static const char *add_channels(struct acl_selector *selector, struct bytes pattern)
{
    if (selector->all_channels)
        return "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and "
               "does not have any effect. Try 'resetchannels' to start with an empty list of "
               "channels";
    if (has_space(pattern))
        return SYNTAX;
    if (!acl_texts_find(&selector->channels, pattern))
        acl_texts_add(&selector->channels, pattern, 0);
    return NULL;
}

static void set_keys(struct acl_selector *selector, bool all)
{
    selector->all_keys = all;
    acl_texts_clear(&selector->keys);
}

static void set_channels(struct acl_selector *selector, bool all)
{
    selector->all_channels = all;
    acl_texts_clear(&selector->channels);
}

/* ---- selectors ---- */

/* Applies one rule of a selector. Returns NULL, or the error. */
static const char *selector_set(struct acl_selector *selector, struct bytes rule)
{
    struct bytes rest = {rule.data + 1, rule.len - 1};
    bool allow = *rule.data == '+';
    if (bytes_is(rule, "allkeys") || bytes_is(rule, "~*")) {
        set_keys(selector, true);
    } else if (bytes_is(rule, "resetkeys")) {
        set_keys(selector, false);
    } else if (bytes_is(rule, "allchannels") || bytes_is(rule, "&*")) {
        set_channels(selector, true);
    } else if (bytes_is(rule, "resetchannels")) {
        set_channels(selector, false);
    } else if (bytes_is(rule, "allcommands")) {
        acl_set_all_commands(selector, true);
    } else if (bytes_is(rule, "nocommands")) {
        acl_set_all_commands(selector, false);
    } else if (*rule.data == '~' || *rule.data == '%') {
        return add_keys(selector, rule);
    } else if (*rule.data == '&') {
        return add_channels(selector, rest);
    } else if (allow || *rule.data == '-') {
        if (rest.len && *rest.data == '@')
            return set_category_word(selector, (struct bytes){rest.data + 1, rest.len - 1}, allow);
        return set_command_word(selector, rest, allow);
    } else {
        return SYNTAX;
    }
    return NULL;
}

/* Adds a selector: "(~a* +get)". */
static const char *add_selector(struct acl_user *user, struct bytes rule)
{
    struct acl_selector *selector = acl_selector_new(user->starts_all_channels);
    struct bytes words = {rule.data + 1, rule.len - 2};
    const char *wrong = NULL;
    while (words.len && !wrong) {
        const char *space = memchr(words.data, ' ', words.len);
        size_t len = space ? (size_t)(space - words.data) : words.len;
        if (len)
            wrong = selector_set(selector, (struct bytes){words.data, len});
        len += space != NULL;
        words = (struct bytes){words.data + len, words.len - len};
    }
    if (wrong) {
        acl_selector_free(selector);
        return wrong;
    }
    user->last->next = selector;
    user->last = selector;
    return NULL;
}

static void clear_selectors(struct acl_user *user)
{
    while (user->selectors->next) {
        struct acl_selector *next = user->selectors->next;
        user->selectors->next = next->next;
        acl_selector_free(next);
    }
    user->last = user->selectors;
}

/* ---- users ---- */

static bool is_digest(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr("0123456789abcdef", text.data[i]) || text.data[i] == 0)
            return false;
    return text.len == PASSWORD_LEN;
}

/* Applies ">secret", "#digest", "<secret" or "!digest". Returns NULL, or the error. */
static const char *password_set(struct acl_user *user, struct bytes rule)
{
    char digest[SHA256_HEX_LEN];
    struct bytes text = {rule.data + 1, rule.len - 1};
    bool is_new = *rule.data == '>' || *rule.data == '#';
    if (*rule.data == '>' || *rule.data == '<') {
        sha256_hex(text, digest);
        text = (struct bytes){digest, sizeof digest};
    } else if (!is_digest(text)) {
        return "The password hash must be exactly 64 characters and contain only lowercase "
               "hexadecimal characters";
    }
    struct acl_text *there = acl_texts_find(&user->passwords, text);
    if (is_new) {
        user->no_password = false;
        if (!there)
            acl_texts_add(&user->passwords, text, 0);
        return NULL;
    }
    if (!there)
        return "The password you are trying to remove from the user does not exist";
    acl_texts_remove(&user->passwords, (size_t)(there - user->passwords.items));
    return NULL;
}

static void set_no_password(struct acl_user *user, bool none_needed)
{
    user->no_password = none_needed;
    acl_texts_clear(&user->passwords);
}

static void set_sanitize(struct acl_user *user, bool sanitize)
{
    user->sanitize = sanitize;
    user->skip_sanitize = !sanitize;
}

static void user_reset(struct acl_user *user)
{
    set_no_password(user, false);
    set_keys(user->selectors, false);
    set_channels(user->selectors, user->starts_all_channels);
    user->is_enabled = false;
    set_sanitize(user, true);
    clear_selectors(user);
    acl_set_all_commands(user->selectors, false);
}

/* Applies one rule. Returns NULL, or the error. */
static const char *user_set(struct acl_user *user, struct bytes rule)
{
    if (rule.len == 0)
        return NULL;
    if (bytes_is(rule, "on") || bytes_is(rule, "off"))
        user->is_enabled = rule.len == 2;
    else if (bytes_is(rule, "nopass"))
        set_no_password(user, true);
    else if (bytes_is(rule, "resetpass"))
        set_no_password(user, false);
    else if (bytes_is(rule, "sanitize-payload"))
        set_sanitize(user, true);
    else if (bytes_is(rule, "skip-sanitize-payload"))
        set_sanitize(user, false);
    else if (bytes_is(rule, "clearselectors"))
        clear_selectors(user);
    else if (bytes_is(rule, "reset"))
        user_reset(user);
    else if (strchr("><#!", *rule.data) && *rule.data)
        return password_set(user, rule);
    else if (*rule.data == '(' && rule.data[rule.len - 1] == ')')
        return add_selector(user, rule);
    else
        return selector_set(user->selectors, rule);
    return NULL;
}

void acl_user_set_password(struct acl_user *user, struct bytes password)
{
    set_no_password(user, password.len == 0);
    if (password.len) {
        char digest[SHA256_HEX_LEN];
        sha256_hex(password, digest);
        acl_texts_add(&user->passwords, (struct bytes){digest, sizeof digest}, 0);
    }
}

/* Joins the words from "(" to ")" with spaces; *i becomes the index of the last one. NULL data: there is no ")". */
static struct bytes join_selector(const struct bytes *rules, size_t count, size_t *i)
{
    size_t last = *i;
    size_t len = rules[last].len + 1;
    while (rules[last].len == 0 || rules[last].data[rules[last].len - 1] != ')') {
        if (++last == count)
            return (struct bytes){NULL, 0};
        len += rules[last].len + 1;
    }
    char *joined = malloc(len);
    CHECK(joined);
    size_t at = 0;
    for (size_t word = *i; word <= last; word++) {
        memcpy(joined + at, rules[word].data, rules[word].len);
        at += rules[word].len;
        joined[at++] = ' ';
    }
    *i = last;
    return (struct bytes){joined, at - 1};
}

static bool rule_failed(struct bytes rule, const char *wrong, char *error, size_t size)
{
    (void)snprintf(error, size, "Error in ACL SETUSER modifier '%.*s': %s", (int)rule.len,
                   rule.data, wrong);
    return false;
}

/* Checks that every "(" is closed, before any rule is applied. */
static bool parentheses_match(const struct bytes *rules, size_t count, char *error, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].len == 0 || *rules[i].data != '(')
            continue;
        size_t from = i;
        struct bytes joined = join_selector(rules, count, &i);
        free((char *)joined.data);
        if (joined.data)
            continue;
        (void)snprintf(error, size, "Unmatched parenthesis in acl selector starting at '%.*s'.",
                       (int)rules[from].len, rules[from].data);
        return false;
    }
    return true;
}

static void sort_patterns(struct acl_user *user)
{
    for (struct acl_selector *selector = user->selectors; selector; selector = selector->next) {
        acl_texts_sort(&selector->keys);
        acl_texts_sort(&selector->channels);
    }
}

bool acl_user_set(struct acl_user *user, const struct bytes *rules, size_t count, char *error,
                  size_t size)
{
    if (!parentheses_match(rules, count, error, size))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct bytes joined = {NULL, 0};
        struct bytes rule = rules[i];
        if (rule.len && *rule.data == '(')
            rule = joined = join_selector(rules, count, &i);
        const char *wrong = user_set(user, rule);
        bool good = !wrong || rule_failed(rule, wrong, error, size);
        free((char *)joined.data);
        if (!good)
            return false;
    }
    sort_patterns(user);
    return true;
}
