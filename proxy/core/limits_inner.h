/*
 * limits_inner.h - what limits.c and limit_rounds.c share.
 */
#pragma once

#include "proxy/core/limits.h"
#include "shared/key_grants.h"
#include "shared/namespace.h"
#include "shared/net/loop.h"
#include "shared/number.h"

#include <pthread.h>
#include <stdatomic.h>

/* Words of SCREE GRANTS; SCREE LIMITS has fewer. */
enum {
    NAMESPACES_EACH = 128, /* namespaces in one message */
    LIMIT_HEAD_WORDS = 5,
    LIMIT_WORDS = 7,
    LIMIT_WORDS_MAX = LIMIT_HEAD_WORDS + LIMIT_WORDS * NAMESPACES_EACH,
    LIMIT_NUMBERS_MAX = LIMIT_HEAD_WORDS + (LIMIT_WORDS - 1) * NAMESPACES_EACH,
};

/* What one shard has. */
struct usage {
    uint64_t keys;
    uint64_t bytes;
    bool is_known;
    uint32_t asked; /* only in limits->shares: messages to the shard that it has not answered */
};

/* The limits of one namespace. Fields are guarded by the mutex; only worker 0 frees it. */
struct limit {
    struct list link;   /* in limits->all */
    uint32_t refs;      /* keyspaces with clients or requests */
    uint32_t in_flight; /* messages of worker 0 that refer to it */
    uint64_t max_keys;
    uint64_t max_bytes;
    struct usage *usage;        /* by shard */
    struct grant_ledger grants; /* worker 0 uses it; its shares are heap */
    struct metric_cell *cell;   /* NULL: not used yet */
    size_t name_len;
    char name[];
};

struct limits {
    pthread_mutex_t mutex;
    struct table *by_name;
    struct list all;      /* of struct limit */
    char **shards;        /* names */
    struct usage *shares; /* bytes of each shard, in all namespaces */
    size_t shard_count;
    uint64_t maxmemory; /* of any shard, as of its last answer */
    uint64_t rounds;
    struct proxy_worker *worker; /* worker 0; NULL: not yet, or no longer */
    struct task begin;           /* to worker 0: a round begins */
    bool is_begun;               /* `begin` is posted and has not run */
    uint64_t coordinator;        /* our id; not 0 */
    uint64_t epoch;              /* of our map */
    /* rounds that have begun at once, because a shard waits for keys, since the timer's last round */
    uint32_t repeats;
    _Atomic uint64_t version;
};

/* SCREE GRANTS for one shard, or SCREE LIMITS if there is only one, word by word; numbers are kept in `text`. */
struct limit_message {
    struct bytes argv[LIMIT_WORDS_MAX];
    uint32_t argc;
    char text[LIMIT_NUMBERS_MAX][INT64_TEXT_MAX + 1];
    uint32_t numbers;
    bool has_grants;
    bool has_orders; /* else the grants are not touched */
};

void limits_lock(struct limits *limits);
void limits_unlock(struct limits *limits);
static inline struct bytes limit_name(const struct limit *limit)
{
    return (struct bytes){limit->name, limit->name_len};
}
void limit_free(struct limits *limits, struct limit *limit);
/* The index of a shard; -1: it is not known. */
int limits_shard(const struct limits *limits, const char *name);
/* Takes over the names of the shards of a map. Figures of shards that it had before are kept. */
void limits_set_shards(struct limits *limits, const char *const *names, size_t count);
/* Adds up usage over all shards. The shard with this index is left out; -1: none is. */
struct usage limits_sum(const struct limits *limits, const struct usage *usage, int without);
/* `has_orders`: it comes from worker 0, and changes grants. */
void limit_message_begin(const struct limits *limits, struct limit_message *message, int shard,
                         bool has_orders);
void limit_message_add(const struct limits *limits, struct limit_message *message,
                       struct limit *limit, int shard);
