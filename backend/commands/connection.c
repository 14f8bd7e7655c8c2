/*
 * connection.c - commands of a client about its own connection: login, protocol, name, database.
 */
#include "backend/partition/connection.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/acl_gate.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/session.h"
#include "shared/hello.h"

#include <limits.h>

static const struct bytes DEFAULT_USER = {"default", 7};

/* Logs the connection in as this user when the password is right; a failure goes to the ACL log. */
static bool log_in(struct call *call, struct bytes name, struct bytes password)
{
    const struct acl_user *user = acl_user_find(call->partition->snapshot->acl, name);
    if (user && acl_user_accepts(user, password)) {
        session_log_in(call->session, name);
        return true;
    }
    acl_note(call, ACL_DENIED_AUTH, call->in_exec ? ACL_MULTI : ACL_TOPLEVEL, name, call->argv[0]);
    call_error(call, ERR_WRONGPASS);
    return false;
}

void cmd_auth(struct call *call)
{
    const struct acl_user *user = acl_user_find(call->partition->snapshot->acl, DEFAULT_USER);
    if (call->argc > 3)
        call_error(call, ERR_SYNTAX);
    else if (call->argc == 2 && !acl_user_needs_password(user))
        call_error_text(
            call,
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?");
    else if (log_in(call, call->argc == 3 ? call->argv[1] : DEFAULT_USER,
                    call->argv[call->argc - 1]))
        reply_ok(&call->reply);
}

/* ---- HELLO ---- */

/* False: an error was replied, because the name has bytes that would break CLIENT LIST. */
static bool set_client_name(struct call *call, struct bytes name)
{
    if (!client_text_is_fine(name)) {
        call_error(call, ERR_CLIENT_NAME);
        return false;
    }
    session_set_text(&call->session->about.name, name);
    return true;
}

/* Applies the options one by one, as Redis does. False: an error was replied. */
static bool apply_hello_options(struct call *call)
{
    for (uint32_t i = 2; i < call->argc;) {
        const struct bytes *option = &call->argv[i];
        uint32_t more = call->argc - i - 1;
        if (bytes_is(*option, "AUTH") && more >= 2) {
            if (!log_in(call, option[1], option[2]))
                return false;
            i += 3;
        } else if (bytes_is(*option, "SETNAME") && more >= 1) {
            if (!set_client_name(call, option[1]))
                return false;
            i += 2;
        } else {
            call_errorf(call, "ERR Syntax error in HELLO option '%.*s'", (int)option->len,
                        option->data);
            return false;
        }
    }
    return true;
}

void cmd_hello(struct call *call)
{
    struct session *session = call->session;
    uint8_t resp = session->resp;
    enum error err = hello_version(call->argv, call->argc, &resp);
    if (err == OK && !apply_hello_options(call))
        return;
    if (err == OK && !session->login.is_authenticated &&
        config_snapshot_needs_password(call->partition->snapshot))
        err = ERR_HELLO_NOAUTH;
    if (err != OK) {
        call_error(call, err);
        return;
    }
    session->resp = call->reply.resp = resp;
    hello_reply(&call->reply, resp, session->id,
                cluster_client(session) ? "cluster" : "standalone");
}

/* ---- simple commands ---- */

void cmd_ping(struct call *call)
{
    if (call->argc > 2) {
        call_error_arity(call);
    } else if (session_is_subscriber(call->session)) {
        reply_array(&call->reply, 2);
        reply_bulk_text(&call->reply, "pong");
        reply_bulk(&call->reply, call->argc == 2 ? call->argv[1] : BYTES(""));
    } else if (call->argc == 2) {
        reply_bulk(&call->reply, call->argv[1]);
    } else {
        reply_status(&call->reply, "PONG");
    }
}

void cmd_echo(struct call *call)
{
    reply_bulk(&call->reply, call->argv[1]);
}

void cmd_quit(struct call *call)
{
    reply_ok(&call->reply);
    session_end(call->session);
}

void cmd_reset(struct call *call)
{
    connection_reset(call->session);
    call->reply.resp = call->session->resp;
    reply_status(&call->reply, "RESET");
}

void cmd_select(struct call *call)
{
    int64_t db;
    if (!call_int64(call, 1, &db))
        return;
    if (db < INT_MIN || db > INT_MAX) {
        call_errorf(call, "ERR value is out of range, value must between %d and %d", INT_MIN,
                    INT_MAX);
    } else if (db < 0 || db >= session_databases(call->session)) {
        call_error(call, ERR_DB_INDEX);
    } else {
        session_select(call->session, (uint8_t)db);
        reply_ok(&call->reply);
    }
}

void cmd_readonly(struct call *call)
{
    call->session->about.is_readonly = true;
    reply_ok(&call->reply);
}

void cmd_readwrite(struct call *call)
{
    call->session->about.is_readonly = false;
    reply_ok(&call->reply);
}

void cmd_asking(struct call *call)
{
    reply_ok(&call->reply);
}

/* ---- CLIENT subcommands ---- */

void cmd_client_setname(struct call *call)
{
    if (set_client_name(call, call->argv[2]))
        reply_ok(&call->reply);
}

void cmd_client_getname(struct call *call)
{
    const char *name = call->session->about.name;
    if (name)
        reply_bulk_text(&call->reply, name);
    else
        reply_null(&call->reply);
}

void cmd_client_setinfo(struct call *call)
{
    struct session *session = call->session;
    bool is_name = bytes_is(call->argv[2], "lib-name");
    if (!is_name && !bytes_is(call->argv[2], "lib-ver")) {
        call_errorf(call, "ERR Unrecognized option '%.*s'", (int)call->argv[2].len,
                    call->argv[2].data);
        return;
    }
    if (!client_text_is_fine(call->argv[3])) {
        call_errorf(call, "ERR %.*s cannot contain spaces, newlines or special characters.",
                    (int)call->argv[2].len, call->argv[2].data);
        return;
    }
    session_set_text(is_name ? &session->about.lib_name : &session->about.lib_version,
                     call->argv[3]);
    reply_ok(&call->reply);
}

void cmd_client_id(struct call *call)
{
    reply_int(&call->reply, (int64_t)call->session->id);
}

void cmd_client_reply(struct call *call)
{
    struct session *session = call->session;
    struct bytes mode = call->argv[2];
    if (bytes_is(mode, "ON")) {
        session->replies.mode = REPLY_MODE_ON;
        reply_ok(&call->reply);
    } else if (bytes_is(mode, "OFF")) {
        session->replies.mode = REPLY_MODE_OFF;
    } else if (bytes_is(mode, "SKIP")) {
        if (session->replies.mode != REPLY_MODE_OFF)
            session->replies.mode = REPLY_MODE_SKIP_NEXT;
    } else {
        call_error(call, ERR_SYNTAX);
    }
}

/* Parses ON or OFF in argument 2; false: an error was replied. */
static bool parse_switch(struct call *call, bool *value)
{
    *value = bytes_is(call->argv[2], "ON");
    if (*value || bytes_is(call->argv[2], "OFF"))
        return true;
    call_error(call, ERR_SYNTAX);
    return false;
}

void cmd_client_no_evict(struct call *call)
{
    if (parse_switch(call, &call->session->about.no_evict))
        reply_ok(&call->reply);
}

void cmd_client_no_touch(struct call *call)
{
    if (parse_switch(call, &call->session->about.no_touch))
        reply_ok(&call->reply);
}

void cmd_client_capa(struct call *call)
{
    reply_ok(&call->reply);
}

void cmd_client_maint_notifications(struct call *call)
{
    if (bytes_is(call->argv[2], "on"))
        call_error(call, ERR_MAINT_NOTIFICATIONS);
    else if (bytes_is(call->argv[2], "off") && call->argc == 3)
        reply_ok(&call->reply);
    else
        call_error(call, ERR_SYNTAX);
}
