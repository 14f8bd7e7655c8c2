/*
 * acl.h - users and their permissions: commands, keys, channels.
 *
 *   acl ──► user "default" ──► passwords (SHA-256)
 *       └─► user "bob"     ──► selector ──► selector ("( … )")      one must allow the whole request
 *                                 │ commands: a bit each, from +get -set +@read
 *                                 │ keys:     ~glob, %R~glob, %W~glob
 *                                 └ channels: &glob
 *
 * A set of users is immutable once it is shared: a change is made on a copy (acl_copy), which then replaces the set.
 * Rules are those of Redis 7.0: https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
 */
#pragma once

#include "shared/command/keys.h"

#include <stdbool.h>

struct acl;
struct acl_user;
struct acl_selector;

/* From the least specific to the most specific: when all selectors deny, acl_check returns the greatest of their
 * answers. */
enum acl_denied {
    ACL_ALLOWED,
    ACL_DENIED_COMMAND,
    ACL_DENIED_KEY,
    ACL_DENIED_AUTH, /* only for the ACL log; acl_check never returns it */
    ACL_DENIED_CHANNEL,
};

/* A new set with one reference and one user, "default", that may do everything without a password. */
struct acl *acl_new(void);
struct acl *acl_copy(const struct acl *acl);
struct acl *acl_ref(struct acl *acl);
void acl_unref(struct acl *acl);

/* Users sorted by the bytes of their names; NULL after the last. */
const struct acl_user *acl_user_at(const struct acl *acl, size_t index);
/* NULL when unknown. */
struct acl_user *acl_user_find(const struct acl *acl, struct bytes name);
/* Adds a user without permissions, or returns the existing one. The set must not be shared yet. */
struct acl_user *acl_user_add(struct acl *acl, struct bytes name, bool all_channels);
/* False when unknown. */
bool acl_user_remove(struct acl *acl, struct bytes name);
/* False for a name with white space or zero bytes, which Redis forbids. */
bool acl_name_ok(struct bytes name);

/* Applies rules ("on", ">secret", "+@read", "~a*", "(" … ")") one after the other. False: Redis' reason is in
 * error[size], and the user may be half changed, so the caller must discard the copy. */
bool acl_user_set(struct acl_user *user, const struct bytes *rules, size_t count, char *error,
                  size_t size);
/* Sets the password of `requirepass`; an empty one means that no password is needed. */
void acl_user_set_password(struct acl_user *user, struct bytes password);

struct bytes acl_user_name(const struct acl_user *user);
bool acl_user_is_enabled(const struct acl_user *user);
bool acl_user_needs_password(const struct acl_user *user);
/* True when the user is enabled and either needs no password or has this one (compared in constant time). */
bool acl_user_accepts(const struct acl_user *user, struct bytes password);

/* May the user do everything? Then acl_check always allows. */
bool acl_user_is_unlimited(const struct acl_user *user);
/* May the user run the request? The arity must have been checked. When a key or channel is denied, *index is its
 * argument index. */
enum acl_denied acl_check(const struct acl_user *user, const struct command *command,
                          const struct bytes *argv, uint32_t argc, uint32_t *index);

/* The same in steps, for requests with many keys or channels. Do not copy or move it. What it refers to must stay until its end. */
struct acl_check {
    const struct acl_user *user;
    const struct command *command;
    const struct bytes *argv;
    uint32_t argc;
    /* the rest is for acl.c; `denied` and `index` are the answer behind the last step */
    const struct acl_selector *selector; /* that is being asked; NULL: the answer is found */
    uint8_t stage;                       /* of this selector */
    uint32_t next;                       /* of this stage: key, or argument */
    bool has_keys;                       /* `keys` was filled */
    struct key_list keys;
    enum acl_denied denied;
    uint32_t index;
};

void acl_check_begin(struct acl_check *check, const struct acl_user *user,
                     const struct command *command, const struct bytes *argv, uint32_t argc);
/* Compares keys and channels with about `most` patterns. True: there is more to do. */
bool acl_check_go_on(struct acl_check *check, size_t most);
void acl_check_end(struct acl_check *check);
/* Number of patterns with which each key or channel may have to be compared. */
size_t acl_user_patterns(const struct acl_user *user);

/* May the user subscribe to this channel, or to this pattern of channels? */
bool acl_may_listen(const struct acl_user *user, struct bytes channel, bool is_pattern);
/* May the user read every key with this command? SORT's BY and GET patterns can read any key. */
bool acl_reads_all(const struct acl_user *user, const struct command *command,
                   const struct bytes *argv, uint32_t argc);

/* May the user read this key with this command, which does not name it? */
bool acl_may_read_key(const struct acl_user *user, const struct command *command,
                      const struct bytes *argv, uint32_t argc, struct bytes key);

/* Descriptions of a user. This one is everything after "user NAME" in an ACL line; the functions below give its
 * parts. */
void acl_user_describe(const struct acl_user *user, struct out *out);
/* Words such as "on", "nopass"; NULL after the last. */
const char *acl_user_flag(const struct acl_user *user, size_t index);
/* The digest of a password in hex; empty after the last. */
struct bytes acl_user_password(const struct acl_user *user, size_t index);
/* The first selector has the user's own rules; NULL after the last. */
const struct acl_selector *acl_user_selector(const struct acl_user *user, size_t index);
/* The command, key and channel rules, without flags and passwords. */
void acl_user_rules(const struct acl_user *user, struct out *out);
void acl_selector_commands(const struct acl_selector *selector, struct out *out);
void acl_selector_keys(const struct acl_selector *selector, struct out *out);
void acl_selector_channels(const struct acl_selector *selector, struct out *out);

/* The bit of the category with this name; 0 when unknown. */
uint32_t acl_category(struct bytes name);

/* Reads an ACL file: lines "user NAME rule …". NULL: the reason, with the line's number, in error[size]. */
struct acl *acl_parse(struct bytes text, bool all_channels, char *error, size_t size);
/* Writes the text of an ACL file. */
void acl_print(const struct acl *acl, struct out *out);
