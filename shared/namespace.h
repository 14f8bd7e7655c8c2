/*
 * namespace.h - the namespaces that clients can log in to: an immutable, shared snapshot.
 *
 *   AUTH token ──────────────► exact namespace with that token
 *   AUTH NAME token ─► exact namespace NAME, else the first pattern that matches NAME ─► name = NAME
 *   listener's binding ──────► the same search, without a token
 *
 * A pattern such as test_* covers any number of namespaces: each name that matches is a namespace of its own.
 * One thread builds the snapshot; afterwards it never changes, and any thread may read it and hold references.
 */
#pragma once

#include "shared/bytes.h"

#include <stdatomic.h>

enum { NAMESPACE_NAME_MAX = 200, SLOT_RULE_TEXT_MAX = 65, SLOT_RULE_SEPARATOR_MAX = 32 };

enum slot_rule_kind { SLOT_RULE_TAG, SLOT_RULE_PREFIX, SLOT_RULE_FIXED };

/*
 * Which part of a key decides its slot:
 *   tag            the {tag}, else the whole key (Redis Cluster)
 *   prefix:SEP:N   the first N fields of the key, separated by the text SEP; a key with a {tag} is hashed by its tag
 *   fixed:SLOT     always this slot
 * prefix:::2 puts seats:1:A-1 and seats:1:B-7 into the slot of "seats:1".
 */
struct slot_rule {
    enum slot_rule_kind kind;
    uint16_t slot;                           /* FIXED */
    uint16_t fields;                         /* PREFIX: 1 or more */
    uint8_t separator_len;                   /* PREFIX */
    char separator[SLOT_RULE_SEPARATOR_MAX]; /* PREFIX */
};

/* What NAMESPACE calls the namespace of clients without one, as Kvrocks does. */
#define NAMESPACE_DEFAULT_NAME "__namespace"

bool slot_rule_parse(struct bytes text, struct slot_rule *rule);
/* Writes the text that slot_rule_parse reads; returns its length without a terminator. */
size_t slot_rule_format(const struct slot_rule *rule, char to[SLOT_RULE_TEXT_MAX]);
/* The slot of a key. NULL rule: the {tag} rule, which holds for keys outside of namespaces. */
uint16_t slot_rule_slot(const struct slot_rule *rule, struct bytes key);

struct namespace
{
    char *name; /* an exact name, or the pattern */
    char *token;
    char *token_previous; /* is accepted too; empty: none */
    char *users;          /* names of ACL users, separated by spaces */
    bool is_pattern;
    bool ephemeral;
    uint64_t ephemeral_after_ms;
    uint64_t rate_limit;            /* requests per second; 0: unlimited */
    uint64_t bandwidth_limit_bytes; /* bytes per second; 0: unlimited */
    /* for buffers and subscriptions of the namespace's clients; 0: half of the proxy's limit */
    uint64_t memory_limit_bytes;
    uint64_t max_keys; /* in all databases, at all shards; 0: unlimited */
    uint64_t max_bytes;
    uint64_t command_memory;  /* of one command at a shard; 0: the shard's own limit */
    uint64_t command_time_ms; /* likewise */
    uint64_t maxclients;      /* connections to the proxy; 0: unlimited */
    bool rate_delays;         /* requests above a limit wait; otherwise they get an error */
    struct slot_rule slot_rule;
};

struct namespaces {
    _Atomic uint32_t refs;
    struct namespace *items; /* in the order of the configuration file */
    size_t count;
};

/* A client's namespace: the entry and the concrete name, which differs from the entry's for a pattern. */
struct namespace_match {
    const struct namespace *entry; /* valid as long as the snapshot */
    struct bytes name;             /* borrowed from the caller's argument or from the entry */
};

struct namespaces *namespaces_new(void);
struct namespaces *namespaces_ref(struct namespaces *set);
/* NULL is allowed. */
void namespaces_unref(struct namespaces *set);
/* Adds a copy, including the texts; is_pattern is derived from the name. */
void namespaces_add(struct namespaces *set, const struct namespace *item);

/* `AUTH token`: finds an exact namespace. False when no token is equal. The time of a comparison does not depend on
 * where two tokens differ. */
bool namespaces_login(const struct namespaces *set, struct bytes token,
                      struct namespace_match *match);
/* `AUTH name token`. An exact name takes precedence over every pattern. */
bool namespaces_login_as(const struct namespaces *set, struct bytes name, struct bytes token,
                         struct namespace_match *match);
/* Finds by name alone: for listeners, and for sessions after a reload of the configuration. */
bool namespaces_find(const struct namespaces *set, struct bytes name,
                     struct namespace_match *match);
/* The exact namespace that lists this ACL user. */
bool namespaces_home(const struct namespaces *set, struct bytes user,
                     struct namespace_match *match);
bool namespaces_equal(const struct namespaces *a, const struct namespaces *b);

/* True when the name has a special character of shared/glob.h. */
bool namespace_is_pattern(struct bytes name);
/* Is this a valid name for a session's namespace? 1 to 200 bytes, no NUL, not "default" (Redis' own user). */
bool namespace_name_valid(struct bytes name);
/* The slot of a client's key inside the namespace; ns NULL: no namespace, so the {tag} rule. */
uint16_t namespace_slot(const struct namespace *ns, struct bytes key);
/* Compares secrets; the time depends only on the lengths. */
bool secret_equal(struct bytes a, struct bytes b);
