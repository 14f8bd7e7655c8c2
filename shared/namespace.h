/*
 * namespace.h - the namespaces clients may enter: an immutable, shared snapshot.
 *
 *   AUTH token ──────────────► exact namespace with that token
 *   AUTH NAME token ─► exact namespace NAME, else the first pattern that matches NAME ─► name = NAME
 *   listener's binding ──────► the same search, without a token
 *
 * A pattern such as test_* stands for any number of namespaces: each name that matches is one of its own.
 * Built by one thread, then never changed; any thread may read it and hold references.
 */
#pragma once

#include "shared/bytes.h"

#include <stdatomic.h>

enum { NAMESPACE_NAME_MAX = 200, SLOT_RULE_TEXT_MAX = 65, SLOT_RULE_SEPARATOR_MAX = 32 };

enum slot_rule_kind { SLOT_RULE_TAG, SLOT_RULE_PREFIX, SLOT_RULE_FIXED };

/* Which part of a key decides its slot:
 *   tag            the {tag}, else the whole key (Redis Cluster)
 *   prefix:SEP:N   the first N fields of the key, cut at the text SEP; a key with a {tag} follows its tag
 *   fixed:SLOT     always this slot
 * prefix:::2 sends seats:1:A-1 and seats:1:B-7 to the slot of "seats:1". */
struct slot_rule {
    enum slot_rule_kind kind;
    uint16_t slot;                           /* FIXED */
    uint16_t fields;                         /* PREFIX: 1 or more */
    uint8_t separator_len;                   /* PREFIX */
    char separator[SLOT_RULE_SEPARATOR_MAX]; /* PREFIX */
};

bool slot_rule_parse(struct bytes text, struct slot_rule *rule);
/* The text slot_rule_parse reads; returns its length, no terminator counted. */
size_t slot_rule_format(const struct slot_rule *rule, char to[SLOT_RULE_TEXT_MAX]);
/* NULL: the rule of all keys outside of namespaces, {tag}. */
uint16_t slot_rule_slot(const struct slot_rule *rule, struct bytes key);

struct namespace
{
    char *name; /* exact name, or the pattern */
    char *token;
    char *users; /* names of ACL users, separated by spaces */
    bool is_pattern;
    bool ephemeral;
    uint64_t ephemeral_after_ms;
    uint64_t rate_limit;            /* requests a second; 0: none */
    uint64_t bandwidth_limit_bytes; /* a second; 0: none */
    uint64_t
        memory_limit_bytes; /* for buffers and subscriptions of its clients; 0: half of the proxy's limit */
    bool rate_delays; /* above a limit requests wait; else they get an error */
    struct slot_rule slot_rule;
};

struct namespaces {
    _Atomic uint32_t refs;
    struct namespace *items; /* in the order of the file */
    size_t count;
};

/* Where a client is: the entry and the concrete name (its own name for an exact one). */
struct namespace_match {
    const struct namespace *entry; /* lives as long as the snapshot */
    struct bytes name;             /* borrowed: from the caller's argument or from the entry */
};

struct namespaces *namespaces_new(void);
struct namespaces *namespaces_ref(struct namespaces *set);
/* NULL is allowed. */
void namespaces_unref(struct namespaces *set);
/* Adds a copy, texts too; is_pattern is set from the name. */
void namespaces_add(struct namespaces *set, const struct namespace *item);

/* `AUTH token`: an exact namespace. False when no token equals. Token comparisons take the same time
 * whether the first byte differs or the last. */
bool namespaces_login(const struct namespaces *set, struct bytes token,
                      struct namespace_match *match);
/* `AUTH name token`. A name that exists exactly is never taken by a pattern. */
bool namespaces_login_as(const struct namespaces *set, struct bytes name, struct bytes token,
                         struct namespace_match *match);
/* By name alone: for listeners, and to find a session's entry again after a reload. */
bool namespaces_find(const struct namespaces *set, struct bytes name,
                     struct namespace_match *match);
/* The exact namespace that is an ACL user's home. */
bool namespaces_home(const struct namespaces *set, struct bytes user,
                     struct namespace_match *match);
bool namespaces_equal(const struct namespaces *a, const struct namespaces *b);

/* True when the name is a pattern (has a special character of shared/glob.h). */
bool namespace_is_pattern(struct bytes name);
/* A name a session can have: 1 to 200 bytes, no NUL, not "default" (Redis' own user). */
bool namespace_name_valid(struct bytes name);
/* The slot of a client's key inside the namespace; ns NULL: no namespace, the {tag} rule. */
uint16_t namespace_slot(const struct namespace *ns, struct bytes key);
/* Equality of secrets in time that depends on the lengths only. */
bool secret_equal(struct bytes a, struct bytes b);
