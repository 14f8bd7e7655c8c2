/*
 * interest.h - who is interested in which names: each pair once, found from both sides.
 *
 *   table: name ─► topic ─► interest ─► interest      (topic->interests, in order of joining)
 *                               │           │
 *                           follower    follower     (follower->interests)
 *
 * Joining, leaving and asking for a name are O(1). A topic exists while somebody is interested in it. One that
 * speaks for others joins with their number as its weight.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdint.h>

struct interest_set;

/* One who is interested; part of its owner, of one set or of several. */
struct follower {
    struct list interests; /* of struct interest, by follower_link, in order of joining */
    uint32_t count;
    size_t bytes; /* interest_cost of each */
};

struct topic {
    struct interest_set *set;
    struct list link;      /* in set->topics, in order of making */
    struct list interests; /* of struct interest, by topic_link */
    uint32_t count;
    uint64_t weight; /* sum over the interests */
    size_t name_len;
    char name[];
};

struct interest {
    struct list topic_link;
    struct list follower_link;
    struct topic *topic;
    struct follower *follower;
    uint32_t weight;
};

struct interest_set {
    struct table *names; /* name → topic */
    struct table *pairs; /* addresses of topic and follower → interest */
    struct list topics;
};

struct interest_set *interest_set_new(void);
/* The set must be empty. NULL is allowed. */
void interest_set_free(struct interest_set *set);
void follower_init(struct follower *follower);
/* Bytes of memory for an interest in the name, if no other follower has it. */
size_t interest_cost(struct bytes name);
/* False: it was interested already. */
bool interest_add(struct interest_set *set, struct follower *follower, struct bytes name);
/* As one that speaks for so many others; 0: it is interested no longer. */
void interest_weigh(struct interest_set *set, struct follower *follower, struct bytes name,
                    uint32_t weight);
/* False: it was not interested. */
bool interest_remove(struct interest_set *set, struct follower *follower, struct bytes name);
/* NULL: nobody is interested. */
struct topic *interest_find(const struct interest_set *set, struct bytes name);
bool interest_has(const struct interest_set *set, const struct follower *follower,
                  struct bytes name);
/* Ends all interests of the follower, in whatever sets. */
void interest_clear(struct follower *follower);
/* Ends all interests in the topic; it is gone. */
void topic_clear(struct topic *topic);
size_t interest_topics(const struct interest_set *set);
size_t interest_pairs(const struct interest_set *set);

static inline struct bytes topic_name(const struct topic *topic)
{
    return (struct bytes){topic->name, topic->name_len};
}
/* Walks: the first with NULL, then each behind the one before; NULL at the end. */
struct topic *topic_next(const struct interest_set *set, const struct topic *topic);
struct interest *topic_interest_next(const struct topic *topic, const struct interest *interest);
struct interest *follower_interest_next(const struct follower *follower,
                                        const struct interest *interest);
