/*
 * namespace.c - implementation of namespace.h: slot rules, logins, and lookup by name.
 */
#include "shared/namespace.h"

#include "shared/check.h"
#include "shared/glob.h"
#include "shared/number.h"
#include "shared/slot.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- slot rules ------------------------------------------------------------------------------ */

static bool cut_prefix(struct bytes *text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (text->len < len || memcmp(text->data, prefix, len) != 0)
        return false;
    *text = (struct bytes){text->data + len, text->len - len};
    return true;
}

/* Parses "SEP:N". */
static bool prefix_parse(struct bytes text, struct slot_rule *rule)
{
    const char *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
    if (!colon)
        return false;
    struct bytes separator = {text.data, (size_t)(colon - text.data)};
    struct bytes fields = {colon + 1, text.len - separator.len - 1};
    uint64_t count;
    if (separator.len == 0 || separator.len > SLOT_RULE_SEPARATOR_MAX ||
        !number_parse_uint64(fields, &count) || count == 0 || count > 1000)
        return false;
    *rule = (struct slot_rule){.kind = SLOT_RULE_PREFIX,
                               .fields = (uint16_t)count,
                               .separator_len = (uint8_t)separator.len};
    memcpy(rule->separator, separator.data, separator.len);
    return true;
}

bool slot_rule_parse(struct bytes text, struct slot_rule *rule)
{
    uint64_t slot;
    if (bytes_equal(text, BYTES("tag"))) {
        *rule = (struct slot_rule){.kind = SLOT_RULE_TAG};
        return true;
    }
    if (cut_prefix(&text, "prefix:"))
        return prefix_parse(text, rule);
    if (!cut_prefix(&text, "fixed:") || !number_parse_uint64(text, &slot) || slot >= SLOT_COUNT)
        return false;
    *rule = (struct slot_rule){.kind = SLOT_RULE_FIXED, .slot = (uint16_t)slot};
    return true;
}

size_t slot_rule_format(const struct slot_rule *rule, char to[SLOT_RULE_TEXT_MAX])
{
    int len = 0;
    switch (rule->kind) {
    case SLOT_RULE_TAG:
        len = snprintf(to, SLOT_RULE_TEXT_MAX, "tag");
        break;
    case SLOT_RULE_PREFIX:
        len = snprintf(to, SLOT_RULE_TEXT_MAX, "prefix:%.*s:%u", rule->separator_len,
                       rule->separator, rule->fields);
        break;
    case SLOT_RULE_FIXED:
        len = snprintf(to, SLOT_RULE_TEXT_MAX, "fixed:%u", rule->slot);
        break;
    }
    CHECK(len > 0 && len < SLOT_RULE_TEXT_MAX);
    return (size_t)len;
}

/* The first `fields` fields of the key; the whole key when it has fewer. */
static struct bytes first_fields(const struct slot_rule *rule, struct bytes key)
{
    const char *from = key.data;
    const char *end = key.data + key.len;
    for (unsigned field = 0; field < rule->fields && from; field++) {
        const char *cut = memmem(from, (size_t)(end - from), rule->separator, rule->separator_len);
        if (!cut)
            return key;
        if (field + 1 == rule->fields)
            return (struct bytes){key.data, (size_t)(cut - key.data)};
        from = cut + rule->separator_len;
    }
    return key;
}

uint16_t slot_rule_slot(const struct slot_rule *rule, struct bytes key)
{
    switch (rule ? rule->kind : SLOT_RULE_TAG) {
    case SLOT_RULE_TAG:
        break;
    case SLOT_RULE_PREFIX:
        if (slot_tag(key).len == key.len)
            return (uint16_t)(slot_crc16(first_fields(rule, key)) % SLOT_COUNT);
        break;
    case SLOT_RULE_FIXED:
        return rule->slot;
    }
    return slot_of(key);
}

uint16_t namespace_slot(const struct namespace *ns, struct bytes key)
{
    return slot_rule_slot(ns ? &ns->slot_rule : NULL, key);
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

struct namespaces *namespaces_new(void)
{
    struct namespaces *set = calloc(1, sizeof *set);
    CHECK(set);
    set->refs = 1;
    return set;
}

struct namespaces *namespaces_ref(struct namespaces *set)
{
    CHECK(atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed) > 0);
    return set;
}

void namespaces_unref(struct namespaces *set)
{
    if (!set)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    for (size_t i = 0; i < set->count; i++) {
        free(set->items[i].name);
        free(set->items[i].token);
        free(set->items[i].token_previous);
        free(set->items[i].users);
    }
    free(set->items);
    free(set);
}

void namespaces_add(struct namespaces *set, const struct namespace *item)
{
    struct namespace *items = reallocarray(set->items, set->count + 1, sizeof *items);
    CHECK(items);
    set->items = items;
    struct namespace *copy = &items[set->count++];
    *copy = *item;
    copy->name = strdup(item->name);
    copy->token = strdup(item->token);
    copy->token_previous = strdup(item->token_previous ? item->token_previous : "");
    copy->users = strdup(item->users ? item->users : "");
    CHECK(copy->name && copy->token && copy->token_previous && copy->users);
    copy->is_pattern = namespace_is_pattern(bytes_of(copy->name));
}

bool secret_equal(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    unsigned char difference = 0;
    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.data[i] ^ b.data[i]);
    return difference == 0;
}

bool namespace_is_pattern(struct bytes name)
{
    return !glob_is_literal(name);
}

bool namespace_name_valid(struct bytes name)
{
    return name.len > 0 && name.len <= NAMESPACE_NAME_MAX && !memchr(name.data, '\0', name.len) &&
           !bytes_equal(name, BYTES("default"));
}

/* An empty token never matches. */
static bool token_opens(const struct namespace *item, struct bytes token)
{
    bool is_token = secret_equal(bytes_of(item->token), token);
    bool is_previous = secret_equal(bytes_of(item->token_previous), token);
    return (is_token || is_previous) && token.len > 0;
}

bool namespaces_login(const struct namespaces *set, struct bytes token,
                      struct namespace_match *match)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct namespace *item = &set->items[i];
        if (item->is_pattern || !token_opens(item, token))
            continue;
        *match = (struct namespace_match){item, bytes_of(item->name)};
        return true;
    }
    return false;
}

bool namespaces_find(const struct namespaces *set, struct bytes name, struct namespace_match *match)
{
    const struct namespace *found = NULL;
    if (!namespace_name_valid(name))
        return false;
    for (size_t i = 0; i < set->count; i++) {
        const struct namespace *item = &set->items[i];
        struct bytes item_name = bytes_of(item->name);
        if (!item->is_pattern && bytes_equal(item_name, name)) {
            *match = (struct namespace_match){item, item_name};
            return true;
        }
        if (!found && item->is_pattern && glob_match(item_name, name))
            found = item;
    }
    *match = (struct namespace_match){found, name};
    return found != NULL;
}

bool namespaces_login_as(const struct namespaces *set, struct bytes name, struct bytes token,
                         struct namespace_match *match)
{
    return namespaces_find(set, name, match) && token_opens(match->entry, token);
}

static bool has_user(const struct namespace *item, struct bytes user)
{
    const char *at = item->users;
    while (*at) {
        size_t len = strcspn(at, " \t");
        if (len > 0 && bytes_equal((struct bytes){at, len}, user))
            return true;
        at += len + strspn(at + len, " \t");
    }
    return false;
}

bool namespaces_home(const struct namespaces *set, struct bytes user, struct namespace_match *match)
{
    for (size_t i = 0; i < set->count; i++) {
        if (!has_user(&set->items[i], user))
            continue;
        *match = (struct namespace_match){&set->items[i], bytes_of(set->items[i].name)};
        return true;
    }
    return false;
}

static bool namespace_equal(const struct namespace *a, const struct namespace *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->token, b->token) == 0 &&
           strcmp(a->token_previous, b->token_previous) == 0 && strcmp(a->users, b->users) == 0 &&
           a->rate_limit == b->rate_limit && a->bandwidth_limit_bytes == b->bandwidth_limit_bytes &&
           a->memory_limit_bytes == b->memory_limit_bytes && a->max_keys == b->max_keys &&
           a->max_bytes == b->max_bytes && a->command_memory == b->command_memory &&
           a->command_time_ms == b->command_time_ms && a->maxclients == b->maxclients &&
           a->rate_delays == b->rate_delays && a->ephemeral == b->ephemeral &&
           a->ephemeral_after_ms == b->ephemeral_after_ms &&
           a->slot_rule.kind == b->slot_rule.kind && a->slot_rule.slot == b->slot_rule.slot &&
           a->slot_rule.fields == b->slot_rule.fields &&
           a->slot_rule.separator_len == b->slot_rule.separator_len &&
           memcmp(a->slot_rule.separator, b->slot_rule.separator, a->slot_rule.separator_len) == 0;
}

bool namespaces_equal(const struct namespaces *a, const struct namespaces *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!namespace_equal(&a->items[i], &b->items[i]))
            return false;
    return true;
}
