/*
 * local_auth.h - who a client is: tokens of namespaces, the password of the rest, HELLO's login.
 */
#pragma once

#include "proxy/client.h"

/* How a login ended. */
enum login { LOGIN_OK, LOGIN_WRONG, LOGIN_NO_PASSWORD };

/* AUTH password (user NULL) or AUTH user password. On success the client is in its namespace, else ACL LOG has
 * it. `command`: as the client wrote it. */
enum login local_login(struct client *client, struct bytes command, const struct bytes *user,
                       struct bytes password);
/* Needs the client no login: its listener is bound to a namespace, or nothing is protected. */
bool local_is_welcome(const struct client *client);
