/*
 * acl_user.h - memory layout of users and their selectors, private to acl*.c.
 */
#pragma once

#include "shared/acl/acl.h"

enum {
    COMMAND_WORDS = (COMMAND_COUNT + 63) / 64,
    PASSWORD_LEN = 64, /* hex digits of a SHA-256 */
};

enum acl_permission { ACL_READ_KEYS = 1, ACL_WRITE_KEYS = 2, ACL_ALL_KEYS = 3 };

/* A growing list of texts; the list owns copies. */
struct acl_text {
    struct bytes text;
    /* keys: enum acl_permission; first arguments: enum command_id; rules: 1 for +, 0 for - */
    unsigned tag;
};
struct acl_texts {
    struct acl_text *items;
    size_t count;
    size_t compared;         /* by acl_texts_find, since `places` was NULL */
    struct table *places;    /* of the texts in `items`, from 1; NULL: not made */
    struct acl_order *order; /* of the texts as patterns, acl_order.h; NULL: not made */
};

struct acl_selector {
    bool all_commands; /* every command is allowed, whatever the bits are */
    bool all_keys;
    bool all_channels;
    bool future_commands; /* began with +@all: commands of later versions are allowed too */
    uint64_t allowed[COMMAND_WORDS];
    /* "+select|0": the command is allowed with this first argument only */
    struct acl_texts first_arguments;
    /* "@set", "get", "config|get", "select|0": the rules since the last one about all commands, in the order given, without those that a
     * later one makes void */
    struct acl_texts rules;
    struct acl_texts keys;
    struct acl_texts channels;
    struct acl_selector *next;
};

struct acl_user {
    struct bytes name;
    bool is_enabled;
    bool no_password;
    bool sanitize; /* this flag and skip_sanitize have no effect and are only printed */
    bool skip_sanitize;
    bool starts_all_channels;   /* acl-pubsub-default when the user was created */
    struct acl_texts passwords; /* SHA-256 digests in hex */
    struct acl_selector *selectors;
    struct acl_selector *last; /* of them */
};

void acl_texts_add(struct acl_texts *texts, struct bytes text, unsigned tag);
void acl_texts_remove(struct acl_texts *texts, size_t index);
void acl_texts_clear(struct acl_texts *texts);
/* NULL when absent. After much searching a table is made, which a removal forgets. */
struct acl_text *acl_texts_find(struct acl_texts *texts, struct bytes text);

struct acl_selector *acl_selector_new(bool all_channels);
void acl_selector_free(struct acl_selector *selector);

static inline bool acl_bit(const struct acl_selector *selector, enum command_id id)
{
    return selector->allowed[id / 64] >> (id % 64) & 1;
}
void acl_set_all_commands(struct acl_selector *selector, bool allow);
