/*
 * local_auth.h - who a client is: tokens of namespaces, the password of the rest, HELLO's login.
 */
#pragma once

#include "config/reload.h"
#include "proxy/client.h"

/* How a login ended. */
enum login { LOGIN_OK, LOGIN_WRONG, LOGIN_NO_PASSWORD };

/* AUTH password (user NULL) or AUTH user password. On success the client is in its namespace. */
enum login local_login(struct client *client, const struct bytes *user, struct bytes password);
/* Must clients show a password or a token before anything else? */
bool local_needs_login(const struct proxy_snapshot *snapshot);
