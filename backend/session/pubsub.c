#include "backend/session/pubsub.h"

#include "backend/context/goes_on.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "shared/check.h"
#include "shared/glob.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    MATCH_STEPS =
        1 << 18, /* of comparing a channel with a pattern, and of compiling the longest one */
    STEPS_PER_WORK = 4,
    RELAYED_WORK_MAX =
        10000000, /* in units of 10 ns: a tenth of a second for the patterns of a relayed message */
};

/* Channels of one namespace. Never freed: namespaces are few. */
struct channels {
    struct subscription_table *sets[CHANNEL_KINDS];
};

struct pubsub {
    struct table *namespaces; /* name → struct channels */
    struct slot_set served; /* the slots that were served when pubsub_check_slots was called last */
};

struct pubsub *pubsub_new(void)
{
    struct pubsub *pubsub = calloc(1, sizeof *pubsub);
    CHECK(pubsub);
    pubsub->namespaces = table_new();
    return pubsub;
}

void pubsub_free(struct pubsub *pubsub)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    if (!pubsub)
        return;
    while (table_next(pubsub->namespaces, &cursor, &name, &value)) {
        struct channels *channels = value;
        for (int kind = 0; kind < CHANNEL_KINDS; kind++)
            subscription_table_free(channels->sets[kind]);
        free(channels);
    }
    table_free(pubsub->namespaces);
    free(pubsub);
}

struct subscription_table *pubsub_set(struct pubsub *pubsub, struct bytes namespace_name,
                                      enum channel_kind kind)
{
    struct channels *channels = table_get(pubsub->namespaces, namespace_name);
    if (!channels) {
        channels = calloc(1, sizeof *channels);
        CHECK(channels);
        for (int i = 0; i < CHANNEL_KINDS; i++)
            channels->sets[i] = subscription_table_new();
        table_put(pubsub->namespaces, namespace_name, channels);
    }
    return channels->sets[kind];
}

/* ---- publishing ---- */

static struct session *subscriber_session(const struct subscription *subscription,
                                          enum channel_kind kind)
{
    struct subscriber *subscriber =
        container_of(subscription->follower - kind, struct subscriber, kinds);
    return container_of(subscriber, struct session, subscriber);
}

/* Sends one message to all subscribers of a topic; it is formatted once for each protocol. */
static void send_to_topic(struct partition *partition, const struct topic *topic,
                          enum channel_kind kind, const struct bytes *parts, uint32_t count)
{
    struct block *frames[2] = {NULL, NULL}; /* RESP2, RESP3 */
    struct subscription *subscription = NULL;
    while ((subscription = topic_subscription_next(topic, subscription))) {
        struct session *session = subscriber_session(subscription, kind);
        struct block **frame = &frames[session->resp > 2];
        if (!*frame)
            *frame = push_message_frame(session->resp, parts, count);
        push_message_send(partition->watchers.messages, session, *frame, MESSAGE_BEFORE);
    }
    block_unref(frames[0]);
    block_unref(frames[1]);
}

/* Work of a short comparison, or of compiling a long pattern; a long text counts while it is searched. */
static size_t comparing_work(struct bytes pattern, struct bytes channel)
{
    size_t steps = pattern.len * (channel.len < MATCH_STEPS ? channel.len : MATCH_STEPS);
    return BUDGET_ROW + (steps < MATCH_STEPS ? steps : MATCH_STEPS) / STEPS_PER_WORK;
}

/* Sends the message to the subscribers of the patterns that match the channel. Returns the number of subscribers. */
static int64_t publish_to_patterns(struct call *call, const struct subscription_table *patterns,
                                   struct bytes channel, struct bytes payload)
{
    int64_t receivers = 0;
    for (const struct topic *topic = NULL; (topic = topic_next(patterns, topic));) {
        struct bytes pattern = topic_name(topic);
        if (!call_goes_on(call, comparing_work(pattern, channel)))
            break;
        if (!glob_match_asking(pattern, channel, call_glob_goes_on, call))
            continue;
        const struct bytes parts[] = {BYTES("pmessage"), pattern, channel, payload};
        send_to_topic(call->partition, topic, CHANNEL_PATTERN, parts, 4);
        receivers += (int64_t)topic->weight;
    }
    return receivers;
}

int64_t pubsub_publish(struct call *call, struct bytes namespace_name, enum channel_kind kind,
                       struct bytes channel, struct bytes payload)
{
    CHECK(kind != CHANNEL_PATTERN);
    int64_t receivers = 0;
    struct partition *partition = call->partition;
    const struct topic *topic =
        subscription_find(pubsub_set(partition->watchers.pubsub, namespace_name, kind), channel);
    if (topic) {
        const struct bytes parts[] = {bytes_of(CHANNEL_WORDS[kind].message), channel, payload};
        send_to_topic(partition, topic, kind, parts, 3);
        receivers += (int64_t)topic->weight;
    }
    if (kind == CHANNEL_SHARD)
        return receivers;
    return receivers + publish_to_patterns(
                           call,
                           pubsub_set(partition->watchers.pubsub, namespace_name, CHANNEL_PATTERN),
                           channel, payload);
}

/* Sends one message to the subscribers of a topic that are no proxies. It does not use push_messages, because a slow script may be
 * running. */
static void send_to_clients(const struct topic *topic, enum channel_kind kind,
                            const struct bytes *parts, uint32_t count)
{
    struct block *frames[2] = {NULL, NULL}; /* RESP2, RESP3 */
    struct subscription *subscription = NULL;
    while ((subscription = topic_subscription_next(topic, subscription))) {
        struct session *session = subscriber_session(subscription, kind);
        struct block **frame = &frames[session->resp > 2];
        if (session->login.is_internal)
            continue;
        if (!*frame)
            *frame = push_message_frame(session->resp, parts, count);
        if (*frame)
            session_push(session, *frame, 0);
    }
    block_unref(frames[0]);
    block_unref(frames[1]);
}

/* glob_goes_on_fn, with what is left of RELAYED_WORK_MAX */
static bool spend_relayed(void *owner, size_t work)
{
    size_t *left = owner;
    *left -= work < *left ? work : *left;
    return *left > 0;
}

/* No call pays for the comparison, so it is short. False: it took too long, and the rest was left out. */
static bool relay_to_patterns(const struct subscription_table *patterns, struct bytes channel,
                              struct bytes payload)
{
    size_t left = RELAYED_WORK_MAX;
    for (const struct topic *topic = NULL; (topic = topic_next(patterns, topic));) {
        struct bytes pattern = topic_name(topic);
        const struct bytes parts[] = {BYTES("pmessage"), pattern, channel, payload};
        if (!spend_relayed(&left, comparing_work(pattern, channel)))
            return false;
        if (glob_match_asking(pattern, channel, spend_relayed, &left))
            send_to_clients(topic, CHANNEL_PATTERN, parts, 4);
    }
    return left > 0;
}

bool pubsub_publish_relayed(struct partition *partition, struct bytes channel, struct bytes payload)
{
    struct pubsub *pubsub = partition->watchers.pubsub;
    const struct bytes parts[] = {BYTES("message"), channel, payload};
    const struct topic *topic =
        subscription_find(pubsub_set(pubsub, BYTES(""), CHANNEL_PLAIN), channel);
    if (topic)
        send_to_clients(topic, CHANNEL_PLAIN, parts, 3);
    return relay_to_patterns(pubsub_set(pubsub, BYTES(""), CHANNEL_PATTERN), channel, payload);
}

/* ---- slots that leave ---- */

/* Ends the subscription of a client, and sends it the message of SUNSUBSCRIBE. */
static void end_subscription(struct partition *partition, const struct subscription *subscription,
                             struct bytes channel)
{
    struct session *session = subscriber_session(subscription, CHANNEL_SHARD);
    struct out out;
    out_init(&out);
    struct reply reply = {.out = &out, .resp = session->resp};
    (void)subscription_remove(subscription->topic->set, subscription->follower, channel);
    subscriber_confirm(&session->subscriber, &reply, CHANNEL_WORDS[CHANNEL_SHARD].unsubscribed,
                       CHANNEL_SHARD, &channel);
    struct block *frames = message_of(&out);
    push_message_send(partition->watchers.messages, session, frames, MESSAGE_AFTER);
    block_unref(frames);
}

/* Ends the subscriptions of clients, other than proxies, to a shard channel whose slot is not here. The topic may be freed. */
static void leave_channel_of_slot(struct partition *partition, struct topic *topic)
{
    struct bytes name = topic_name(topic);
    struct subscription *next = topic_subscription_next(topic, NULL);
    char *copy = malloc(name.len + 1);
    CHECK(copy);
    memcpy(copy, name.data, name.len);
    while (next) {
        struct subscription *subscription = next;
        const struct session *session = subscriber_session(subscription, CHANNEL_SHARD);
        next = topic_subscription_next(topic, subscription);
        bool is_here =
            slot_is_served(partition, slot_rule_slot(session->scope.slot_rule, topic_name(topic)));
        if (!is_here && !session->login.is_internal)
            end_subscription(partition, subscription, (struct bytes){copy, name.len});
    }
    free(copy);
}

void pubsub_check_slots(struct partition *partition)
{
    struct pubsub *pubsub = partition->watchers.pubsub;
    const struct slot_set *served = slots_served(partition);
    size_t cursor = 0;
    struct bytes name;
    void *value;
    if (!served || memcmp(served->words, pubsub->served.words, sizeof served->words) == 0)
        return;
    memcpy(pubsub->served.words, served->words, sizeof served->words);
    while (table_next(pubsub->namespaces, &cursor, &name, &value)) {
        const struct channels *channels = value;
        const struct subscription_table *set = channels->sets[CHANNEL_SHARD];
        struct topic *next = topic_next(set, NULL);
        while (next) {
            struct topic *topic = next;
            next = topic_next(set, topic);
            leave_channel_of_slot(partition, topic);
        }
    }
    push_messages_deliver(partition->watchers.messages, 0);
}
