#include "shared/acl/channel.h"

const struct channel_words CHANNEL_WORDS[CHANNEL_KINDS] = {
    [CHANNEL_PLAIN] = {"subscribe", "unsubscribe", "message"},
    [CHANNEL_PATTERN] = {"psubscribe", "punsubscribe", "pmessage"},
    [CHANNEL_SHARD] = {"ssubscribe", "sunsubscribe", "smessage"},
};

void subscriber_init(struct subscriber *subscriber)
{
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        follower_init(&subscriber->kinds[kind]);
}

void subscriber_clear(struct subscriber *subscriber)
{
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        subscription_clear(&subscriber->kinds[kind]);
}

uint32_t subscriber_count(const struct subscriber *subscriber)
{
    uint32_t count = 0;
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        count += subscriber->kinds[kind].count;
    return count;
}

bool subscriber_allowed(const struct subscriber *subscriber, const struct acl_user *user)
{
    for (int kind = 0; kind < CHANNEL_KINDS; kind++) {
        const struct subscription *subscription = NULL;
        while ((subscription = follower_subscription_next(&subscriber->kinds[kind], subscription)))
            if (!acl_may_listen(user, topic_name(subscription->topic), kind == CHANNEL_PATTERN))
                return false;
    }
    return true;
}

void subscriber_confirm(const struct subscriber *subscriber, struct reply *reply, const char *word,
                        enum channel_kind kind, const struct bytes *channel)
{
    const struct follower *kinds = subscriber->kinds;
    reply_push(reply, 3);
    reply_bulk_text(reply, word);
    if (channel)
        reply_bulk(reply, *channel);
    else
        reply_null(reply);
    reply_int(reply, kind == CHANNEL_SHARD
                         ? kinds[CHANNEL_SHARD].count
                         : kinds[CHANNEL_PLAIN].count + kinds[CHANNEL_PATTERN].count);
}
