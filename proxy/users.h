/*
 * users.h - which ACL user a client is, what it may do, and what users were refused.
 *
 *   AUTH, HELLO, RESET ─► session: user_name ──users_identify──► session: user, is_limited
 *   new snapshot ────────────────────────────────────┘                        │
 *   a request of a client that is_limited ──users_allow──► yes, or an error and a line of ACL LOG
 *
 * Who came in by a namespace's token is the namespace's own user, which may do everything in there; it has
 * neither `user` nor a `user_name`. The log of refusals is one for all workers, behind a lock: they are rare.
 */
#pragma once

#include "proxy/client.h"
#include "shared/acl_command.h"

struct frame;
struct proxy;
struct refusals;

struct refusals *refusals_new(void);
void refusals_free(struct refusals *refusals);

/* Looks up in the snapshot in force who the client is. */
void users_identify(struct client *client);
/* The user's name, as ACL WHOAMI and CLIENT LIST tell it. */
struct bytes users_name(const struct client *client);
/* Its user was removed. */
bool users_is_removed(const struct client *client);

/* May the client run the request? If not, that is noted in ACL LOG, and error[] has Redis' text. */
bool users_allow(struct client *client, const struct frame *frame, const struct command *command,
                 char error[ACL_ERROR_MAX]);
/* Does the request need its user's rules at the shard too? What scripts do and where SORT's patterns lead is seen
 * there only. */
static inline bool users_go_along(const struct client *client, const struct command *command)
{
    return client->session.is_limited && command->traits & TRAIT_UNNAMED_KEYS;
}
/* Writes a command of `argc` arguments up to its first one, so that the shard runs it as the client's user. */
void users_write_head(const struct client *client, struct out *out, uint32_t argc);
/* Sends the frame in that form as the request's part. */
void users_send(struct client *client, struct upstream *upstream, struct request *request,
                const struct frame *frame);
/* Notes that a login as `name` failed; `command`: as the client wrote it. */
void users_note_login(struct client *client, struct bytes name, struct bytes command);
/* ACL LOG. False: the error is in error[]. */
bool users_reply_log(struct client *client, struct reply *reply, const struct bytes *argv,
                     uint32_t argc, char error[ACL_ERROR_MAX]);
