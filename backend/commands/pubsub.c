/*
 * pubsub.c - SUBSCRIBE and related commands, PUBLISH, PUBSUB.
 *
 * Every channel of a SUBSCRIBE is confirmed by a frame of its own: an array in RESP2, a push in RESP3. The
 * confirmations are part of the command's reply, but CLIENT REPLY OFF does not suppress them.
 */
#include "backend/session/pubsub.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/channel_relay.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "shared/command/command_reply.h"
#include "shared/glob.h"

static struct subscription_table *set_of(struct call *call, enum channel_kind kind)
{
    return pubsub_set(call->partition->watchers.pubsub, session_namespace(call->session), kind);
}

/* Replies one confirmation; `channel` NULL: there was no subscription to end. */
static void reply_subscription(struct call *call, const char *word, enum channel_kind kind,
                               const struct bytes *channel)
{
    struct out out;
    bool is_silent = call->session->replies.mode != REPLY_MODE_ON;
    out_init(&out);
    struct reply reply = {.out = is_silent ? &out : call->reply.out, .resp = call->reply.resp};
    subscriber_confirm(&call->session->subscriber, &reply, word, kind, channel);
    if (is_silent) {
        struct block *frames = message_of(&out);
        push_message_send(call->partition->watchers.messages, call->session, frames,
                          MESSAGE_BEFORE);
        block_unref(frames);
    }
}

/* ---- subscribing ---- */

static void subscribe_session(struct call *call, enum channel_kind kind)
{
    struct follower *follower = &call->session->subscriber.kinds[kind];
    size_t bytes = 0;
    for (uint32_t i = 1; i < call->argc; i++) {
        if (kind == CHANNEL_PATTERN && !call_pattern(call, i))
            return;
        bytes += subscription_cost(call->argv[i]);
    }
    if (!session_has_room(call->session, bytes)) {
        call_error(call, ERR_STATE_LIMIT);
        return;
    }
    if (kind != CHANNEL_SHARD && !call->session->login.is_internal)
        channel_relay_listen(call->partition->watchers.messages->relay);
    out_limit(
        call->reply.out,
        0); /* no limit: confirmed subscriptions cannot be undone; the request bounds the names */
    for (uint32_t i = 1; i < call->argc; i++) {
        (void)subscription_add(set_of(call, kind), follower, call->argv[i]);
        reply_subscription(call, CHANNEL_WORDS[kind].subscribed, kind, &call->argv[i]);
    }
}

static void unsubscribe_all(struct call *call, enum channel_kind kind)
{
    struct follower *follower = &call->session->subscriber.kinds[kind];
    struct subscription *first = follower_subscription_next(follower, NULL);
    if (!first)
        reply_subscription(call, CHANNEL_WORDS[kind].unsubscribed, kind, NULL);
    for (; first; first = follower_subscription_next(follower, NULL)) {
        struct bytes name = arena_copy(call->arena, topic_name(first->topic));
        (void)subscription_remove(first->topic->set, follower, name);
        reply_subscription(call, CHANNEL_WORDS[kind].unsubscribed, kind, &name);
    }
}

static void unsubscribe_session(struct call *call, enum channel_kind kind)
{
    struct follower *follower = &call->session->subscriber.kinds[kind];
    out_limit(call->reply.out, 0);
    if (call->argc == 1) {
        unsubscribe_all(call, kind);
        return;
    }
    for (uint32_t i = 1; i < call->argc; i++) {
        (void)subscription_remove(set_of(call, kind), follower, call->argv[i]);
        reply_subscription(call, CHANNEL_WORDS[kind].unsubscribed, kind, &call->argv[i]);
    }
}

void cmd_subscribe(struct call *call)
{
    subscribe_session(call, CHANNEL_PLAIN);
}

void cmd_psubscribe(struct call *call)
{
    subscribe_session(call, CHANNEL_PATTERN);
}

void cmd_ssubscribe(struct call *call)
{
    if (call->in_exec)
        call_error_text(call, command_exec_error(call->command));
    else
        subscribe_session(call, CHANNEL_SHARD);
}

void cmd_unsubscribe(struct call *call)
{
    unsubscribe_session(call, CHANNEL_PLAIN);
}

void cmd_punsubscribe(struct call *call)
{
    unsubscribe_session(call, CHANNEL_PATTERN);
}

void cmd_sunsubscribe(struct call *call)
{
    unsubscribe_session(call, CHANNEL_SHARD);
}

/* SCREE LISTEN kind channel count: sent by a proxy to set how many of its clients are subscribed. */
void cmd_scree_listen(struct call *call)
{
    int64_t count;
    if (!call_int64(call, 4, &count))
        return;
    if (count < 0 || count > UINT32_MAX) {
        call_error(call, ERR_NOT_INTEGER);
        return;
    }
    for (unsigned kind = 0; kind < CHANNEL_KINDS; kind++) {
        if (!bytes_is(call->argv[2], CHANNEL_WORDS[kind].message))
            continue;
        subscription_weigh(set_of(call, kind), &call->session->subscriber.kinds[kind],
                           call->argv[3], (uint32_t)count);
        reply_ok(&call->reply);
        return;
    }
    call_error(call, ERR_SYNTAX);
}

/* ---- publishing ---- */

/* Sends one message, also to the clients of other shards. Returns the number of subscribers here. */
static int64_t publish_everywhere(struct call *call, struct bytes payload)
{
    channel_relay_add(call, call->argv[1], payload);
    return pubsub_publish(call, session_namespace(call->session), CHANNEL_PLAIN, call->argv[1],
                          payload);
}

void cmd_publish(struct call *call)
{
    int64_t receivers = publish_everywhere(call, call->argv[2]);
    if (!call->failed)
        reply_int(&call->reply, receivers);
}

/* Replies the sum of the messages' numbers of receivers. */
void cmd_mpublish(struct call *call)
{
    int64_t receivers = 0;
    for (uint32_t i = 2; i < call->argc && !call->failed; i++)
        receivers += publish_everywhere(call, call->argv[i]);
    if (!call->failed)
        reply_int(&call->reply, receivers);
}

void cmd_spublish(struct call *call)
{
    reply_int(&call->reply, pubsub_publish(call, session_namespace(call->session), CHANNEL_SHARD,
                                           call->argv[1], call->argv[2]));
}

/* ---- PUBSUB ---- */

static void list_channels(struct call *call, enum channel_kind kind)
{
    const struct subscription_table *set = set_of(call, kind);
    int64_t count = 0;
    if (call->argc > 3) {
        call_errorf(call,
                    "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
                    "Try PUBSUB HELP.",
                    (int)call->argv[1].len, call->argv[1].data);
        return;
    }
    if (call->argc == 3 && !call_pattern(call, 2))
        return;
    struct glob *pattern = call->argc == 3 ? call_glob(call, call->argv[2]) : NULL;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            reply_array(&call->reply, count);
        for (const struct topic *topic = NULL; (topic = topic_next(set, topic));) {
            if (!call_goes_on(call, BUDGET_ROW))
                return;
            if (pattern && !glob_fits(pattern, topic_name(topic)))
                continue;
            count++;
            if (pass == 1)
                reply_bulk(&call->reply, topic_name(topic));
        }
    }
}

static void count_listeners(struct call *call, enum channel_kind kind)
{
    const struct subscription_table *set = set_of(call, kind);
    reply_array(&call->reply, 2 * ((int64_t)call->argc - 2));
    for (uint32_t i = 2; i < call->argc; i++) {
        const struct topic *topic = subscription_find(set, call->argv[i]);
        reply_bulk(&call->reply, call->argv[i]);
        reply_int(&call->reply, topic ? (int64_t)topic->weight : 0);
    }
}

void cmd_pubsub_channels(struct call *call)
{
    list_channels(call, CHANNEL_PLAIN);
}

void cmd_pubsub_shardchannels(struct call *call)
{
    list_channels(call, CHANNEL_SHARD);
}

void cmd_pubsub_numsub(struct call *call)
{
    count_listeners(call, CHANNEL_PLAIN);
}

void cmd_pubsub_shardnumsub(struct call *call)
{
    count_listeners(call, CHANNEL_SHARD);
}

void cmd_pubsub_numpat(struct call *call)
{
    reply_int(&call->reply, (int64_t)subscription_topics(set_of(call, CHANNEL_PATTERN)));
}

void cmd_pubsub_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
