#include "proxy/client/login.h"

#include "proxy/client/move.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/users.h"
#include "proxy/core/login_rules.h"
#include "proxy/core/share_limits.h"
#include "proxy/core/worker.h"
#include "shared/acl/channel.h"
#include "shared/check.h"

#include <stdlib.h>

/* Logs the client in as an ACL user (NULL: "default", or the namespace's own user) in this keyspace. */
static enum login client_log_in(struct client *client, const struct bytes *user,
                                struct bytes namespace, uint8_t db)
{
    struct client_session *session = &client->session;
    if (!bytes_equal(session->keyspace->name, namespace) &&
        !shares_may_enter(client->worker, namespace))
        return LOGIN_FULL;
    char *name = user ? strndup(user->data, user->len) : NULL;
    CHECK(name || !user);
    free(session->user_name);
    session->user_name = name;
    client_move(client, namespace, db);
    users_identify(client);
    session->is_authenticated = true;
    session->is_refused = false;
    return LOGIN_OK;
}

static enum login login_default(struct client *client, struct bytes password)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    const struct acl_user *user = login_default_user(snapshot);
    bool is_open = !acl_user_needs_password(user) && login_has_tokens(snapshot);
    if (is_open || !acl_user_accepts(user, password))
        return LOGIN_WRONG;
    return client_log_in(client, NULL, (struct bytes){"", 0}, client->session.keyspace->db);
}

static enum login login_user(struct client *client, struct bytes name, struct bytes password)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    const struct acl_user *user = acl_user_find(snapshot->users, name);
    struct namespace_match home;
    if (bytes_equal(name, BYTES("default")))
        return login_default(client, password);
    if (!user || !acl_user_accepts(user, password))
        return LOGIN_WRONG;
    if (namespaces_home(snapshot->namespaces, name, &home))
        return client_log_in(client, &name, home.name, 0);
    return client_log_in(client, &name, (struct bytes){"", 0}, client->session.keyspace->db);
}

static enum login login_token(struct client *client, const struct bytes *name, struct bytes token)
{
    const struct namespaces *namespaces = client->worker->snapshot->namespaces;
    struct namespace_match match;
    if (name ? !namespaces_login_as(namespaces, *name, token, &match)
             : !namespaces_login(namespaces, token, &match))
        return LOGIN_WRONG;
    return client_log_in(client, NULL, match.name, 0);
}

/* Is the client served, outside of all namespaces, because no login is needed? */
static bool is_in_without_login(const struct client *client)
{
    const struct client_session *session = &client->session;
    return !session->user_name && session->keyspace->name.len == 0 &&
           !login_is_needed(client->worker->snapshot);
}

/* Does neither a user nor a namespace with a token have this name? */
static bool is_unknown(const struct proxy_snapshot *snapshot, struct bytes name)
{
    struct namespace_match match;
    if (acl_user_find(snapshot->users, name))
        return false;
    return !namespaces_find(snapshot->namespaces, name, &match) || !*match.entry->token;
}

enum login login_try(struct client *client, struct bytes command, const struct bytes *user,
                     struct bytes password)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    enum login login = user ? login_user(client, *user, password) : LOGIN_WRONG;
    if (login == LOGIN_WRONG)
        login = login_token(client, user, password);
    if (login != LOGIN_WRONG)
        return login;
    if (!user && !acl_user_needs_password(login_default_user(snapshot)) &&
        !login_has_tokens(snapshot))
        return LOGIN_NO_PASSWORD;
    if (!user && login_default(client, password) == LOGIN_OK)
        return LOGIN_OK;
    users_note_login(client, user ? *user : BYTES("default"), command);
    if (user && is_in_without_login(client) && is_unknown(snapshot, *user)) {
        client->session.is_refused = true;
        client->session.is_authenticated = false;
        return LOGIN_ENDED;
    }
    return LOGIN_WRONG;
}

void login_begin(struct client *client, struct bytes name)
{
    struct proxy_worker *worker = client->worker;
    struct client_session *session = &client->session;
    session->home = keyspaces_get(&worker->keyspaces, name, 0);
    client_session_move(session, &worker->keyspaces, session->home);
    users_identify(client);
    session->is_authenticated = login_is_welcome(client);
}

bool login_is_welcome(const struct client *client)
{
    return client->session.home->name.len > 0 || !login_is_needed(client->worker->snapshot);
}

/* True for a TLS client whose certificate was verified: protected-mode does not refuse it. */
static bool shows_certificate(const struct proxy_worker *worker, const struct stream *stream)
{
    return worker->snapshot->config.tls_auth_clients == TLS_CLIENTS_VERIFIED &&
           stream_is_verified(stream);
}

bool login_is_protected(const struct proxy_worker *worker, const struct stream *stream,
                        struct bytes name)
{
    const struct proxy_snapshot *snapshot = worker->snapshot;
    return snapshot->config.protected_mode && name.len == 0 &&
           !acl_user_needs_password(login_default_user(snapshot)) && !login_has_tokens(snapshot) &&
           !stream_is_local(stream) && !shows_certificate(worker, stream);
}

void login_reloaded(struct client *client)
{
    struct client_session *session = &client->session;
    const struct acl_user *before = session->user;
    users_identify(client);
    if (session->user && session->user != before && client->channels &&
        !subscriber_allowed(&client->channels->subscriber, session->user)) {
        client_kill(client, "its user may no longer subscribe to its channels");
        return;
    }
    if (session->keyspace->is_gone)
        session->is_authenticated = false;
    else if (!session->user_name && session->keyspace == session->home)
        session->is_authenticated |= login_is_welcome(client) && !session->is_refused;
    if (!users_is_removed(client))
        return;
    if (client->blocked.request)
        client_kill(client, "its user was removed");
    else
        client_end(client); /* replies in flight are still sent */
}
