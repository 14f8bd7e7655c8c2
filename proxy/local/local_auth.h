/*
 * local_auth.h - logins: AUTH and HELLO, by namespace token, password or ACL user.
 */
#pragma once

#include "proxy/client.h"

struct proxy_snapshot;

/* How a login ended. LOGIN_ENDED: wrong, with an unknown name, so the connection needs a login from now on. LOGIN_FULL: the
 * namespace has as many clients as it may have; the session is unchanged. */
enum login { LOGIN_OK, LOGIN_WRONG, LOGIN_ENDED, LOGIN_NO_PASSWORD, LOGIN_FULL };

/* Must clients log in, except on listeners with a namespace? */
bool local_needs_login(const struct proxy_snapshot *snapshot);
/* AUTH password (user NULL) or AUTH user password. On success the client is in its namespace; a failure is logged in
 * ACL LOG. `command`: as the client wrote it. */
enum login local_login(struct client *client, struct bytes command, const struct bytes *user,
                       struct bytes password);
/* True when the client needs no login: its listener belongs to a namespace, or no password and token is set. */
bool local_is_welcome(const struct client *client);
