/*
 * subscription_table.h - which followers are subscribed to which names, with lists by name and by follower.
 *
 *   table: name ─► topic ─► subscription ─► subscription      (topic->subscriptions, in order of subscribing)
 *                                │               │
 *                            follower        follower         (follower->subscriptions)
 *
 * Subscribing, unsubscribing and finding a name are O(1). A topic exists while it has a subscription. A follower that
 * represents several clients subscribes with their number as its weight.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/list.h"
#include "shared/name_lengths.h"

#include <stdint.h>

struct subscription_table;

/* A subscriber; embedded in its owner, and a member of one table or of several. */
struct follower {
    /* list of struct subscription, linked by follower_link, in order of subscribing */
    struct list subscriptions;
    uint32_t count;
    size_t bytes; /* sum of subscription_cost over the subscriptions */
};

struct topic {
    struct subscription_table *set;
    struct list link;          /* in set->topics, in order of creation */
    struct list group;         /* in a list of the table's user, who may add it; else empty */
    struct list subscriptions; /* list of struct subscription, linked by topic_link */
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
    struct name_lengths lengths; /* of the names */
};

struct subscription_table *subscription_table_new(void);
/* Frees an empty table. NULL is allowed. */
void subscription_table_free(struct subscription_table *set);
void follower_init(struct follower *follower);
/* Memory in bytes of a subscription to a name without other followers. */
size_t subscription_cost(struct bytes name);
/* Subscribes; false: the follower was subscribed already. */
bool subscription_add(struct subscription_table *set, struct follower *follower, struct bytes name);
/* Sets the follower's weight, the number of clients that it represents; 0 ends the subscription. */
void subscription_weigh(struct subscription_table *set, struct follower *follower,
                        struct bytes name, uint32_t weight);
/* Unsubscribes; false: the follower was not subscribed. */
bool subscription_remove(struct subscription_table *set, struct follower *follower,
                         struct bytes name);
/* The topic of the name; NULL when it has no subscriptions. */
struct topic *subscription_find(const struct subscription_table *set, struct bytes name);
bool subscription_has(const struct subscription_table *set, const struct follower *follower,
                      struct bytes name);
/* Ends all subscriptions of the follower, in all tables. */
void subscription_clear(struct follower *follower);
/* Ends all subscriptions to the topic and frees it. */
void topic_clear(struct topic *topic);
size_t subscription_topics(const struct subscription_table *set);
size_t subscription_pairs(const struct subscription_table *set);

static inline struct bytes topic_name(const struct topic *topic)
{
    return (struct bytes){topic->name, topic->name_len};
}
/* Iterates over the topics: NULL gives the first, each topic the next; NULL at the end. */
struct topic *topic_next(const struct subscription_table *set, const struct topic *topic);
struct subscription *topic_subscription_next(const struct topic *topic,
                                             const struct subscription *subscription);
struct subscription *follower_subscription_next(const struct follower *follower,
                                                const struct subscription *subscription);
