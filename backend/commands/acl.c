/*
 * acl.c - ACL: users and their rules, for all partitions of the process.
 *
 * The users are part of the settings: a change is made on a copy and published (server.h).
 */
#include "shared/acl.h"

#include "backend/acl_log.h"
#include "backend/handlers.h"
#include "backend/partition.h"
#include "backend/server.h"
#include "backend/session.h"
#include "backend/settings.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command_reply.h"
#include "shared/log.h"
#include "shared/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { REASON_MAX = 1024, FILE_BYTES_MAX = 64 << 20 };

/* Replies the collected text as a bulk string and empties the out. */
static void reply_out(struct call *call, struct out *out)
{
    char *text = arena_alloc(call->arena, out->bytes + 1);
    out_copy(out, text);
    reply_bulk(&call->reply, (struct bytes){text, out->bytes});
    out_clear(out);
}

static const struct acl *users(const struct call *call)
{
    return call->partition->settings->acl;
}

static void publish(struct call *call, struct settings *settings)
{
    server_settings_publish(call->partition->server, settings);
    partition_refresh(call->partition);
}

/* Redis' words for subcommands with more arguments than they take. */
static void wrong_count(struct call *call)
{
    call_errorf(call,
                "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try ACL HELP.",
                (int)call->argv[1].len, call->argv[1].data);
}

/* ---- telling ---- */

void cmd_acl_whoami(struct call *call)
{
    reply_bulk(&call->reply, session_user_name(call->session));
}

void cmd_acl_users(struct call *call)
{
    const struct acl_user *user;
    int64_t count = 0;
    while (acl_user_at(users(call), (size_t)count))
        count++;
    reply_array(&call->reply, count);
    for (size_t i = 0; (user = acl_user_at(users(call), i)); i++)
        reply_bulk(&call->reply, acl_user_name(user));
}

void cmd_acl_list(struct call *call)
{
    const struct acl_user *user;
    int64_t count = 0;
    while (acl_user_at(users(call), (size_t)count))
        count++;
    reply_array(&call->reply, count);
    for (size_t i = 0; (user = acl_user_at(users(call), i)); i++) {
        struct out line;
        struct bytes name = acl_user_name(user);
        out_init(&line);
        out_printf(&line, "user %.*s ", (int)name.len, name.data);
        acl_user_describe(user, &line);
        reply_out(call, &line);
    }
}

/* "commands", "keys", "channels" of a selector, each with its text. */
static void reply_selector(struct call *call, const struct acl_selector *selector)
{
    struct out text;
    out_init(&text);
    reply_bulk_text(&call->reply, "commands");
    acl_selector_commands(selector, &text);
    reply_out(call, &text);
    reply_bulk_text(&call->reply, "keys");
    acl_selector_keys(selector, &text);
    reply_out(call, &text);
    reply_bulk_text(&call->reply, "channels");
    acl_selector_channels(selector, &text);
    reply_out(call, &text);
}

void cmd_acl_getuser(struct call *call)
{
    struct reply *reply = &call->reply;
    const struct acl_user *user = acl_user_find(users(call), call->argv[2]);
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
    reply_selector(call, acl_user_selector(user, 0));
    reply_bulk_text(reply, "selectors");
    for (count = 1; acl_user_selector(user, count);)
        count++;
    reply_array(reply, (int64_t)count - 1);
    for (size_t i = 1; i < count; i++) {
        reply_map(reply, 3);
        reply_selector(call, acl_user_selector(user, i));
    }
}

static void reply_category(struct call *call, uint32_t category)
{
    int64_t count = 0;
    for (enum command_id id = 1; id < COMMAND_COUNT; id++)
        count += (command_of(id)->acl & category) != 0;
    reply_array(&call->reply, count);
    for (enum command_id id = 1; id < COMMAND_COUNT; id++)
        if (command_of(id)->acl & category)
            reply_bulk_text(&call->reply, command_of(id)->full_name);
}

void cmd_acl_cat(struct call *call)
{
    const char *name;
    int64_t count = 0;
    if (call->argc > 3) {
        wrong_count(call);
    } else if (call->argc == 3) {
        uint32_t category = acl_category(call->argv[2]);
        if (category)
            reply_category(call, category);
        else
            call_errorf(call, "ERR Unknown category '%.*s'", (int)call->argv[2].len,
                        call->argv[2].data);
    } else {
        while (command_acl_name((enum command_acl)(1U << count)))
            count++;
        reply_array(&call->reply, count);
        for (int64_t i = 0; i < count; i++) {
            name = command_acl_name((enum command_acl)(1U << i));
            reply_bulk_text(&call->reply, name);
        }
    }
}

static void reply_denied(struct call *call, const struct acl_user *user,
                         const struct command *command)
{
    uint32_t index;
    const struct bytes *argv = call->argv + 3;
    char *text;
    int len;
    enum acl_denied denied = acl_check(user, command, argv, call->argc - 3, &index);
    if (denied == ACL_ALLOWED) {
        reply_ok(&call->reply);
        return;
    }
    if (denied == ACL_DENIED_COMMAND)
        len = asprintf(&text, "This user has no permissions to run the '%s' command",
                       command->full_name);
    else
        len = asprintf(&text, "This user has no permissions to access the '%.*s' %s",
                       (int)argv[index].len, argv[index].data,
                       denied == ACL_DENIED_KEY ? "key" : "channel");
    CHECK(len > 0);
    reply_bulk(&call->reply, (struct bytes){text, (size_t)len});
    free(text);
}

void cmd_acl_dryrun(struct call *call)
{
    const struct acl_user *user = acl_user_find(users(call), call->argv[2]);
    const struct bytes *argv = call->argv + 3;
    const struct command *command = command_find_argv(argv, call->argc - 3);
    if (!user)
        call_errorf(call, "ERR User '%.*s' not found", (int)call->argv[2].len, call->argv[2].data);
    else if (!command)
        call_errorf(call, "ERR Command '%.*s' not found", (int)argv->len, argv->data);
    else if (!command_arity_ok(command, call->argc - 3))
        call_errorf(call, "ERR wrong number of arguments for '%s' command", command->full_name);
    else
        reply_denied(call, user, command);
}

void cmd_acl_genpass(struct call *call)
{
    enum { BITS_MAX = 4096 };
    static const char digits[] = "0123456789abcdef";
    char text[BITS_MAX / 4];
    int64_t bits = 256;
    if (call->argc > 3) {
        wrong_count(call);
        return;
    }
    if (call->argc == 3 && !call_int64(call, 2, &bits))
        return;
    if (bits <= 0 || bits > BITS_MAX) {
        call_error_text(call, "ERR ACL GENPASS argument must be the number of bits for the output "
                              "password, a positive number up to 4096");
        return;
    }
    size_t len = (size_t)(bits + 3) / 4;
    clock_random_bytes(text, len);
    for (size_t i = 0; i < len; i++)
        text[i] = digits[text[i] & 15];
    reply_bulk(&call->reply, (struct bytes){text, len});
}

void cmd_acl_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(COMMAND_acl), HANDLER_BACKEND);
}

/* ---- changing ---- */

void cmd_acl_setuser(struct call *call)
{
    char reason[REASON_MAX];
    struct server *server = call->partition->server;
    if (!acl_name_ok(call->argv[2])) {
        call_error_text(call, "ERR Usernames can't contain spaces or null characters");
        return;
    }
    struct settings *settings = server_settings_edit(server);
    struct acl_user *user =
        acl_user_add(settings_acl_edit(settings), call->argv[2], settings_all_channels(settings));
    if (acl_user_set(user, call->argv + 3, call->argc - 3, reason, sizeof reason)) {
        publish(call, settings);
        reply_ok(&call->reply);
    } else {
        server_settings_drop(server, settings);
        call_errorf(call, "ERR %s", reason);
    }
}

void cmd_acl_deluser(struct call *call)
{
    int64_t count = 0;
    for (uint32_t i = 2; i < call->argc; i++) {
        if (bytes_equal(call->argv[i], BYTES("default"))) {
            call_error_text(call, "ERR The 'default' user cannot be removed");
            return;
        }
    }
    struct settings *settings = server_settings_edit(call->partition->server);
    struct acl *acl = settings_acl_edit(settings);
    for (uint32_t i = 2; i < call->argc; i++)
        count += acl_user_remove(acl, call->argv[i]);
    publish(call, settings);
    reply_int(&call->reply, count);
    if (!session_user(call->session))
        session_end(call->session);
}

/* ---- the file ---- */

static const char *acl_file(struct call *call)
{
    const char *path = call->partition->settings->config.acl_file;
    if (*path)
        return path;
    call_error_text(
        call, "ERR This Redis instance is not configured to use an ACL file. You may want to "
              "specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming "
              "you have a Redis configuration file set) in order to store users in the Redis "
              "configuration.");
    return NULL;
}

void cmd_acl_load(struct call *call)
{
    char reason[REASON_MAX];
    const char *path = acl_file(call);
    if (!path)
        return;
    struct settings *settings = server_settings_edit(call->partition->server);
    if (settings_load_users(settings, reason, sizeof reason)) {
        publish(call, settings);
        reply_ok(&call->reply);
    } else {
        server_settings_drop(call->partition->server, settings);
        call_errorf(call,
                    "ERR %s. WARNING: ACL errors detected, no change to the previously active ACL "
                    "rules was performed",
                    reason);
    }
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t done = write(fd, text, len);
        if (done < 0)
            return false;
        text += done;
        len -= (size_t)done;
    }
    return fsync(fd) == 0;
}

/* The new file takes the old one's place in one step. False: errno says why. */
static bool save(const char *path, const char *text, size_t len)
{
    char *fresh;
    CHECK(asprintf(&fresh, "%s.new", path) > 0);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write_all(fd, text, len);
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(fresh, path) == 0;
    free(fresh);
    return good;
}

void cmd_acl_save(struct call *call)
{
    const char *path = acl_file(call);
    struct out out;
    if (!path)
        return;
    out_init(&out);
    acl_print(users(call), &out);
    char *text = arena_alloc(call->arena, out.bytes + 1);
    out_copy(&out, text);
    if (save(path, text, out.bytes)) {
        reply_ok(&call->reply);
    } else {
        log_event(LOG_ERROR, "acl_save_failed", "path=" LOG_QUOTED " reason=" LOG_QUOTED, path,
                  strerror(errno));
        call_error_text(call, "ERR There was an error trying to save the ACLs. Please check the "
                              "server logs for more information");
    }
    out_clear(&out);
}

/* ---- the log ---- */

static void reply_event(struct call *call, const struct acl_event *event)
{
    static const char *const reasons[] = {
        [ACL_DENIED_COMMAND] = "command",
        [ACL_DENIED_KEY] = "key",
        [ACL_DENIED_AUTH] = "auth",
        [ACL_DENIED_CHANNEL] = "channel",
    };
    static const char *const contexts[] = {
        [ACL_TOPLEVEL] = "toplevel",
        [ACL_MULTI] = "multi",
        [ACL_LUA] = "lua",
    };
    struct reply *reply = &call->reply;
    reply_map(reply, 7);
    reply_bulk_text(reply, "count");
    reply_int(reply, (int64_t)event->times);
    reply_bulk_text(reply, "reason");
    reply_bulk_text(reply, reasons[event->reason]);
    reply_bulk_text(reply, "context");
    reply_bulk_text(reply, contexts[event->context]);
    reply_bulk_text(reply, "object");
    reply_bulk(reply, event->object);
    reply_bulk_text(reply, "username");
    reply_bulk(reply, event->user);
    reply_bulk_text(reply, "age-seconds");
    reply_double(reply, (double)(call->now_ms - event->at_ms) / 1000);
    reply_bulk_text(reply, "client-info");
    reply_bulk(reply, event->client);
}

void cmd_acl_log(struct call *call)
{
    struct acl_log *log = &call->partition->acl_log;
    int64_t count = 10;
    if (call->argc > 3) {
        wrong_count(call);
        return;
    }
    if (call->argc == 3 && bytes_is(call->argv[2], "RESET")) {
        acl_log_clear(log);
        reply_ok(&call->reply);
        return;
    }
    if (call->argc == 3 && !call_int64(call, 2, &count))
        return;
    if (count < 0)
        count = 0;
    if (count > (int64_t)log->count)
        count = (int64_t)log->count;
    reply_array(&call->reply, count);
    for (struct list *link = log->entries.next; count-- > 0; link = link->next)
        reply_event(call, container_of(link, struct acl_event, link));
}
