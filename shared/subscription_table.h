/*
 * subscription_table.h - which followers are subscribed to which names: each pair once, found from both sides.
 *
 *   table: name ─► topic ─► subscription ─► subscription      (topic->subscriptions, in order of joining)
 *                                │               │
 *                            follower        follower         (follower->subscriptions)
 *
 * Joining, leaving and asking for a name are O(1). A topic exists while it has a subscription. A follower
 * that stands for others joins with their number as its weight.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"

#include <stdint.h>

struct subscription_table;

/* One who is subscribed; part of its owner, of one set or of several. */
struct follower {
    struct list subscriptions; /* of struct subscription, by follower_link, in order of joining */
    uint32_t count;
    size_t bytes; /* subscription_cost of each */
};

struct topic {
    struct subscription_table *set;
    struct list link;          /* in set->topics, in order of making */
    struct list subscriptions; /* of struct subscription, by topic_link */
    uint32_t count;
    uint64_t weight; /* sum over the subscriptions */
    size_t name_len;
    char name[];
};

struct subscription {
    struct list topic_link;
    struct list follower_link;
    struct topic *topic;
    struct follower *follower;
    uint32_t weight;
};

struct subscription_table {
    struct table *names; /* name → topic */
    struct table *pairs; /* addresses of topic and follower → subscription */
    struct list topics;
};

struct subscription_table *subscription_table_new(void);
/* The set must be empty. NULL is allowed. */
void subscription_table_free(struct subscription_table *set);
void follower_init(struct follower *follower);
/* Bytes of memory for a subscription in the name, if no other follower has it. */
size_t subscription_cost(struct bytes name);
/* False: it was subscribed already. */
bool subscription_add(struct subscription_table *set, struct follower *follower, struct bytes name);
/* As one that speaks for so many others; 0: it is subscribed no longer. */
void subscription_weigh(struct subscription_table *set, struct follower *follower,
                        struct bytes name, uint32_t weight);
/* False: it was not subscribed. */
bool subscription_remove(struct subscription_table *set, struct follower *follower,
                         struct bytes name);
/* NULL: nobody is subscribed. */
struct topic *subscription_find(const struct subscription_table *set, struct bytes name);
bool subscription_has(const struct subscription_table *set, const struct follower *follower,
                      struct bytes name);
/* Ends all subscriptions of the follower, in whatever sets. */
void subscription_clear(struct follower *follower);
/* Ends all subscriptions in the topic; it is gone. */
void topic_clear(struct topic *topic);
size_t subscription_topics(const struct subscription_table *set);
size_t subscription_pairs(const struct subscription_table *set);

static inline struct bytes topic_name(const struct topic *topic)
{
    return (struct bytes){topic->name, topic->name_len};
}
/* Walks: the first with NULL, then each behind the one before; NULL at the end. */
struct topic *topic_next(const struct subscription_table *set, const struct topic *topic);
struct subscription *topic_subscription_next(const struct topic *topic,
                                             const struct subscription *subscription);
struct subscription *follower_subscription_next(const struct follower *follower,
                                                const struct subscription *subscription);
