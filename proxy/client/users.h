/*
 * users.h - the ACL user of a client, its permissions, and ACL LOG.
 *
 *   AUTH, HELLO, RESET ─► session: user_name ──users_identify──► session: user, is_limited
 *   new snapshot ────────────────────────────────────┘                        │
 *   a request of a client that is_limited ──users_allow──► allowed, or an error and an entry in ACL LOG
 *
 * A client that logged in with a namespace's token is the namespace's own user: it may do everything in that namespace,
 * and has neither `user` nor `user_name`. All workers share one log of refusals, under a mutex: refusals are rare.
 */
#pragma once

#include "proxy/core/client.h"
#include "shared/acl/acl_command.h"

struct frame;
struct part;
struct proxy;
struct refusals;

struct refusals *refusals_new(void);
void refusals_free(struct refusals *refusals);

/* Sets session.user and is_limited from the snapshot in force. */
void users_identify(struct client *client);
/* The name that ACL WHOAMI and CLIENT LIST show. */
struct bytes users_name(const struct client *client);
/* True when the client's user was removed from the configuration. */
bool users_is_removed(const struct client *client);

/* True when the client may run the request. False: the refusal is in ACL LOG, and error[] has Redis' text. */
bool users_allow(struct client *client, const struct frame *frame, const struct command *command,
                 char error[ACL_ERROR_MAX]);
/* Logs the command if an administrator changes something by it (audit.h). */
void users_audit(const struct client *client, const struct frame *frame,
                 const struct command *command);
/* True when the shard must check the user's rules too, because only the shard sees the keys of scripts and of SORT's
 * patterns. */
static inline bool users_rules_are_sent(const struct client *client, const struct command *command)
{
    return client->session.is_limited && command->traits & TRAIT_UNNAMED_KEYS;
}
/* Writes the head of SCREE AS, which makes the shard run the command of `argc` arguments that follows as the client's user. */
void users_write_head(const struct client *client, const struct upstream *upstream,
                      const struct part *part, struct out *out, uint32_t argc);
/* Sends the frame after the head of SCREE AS, as the request's part. */
void users_send(struct client *client, struct upstream *upstream, struct request *request,
                const struct frame *frame);
/* Adds a failed login as `name` to ACL LOG. `command`: as the client wrote it. */
void users_note_login(struct client *client, struct bytes name, struct bytes command);
/* Replies ACL LOG. False: the error is in error[]. */
bool users_reply_log(struct client *client, struct reply *reply, const struct bytes *argv,
                     uint32_t argc, char error[ACL_ERROR_MAX]);
