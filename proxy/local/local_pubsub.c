/*
 * local_pubsub.c - SUBSCRIBE, UNSUBSCRIBE and their variants: changes the worker's subscription table, and confirms to the
 * client when all shards have confirmed. (PUBLISH and PUBSUB are answered by shards.)
 */
#include "proxy/local/local.h"
#include "proxy/subscriptions.h"
#include "proxy/worker.h"
#include "shared/arena.h"

#include <inttypes.h>
#include <stdlib.h>

/* Channels that a command has changed. */
struct change {
    struct channel_name *channels;
    uint32_t count;
};

static void write_confirmation(struct client *client, const char *word, enum channel_kind kind,
                               const struct bytes *name)
{
    struct client_channels *channels = client_channels(client);
    struct reply reply = {.out = &channels->confirmations, .resp = client->session.resp};
    subscriber_confirm(&channels->subscriber, &reply, word, kind, name);
}

/* Confirmations are sent even under CLIENT REPLY OFF, so they are written to the stream and not as the request's reply.
 * They stay in order, because the request is at the front of the pipeline. */
static void confirmed(struct client *client, struct request *request, struct reply *reply)
{
    struct client_channels *channels = client->channels;
    struct out *out = stream_out(client->stream);
    (void)request;
    (void)reply;
    client->held_pushes = channels->held_before;
    out_move(out, &channels->confirmations);
    out_move(channels->held_before ? channels->held_before : out, &channels->waiting);
    stream_send(client->stream);
}

static void change_begin(struct change *change, uint32_t most)
{
    change->channels = malloc((most + 1) * sizeof *change->channels);
    CHECK(change->channels);
    change->count = 0;
}

static void change_end(struct client *client, struct request *request, struct change *change)
{
    struct client_channels *channels = client_channels(client);
    struct subscriptions *subscriptions = channels->subscriptions;
    channels->held_before = client->held_pushes;
    client->held_pushes = &channels->waiting;
    if (!subscriptions ||
        !subscriptions_tell(subscriptions, request, change->channels, change->count, confirmed))
        confirmed(client, request, NULL);
    subscriptions_leave_if_unused(client);
    free(change->channels);
}

/* Counts all channels of the request as new, even if the client is already subscribed to them. */
static bool fits_channel_limit(const struct client *client, const struct bytes *argv, uint32_t argc)
{
    uint64_t bytes = client_channel_bytes(client);
    for (uint32_t i = 1; i < argc; i++)
        bytes += subscriptions_cost(argv[i]);
    return bytes <= client->worker->snapshot->config.client_subscription_limit_bytes;
}

static void subscribe_client(struct client *client, struct request *request, struct reply *reply,
                             enum channel_kind kind)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct change change;
    if (!fits_channel_limit(client, argv, argc)) {
        reply_errorf(
            reply,
            "ERR '%s' refused: the channels of this connection would take more memory than "
            "client-subscription-limit (%" PRIu64 " bytes)",
            CHANNEL_WORDS[kind].subscribed,
            client->worker->snapshot->config.client_subscription_limit_bytes);
        return;
    }
    change_begin(&change, argc);
    for (uint32_t i = 1; i < argc; i++) {
        if (subscriptions_join(client, kind, argv[i]))
            change.channels[change.count++] = (struct channel_name){kind, argv[i]};
        write_confirmation(client, CHANNEL_WORDS[kind].subscribed, kind, &argv[i]);
    }
    change_end(client, request, &change);
}

static void leave_channel(struct client *client, enum channel_kind kind, struct bytes name,
                          struct change *change)
{
    if (subscriptions_leave(client, kind, name))
        change->channels[change->count++] = (struct channel_name){kind, name};
    write_confirmation(client, CHANNEL_WORDS[kind].unsubscribed, kind, &name);
}

static void unsubscribe_client(struct client *client, struct request *request,
                               enum channel_kind kind)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    const struct follower *follower = &client_channels(client)->subscriber.kinds[kind];
    struct change change;
    struct arena arena;
    arena_init(&arena);
    change_begin(&change, argc > 1 ? argc : follower->count);
    for (uint32_t i = 1; i < argc; i++)
        leave_channel(client, kind, argv[i], &change);
    if (argc == 1 && follower->count == 0)
        write_confirmation(client, CHANNEL_WORDS[kind].unsubscribed, kind, NULL);
    while (argc == 1 && follower->count > 0) {
        struct bytes name = topic_name(follower_subscription_next(follower, NULL)->topic);
        leave_channel(client, kind, arena_copy(&arena, name), &change);
    }
    change_end(client, request, &change);
    arena_fini(&arena);
}

void local_subscribe(struct client *client, struct request *request, struct reply *reply)
{
    subscribe_client(client, request, reply, CHANNEL_PLAIN);
}

void local_psubscribe(struct client *client, struct request *request, struct reply *reply)
{
    subscribe_client(client, request, reply, CHANNEL_PATTERN);
}

void local_ssubscribe(struct client *client, struct request *request, struct reply *reply)
{
    subscribe_client(client, request, reply, CHANNEL_SHARD);
}

void local_unsubscribe(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    unsubscribe_client(client, request, CHANNEL_PLAIN);
}

void local_punsubscribe(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    unsubscribe_client(client, request, CHANNEL_PATTERN);
}

void local_sunsubscribe(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    unsubscribe_client(client, request, CHANNEL_SHARD);
}
