/*
 * local_auth.c - logins.
 *
 *   AUTH password          requirepass: no namespace; else the namespace whose token it is
 *   AUTH name token        namespace `name`, exact or by a pattern
 *   AUTH default password  no namespace
 *   a bound listener       its namespace, without a login
 *
 * Where neither a password nor a token is configured, everybody is welcome; as soon as there is one token,
 * a client without a namespace needs requirepass, and without requirepass there is no way in for it.
 */
#include "proxy/local_auth.h"

#include "proxy/local.h"
#include "proxy/worker.h"

static bool has_tokens(const struct namespaces *namespaces)
{
    for (size_t i = 0; i < namespaces->count; i++)
        if (*namespaces->items[i].token)
            return true;
    return false;
}

static bool needs_login(const struct proxy_snapshot *snapshot)
{
    return *snapshot->config.requirepass || has_tokens(snapshot->namespaces);
}

static enum login login_default(struct client *client, bool by_name, struct bytes password)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    const char *wanted = snapshot->config.requirepass;
    if (*wanted ? !secret_equal(password, bytes_of(wanted)) : needs_login(snapshot))
        return LOGIN_WRONG;
    if (!*wanted && !by_name)
        return LOGIN_NO_PASSWORD;
    client_move(client, (struct bytes){"", 0}, client->session.place->db);
    return LOGIN_OK;
}

enum login local_login(struct client *client, const struct bytes *user, struct bytes password)
{
    const struct namespaces *namespaces = client->worker->snapshot->namespaces;
    struct namespace_match match;
    enum login result = LOGIN_OK;
    if (user && bytes_equal(*user, BYTES("default")))
        result = login_default(client, true, password);
    else if (user ? namespaces_login_as(namespaces, *user, password, &match)
                  : namespaces_login(namespaces, password, &match))
        client_move(client, match.name, 0);
    else
        result = user ? LOGIN_WRONG : login_default(client, false, password);
    client->session.is_authenticated |= result == LOGIN_OK;
    return result;
}

void local_auth(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    if (argc > 3) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    switch (local_login(client, argc == 3 ? &argv[1] : NULL, argv[argc - 1])) {
    case LOGIN_OK:
        reply_ok(reply);
        return;
    case LOGIN_WRONG:
        reply_code(reply, ERR_WRONGPASS);
        return;
    case LOGIN_NO_PASSWORD:
        reply_error(
            reply,
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?");
    }
}

void local_welcome(struct client *client, struct bytes name)
{
    struct proxy_worker *worker = client->worker;
    struct client_session *session = &client->session;
    session->home = places_get(&worker->places, name, 0);
    client_session_move(session, &worker->places, session->home);
    session->is_authenticated = local_is_welcome(client);
}

bool local_is_welcome(const struct client *client)
{
    return client->session.home->name.len > 0 || !needs_login(client->worker->snapshot);
}

void local_reloaded(struct client *client)
{
    if (client->session.place->is_gone)
        client->session.is_authenticated = false;
}
