/*
 * local_auth.h - logins: AUTH and HELLO, by namespace token, password or ACL user.
 */
#pragma once

#include "proxy/client.h"

/* How a login ended. */
enum login { LOGIN_OK, LOGIN_WRONG, LOGIN_NO_PASSWORD };

/* AUTH password (user NULL) or AUTH user password. On success the client is in its namespace; a failure is logged in
 * ACL LOG. `command`: as the client wrote it. */
enum login local_login(struct client *client, struct bytes command, const struct bytes *user,
                       struct bytes password);
/* True when the client needs no login: its listener belongs to a namespace, or no password and token is set. */
bool local_is_welcome(const struct client *client);
