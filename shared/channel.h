/*
 * channel.h - kinds of pub/sub channels, and the words of their frames.
 *
 *     SUBSCRIBE x   ─► [subscribe x 1]     PUBLISH x hi  ─► [message x hi]  [pmessage x* x hi]
 *     PSUBSCRIBE x* ─► [psubscribe x* 2]   SPUBLISH x hi ─► [smessage x hi]
 *
 * A confirmation's number counts channels and patterns together, and shard channels by themselves.
 */
#pragma once

#include "shared/acl.h"
#include "shared/bytes.h"
#include "shared/reply.h"
#include "shared/subscription_table.h"

enum channel_kind { CHANNEL_PLAIN, CHANNEL_PATTERN, CHANNEL_SHARD, CHANNEL_KINDS };

/* What a kind of channel is called. */
struct channel_words {
    const char *subscribed;
    const char *unsubscribed;
    const char *message;
};
extern const struct channel_words CHANNEL_WORDS[CHANNEL_KINDS];

/* What a RESP2 connection in subscriber mode is told, with the command's full name. */
#define SUBSCRIBER_ERROR                                                                           \
    "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "    \
    "allowed in this context"

/* One that subscribes: what it follows of each kind. */
struct subscriber {
    struct follower kinds[CHANNEL_KINDS];
};

void subscriber_init(struct subscriber *subscriber);
/* Ends all subscriptions, without a word. */
void subscriber_clear(struct subscriber *subscriber);
/* Of all kinds. */
uint32_t subscriber_count(const struct subscriber *subscriber);
/* May the user listen to all of it? */
bool subscriber_allowed(const struct subscriber *subscriber, const struct acl_user *user);
/* Writes one confirmation; a NULL channel: there was none to end. */
void subscriber_confirm(const struct subscriber *subscriber, struct reply *reply, const char *word,
                        enum channel_kind kind, const struct bytes *channel);
