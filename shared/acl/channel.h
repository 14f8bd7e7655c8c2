/*
 * channel.h - kinds of Pub/Sub channels, and the words in their replies and messages.
 *
 *     SUBSCRIBE x   ─► [subscribe x 1]     PUBLISH x hi  ─► [message x hi]  [pmessage x* x hi]
 *     PSUBSCRIBE x* ─► [psubscribe x* 2]   SPUBLISH x hi ─► [smessage x hi]
 *
 * The number in a confirmation counts channels and patterns together, and shard channels separately.
 */
#pragma once

#include "shared/acl/acl.h"
#include "shared/bytes.h"
#include "shared/reply.h"
#include "shared/subscription_table.h"

enum channel_kind { CHANNEL_PLAIN, CHANNEL_PATTERN, CHANNEL_SHARD, CHANNEL_KINDS };

/* First word of the confirmations and messages of a kind. */
struct channel_words {
    const char *subscribed;
    const char *unsubscribed;
    const char *message;
};
extern const struct channel_words CHANNEL_WORDS[CHANNEL_KINDS];

/* Error for other commands on a RESP2 connection in subscriber mode; takes the command's full name. */
#define SUBSCRIBER_ERROR                                                                           \
    "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "    \
    "allowed in this context"

/* The subscriptions of one client, by kind. */
struct subscriber {
    struct follower kinds[CHANNEL_KINDS];
};

void subscriber_init(struct subscriber *subscriber);
/* Ends all subscriptions without confirmations. */
void subscriber_clear(struct subscriber *subscriber);
/* Number of subscriptions of all kinds. */
uint32_t subscriber_count(const struct subscriber *subscriber);
/* May the user subscribe to everything that the subscriber is subscribed to? */
bool subscriber_allowed(const struct subscriber *subscriber, const struct acl_user *user);
/* Writes one confirmation; `channel` NULL: there was no subscription to end. */
void subscriber_confirm(const struct subscriber *subscriber, struct reply *reply, const char *word,
                        enum channel_kind kind, const struct bytes *channel);
