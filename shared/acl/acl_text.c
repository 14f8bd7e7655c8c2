/*
 * acl_text.c - prints a user's rules: words that ACL SETUSER would turn into an identical user.
 *
 * Rules about commands are printed in the order in which they were given, as in Redis since 7.2; 7.0 chooses words for the
 * commands that are allowed.
 */
#include "shared/acl/acl_user.h"

void acl_selector_commands(const struct acl_selector *selector, struct out *out)
{
    out_printf(out, "%c@all", selector->future_commands ? '+' : '-');
    for (size_t i = 0; i < selector->rules.count; i++) {
        const struct acl_text *rule = &selector->rules.items[i];
        out_write(out, rule->tag ? " +" : " -", 2);
        out_write(out, rule->text.data, rule->text.len);
    }
}

/* ---- keys and channels ---- */

void acl_selector_keys(const struct acl_selector *selector, struct out *out)
{
    static const char *const marks[] = {"", "%R~", "%W~", "~"};
    if (selector->all_keys)
        out_write(out, "~*", 2);
    for (size_t i = 0; i < selector->keys.count; i++) {
        const struct acl_text *key = &selector->keys.items[i];
        out_printf(out, "%s%s", i ? " " : "", marks[key->tag]);
        out_write(out, key->text.data, key->text.len);
    }
}

void acl_selector_channels(const struct acl_selector *selector, struct out *out)
{
    if (selector->all_channels)
        out_write(out, "&*", 2);
    for (size_t i = 0; i < selector->channels.count; i++) {
        out_printf(out, "%s&", i ? " " : "");
        out_write(out, selector->channels.items[i].text.data, selector->channels.items[i].text.len);
    }
}

static void describe_selector(const struct acl_selector *selector, struct out *out)
{
    size_t begun = out->bytes;
    acl_selector_keys(selector, out);
    if (out->bytes > begun)
        out_write(out, " ", 1);
    if (!selector->all_channels)
        out_write(out, "resetchannels ", 14);
    begun = out->bytes;
    acl_selector_channels(selector, out);
    if (out->bytes > begun)
        out_write(out, " ", 1);
    acl_selector_commands(selector, out);
}

/* ---- users ---- */

const char *acl_user_flag(const struct acl_user *user, size_t index)
{
    const char *flags[4];
    size_t count = 0;
    flags[count++] = user->is_enabled ? "on" : "off";
    if (user->no_password)
        flags[count++] = "nopass";
    if (user->skip_sanitize)
        flags[count++] = "skip-sanitize-payload";
    if (user->sanitize)
        flags[count++] = "sanitize-payload";
    return index < count ? flags[index] : NULL;
}

struct bytes acl_user_password(const struct acl_user *user, size_t index)
{
    return index < user->passwords.count ? user->passwords.items[index].text : BYTES("");
}

const struct acl_selector *acl_user_selector(const struct acl_user *user, size_t index)
{
    const struct acl_selector *selector = user->selectors;
    while (selector && index-- > 0)
        selector = selector->next;
    return selector;
}

void acl_user_describe(const struct acl_user *user, struct out *out)
{
    const char *flag;
    for (size_t i = 0; (flag = acl_user_flag(user, i)); i++)
        out_printf(out, "%s ", flag);
    for (size_t i = 0; i < user->passwords.count; i++)
        out_printf(out, "#%s ", user->passwords.items[i].text.data);
    acl_user_rules(user, out);
}

void acl_user_rules(const struct acl_user *user, struct out *out)
{
    describe_selector(user->selectors, out);
    for (const struct acl_selector *selector = user->selectors->next; selector;
         selector = selector->next) {
        out_write(out, " (", 2);
        describe_selector(selector, out);
        out_write(out, ")", 1);
    }
}
