/*
 * acl_check.c - may a user run this request? One of the selectors must allow the command, all keys and all channels.
 *
 *   selector: command ─► keys, one after the other ─► channels ─► allowed
 *                └────────── not allowed ───┴───────────────┴─► the next selector is asked
 *
 * A check stops between two keys or channels when its step has used up its comparisons, and goes on there in the next step.
 */
#include "shared/acl/acl_order.h"
#include "shared/check.h"
#include "shared/glob.h"

/* ---- what a selector allows ---- */

bool acl_user_is_unlimited(const struct acl_user *user)
{
    const struct acl_selector *selector = user->selectors;
    while (selector && !(selector->all_commands && selector->all_keys && selector->all_channels))
        selector = selector->next;
    return selector != NULL;
}

static bool command_allowed(const struct acl_selector *selector, const struct command *command,
                            const struct bytes *argv, uint32_t argc)
{
    if (selector->all_commands || command->flags & CMD_NO_AUTH || acl_bit(selector, command->id))
        return true;
    uint32_t first = command->parent == COMMAND_NONE ? 1 : 2;
    const struct acl_texts *texts = &selector->first_arguments;
    for (size_t i = 0; first < argc && i < texts->count; i++)
        if (texts->items[i].tag == command->id && texts->items[i].text.len == argv[first].len &&
            strncasecmp(texts->items[i].text.data, argv[first].data, argv[first].len) == 0)
            return true;
    return false;
}

static unsigned key_permission(unsigned flags)
{
    unsigned permission = flags & KEY_ACCESS ? ACL_READ_KEYS : 0;
    return flags & (KEY_INSERT | KEY_DELETE | KEY_UPDATE) ? permission | ACL_WRITE_KEYS
                                                          : permission;
}

static bool key_allowed(const struct acl_selector *selector, struct bytes key, unsigned flags)
{
    unsigned needed = key_permission(flags);
    const struct acl_text *pattern;
    struct acl_candidates candidates = acl_candidates(&selector->keys, key);
    while ((pattern = acl_candidates_next(&candidates)))
        if ((pattern->tag & needed) == needed && glob_match(pattern->text, key))
            return true;
    return false;
}

/* The channels are the arguments from `first` to before *end; *is_pattern: they are patterns. False: there are none. */
static bool channels_of(const struct command *command, uint32_t argc, uint32_t *end,
                        bool *is_pattern)
{
    *is_pattern = command->channels == CHANNELS_PATTERNS;
    *end = command->channels == CHANNELS_FIRST ? 2 : argc;
    return command->channels != CHANNELS_NONE;
}

/* A pattern must equal an allowed pattern: a different one could match channels that no allowed pattern matches. */
static bool channel_allowed(const struct acl_selector *selector, struct bytes channel,
                            bool is_pattern)
{
    const struct acl_text *allowed;
    struct acl_candidates candidates = acl_candidates(&selector->channels, channel);
    while ((allowed = acl_candidates_next(&candidates)))
        if (is_pattern ? bytes_equal(allowed->text, channel) : glob_match(allowed->text, channel))
            return true;
    return false;
}

/* ---- checking a request ---- */

enum { STAGE_COMMAND, STAGE_KEYS, STAGE_CHANNELS };

/* Takes `patterns` from *left. False: there is nothing left, so the next key or channel waits for the next step. */
static bool spend(size_t *left, size_t patterns)
{
    if (*left == 0)
        return false;
    *left -= *left < patterns + 1 ? *left : patterns + 1;
    return true;
}

/* Goes on with the keys; *index: the argument of a key that is not allowed. False: there are more keys. */
static bool compare_keys(struct acl_check *check, size_t *left, uint32_t *index)
{
    const struct acl_selector *selector = check->selector;
    if (selector->all_keys || !keys_possible(check->command))
        return true;
    if (!check->has_keys)
        (void)keys_find(check->command, check->argv, check->argc, &check->keys);
    check->has_keys = true;
    for (; check->next < check->keys.count; check->next++) {
        const struct key_ref *key = &check->keys.refs[check->next];
        if (!spend(left, acl_texts_depth(&selector->keys)))
            return false;
        if (!key_allowed(selector, check->argv[key->index], key->flags)) {
            *index = key->index;
            return true;
        }
    }
    return true;
}

/* The same for channels. */
static bool compare_channels(struct acl_check *check, size_t *left, uint32_t *index)
{
    const struct acl_selector *selector = check->selector;
    uint32_t end;
    bool is_pattern;
    if (selector->all_channels || !channels_of(check->command, check->argc, &end, &is_pattern))
        return true;
    for (; check->next + 1 < end; check->next++) {
        uint32_t at = check->next + 1;
        if (!spend(left, acl_texts_depth(&selector->channels)))
            return false;
        if (!channel_allowed(selector, check->argv[at], is_pattern)) {
            *index = at;
            return true;
        }
    }
    return true;
}

/* Asks the selector; *denied and *index are its answer. False: there is more to do. */
static bool check_selector(struct acl_check *check, size_t *left, enum acl_denied *denied,
                           uint32_t *index)
{
    static bool (*const checks[])(struct acl_check *, size_t *, uint32_t *) = {
        [STAGE_KEYS] = compare_keys, [STAGE_CHANNELS] = compare_channels};
    static const enum acl_denied refusals[] = {
        [STAGE_KEYS] = ACL_DENIED_KEY, [STAGE_CHANNELS] = ACL_DENIED_CHANNEL};
    *index = 0;
    *denied = ACL_DENIED_COMMAND;
    if (check->stage == STAGE_COMMAND &&
        !command_allowed(check->selector, check->command, check->argv, check->argc))
        return true;
    if (check->stage == STAGE_COMMAND)
        check->stage = STAGE_KEYS;
    for (; check->stage <= STAGE_CHANNELS; check->stage++, check->next = 0) {
        *denied = refusals[check->stage];
        if (!checks[check->stage](check, left, index))
            return false;
        if (*index)
            return true;
    }
    *denied = ACL_ALLOWED;
    return true;
}

void acl_check_begin(struct acl_check *check, const struct acl_user *user,
                     const struct command *command, const struct bytes *argv, uint32_t argc)
{
    check->user = user;
    check->command = command;
    check->argv = argv;
    check->argc = argc;
    check->selector = user->selectors;
    check->stage = STAGE_COMMAND;
    check->next = 0;
    check->has_keys = false;
    check->denied = ACL_DENIED_COMMAND;
    check->index = 0;
    keys_list_init(&check->keys);
}

bool acl_check_go_on(struct acl_check *check, size_t most)
{
    while (check->selector) {
        uint32_t index;
        enum acl_denied denied;
        if (!check_selector(check, &most, &denied, &index))
            return true;
        bool is_allowed = denied == ACL_ALLOWED;
        if (is_allowed || denied > check->denied ||
            (denied == check->denied && index > check->index)) {
            check->denied = denied;
            check->index = index;
        }
        check->selector = is_allowed ? NULL : check->selector->next;
        check->stage = STAGE_COMMAND;
        check->next = 0;
    }
    return false;
}

void acl_check_end(struct acl_check *check)
{
    keys_list_fini(&check->keys);
}

enum acl_denied acl_check(const struct acl_user *user, const struct command *command,
                          const struct bytes *argv, uint32_t argc, uint32_t *index)
{
    struct acl_check check;
    acl_check_begin(&check, user, command, argv, argc);
    CHECK(!acl_check_go_on(&check, SIZE_MAX));
    acl_check_end(&check);
    *index = check.index;
    return check.denied;
}

size_t acl_user_patterns(const struct acl_user *user)
{
    size_t patterns = 0;
    for (const struct acl_selector *selector = user->selectors; selector; selector = selector->next)
        patterns += acl_texts_depth(&selector->keys) + acl_texts_depth(&selector->channels);
    return patterns;
}

bool acl_may_listen(const struct acl_user *user, struct bytes channel, bool is_pattern)
{
    const struct acl_selector *selector = user->selectors;
    while (selector && !(selector->all_channels || channel_allowed(selector, channel, is_pattern)))
        selector = selector->next;
    return selector != NULL;
}

static bool reads_all_keys(const struct acl_selector *selector)
{
    bool all = selector->all_keys;
    for (size_t i = 0; i < selector->keys.count; i++)
        all |= selector->keys.items[i].tag & ACL_READ_KEYS &&
               bytes_equal(selector->keys.items[i].text, BYTES("*"));
    return all;
}

bool acl_reads_all(const struct acl_user *user, const struct command *command,
                   const struct bytes *argv, uint32_t argc)
{
    const struct acl_selector *selector = user->selectors;
    while (selector &&
           !(command_allowed(selector, command, argv, argc) && reads_all_keys(selector)))
        selector = selector->next;
    return selector != NULL;
}

bool acl_may_read_key(const struct acl_user *user, const struct command *command,
                      const struct bytes *argv, uint32_t argc, struct bytes key)
{
    const struct acl_selector *selector = user->selectors;
    while (selector && !(command_allowed(selector, command, argv, argc) &&
                         (selector->all_keys || key_allowed(selector, key, KEY_ACCESS))))
        selector = selector->next;
    return selector != NULL;
}
