#include "shared/subscription_table.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

/* Key of set->pairs. */
struct pair {
    const struct topic *topic;
    const struct follower *follower;
};

static struct bytes pair_bytes(const struct pair *pair)
{
    return (struct bytes){(const char *)pair, sizeof *pair};
}

struct subscription_table *subscription_table_new(void)
{
    struct subscription_table *set = calloc(1, sizeof *set);
    CHECK(set);
    set->names = table_new();
    set->pairs = table_new();
    list_init(&set->topics);
    return set;
}

void subscription_table_free(struct subscription_table *set)
{
    if (!set)
        return;
    CHECK(list_empty(&set->topics));
    table_free(set->names);
    table_free(set->pairs);
    name_lengths_free(&set->lengths);
    free(set);
}

void follower_init(struct follower *follower)
{
    list_init(&follower->subscriptions);
    follower->count = 0;
    follower->bytes = 0;
}

/* ---- lookup ---- */

struct topic *subscription_find(const struct subscription_table *set, struct bytes name)
{
    return table_count(set->names) ? table_get(set->names, name) : NULL;
}

static struct subscription *find_pair(const struct subscription_table *set,
                                      const struct topic *topic, const struct follower *follower)
{
    const struct pair pair = {topic, follower};
    return table_get(set->pairs, pair_bytes(&pair));
}

bool subscription_has(const struct subscription_table *set, const struct follower *follower,
                      struct bytes name)
{
    const struct topic *topic = subscription_find(set, name);
    return topic && find_pair(set, topic, follower);
}

size_t subscription_topics(const struct subscription_table *set)
{
    return table_count(set->names);
}

size_t subscription_pairs(const struct subscription_table *set)
{
    return table_count(set->pairs);
}

struct topic *topic_next(const struct subscription_table *set, const struct topic *topic)
{
    const struct list *next = topic ? topic->link.next : set->topics.next;
    return next == &set->topics ? NULL : container_of(next, struct topic, link);
}

struct subscription *topic_subscription_next(const struct topic *topic,
                                             const struct subscription *subscription)
{
    const struct list *next =
        subscription ? subscription->topic_link.next : topic->subscriptions.next;
    return next == &topic->subscriptions ? NULL
                                         : container_of(next, struct subscription, topic_link);
}

struct subscription *follower_subscription_next(const struct follower *follower,
                                                const struct subscription *subscription)
{
    const struct list *next =
        subscription ? subscription->follower_link.next : follower->subscriptions.next;
    return next == &follower->subscriptions
               ? NULL
               : container_of(next, struct subscription, follower_link);
}

/* ---- changes ---- */

static struct topic *topic_make(struct subscription_table *set, struct bytes name)
{
    struct topic *topic = malloc(sizeof *topic + name.len);
    CHECK(topic);
    *topic = (struct topic){.set = set, .name_len = name.len};
    if (name.len)
        memcpy(topic->name, name.data, name.len);
    list_init(&topic->subscriptions);
    list_init(&topic->group);
    list_push(&set->topics, &topic->link);
    table_put(set->names, name, topic);
    name_lengths_add(&set->lengths, name.len);
    return topic;
}

static void topic_drop(struct topic *topic)
{
    CHECK(list_empty(&topic->subscriptions));
    table_remove(topic->set->names, topic_name(topic));
    name_lengths_remove(&topic->set->lengths, topic->name_len);
    list_remove(&topic->link);
    list_remove(&topic->group);
    free(topic);
}

size_t subscription_cost(struct bytes name)
{
    enum { TABLE_BYTES = 64 }; /* memory per table entry without its key */
    return sizeof(struct topic) + sizeof(struct subscription) + sizeof(struct pair) + 2 * name.len +
           2 * TABLE_BYTES;
}

bool subscription_add(struct subscription_table *set, struct follower *follower, struct bytes name)
{
    struct topic *topic = subscription_find(set, name);
    if (!topic)
        topic = topic_make(set, name);
    else if (find_pair(set, topic, follower))
        return false;
    struct subscription *subscription = malloc(sizeof *subscription);
    CHECK(subscription);
    subscription->topic = topic;
    subscription->follower = follower;
    subscription->weight = 1;
    topic->weight++;
    list_push(&topic->subscriptions, &subscription->topic_link);
    list_push(&follower->subscriptions, &subscription->follower_link);
    topic->count++;
    follower->count++;
    follower->bytes += subscription_cost(name);
    const struct pair pair = {topic, follower};
    table_put(set->pairs, pair_bytes(&pair), subscription);
    return true;
}

/* Ends a subscription; keeps the topic, even without subscriptions. */
static void subscription_end(struct subscription *subscription)
{
    const struct pair pair = {subscription->topic, subscription->follower};
    table_remove(subscription->topic->set->pairs, pair_bytes(&pair));
    list_remove(&subscription->topic_link);
    list_remove(&subscription->follower_link);
    subscription->topic->weight -= subscription->weight;
    subscription->topic->count--;
    subscription->follower->count--;
    subscription->follower->bytes -= subscription_cost(topic_name(subscription->topic));
    free(subscription);
}

bool subscription_remove(struct subscription_table *set, struct follower *follower,
                         struct bytes name)
{
    struct topic *topic = subscription_find(set, name);
    struct subscription *subscription = topic ? find_pair(set, topic, follower) : NULL;
    if (!subscription)
        return false;
    subscription_end(subscription);
    if (topic->count == 0)
        topic_drop(topic);
    return true;
}

void subscription_weigh(struct subscription_table *set, struct follower *follower,
                        struct bytes name, uint32_t weight)
{
    if (weight == 0) {
        (void)subscription_remove(set, follower, name);
        return;
    }
    (void)subscription_add(set, follower, name);
    struct topic *topic = subscription_find(set, name);
    struct subscription *subscription = find_pair(set, topic, follower);
    topic->weight += weight;
    topic->weight -= subscription->weight;
    subscription->weight = weight;
}

void subscription_clear(struct follower *follower)
{
    struct subscription *subscription;
    while ((subscription = follower_subscription_next(follower, NULL))) {
        struct topic *topic = subscription->topic;
        subscription_end(subscription);
        if (topic->count == 0)
            topic_drop(topic);
    }
}

void topic_clear(struct topic *topic)
{
    struct subscription *subscription;
    while ((subscription = topic_subscription_next(topic, NULL)))
        subscription_end(subscription);
    topic_drop(topic);
}
