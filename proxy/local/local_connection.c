/*
 * local_connection.c - commands about the client's own connection: protocol, database, name, replies.
 */
#include "proxy/client/fan_out.h"
#include "proxy/client/login.h"
#include "proxy/client/monitor.h"
#include "proxy/client/move.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/tracking.h"
#include "proxy/client/transaction.h"
#include "proxy/client/users.h"
#include "proxy/core/share_limits.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/command/command_reply.h"
#include "shared/hello.h"
#include "shared/number.h"

#include <limits.h>

/* ---- HELLO ---- */

static bool set_connection_name(struct client *client, struct bytes name, struct reply *reply)
{
    if (!client_text_is_fine(name)) {
        reply_code(reply, ERR_CLIENT_NAME);
        return false;
    }
    client_session_set_text(&client->session.name, name);
    return true;
}

/* Applies the options one by one, as Redis does. False: an error was replied. */
static bool hello_options(struct client *client, const struct bytes *argv, uint32_t argc,
                          struct reply *reply)
{
    for (uint32_t i = 2; i < argc;) {
        uint32_t more = argc - i - 1;
        if (bytes_is(argv[i], "AUTH") && more >= 2) {
            enum login login = login_try(client, argv[0], &argv[i + 1], argv[i + 2]);
            if (login == LOGIN_FULL)
                reply_error(reply, maxclients_error);
            else if (login != LOGIN_OK)
                reply_code(reply, login == LOGIN_ENDED ? ERR_LOGIN_ENDED : ERR_WRONGPASS);
            if (login != LOGIN_OK)
                return false;
            i += 3;
        } else if (bytes_is(argv[i], "SETNAME") && more >= 1) {
            if (!set_connection_name(client, argv[i + 1], reply))
                return false;
            i += 2;
        } else {
            reply_errorf(reply, "ERR Syntax error in HELLO option '%.*s'", (int)argv[i].len,
                         argv[i].data);
            return false;
        }
    }
    return true;
}

/* request_done_fn of local_redirect */
static void say_hello_in_resp2(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    client->session.resp = reply->resp = 2;
    hello_reply(reply, 2, client->id, "standalone");
}

void local_hello(struct client *client, struct request *request, struct reply *reply)
{
    uint8_t resp = client->session.resp;
    const struct bytes *argv = request_argv(request);
    enum error err = hello_version(argv, request_argc(request), &resp);
    if (err == OK && !hello_options(client, argv, request_argc(request), reply))
        return;
    if (err == OK && !client->session.is_authenticated)
        err = ERR_HELLO_NOAUTH;
    if (err != OK) {
        reply_code(reply, err);
        return;
    }
    if (tracking_needs_redirect(client, resp)) {
        local_redirect(client, request, reply, say_hello_in_resp2);
        return;
    }
    client->session.resp = reply->resp = resp;
    hello_reply(reply, resp, client->id, "standalone");
}

/* ---- PING, SELECT and others ---- */

void local_ping(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t argc = request_argc(request);
    if (argc > 2) {
        command_error_arity(reply, request->command);
    } else if (client_is_subscriber(client)) {
        reply_array(reply, 2);
        reply_bulk_text(reply, "pong");
        reply_bulk(reply, argc == 2 ? request_argv(request)[1] : BYTES(""));
    } else if (argc == 2) {
        reply_bulk(reply, request_argv(request)[1]);
    } else {
        reply_status(reply, "PONG");
    }
}

void local_echo(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_bulk(reply, request_argv(request)[1]);
}

void local_quit(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_ok(reply);
    client_end(client);
}

void local_reset(struct client *client, struct request *request, struct reply *reply)
{
    struct client_session *session = &client->session;
    (void)request;
    client_transaction_clear(&session->transaction);
    client_transaction_release(client);
    subscriptions_clear(client);
    monitor_leave(client);
    tracking_clear(client);
    session->resp = reply->resp = 2;
    session->reply_mode = REPLY_MODE_ON;
    session->is_readonly = session->no_evict = session->no_touch = false;
    client_session_set_text(&session->name, (struct bytes){"", 0});
    client_move(client, session->home->name, 0);
    client_session_set_text(&session->user_name, (struct bytes){"", 0});
    users_identify(client);
    session->is_refused = false;
    session->is_authenticated = login_is_welcome(client);
    reply_status(reply, "RESET");
}

/* Moves the client to a database of its namespace. */
static void select_move(struct client *client, uint8_t db, struct reply *reply)
{
    client_move(client, client->session.keyspace->name, db);
    reply_ok(reply);
}

/* All shards have replied to a PING in the database: a Redis may have fewer databases than the proxy. A shard that is
 * down is ignored: requests to that shard fail anyway. */
static void select_done(struct client *client, struct request *request, struct reply *reply)
{
    const uint8_t *db = request_state(request, sizeof(*db));
    bool is_proven = true;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        is_proven &= !answer->is_failure;
        if (answer->frame.data[0] == '-' && !answer->is_failure) {
            out_write(reply->out, answer->frame.data, answer->frame.len);
            return;
        }
    }
    select_move(client, *db, reply);
    client->session.keyspace->is_proven |= is_proven;
}

/* The first client of a worker that selects a database waits until all shards have accepted it. */
static void select_try(struct client *client, struct request *request, uint8_t db,
                       struct reply *reply)
{
    struct keyspaces *keyspaces = &client->worker->keyspaces;
    struct keyspace *keyspace = keyspaces_get(keyspaces, client->session.keyspace->name, db);
    if (keyspace->is_proven || db == 0) {
        select_move(client, db, reply);
    } else {
        const struct bytes ping = BYTES("PING");
        uint8_t *kept = request_state(request, sizeof(*kept));
        *kept = db;
        request_fan_out(request, keyspace, SHARDS_ALL, &ping, 1, select_done);
        client_hold(client, HOLD_ORDER); /* later commands of the client run in the new database */
    }
    keyspace_unref(keyspaces, keyspace);
}

void local_select(struct client *client, struct request *request, struct reply *reply)
{
    int64_t db;
    if (!number_parse_int64(request_argv(request)[1], &db)) {
        reply_code(reply, ERR_NOT_INTEGER);
    } else if (db < INT_MIN || db > INT_MAX) {
        reply_errorf(reply, "ERR value is out of range, value must between %d and %d", INT_MIN,
                     INT_MAX);
    } else if (db < 0 || db >= DATABASES) {
        reply_code(reply, ERR_DB_INDEX);
    } else {
        select_try(client, request, (uint8_t)db, reply);
    }
}

void local_readonly(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    client->session.is_readonly = true;
    reply_ok(reply);
}

void local_readwrite(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    client->session.is_readonly = false;
    reply_ok(reply);
}

void local_asking(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
}

/* ---- CLIENT about this connection ---- */

void local_client_id(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_int(reply, (int64_t)client->id);
}

void local_client_setname(struct client *client, struct request *request, struct reply *reply)
{
    if (set_connection_name(client, request_argv(request)[2], reply))
        reply_ok(reply);
}

void local_client_getname(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    if (client->session.name)
        reply_bulk_text(reply, client->session.name);
    else
        reply_null(reply);
}

void local_client_setinfo(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    bool is_name = bytes_is(argv[2], "lib-name");
    if (!is_name && !bytes_is(argv[2], "lib-ver")) {
        reply_errorf(reply, "ERR Unrecognized option '%.*s'", (int)argv[2].len, argv[2].data);
    } else if (!client_text_is_fine(argv[3])) {
        reply_errorf(reply, "ERR %.*s cannot contain spaces, newlines or special characters.",
                     (int)argv[2].len, argv[2].data);
    } else {
        client_session_set_text(is_name ? &client->session.lib_name : &client->session.lib_version,
                                argv[3]);
        reply_ok(reply);
    }
}

void local_client_reply(struct client *client, struct request *request, struct reply *reply)
{
    struct client_session *session = &client->session;
    struct bytes mode = request_argv(request)[2];
    if (bytes_is(mode, "ON")) {
        session->reply_mode = REPLY_MODE_ON;
        request->is_silent = false;
        reply_ok(reply);
    } else if (bytes_is(mode, "OFF")) {
        session->reply_mode = REPLY_MODE_OFF;
        request->is_silent = true;
    } else if (bytes_is(mode, "SKIP")) {
        if (session->reply_mode != REPLY_MODE_OFF)
            session->reply_mode = REPLY_MODE_SKIP_NEXT;
        request->is_silent = true;
    } else {
        reply_code(reply, ERR_SYNTAX);
    }
}

static void set_switch(struct request *request, struct reply *reply, bool *value)
{
    struct bytes word = request_argv(request)[2];
    if (!bytes_is(word, "ON") && !bytes_is(word, "OFF")) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    *value = bytes_is(word, "ON");
    reply_ok(reply);
}

void local_client_no_evict(struct client *client, struct request *request, struct reply *reply)
{
    set_switch(request, reply, &client->session.no_evict);
}

void local_client_no_touch(struct client *client, struct request *request, struct reply *reply)
{
    set_switch(request, reply, &client->session.no_touch);
}

void local_client_capa(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
}

void local_client_maint_notifications(struct client *client, struct request *request,
                                      struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    (void)client;
    if (bytes_is(argv[2], "on"))
        reply_code(reply, ERR_MAINT_NOTIFICATIONS);
    else if (bytes_is(argv[2], "off") && request_argc(request) == 3)
        reply_ok(reply);
    else
        reply_code(reply, ERR_SYNTAX);
}
