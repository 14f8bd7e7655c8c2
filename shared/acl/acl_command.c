#include "shared/acl/acl_command.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/number.h"

#include <stdarg.h>
#include <stdio.h>

const char acl_no_file_error[] =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users "
    "via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis "
    "configuration file set) in order to store users in the Redis configuration.";
const char acl_save_error[] = "ERR There was an error trying to save the ACLs. Please check the "
                              "server logs for more information";

static bool set_acl_error(char error[ACL_ERROR_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool set_acl_error(char error[ACL_ERROR_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error, ACL_ERROR_MAX, format, args);
    va_end(args);
    return false;
}

/* Redis' error for a subcommand with too many arguments. */
static bool refuse_count(struct bytes sub, char error[ACL_ERROR_MAX])
{
    return set_acl_error(
        error, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try ACL HELP.",
        (int)sub.len, sub.data);
}

static bool parse_integer(struct bytes text, int64_t *value, char error[ACL_ERROR_MAX])
{
    return number_parse_int64(text, value) ||
           set_acl_error(error, "%s", error_text(ERR_NOT_INTEGER));
}

void acl_load_error(const char *reason, char error[ACL_ERROR_MAX])
{
    (void)set_acl_error(
        error,
        "ERR %s. WARNING: ACL errors detected, no change to the previously active ACL "
        "rules was performed",
        reason);
}

void acl_denied_error(enum acl_denied denied, const struct command *command,
                      char error[ACL_ERROR_MAX])
{
    if (denied == ACL_DENIED_COMMAND)
        (void)set_acl_error(error, "NOPERM this user has no permissions to run the '%s' command",
                            command->full_name);
    else
        (void)set_acl_error(
            error, "NOPERM this user has no permissions to access one of the %s used as arguments",
            denied == ACL_DENIED_KEY ? "keys" : "channels");
}

/* ---- replies ---- */

/* Replies the collected text as a bulk string and empties `out`. */
static void reply_bulk_out(struct reply *reply, struct out *out)
{
    reply_bulk_begin(reply, (int64_t)out->bytes);
    out_move(reply->out, out);
    reply_bulk_end(reply);
}

static int64_t count_users(const struct acl *acl)
{
    int64_t count = 0;
    while (acl_user_at(acl, (size_t)count))
        count++;
    return count;
}

void acl_reply_users(struct reply *reply, const struct acl *acl)
{
    const struct acl_user *user;
    reply_array(reply, count_users(acl));
    for (size_t i = 0; (user = acl_user_at(acl, i)); i++)
        reply_bulk(reply, acl_user_name(user));
}

void acl_reply_list(struct reply *reply, const struct acl *acl)
{
    const struct acl_user *user;
    reply_array(reply, count_users(acl));
    for (size_t i = 0; (user = acl_user_at(acl, i)); i++) {
        struct out line;
        struct bytes name = acl_user_name(user);
        out_init(&line);
        out_printf(&line, "user %.*s ", (int)name.len, name.data);
        acl_user_describe(user, &line);
        reply_bulk_out(reply, &line);
    }
}

/* Replies "commands", "keys" and "channels" of a selector, each with its rules. */
static void reply_selector(struct reply *reply, const struct acl_selector *selector)
{
    struct out text;
    out_init(&text);
    reply_bulk_text(reply, "commands");
    acl_selector_commands(selector, &text);
    reply_bulk_out(reply, &text);
    reply_bulk_text(reply, "keys");
    acl_selector_keys(selector, &text);
    reply_bulk_out(reply, &text);
    reply_bulk_text(reply, "channels");
    acl_selector_channels(selector, &text);
    reply_bulk_out(reply, &text);
}

void acl_reply_getuser(struct reply *reply, const struct acl *acl, const struct bytes *argv)
{
    const struct acl_user *user = acl_user_find(acl, argv[2]);
    size_t count = 0;
    if (!user) {
        reply_null(reply);
        return;
    }
    reply_map(reply, 6);
    reply_bulk_text(reply, "flags");
    while (acl_user_flag(user, count))
        count++;
    reply_set(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        reply_bulk_text(reply, acl_user_flag(user, i));
    reply_bulk_text(reply, "passwords");
    for (count = 0; acl_user_password(user, count).len;)
        count++;
    reply_array(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        reply_bulk(reply, acl_user_password(user, i));
    reply_selector(reply, acl_user_selector(user, 0));
    reply_bulk_text(reply, "selectors");
    for (count = 1; acl_user_selector(user, count);)
        count++;
    reply_array(reply, (int64_t)count - 1);
    for (size_t i = 1; i < count; i++) {
        reply_map(reply, 3);
        reply_selector(reply, acl_user_selector(user, i));
    }
}

static void reply_category(struct reply *reply, uint32_t category)
{
    int64_t count = 0;
    for (enum command_id id = 1; id < COMMAND_COUNT; id++)
        count += (command_of(id)->acl & category) != 0;
    reply_array(reply, count);
    for (enum command_id id = 1; id < COMMAND_COUNT; id++)
        if (command_of(id)->acl & category)
            reply_bulk_text(reply, command_of(id)->full_name);
}

static void reply_categories(struct reply *reply)
{
    int64_t count = 0;
    while (command_acl_name((enum command_acl)(1U << count)))
        count++;
    reply_array(reply, count);
    for (int64_t i = 0; i < count; i++)
        reply_bulk_text(reply, command_acl_name((enum command_acl)(1U << i)));
}

bool acl_reply_cat(struct reply *reply, const struct bytes *argv, uint32_t argc,
                   char error[ACL_ERROR_MAX])
{
    if (argc > 3)
        return refuse_count(argv[1], error);
    if (argc < 3) {
        reply_categories(reply);
        return true;
    }
    uint32_t category = acl_category(argv[2]);
    if (!category)
        return set_acl_error(error, "ERR Unknown category '%.*s'", (int)argv[2].len, argv[2].data);
    reply_category(reply, category);
    return true;
}

/* The reply of DRYRUN for a valid request. */
static void reply_verdict(struct reply *reply, const struct acl_user *user,
                          const struct command *command, const struct bytes *argv, uint32_t argc)
{
    uint32_t index;
    enum acl_denied denied = acl_check(user, command, argv, argc, &index);
    if (denied == ACL_ALLOWED) {
        reply_ok(reply);
        return;
    }
    struct out text;
    out_init(&text);
    if (denied == ACL_DENIED_COMMAND) {
        out_printf(&text, "This user has no permissions to run the '%s' command",
                   command->full_name);
    } else {
        out_printf(&text, "This user has no permissions to access the '");
        out_write(&text, argv[index].data, argv[index].len);
        out_printf(&text, "' %s", denied == ACL_DENIED_KEY ? "key" : "channel");
    }
    reply_bulk_out(reply, &text);
}

bool acl_reply_dryrun(struct reply *reply, const struct acl *acl, const struct bytes *argv,
                      uint32_t argc, char error[ACL_ERROR_MAX])
{
    const struct acl_user *user = acl_user_find(acl, argv[2]);
    const struct bytes *request = argv + 3;
    const struct command *command = command_find_argv(request, argc - 3);
    if (!user)
        return set_acl_error(error, "ERR User '%.*s' not found", (int)argv[2].len, argv[2].data);
    if (!command)
        return set_acl_error(error, "ERR Command '%.*s' not found", (int)request->len,
                             request->data);
    if (!command_arity_ok(command, argc - 3))
        return set_acl_error(error, "ERR wrong number of arguments for '%s' command",
                             command->full_name);
    reply_verdict(reply, user, command, request, argc - 3);
    return true;
}

bool acl_reply_genpass(struct reply *reply, const struct bytes *argv, uint32_t argc,
                       char error[ACL_ERROR_MAX])
{
    enum { BITS_MAX = 4096 };
    static const char digits[] = "0123456789abcdef";
    char text[BITS_MAX / 4];
    int64_t bits = 256;
    if (argc > 3)
        return refuse_count(argv[1], error);
    if (argc == 3 && !parse_integer(argv[2], &bits, error))
        return false;
    if (bits <= 0 || bits > BITS_MAX)
        return set_acl_error(error,
                             "ERR ACL GENPASS argument must be the number of bits for the output "
                             "password, a positive number up to 4096");
    size_t len = (size_t)(bits + 3) / 4;
    clock_random_bytes(text, len);
    for (size_t i = 0; i < len; i++)
        text[i] = digits[text[i] & 15];
    reply_bulk(reply, (struct bytes){text, len});
    return true;
}

/* ---- changes ---- */

bool acl_setuser(struct acl *acl, const struct bytes *argv, uint32_t argc, bool all_channels,
                 char error[ACL_ERROR_MAX])
{
    char reason[ACL_ERROR_MAX - 8];
    if (!acl_name_ok(argv[2]))
        return set_acl_error(error, "ERR Usernames can't contain spaces or null characters");
    struct acl_user *user = acl_user_add(acl, argv[2], all_channels);
    return acl_user_set(user, argv + 3, argc - 3, reason, sizeof reason) ||
           set_acl_error(error, "ERR %s", reason);
}

bool acl_deluser(struct acl *acl, const struct bytes *argv, uint32_t argc, int64_t *count,
                 char error[ACL_ERROR_MAX])
{
    *count = 0;
    for (uint32_t i = 2; i < argc; i++)
        if (bytes_equal(argv[i], BYTES("default")))
            return set_acl_error(error, "ERR The 'default' user cannot be removed");
    for (uint32_t i = 2; i < argc; i++)
        *count += acl_user_remove(acl, argv[i]);
    return true;
}

/* ---- the log ---- */

static void reply_event(struct reply *reply, const struct acl_event *event, uint64_t now_ms)
{
    static const char *const contexts[] = {
        [ACL_TOPLEVEL] = "toplevel",
        [ACL_MULTI] = "multi",
        [ACL_LUA] = "lua",
    };
    reply_map(reply, 7);
    reply_bulk_text(reply, "count");
    reply_int(reply, (int64_t)event->times);
    reply_bulk_text(reply, "reason");
    reply_bulk_text(reply, acl_denied_name(event->reason));
    reply_bulk_text(reply, "context");
    reply_bulk_text(reply, contexts[event->context]);
    reply_bulk_text(reply, "object");
    reply_bulk(reply, event->object);
    reply_bulk_text(reply, "username");
    reply_bulk(reply, event->user);
    reply_bulk_text(reply, "age-seconds");
    reply_double(reply, (double)(now_ms - event->at_ms) / 1000);
    reply_bulk_text(reply, "client-info");
    reply_bulk(reply, event->client);
}

bool acl_reply_log(struct reply *reply, struct acl_log *log, const struct bytes *argv,
                   uint32_t argc, uint64_t now_ms, char error[ACL_ERROR_MAX])
{
    int64_t count = 10;
    if (argc > 3)
        return refuse_count(argv[1], error);
    if (argc == 3 && bytes_is(argv[2], "RESET")) {
        acl_log_clear(log);
        reply_ok(reply);
        return true;
    }
    if (argc == 3 && !parse_integer(argv[2], &count, error))
        return false;
    if (count < 0)
        count = 0;
    if (count > (int64_t)log->count)
        count = (int64_t)log->count;
    reply_array(reply, count);
    for (struct list *link = log->entries.next; count-- > 0; link = link->next)
        reply_event(reply, container_of(link, struct acl_event, link), now_ms);
    return true;
}
