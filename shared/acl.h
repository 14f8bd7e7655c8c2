/*
 * acl.h - users and what each may do: commands, keys, channels.
 *
 *   acl ──► user "default" ──► passwords (SHA-256)
 *       └─► user "bob"     ──► selector ──► selector ("( … )")      one that allows all of a request is enough
 *                                 │ commands: a bit each, from +get -set +@read
 *                                 │ keys:     ~glob, %R~glob, %W~glob
 *                                 └ channels: &glob
 *
 * A set is immutable once it is shared: a change is made on a copy (acl_copy) and put in its place. Rules are Redis
 * 7.0's: https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
 */
#pragma once

#include "shared/command.h"

#include <stdbool.h>

struct acl;
struct acl_user;
struct acl_selector;

/* In the order of how much they say: of several selectors' answers the greatest is told. */
enum acl_denied {
    ACL_ALLOWED,
    ACL_DENIED_COMMAND,
    ACL_DENIED_KEY,
    ACL_DENIED_AUTH, /* not an answer of acl_check: for the log */
    ACL_DENIED_CHANNEL,
};

/* One user, "default", that may do everything without a password. One reference. */
struct acl *acl_new(void);
struct acl *acl_copy(const struct acl *acl);
struct acl *acl_ref(struct acl *acl);
void acl_unref(struct acl *acl);

/* Users in the order of their names' bytes; NULL behind the last. */
const struct acl_user *acl_user_at(const struct acl *acl, size_t index);
/* NULL: unknown. */
struct acl_user *acl_user_find(const struct acl *acl, struct bytes name);
/* Adds a user that may do nothing, or finds it. The set must be private. */
struct acl_user *acl_user_add(struct acl *acl, struct bytes name, bool all_channels);
/* False: unknown. */
bool acl_user_remove(struct acl *acl, struct bytes name);
/* Redis allows no spaces and zero bytes in names. */
bool acl_name_ok(struct bytes name);

/* Applies rules ("on", ">secret", "+@read", "~a*", "(" … ")") one after the other. False: Redis' reason in
 * error[size], and the user may have changed: throw the copy away. */
bool acl_user_set(struct acl_user *user, const struct bytes *rules, size_t count, char *error,
                  size_t size);
/* The password of `requirepass`; empty: none is needed. */
void acl_user_set_password(struct acl_user *user, struct bytes password);

struct bytes acl_user_name(const struct acl_user *user);
bool acl_user_is_enabled(const struct acl_user *user);
bool acl_user_needs_password(const struct acl_user *user);
/* Enabled, and this is one of its passwords (in constant time) or it needs none. */
bool acl_user_accepts(const struct acl_user *user, struct bytes password);

/* May it do everything? Then acl_check always allows. */
bool acl_user_is_unlimited(const struct acl_user *user);
/* May the user run the request? When a key or channel is in the way, *index is its argument. The arity must be right. */
enum acl_denied acl_check(const struct acl_user *user, const struct command *command,
                          const struct bytes *argv, uint32_t argc, uint32_t *index);

/* May it listen to this channel, or to this pattern of channels? */
bool acl_may_listen(const struct acl_user *user, struct bytes channel, bool is_pattern);
/* May it read every key with this command? SORT's patterns lead to any. */
bool acl_reads_all(const struct acl_user *user, const struct command *command,
                   const struct bytes *argv, uint32_t argc);

/* What can be told about a user: the whole line behind "user NAME", and its parts. */
void acl_user_describe(const struct acl_user *user, struct out *out);
/* Words such as "on", "nopass"; NULL behind the last. */
const char *acl_user_flag(const struct acl_user *user, size_t index);
/* A password's digest in hex; empty behind the last. */
struct bytes acl_user_password(const struct acl_user *user, size_t index);
/* The first selector is the user's own rules; NULL behind the last. */
const struct acl_selector *acl_user_selector(const struct acl_user *user, size_t index);
/* The rules alone, without flags and passwords. */
void acl_user_rules(const struct acl_user *user, struct out *out);
void acl_selector_commands(const struct acl_selector *selector, struct out *out);
void acl_selector_keys(const struct acl_selector *selector, struct out *out);
void acl_selector_channels(const struct acl_selector *selector, struct out *out);

/* A category's bit by its name; 0: unknown. */
uint32_t acl_category(struct bytes name);

/* Reads an ACL file: lines "user NAME rule …". NULL: the reason, with the line's number, in error[size]. */
struct acl *acl_parse(struct bytes text, bool all_channels, char *error, size_t size);
/* The file's text. */
void acl_print(const struct acl *acl, struct out *out);
