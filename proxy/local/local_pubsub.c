/*
 * local_pubsub.c - SUBSCRIBE, UNSUBSCRIBE and their variants: changes the worker's subscription table, and confirms to the
 * client when all shards have confirmed. (PUBLISH and PUBSUB are answered by shards.)
 */
#include "proxy/client/subscriptions.h"
#include "proxy/core/client.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/arena.h"

#include <inttypes.h>

/* SUBSCRIBE of many channels is done in portions, so that other clients of the worker are served between them. */
enum { PORTION = 256 };

/* The command's state between portions. */
struct change {
    enum channel_kind kind;
    bool is_leaving; /* UNSUBSCRIBE */
    uint32_t argc;
    uint32_t next; /* argument */
    /* of this portion: the channels that it has changed */
    uint32_t count;
    struct channel_name channels[PORTION];
};

static void change_some(struct client *client, struct request *request, struct reply *reply);

static void write_confirmation(struct client *client, const struct change *change,
                               const struct bytes *name)
{
    struct client_channels *channels = client_channels(client);
    struct reply reply = {.out = &channels->confirmations, .resp = client->session.resp};
    const struct channel_words *words = &CHANNEL_WORDS[change->kind];
    subscriber_confirm(&channels->subscriber, &reply,
                       change->is_leaving ? words->unsubscribed : words->subscribed, change->kind,
                       name);
}

/* Is there a further portion? UNSUBSCRIBE without arguments ends all subscriptions. */
static bool has_more(const struct client *client, const struct change *change)
{
    return change->argc > 1 ? change->next < change->argc
                            : client->channels->subscriber.kinds[change->kind].count > 0;
}

/* Confirmations are sent even under CLIENT REPLY OFF, so they are written to the stream and not as the request's reply.
 * They stay in order, because the request is at the front of the pipeline. */
static void confirmed(struct client *client, struct request *request, struct reply *reply)
{
    const struct change *change = request_state(request, sizeof *change);
    struct client_channels *channels = client->channels;
    struct out *out = stream_out(client->stream);
    (void)reply;
    client->held_pushes = channels->held_before;
    out_move(out, &channels->confirmations);
    out_move(channels->held_before ? channels->held_before : out, &channels->waiting);
    stream_send(client->stream);
    if (has_more(client, change)) {
        request_next_turn(request, change_some);
        return;
    }
    subscriptions_leave_if_unused(client);
    client_unhold(client, HOLD_PORTIONS);
}

/* No shard has to be told of this portion. If more follow, it is confirmed in a later turn: a handler that waits for a turn must not have
 * written to the stream before. */
static void confirm_untold(struct client *client, struct request *request)
{
    if (has_more(client, request_state(request, sizeof(struct change))))
        request_next_turn(request, confirmed);
    else
        confirmed(client, request, NULL);
}

static void change_channel(struct client *client, struct change *change, struct bytes name)
{
    bool has_changed = change->is_leaving ? subscriptions_leave(client, change->kind, name)
                                          : subscriptions_join(client, change->kind, name);
    if (has_changed)
        change->channels[change->count++] = (struct channel_name){change->kind, name};
    write_confirmation(client, change, &name);
}

/* UNSUBSCRIBE without arguments: ends up to PORTION of the client's subscriptions of this kind. */
static void leave_all(struct client *client, struct change *change, struct arena *arena)
{
    const struct follower *follower = &client_channels(client)->subscriber.kinds[change->kind];
    if (follower->count == 0)
        write_confirmation(client, change, NULL);
    for (uint32_t i = 0; i < PORTION && follower->count > 0; i++) {
        struct bytes name = topic_name(follower_subscription_next(follower, NULL)->topic);
        change_channel(client, change, arena_copy(arena, name));
    }
}

/* request_done_fn: a portion. */
static void change_some(struct client *client, struct request *request, struct reply *reply)
{
    struct change *change = request_state(request, sizeof *change);
    struct client_channels *channels = client_channels(client);
    const struct bytes *argv = request_argv(request);
    struct arena arena;
    (void)reply;
    arena_init(&arena);
    change->count = 0;
    if (change->argc == 1)
        leave_all(client, change, &arena);
    for (uint32_t i = 0; i < PORTION && change->next < change->argc; i++)
        change_channel(client, change, argv[change->next++]);
    channels->held_before = client->held_pushes;
    client->held_pushes = &channels->waiting;
    if (!channels->subscriptions || !subscriptions_tell(channels->subscriptions, request,
                                                        change->channels, change->count, confirmed))
        confirm_untold(client, request);
    arena_fini(&arena);
}

static void begin_change(struct client *client, struct request *request, struct reply *reply,
                         enum channel_kind kind, bool is_leaving)
{
    struct change *change = request_state(request, sizeof *change);
    change->kind = kind;
    change->is_leaving = is_leaving;
    change->argc = request_argc(request);
    change->next = 1;
    uint32_t most = subscriber_count(&client_channels(client)->subscriber);
    if (change->argc > 1)
        most = change->argc - 1;
    if (most > PORTION) {
        request_keep(request);
        client_hold(client, HOLD_PORTIONS);
    }
    change_some(client, request, reply);
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
    if (!fits_channel_limit(client, argv, argc)) {
        reply_errorf(
            reply,
            "ERR '%s' refused: the channels of this connection would take more memory than "
            "client-subscription-limit (%" PRIu64 " bytes)",
            CHANNEL_WORDS[kind].subscribed,
            client->worker->snapshot->config.client_subscription_limit_bytes);
        return;
    }
    begin_change(client, request, reply, kind, false);
}

static void unsubscribe_client(struct client *client, struct request *request, struct reply *reply,
                               enum channel_kind kind)
{
    begin_change(client, request, reply, kind, true);
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
    unsubscribe_client(client, request, reply, CHANNEL_PLAIN);
}

void local_punsubscribe(struct client *client, struct request *request, struct reply *reply)
{
    unsubscribe_client(client, request, reply, CHANNEL_PATTERN);
}

void local_sunsubscribe(struct client *client, struct request *request, struct reply *reply)
{
    unsubscribe_client(client, request, reply, CHANNEL_SHARD);
}
