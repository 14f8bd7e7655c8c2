/*
 * acl_text.c - prints a user's rules: words that ACL SETUSER would turn into an identical user.
 *
 * A selector stores one bit per command, not the rules that set the bits. Words for the bits are found as in Redis:
 * categories are printed, the best first, as long as one has more commands with the right bit than with the wrong bit.
 * Then each command whose bit is still wrong is printed. A scratch selector (`said`) has the bits that the printed words
 * would set.
 */
#include "shared/acl_user.h"
#include "shared/check.h"

#include <limits.h>
#include <stdlib.h>

enum { CATEGORIES = 21 };

static struct bytes category_text(unsigned category)
{
    return bytes_of(command_acl_name((enum command_acl)(1U << category)));
}

/* ---- commands ---- */

/* Counts the commands of a category that are allowed and those that are not. Commands that Redis does not have are
 * skipped, so that the words equal Redis'. */
static void category_count(const struct acl_selector *selector, unsigned category, unsigned *on,
                           unsigned *off)
{
    *on = *off = 0;
    for (enum command_id id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of(id);
        if (!(command->acl & 1U << category) || command->traits & TRAIT_OWN)
            continue;
        if (acl_bit(selector, id))
            ++*on;
        else
            ++*off;
    }
}

/* The category with the fewest commands with a wrong bit, of those that have more with the right bit; CATEGORIES: there
 * is none. */
static unsigned best_category(const struct acl_selector *left, bool adding, uint32_t said)
{
    unsigned best = CATEGORIES;
    unsigned least = UINT_MAX;
    unsigned most = 0;
    for (unsigned category = 0; category < CATEGORIES; category++) {
        unsigned on;
        unsigned off;
        if (said & 1U << category)
            continue;
        category_count(left, category, &on, &off);
        unsigned different = adding ? off : on;
        unsigned same = adding ? on : off;
        if (same > different && (different < least || (different == least && same > most))) {
            best = category;
            least = different;
            most = same;
        }
    }
    return best;
}

static void say(struct out *out, bool allow, const char *mark, struct bytes name)
{
    out_write(out, allow ? " +" : " -", 2);
    out_write(out, mark, strlen(mark));
    out_write(out, name.data, name.len);
}

static void say_categories(const struct acl_selector *selector, struct acl_selector *said,
                           struct out *out)
{
    struct acl_selector left = *selector; /* a copy of which only the command bits change */
    bool adding = !selector->future_commands;
    uint32_t done = 0;
    left.first_arguments = (struct acl_texts){0};
    for (unsigned category; (category = best_category(&left, adding, done)) < CATEGORIES;) {
        say(out, adding, "@", category_text(category));
        acl_set_category(said, 1U << category, adding);
        acl_set_category(&left, 1U << category, !adding);
        done |= 1U << category;
    }
}

static void say_command(const struct acl_selector *selector, struct acl_selector *said,
                        const struct command *command, struct out *out)
{
    struct bytes name = bytes_of(command->full_name);
    bool allowed = acl_bit(selector, command->id);
    if (allowed != acl_bit(said, command->id)) {
        say(out, allowed, "", name);
        acl_set_command(said, command, allowed);
    }
    const struct acl_texts *texts = &selector->first_arguments;
    for (size_t i = 0; !allowed && i < texts->count; i++) {
        if (texts->items[i].tag != command->id)
            continue;
        say(out, true, "", name);
        out_write(out, "|", 1);
        out_write(out, texts->items[i].text.data, texts->items[i].text.len);
    }
}

void acl_selector_commands(const struct acl_selector *selector, struct out *out)
{
    struct acl_selector said = {0};
    acl_set_all_commands(&said, selector->future_commands);
    out_printf(out, "%c@all", selector->future_commands ? '+' : '-');
    say_categories(selector, &said, out);
    for (enum command_id id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of(id);
        if (command->parent != COMMAND_NONE)
            continue;
        say_command(selector, &said, command, out);
        for (enum command_id sub = command->made.sub_first; sub != COMMAND_NONE;
             sub = command_of(sub)->made.sub_next)
            say_command(selector, &said, command_of(sub), out);
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
