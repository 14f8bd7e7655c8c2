#include "proxy/client/subscriptions.h"

#include "proxy/core/client.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>

enum {
    IDLE_SECONDS_MAX = 30, /* a table without subscribers is freed after this time */
    TELL_MAX = 256,        /* channels sent to a shard at a time */
};

/* Subscriptions of one namespace. */
struct subscriptions {
    struct list link; /* in worker->all_subscriptions */
    struct proxy_worker *worker;
    struct keyspace *keyspace; /* of the namespace, database 0 */
    struct subscription_table *sets[CHANNEL_KINDS];
    struct list subscription_connections; /* one for each shard */
    uint32_t idle_seconds;                /* seconds without subscribers */
};

struct subscription_connection {
    /* in subscriptions->subscription_connections; unlinked when the table is freed */
    struct list link;
    struct subscriptions *subscriptions;
    struct upstream *upstream;
    bool has_missed; /* the connection was lost: all channels are sent when it is up */
};

static void on_up(struct upstream *upstream);
static void on_message(struct upstream *upstream, struct block *block, const char *data,
                       size_t len);
static void on_lost(struct upstream *upstream);
static void on_freed(struct upstream *upstream);

static const struct upstream_events connection_events = {
    .up = on_up, .push = on_message, .lost = on_lost, .freed = on_freed};

/* ---- subscription tables ------------------------------------------------------------------------------- */

static bool is_empty(const struct subscriptions *subscriptions)
{
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        if (subscription_topics(subscriptions->sets[kind]))
            return false;
    return true;
}

static struct subscription_connection *
subscription_connection_new(struct subscriptions *subscriptions, struct node *node)
{
    struct subscription_connection *connection = calloc(1, sizeof *connection);
    CHECK(connection);
    connection->subscriptions = subscriptions;
    connection->upstream = upstream_new(subscriptions->worker, node, LANE_NORMAL, 3);
    connection->upstream->use.subscriber = connection;
    connection->upstream->use.events = &connection_events;
    list_push(&subscriptions->subscription_connections, &connection->link);
    return connection;
}

static struct subscriptions *subscriptions_of(struct proxy_worker *worker,
                                              const struct keyspace *keyspace)
{
    struct list *link;
    for (link = worker->all_subscriptions.next; link != &worker->all_subscriptions;
         link = link->next) {
        struct subscriptions *subscriptions = container_of(link, struct subscriptions, link);
        if (bytes_equal(subscriptions->keyspace->name, keyspace->name))
            return subscriptions;
    }
    struct subscriptions *subscriptions = calloc(1, sizeof *subscriptions);
    CHECK(subscriptions);
    subscriptions->worker = worker;
    subscriptions->keyspace = keyspaces_get(&worker->keyspaces, keyspace->name, 0);
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        subscriptions->sets[kind] = subscription_table_new();
    list_init(&subscriptions->subscription_connections);
    list_push(&worker->all_subscriptions, &subscriptions->link);
    for (size_t i = 0; i < worker->pool->count; i++)
        (void)subscription_connection_new(subscriptions, worker->pool->nodes[i]);
    return subscriptions;
}

static void subscription_connection_close(struct subscription_connection *connection,
                                          const char *reason)
{
    connection->subscriptions = NULL;
    upstream_close(connection->upstream, reason);
}

static void subscriptions_free(struct subscriptions *subscriptions)
{
    CHECK(is_empty(subscriptions));
    for (struct list *link; (link = list_pop(&subscriptions->subscription_connections));)
        subscription_connection_close(container_of(link, struct subscription_connection, link),
                                      "no subscribers are left");
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        subscription_table_free(subscriptions->sets[kind]);
    keyspace_unref(&subscriptions->worker->keyspaces, subscriptions->keyspace);
    list_remove(&subscriptions->link);
    free(subscriptions);
}

void all_subscriptions_slow(struct proxy_worker *worker)
{
    for (struct list *link = worker->all_subscriptions.next; link != &worker->all_subscriptions;) {
        struct subscriptions *subscriptions = container_of(link, struct subscriptions, link);
        link = link->next;
        if (!is_empty(subscriptions))
            subscriptions->idle_seconds = 0;
        else if (++subscriptions->idle_seconds > IDLE_SECONDS_MAX)
            subscriptions_free(subscriptions);
    }
}

/* ---- sending counts to the shards ------------------------------------------------------------ */

/* Writes one command, with one reply, that sets the channel's number of subscribers. */
static void write_listen(struct subscriptions *subscriptions, struct out *out,
                         const struct channel_name *channel)
{
    const struct channel_words *words = &CHANNEL_WORDS[channel->kind];
    const struct topic *topic =
        subscription_find(subscriptions->sets[channel->kind], channel->name);
    uint32_t count = topic ? topic->count : 0;
    char text[16];
    struct bytes number = {text, (size_t)snprintf(text, sizeof text, "%u", count)};
    if (*subscriptions->worker->snapshot->config.upstream_secret) {
        const struct bytes listen[] = {BYTES("SCREE"), BYTES("LISTEN"), bytes_of(words->message),
                                       channel->name, number};
        resp_write_words(out, listen, 5);
        return;
    }
    const struct bytes subscribe[] = {bytes_of(count ? words->subscribed : words->unsubscribed),
                                      channel->name};
    const struct bytes ping = BYTES("PING");
    resp_write_words(
        out, subscribe,
        2); /* the reply to SUBSCRIBE is a push frame, so PING gives the part its reply */
    resp_write_words(out, &ping, 1);
}

/* Sends all channels at once; the part gets the last reply. */
static void tell_subscription_connection(struct subscription_connection *connection,
                                         struct part *part, const struct channel_name *channels,
                                         uint32_t count)
{
    struct out *out =
        upstream_begin(connection->upstream, part, connection->subscriptions->keyspace);
    if (!out)
        return;
    for (uint32_t i = 0; i < count; i++)
        write_listen(connection->subscriptions, out, &channels[i]);
    part->swallow = count - 1;
    upstream_commit(connection->upstream, part);
}

/* request_done_fn */
static void ignore_replies(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    (void)reply;
}

/* Sends channels to one shard that was not reached before. */
static void tell_one(struct subscription_connection *connection,
                     const struct channel_name *channels, uint32_t count)
{
    if (count == 0)
        return;
    struct request *request = request_internal(connection->subscriptions->worker);
    request_wait_parts(request, 1, ignore_replies);
    request_hold(request);
    tell_subscription_connection(connection, request_part(request, 0, connection->upstream->node),
                                 channels, count);
    request_go(request);
}

/* The number of connections; while a new map is put in force it may differ from the number of shards. */
static uint32_t count_subscription_connections(const struct subscriptions *subscriptions)
{
    uint32_t count = 0;
    for (const struct list *link = subscriptions->subscription_connections.next;
         link != &subscriptions->subscription_connections; link = link->next)
        count++;
    return count;
}

bool subscriptions_tell(struct subscriptions *subscriptions, struct request *request,
                        const struct channel_name *channels, uint32_t count, request_done_fn *done)
{
    struct proxy_worker *worker = subscriptions->worker;
    bool is_ours = !request;
    uint32_t index = 0;
    if (count == 0 || list_empty(&subscriptions->subscription_connections))
        return false;
    if (is_ours)
        request = request_internal(worker);
    request_wait_parts(request, count_subscription_connections(subscriptions),
                       is_ours ? ignore_replies : done);
    if (is_ours)
        request_hold(request);
    for (struct list *link = subscriptions->subscription_connections.next;
         link != &subscriptions->subscription_connections; link = link->next) {
        struct subscription_connection *connection =
            container_of(link, struct subscription_connection, link);
        tell_subscription_connection(connection,
                                     request_part(request, index++, connection->upstream->node),
                                     channels, count);
    }
    if (is_ours)
        request_go(request);
    return true;
}

/* ---- clients --------------------------------------------------------------------------------- */

uint32_t client_subscriptions(const struct client *client)
{
    return client->channels ? subscriber_count(&client->channels->subscriber) : 0;
}

bool client_is_subscriber(const struct client *client)
{
    return client->session.resp == 2 && client_subscriptions(client) > 0;
}

struct client_channels *client_channels(struct client *client)
{
    if (!client->channels) {
        client->channels = calloc(1, sizeof *client->channels);
        CHECK(client->channels);
        client->channels->client = client;
        list_init(&client->channels->leaving);
        subscriber_init(&client->channels->subscriber);
        out_init(&client->channels->confirmations);
        out_init(&client->channels->waiting);
    }
    return client->channels;
}

size_t subscriptions_cost(struct bytes name)
{
    enum { COPIES = 2, TABLE_ENTRIES = 128 }; /* the name is also the key of a table */
    return sizeof(struct topic) + sizeof(struct subscription) + COPIES * name.len + TABLE_ENTRIES;
}

size_t client_channel_bytes(const struct client *client)
{
    const struct client_channels *channels = client->channels;
    return channels ? sizeof *channels + channels->bytes + channels->confirmations.bytes +
                          channels->waiting.bytes
                    : 0;
}

static bool remove_channel(struct client_channels *channels, enum channel_kind kind,
                           struct bytes name)
{
    if (!subscription_remove(channels->subscriptions->sets[kind], &channels->subscriber.kinds[kind],
                             name))
        return false;
    channels->bytes -= subscriptions_cost(name);
    channels->subscriptions->worker->memory.copied -= subscriptions_cost(name);
    return true;
}

bool subscriptions_join(struct client *client, enum channel_kind kind, struct bytes name)
{
    struct client_channels *channels = client_channels(client);
    if (!channels->subscriptions)
        channels->subscriptions = subscriptions_of(client->worker, client->session.keyspace);
    if (!subscription_add(channels->subscriptions->sets[kind], &channels->subscriber.kinds[kind],
                          name))
        return false;
    channels->bytes += subscriptions_cost(name);
    client->worker->memory.copied += subscriptions_cost(name);
    return true;
}

bool subscriptions_leave(struct client *client, enum channel_kind kind, struct bytes name)
{
    struct client_channels *channels = client_channels(client);
    struct subscriptions *subscriptions = channels->subscriptions;
    return subscriptions && remove_channel(channels, kind, name);
}

void subscriptions_leave_if_unused(struct client *client)
{
    if (client->channels && client_subscriptions(client) == 0)
        client->channels->subscriptions = NULL;
}

/* Removes up to TELL_MAX of the client's channels; their names are copied. */
static uint32_t remove_some(struct client_channels *channels, struct arena *arena,
                            struct channel_name *taken)
{
    uint32_t count = 0;
    for (unsigned kind = 0; kind < CHANNEL_KINDS; kind++) {
        struct follower *follower = &channels->subscriber.kinds[kind];
        for (struct subscription *first;
             count < TELL_MAX && (first = follower_subscription_next(follower, NULL));) {
            struct bytes name = arena_copy(arena, topic_name(first->topic));
            (void)remove_channel(channels, kind, name);
            taken[count++] = (struct channel_name){kind, name};
        }
    }
    return count;
}

/* Ends up to TELL_MAX subscriptions, and sends the shards the new numbers of subscribers. */
static void clear_some(struct client_channels *channels)
{
    struct channel_name taken[TELL_MAX];
    struct arena arena;
    arena_init(&arena);
    uint32_t count = remove_some(channels, &arena, taken);
    (void)subscriptions_tell(channels->subscriptions, NULL, taken, count, NULL);
    arena_fini(&arena);
}

static void channels_free(struct client_channels *channels)
{
    CHECK(subscriber_count(&channels->subscriber) == 0);
    list_remove(&channels->leaving);
    out_clear(&channels->confirmations);
    out_clear(&channels->waiting);
    free(channels);
}

/* Ends some subscriptions of clients that have left. False: there are none. */
static bool clear_leaving(const struct proxy_worker *worker)
{
    const struct list *leaving = &worker->clients.leaving_channels;
    if (list_empty(leaving))
        return false;
    struct client_channels *channels = container_of(leaving->next, struct client_channels, leaving);
    clear_some(channels);
    if (subscriber_count(&channels->subscriber) == 0)
        channels_free(channels);
    return true;
}

/* request_done_fn */
static void clear_in_turns(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    if (clear_leaving(request->worker))
        request_next_turn(request, clear_in_turns);
}

/* A SUBSCRIBE that runs goes on to use the client's channels: it gets others, without subscriptions. */
static void renew_channels(struct client *client)
{
    struct client_channels *left = client->channels;
    client->channels = NULL;
    struct client_channels *channels = client_channels(client);
    channels->held_before = left->held_before;
    out_move(&channels->confirmations, &left->confirmations);
    out_move(&channels->waiting, &left->waiting);
    client->held_pushes = &channels->waiting;
}

void subscriptions_clear(struct client *client)
{
    struct client_channels *channels = client->channels;
    if (!channels || !channels->subscriptions)
        return;
    clear_some(channels);
    if (subscriber_count(&channels->subscriber) == 0) {
        channels->subscriptions = NULL;
        return;
    }
    struct list *leaving = &client->worker->clients.leaving_channels;
    bool is_first = list_empty(leaving);
    if (client->held_pushes == &channels->waiting)
        renew_channels(client);
    else
        client->channels = NULL;
    channels->client = NULL;
    list_push(leaving, &channels->leaving);
    if (is_first)
        request_next_turn(request_internal(client->worker), clear_in_turns);
}

void client_channels_free(struct client *client)
{
    if (client->channels)
        channels_free(client->channels);
    client->channels = NULL;
}

/* ---- subscription connections ----------------------------------------------------------------------------------- */

/* Sends one shard all channels. */
static void announce_channels(struct subscription_connection *connection)
{
    struct subscriptions *subscriptions = connection->subscriptions;
    struct channel_name channels[TELL_MAX];
    for (unsigned kind = 0; kind < CHANNEL_KINDS; kind++) {
        struct topic *topic = NULL;
        uint32_t count;
        do {
            for (count = 0;
                 count < TELL_MAX && (topic = topic_next(subscriptions->sets[kind], topic));)
                channels[count++] = (struct channel_name){kind, topic_name(topic)};
            tell_one(connection, channels, count);
        } while (count == TELL_MAX);
    }
}

static void on_up(struct upstream *upstream)
{
    struct subscription_connection *connection = upstream->use.subscriber;
    if (!connection->has_missed || !connection->subscriptions)
        return;
    connection->has_missed = false;
    announce_channels(connection);
}

static void on_lost(struct upstream *upstream)
{
    struct subscription_connection *connection = upstream->use.subscriber;
    connection->has_missed = true;
}

static void on_freed(struct upstream *upstream)
{
    struct subscription_connection *connection = upstream->use.subscriber;
    list_remove(&connection->link);
    free(connection);
}

/* The subscription connection to this shard; NULL: none. */
static struct subscription_connection *
find_subscription_connection(const struct list *subscription_connections, const struct node *node)
{
    for (struct list *link = subscription_connections->next; link != subscription_connections;
         link = link->next) {
        struct subscription_connection *connection =
            container_of(link, struct subscription_connection, link);
        if (connection->upstream->node == node)
            return connection;
    }
    return NULL;
}

static void subscriptions_reloaded(struct subscriptions *subscriptions)
{
    const struct pool *pool = subscriptions->worker->pool;
    for (struct list *link = subscriptions->subscription_connections.next;
         link != &subscriptions->subscription_connections;) {
        struct subscription_connection *connection =
            container_of(link, struct subscription_connection, link);
        link = link->next;
        if (!connection->upstream->node->is_removed)
            continue;
        list_remove(&connection->link);
        subscription_connection_close(connection, "the shard is no longer in the map");
    }
    for (size_t i = 0; i < pool->count; i++)
        if (!find_subscription_connection(&subscriptions->subscription_connections, pool->nodes[i]))
            announce_channels(subscription_connection_new(subscriptions, pool->nodes[i]));
}

void all_subscriptions_reloaded(struct proxy_worker *worker)
{
    for (struct list *at = worker->all_subscriptions.next; at != &worker->all_subscriptions;
         at = at->next)
        subscriptions_reloaded(container_of(at, struct subscriptions, link));
}

static struct client *client_of(const struct subscription *subscription, enum channel_kind kind)
{
    struct subscriber *subscriber =
        container_of(subscription->follower - kind, struct subscriber, kinds);
    return container_of(subscriber, struct client_channels, subscriber)->client;
}

/* Parses the kind and the channel or pattern of a message. False: it is no message. */
static bool parse_message(struct bytes frame, enum channel_kind *kind, struct bytes *name)
{
    struct resp_value head;
    struct resp_value word;
    struct resp_value channel;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &head) || head.count < 3 ||
        !resp_value_next(frame, &pos, &word) || !resp_value_next(frame, &pos, &channel))
        return false;
    *name = channel.text;
    for (unsigned i = 0; i < CHANNEL_KINDS; i++) {
        *kind = i;
        if (word.text.data && bytes_equal(word.text, bytes_of(CHANNEL_WORDS[i].message)))
            return channel.text.data;
    }
    return false;
}

static void on_message(struct upstream *upstream, struct block *block, const char *data, size_t len)
{
    const struct subscription_connection *connection = upstream->use.subscriber;
    enum channel_kind kind;
    struct bytes name;
    if (!connection->subscriptions || !parse_message((struct bytes){data, len}, &kind, &name))
        return;
    const struct topic *topic = subscription_find(connection->subscriptions->sets[kind], name);
    struct subscription *subscription = topic ? topic_subscription_next(topic, NULL) : NULL;
    while (
        subscription) { /* client_push may close the client, which ends its subscription; the last subscription frees the topic */
        struct subscription *next = topic_subscription_next(topic, subscription);
        struct client *client = client_of(subscription, kind);
        if (client)
            client_push(client, block, data, len);
        subscription = next;
    }
}

void all_subscriptions_fini(struct proxy_worker *worker)
{
    while (clear_leaving(worker))
        continue;
    while (!list_empty(&worker->all_subscriptions))
        subscriptions_free(
            container_of(worker->all_subscriptions.next, struct subscriptions, link));
}
