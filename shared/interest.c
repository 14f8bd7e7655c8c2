#include "shared/interest.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

/* Names a pair in set->pairs. */
struct pair {
    const struct topic *topic;
    const struct follower *follower;
};

static struct bytes pair_bytes(const struct pair *pair)
{
    return (struct bytes){(const char *)pair, sizeof *pair};
}

struct interest_set *interest_set_new(void)
{
    struct interest_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->names = table_new();
    set->pairs = table_new();
    list_init(&set->topics);
    return set;
}

void interest_set_free(struct interest_set *set)
{
    if (!set)
        return;
    CHECK(list_empty(&set->topics));
    table_free(set->names);
    table_free(set->pairs);
    free(set);
}

void follower_init(struct follower *follower)
{
    list_init(&follower->interests);
    follower->count = 0;
    follower->bytes = 0;
}

/* ---- looking ---- */

struct topic *interest_find(const struct interest_set *set, struct bytes name)
{
    return table_count(set->names) ? table_get(set->names, name) : NULL;
}

static struct interest *find_pair(const struct interest_set *set, const struct topic *topic,
                                  const struct follower *follower)
{
    const struct pair pair = {topic, follower};
    return table_get(set->pairs, pair_bytes(&pair));
}

bool interest_has(const struct interest_set *set, const struct follower *follower,
                  struct bytes name)
{
    const struct topic *topic = interest_find(set, name);
    return topic && find_pair(set, topic, follower);
}

size_t interest_topics(const struct interest_set *set)
{
    return table_count(set->names);
}

size_t interest_pairs(const struct interest_set *set)
{
    return table_count(set->pairs);
}

struct topic *topic_next(const struct interest_set *set, const struct topic *topic)
{
    const struct list *next = topic ? topic->link.next : set->topics.next;
    return next == &set->topics ? NULL : container_of(next, struct topic, link);
}

struct interest *topic_interest_next(const struct topic *topic, const struct interest *interest)
{
    const struct list *next = interest ? interest->topic_link.next : topic->interests.next;
    return next == &topic->interests ? NULL : container_of(next, struct interest, topic_link);
}

struct interest *follower_interest_next(const struct follower *follower,
                                        const struct interest *interest)
{
    const struct list *next = interest ? interest->follower_link.next : follower->interests.next;
    return next == &follower->interests ? NULL : container_of(next, struct interest, follower_link);
}

/* ---- changing ---- */

static struct topic *topic_make(struct interest_set *set, struct bytes name)
{
    struct topic *topic = malloc(sizeof *topic + name.len);
    CHECK(topic);
    *topic = (struct topic){.set = set, .name_len = name.len};
    if (name.len)
        memcpy(topic->name, name.data, name.len);
    list_init(&topic->interests);
    list_push(&set->topics, &topic->link);
    table_put(set->names, name, topic);
    return topic;
}

static void topic_drop(struct topic *topic)
{
    CHECK(list_empty(&topic->interests));
    table_remove(topic->set->names, topic_name(topic));
    list_remove(&topic->link);
    free(topic);
}

size_t interest_cost(struct bytes name)
{
    enum { TABLE_BYTES = 64 }; /* of an entry, without its key */
    return sizeof(struct topic) + sizeof(struct interest) + sizeof(struct pair) + 2 * name.len +
           2 * TABLE_BYTES;
}

bool interest_add(struct interest_set *set, struct follower *follower, struct bytes name)
{
    struct topic *topic = interest_find(set, name);
    if (!topic)
        topic = topic_make(set, name);
    else if (find_pair(set, topic, follower))
        return false;
    struct interest *interest = malloc(sizeof *interest);
    CHECK(interest);
    interest->topic = topic;
    interest->follower = follower;
    interest->weight = 1;
    topic->weight++;
    list_push(&topic->interests, &interest->topic_link);
    list_push(&follower->interests, &interest->follower_link);
    topic->count++;
    follower->count++;
    follower->bytes += interest_cost(name);
    const struct pair pair = {topic, follower};
    table_put(set->pairs, pair_bytes(&pair), interest);
    return true;
}

/* The topic stays, maybe with nobody. */
static void interest_end(struct interest *interest)
{
    const struct pair pair = {interest->topic, interest->follower};
    table_remove(interest->topic->set->pairs, pair_bytes(&pair));
    list_remove(&interest->topic_link);
    list_remove(&interest->follower_link);
    interest->topic->weight -= interest->weight;
    interest->topic->count--;
    interest->follower->count--;
    interest->follower->bytes -= interest_cost(topic_name(interest->topic));
    free(interest);
}

bool interest_remove(struct interest_set *set, struct follower *follower, struct bytes name)
{
    struct topic *topic = interest_find(set, name);
    struct interest *interest = topic ? find_pair(set, topic, follower) : NULL;
    if (!interest)
        return false;
    interest_end(interest);
    if (topic->count == 0)
        topic_drop(topic);
    return true;
}

void interest_weigh(struct interest_set *set, struct follower *follower, struct bytes name,
                    uint32_t weight)
{
    if (weight == 0) {
        (void)interest_remove(set, follower, name);
        return;
    }
    (void)interest_add(set, follower, name);
    struct topic *topic = interest_find(set, name);
    struct interest *interest = find_pair(set, topic, follower);
    topic->weight += weight;
    topic->weight -= interest->weight;
    interest->weight = weight;
}

void interest_clear(struct follower *follower)
{
    struct interest *interest;
    while ((interest = follower_interest_next(follower, NULL))) {
        struct topic *topic = interest->topic;
        interest_end(interest);
        if (topic->count == 0)
            topic_drop(topic);
    }
}

void topic_clear(struct topic *topic)
{
    struct interest *interest;
    while ((interest = topic_interest_next(topic, NULL)))
        interest_end(interest);
    topic_drop(topic);
}
