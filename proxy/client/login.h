/*
 * login.h - logins: AUTH and HELLO, by namespace token, password or ACL user.
 *
 *   AUTH password          the namespace whose token it is; else the user "default": no namespace
 *   AUTH user password     an ACL user: in the namespace that names it among its users, else in none
 *   AUTH name token        namespace `name`, exact or by a pattern, as its own user
 *   no AUTH, on a listener with a namespace     that namespace, without a login
 *
 * Without any password and token clients need no login. As soon as one namespace has a token, clients without a namespace
 * need a password too; if "default" has none, they cannot log in. The password of "default" is requirepass, or the one
 * in the aclfile.
 *
 * AUTH with an unknown name logs the client out, even if no login is needed. Reason: the namespace may be configured a
 * moment later, and a client that ignores the error must not write to the default namespace until then.
 */
#pragma once

#include "proxy/core/client.h"

/* How a login ended. LOGIN_ENDED: wrong, with an unknown name, so the connection needs a login from now on. LOGIN_FULL: the
 * namespace has as many clients as it may have; the session is unchanged. */
enum login { LOGIN_OK, LOGIN_WRONG, LOGIN_ENDED, LOGIN_NO_PASSWORD, LOGIN_FULL };

/* AUTH password (user NULL) or AUTH user password. On success the client is in its namespace; a failure is logged in
 * ACL LOG. `command`: as the client wrote it. */
enum login login_try(struct client *client, struct bytes command, const struct bytes *user,
                     struct bytes password);
/* True when the client needs no login: its listener belongs to a namespace, or no password and token is set. */
bool login_is_welcome(const struct client *client);
/* A connection was accepted: puts the session in a keyspace (client_session_move) and sets is_authenticated.
 * `name` is the namespace its listener is bound to, empty: none. */
void login_begin(struct client *client, struct bytes name);
/* protected-mode: true when clients need no login and this one comes from another host. */
bool login_is_protected(const struct proxy_worker *worker, const struct stream *stream,
                        struct bytes name);
/* After a change of the configuration: a session whose namespace was removed loses its authentication. */
void login_reloaded(struct client *client);
