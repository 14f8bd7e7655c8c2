#include "proxy/client/users.h"

#include "proxy/client/client_line.h"
#include "proxy/client/wide.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/upstream.h"
#include "shared/acl/audit.h"
#include "shared/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { AS_ARGS = 4 }; /* SCREE AS NAME RULES, before the command */

struct refusals {
    pthread_mutex_t mutex;
    struct acl_log log;
};

struct refusals *refusals_new(void)
{
    struct refusals *refusals = calloc(1, sizeof(*refusals));
    CHECK(refusals);
    CHECK(pthread_mutex_init(&refusals->mutex, NULL) == 0);
    acl_log_init(&refusals->log);
    return refusals;
}

void refusals_free(struct refusals *refusals)
{
    acl_log_clear(&refusals->log);
    (void)pthread_mutex_destroy(&refusals->mutex);
    free(refusals);
}

/* ---- user of a client ------------------------------------------------------------------------ */

/* True for the namespace's own user: a client in a namespace without a user name. */
static bool is_own_user(const struct client_session *session)
{
    return !session->user_name && session->keyspace->name.len > 0;
}

void users_identify(struct client *client)
{
    struct client_session *session = &client->session;
    session->user = is_own_user(session)
                        ? NULL
                        : acl_user_find(client->worker->snapshot->users, users_name(client));
    session->is_limited = session->user && !acl_user_is_unlimited(session->user);
}

struct bytes users_name(const struct client *client)
{
    const struct client_session *session = &client->session;
    if (session->user_name)
        return bytes_of(session->user_name);
    return is_own_user(session) ? session->keyspace->name : BYTES("default");
}

bool users_is_removed(const struct client *client)
{
    return client->session.user_name && !client->session.user;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void log_denied(struct client *client, enum acl_denied reason, struct bytes user,
                       struct bytes object)
{
    struct refusals *refusals = client->worker->proxy->refusals;
    struct out out;
    out_init(&out);
    client_write_line(client, &out);
    struct bytes line = out_take(&out);
    const struct acl_event event = {
        .reason = reason,
        .context = client->session.transaction.is_open ? ACL_MULTI : ACL_TOPLEVEL,
        .at_ms = loop_wall_ms(client->worker->loop),
        .object = object,
        .user = user,
        .client = line,
    };
    CHECK(pthread_mutex_lock(&refusals->mutex) == 0);
    acl_log_add(&refusals->log, &event, (size_t)client->worker->snapshot->config.acllog_max_len);
    CHECK(pthread_mutex_unlock(&refusals->mutex) == 0);
    audit_refusal(&event);
    free((char *)line.data);
    metric_add(client->worker->metrics.process, METRIC_PROXY_ACL_REFUSED, 1);
}

bool users_allow(struct client *client, const struct frame *frame, const struct command *command,
                 char error[ACL_ERROR_MAX])
{
    const struct bytes *argv = argv_of(client->worker, frame);
    uint32_t index;
    if (users_rules_are_sent(client, command) &&
        !*client->worker->snapshot->config.upstream_secret) {
        (void)snprintf(error, ACL_ERROR_MAX,
                       "NOPERM '%s' is refused to users with limited rights, because the backends "
                       "are plain Redis servers, which do not check the rules of the proxy's users",
                       command_full_name(command));
        return false;
    }
    enum acl_denied denied;
    if (!wide_denied(client, &denied, &index))
        denied = acl_check(client->session.user, command, argv, frame->argc, &index);
    if (denied == ACL_ALLOWED)
        return true;
    log_denied(client, denied, users_name(client),
               denied == ACL_DENIED_COMMAND ? bytes_of(command_full_name(command)) : argv[index]);
    acl_denied_error(denied, command, error);
    return false;
}

void users_audit(const struct client *client, const struct frame *frame,
                 const struct command *command)
{
    const struct bytes *argv = argv_of(client->worker, frame);
    if (audit_wants(command, argv, frame->argc))
        audit_command(users_name(client), stream_peer(client->stream), command, argv, frame->argc);
}

/* ---- rules that are sent with a command ------------------------------------------------------ */

void users_write_head(const struct client *client, const struct upstream *upstream,
                      const struct part *part, struct out *out, uint32_t argc)
{
    struct bytes name = users_name(client);
    struct out rules;
    out_init(&rules);
    acl_user_rules(client->session.user, &rules);
    upstream_write_header(upstream, part, out, argc + AS_ARGS);
    resp_write_word(out, BYTES("SCREE"));
    resp_write_word(out, BYTES("AS"));
    resp_write_word(out, name);
    out_printf(out, "$%zu\r\n", rules.bytes);
    out_move(out, &rules);
    out_write(out, "\r\n", 2);
}

void users_send(struct client *client, struct upstream *upstream, struct request *request,
                const struct frame *frame)
{
    struct out *out = upstream_begin(upstream, &request->part, client->session.keyspace);
    if (!out)
        return;
    users_write_head(client, upstream, &request->part, out, frame->argc);
    struct bytes arguments = frame_arguments(frame);
    if (frame->block)
        out_write_block(out, frame->block, arguments.data, arguments.len);
    else
        out_write(out, arguments.data, arguments.len);
    upstream_commit(upstream, &request->part);
}

void users_note_login(struct client *client, struct bytes name, struct bytes command)
{
    log_denied(client, ACL_DENIED_AUTH, name, command);
}

bool users_reply_log(struct client *client, struct reply *reply, const struct bytes *argv,
                     uint32_t argc, char error[ACL_ERROR_MAX])
{
    struct refusals *refusals = client->worker->proxy->refusals;
    CHECK(pthread_mutex_lock(&refusals->mutex) == 0);
    bool good =
        acl_reply_log(reply, &refusals->log, argv, argc, loop_wall_ms(client->worker->loop), error);
    CHECK(pthread_mutex_unlock(&refusals->mutex) == 0);
    return good;
}
