#include "proxy/audience.h"

#include "proxy/client.h"
#include "proxy/request.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "proxy/worker.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>

enum {
    IDLE_SECONDS_MAX = 30, /* an audience that nobody was in for so long goes */
    TELL_MAX = 256,        /* channels a shard is told of in one run */
};

/* All who listen in one namespace. */
struct audience {
    struct list link; /* in worker->audiences */
    struct proxy_worker *worker;
    struct place *place; /* the namespace, database 0 */
    struct interest_set *sets[CHANNEL_KINDS];
    struct list feeds;     /* one for each shard */
    uint32_t idle_seconds; /* for how long nobody has been in it */
};

struct feed {
    struct list link; /* in audience->feeds; unlinked once its audience is gone */
    struct audience *audience;
    struct upstream *upstream;
    bool has_missed; /* it was lost, and is to be told of everything when it is up */
};

/* ---- audiences ------------------------------------------------------------------------------- */

static bool is_empty(const struct audience *audience)
{
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        if (interest_topics(audience->sets[kind]))
            return false;
    return true;
}

static struct feed *feed_new(struct audience *audience, struct node *node)
{
    struct feed *feed = calloc(1, sizeof *feed);
    CHECK(feed);
    feed->audience = audience;
    feed->upstream = upstream_new(audience->worker, node, LANE_NORMAL, 3);
    feed->upstream->feed = feed;
    list_push(&audience->feeds, &feed->link);
    return feed;
}

static struct audience *audience_of(struct proxy_worker *worker, const struct place *place)
{
    struct list *link;
    for (link = worker->audiences.next; link != &worker->audiences; link = link->next) {
        struct audience *audience = container_of(link, struct audience, link);
        if (bytes_equal(audience->place->name, place->name))
            return audience;
    }
    struct audience *audience = calloc(1, sizeof *audience);
    CHECK(audience);
    audience->worker = worker;
    audience->place = places_get(&worker->places, place->name, 0);
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        audience->sets[kind] = interest_set_new();
    list_init(&audience->feeds);
    list_push(&worker->audiences, &audience->link);
    for (size_t i = 0; i < worker->pool.count; i++)
        (void)feed_new(audience, worker->pool.nodes[i]);
    return audience;
}

static void feed_close(struct feed *feed, const char *reason)
{
    feed->audience = NULL;
    upstream_close(feed->upstream, reason);
}

static void audience_free(struct audience *audience)
{
    CHECK(is_empty(audience));
    for (struct list *link; (link = list_pop(&audience->feeds));)
        feed_close(container_of(link, struct feed, link), "nobody listens any longer");
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        interest_set_free(audience->sets[kind]);
    place_unref(&audience->worker->places, audience->place);
    list_remove(&audience->link);
    free(audience);
}

void audiences_slow(struct proxy_worker *worker)
{
    for (struct list *link = worker->audiences.next; link != &worker->audiences;) {
        struct audience *audience = container_of(link, struct audience, link);
        link = link->next;
        if (!is_empty(audience))
            audience->idle_seconds = 0;
        else if (++audience->idle_seconds > IDLE_SECONDS_MAX)
            audience_free(audience);
    }
}

void audiences_fini(struct proxy_worker *worker)
{
    while (!list_empty(&worker->audiences))
        audience_free(container_of(worker->audiences.next, struct audience, link));
}

/* ---- telling the shards ---------------------------------------------------------------------- */

/* One command with one reply: so many listen to the channel. */
static void write_listen(struct audience *audience, struct out *out,
                         const struct channel_name *channel)
{
    const struct channel_words *words = &CHANNEL_WORDS[channel->kind];
    const struct topic *topic = interest_find(audience->sets[channel->kind], channel->name);
    uint32_t count = topic ? topic->count : 0;
    char text[16];
    struct bytes number = {text, (size_t)snprintf(text, sizeof text, "%u", count)};
    if (*audience->worker->snapshot->config.upstream_secret) {
        const struct bytes listen[] = {BYTES("SCREE"), BYTES("LISTEN"), bytes_of(words->message),
                                       channel->name, number};
        resp_write_words(out, listen, 5);
        return;
    }
    const struct bytes subscribe[] = {bytes_of(count ? words->subscribed : words->unsubscribed),
                                      channel->name};
    const struct bytes ping = BYTES("PING");
    resp_write_words(out, subscribe, 2); /* answered by a push; what follows has the reply */
    resp_write_words(out, &ping, 1);
}

/* All channels in one run; the last reply is the part's. */
static void tell_feed(struct feed *feed, struct part *part, const struct channel_name *channels,
                      uint32_t count)
{
    struct out *out = upstream_begin(feed->upstream, part, feed->audience->place);
    if (!out)
        return;
    for (uint32_t i = 0; i < count; i++)
        write_listen(feed->audience, out, &channels[i]);
    part->swallow = count - 1;
    upstream_commit(feed->upstream, part);
}

/* request_done_fn */
static void nobody_waits(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    (void)reply;
}

/* One shard of what it has missed. */
static void tell_one(struct feed *feed, const struct channel_name *channels, uint32_t count)
{
    if (count == 0)
        return;
    struct request *request = request_internal(feed->audience->worker);
    request_wait_parts(request, 1, nobody_waits);
    request_hold(request);
    tell_feed(feed, request_part(request, 0, feed->upstream->node), channels, count);
    request_go(request);
}

/* Not the number of shards: while a new map is put into force, there may be more or fewer feeds. */
static uint32_t count_feeds(const struct audience *audience)
{
    uint32_t count = 0;
    for (const struct list *link = audience->feeds.next; link != &audience->feeds;
         link = link->next)
        count++;
    return count;
}

bool audience_tell(struct audience *audience, struct request *request,
                   const struct channel_name *channels, uint32_t count, request_done_fn *done)
{
    struct proxy_worker *worker = audience->worker;
    bool is_ours = !request;
    uint32_t index = 0;
    if (count == 0 || list_empty(&audience->feeds))
        return false;
    if (is_ours)
        request = request_internal(worker);
    request_wait_parts(request, count_feeds(audience), is_ours ? nobody_waits : done);
    if (is_ours)
        request_hold(request);
    for (struct list *link = audience->feeds.next; link != &audience->feeds; link = link->next) {
        struct feed *feed = container_of(link, struct feed, link);
        tell_feed(feed, request_part(request, index++, feed->upstream->node), channels, count);
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
        subscriber_init(&client->channels->subscriber);
        out_init(&client->channels->confirmations);
        out_init(&client->channels->waiting);
    }
    return client->channels;
}

size_t audience_cost(struct bytes name)
{
    enum { COPIES = 2, TABLE_ENTRIES = 128 }; /* the name is also a key of a table */
    return sizeof(struct topic) + sizeof(struct interest) + COPIES * name.len + TABLE_ENTRIES;
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
    if (!interest_remove(channels->audience->sets[kind], &channels->subscriber.kinds[kind], name))
        return false;
    channels->bytes -= audience_cost(name);
    channels->client->worker->copied -= audience_cost(name);
    return true;
}

bool audience_join(struct client *client, enum channel_kind kind, struct bytes name)
{
    struct client_channels *channels = client_channels(client);
    if (!channels->audience)
        channels->audience = audience_of(client->worker, client->session.place);
    if (!interest_add(channels->audience->sets[kind], &channels->subscriber.kinds[kind], name))
        return false;
    channels->bytes += audience_cost(name);
    client->worker->copied += audience_cost(name);
    return true;
}

bool audience_leave(struct client *client, enum channel_kind kind, struct bytes name)
{
    struct client_channels *channels = client_channels(client);
    struct audience *audience = channels->audience;
    return audience && remove_channel(channels, kind, name);
}

void audience_leave_if_unused(struct client *client)
{
    if (client->channels && client_subscriptions(client) == 0)
        client->channels->audience = NULL;
}

/* Takes up to TELL_MAX channels from the client; names are copied. */
static uint32_t take_some(struct client_channels *channels, struct arena *arena,
                          struct channel_name *taken)
{
    uint32_t count = 0;
    for (unsigned kind = 0; kind < CHANNEL_KINDS; kind++) {
        struct follower *follower = &channels->subscriber.kinds[kind];
        for (struct interest *first;
             count < TELL_MAX && (first = follower_interest_next(follower, NULL));) {
            struct bytes name = arena_copy(arena, topic_name(first->topic));
            (void)remove_channel(channels, kind, name);
            taken[count++] = (struct channel_name){kind, name};
        }
    }
    return count;
}

void audience_clear(struct client *client)
{
    struct client_channels *channels = client->channels;
    struct channel_name taken[TELL_MAX];
    uint32_t count;
    if (!channels || !channels->audience)
        return;
    do {
        struct arena arena;
        arena_init(&arena);
        count = take_some(channels, &arena, taken);
        (void)audience_tell(channels->audience, NULL, taken, count, NULL);
        arena_fini(&arena);
    } while (count > 0);
    channels->audience = NULL;
}

void client_channels_free(struct client *client)
{
    struct client_channels *channels = client->channels;
    if (!channels)
        return;
    CHECK(subscriber_count(&channels->subscriber) == 0);
    out_clear(&channels->confirmations);
    out_clear(&channels->waiting);
    free(channels);
    client->channels = NULL;
}

/* ---- feeds ----------------------------------------------------------------------------------- */

/* Tells one shard of everything. */
static void announce_channels(struct feed *feed)
{
    struct audience *audience = feed->audience;
    struct channel_name channels[TELL_MAX];
    for (unsigned kind = 0; kind < CHANNEL_KINDS; kind++) {
        struct topic *topic = NULL;
        uint32_t count;
        do {
            for (count = 0; count < TELL_MAX && (topic = topic_next(audience->sets[kind], topic));)
                channels[count++] = (struct channel_name){kind, topic_name(topic)};
            tell_one(feed, channels, count);
        } while (count == TELL_MAX);
    }
}

void feed_up(struct feed *feed)
{
    if (!feed->has_missed || !feed->audience)
        return;
    feed->has_missed = false;
    announce_channels(feed);
}

void feed_lost(struct feed *feed)
{
    feed->has_missed = true;
}

void feed_gone(struct feed *feed)
{
    list_remove(&feed->link);
    free(feed);
}

/* The feed by which this shard's messages come already. */
static struct feed *find_feed(const struct list *feeds, const struct node *node)
{
    for (struct list *link = feeds->next; link != feeds; link = link->next) {
        struct feed *feed = container_of(link, struct feed, link);
        if (feed->upstream->node == node)
            return feed;
    }
    return NULL;
}

static void audience_reloaded(struct audience *audience)
{
    const struct pool *pool = &audience->worker->pool;
    for (struct list *link = audience->feeds.next; link != &audience->feeds;) {
        struct feed *feed = container_of(link, struct feed, link);
        link = link->next;
        if (!feed->upstream->node->is_removed)
            continue;
        list_remove(&feed->link);
        feed_close(feed, "the shard is no longer in the map");
    }
    for (size_t i = 0; i < pool->count; i++)
        if (!find_feed(&audience->feeds, pool->nodes[i]))
            announce_channels(feed_new(audience, pool->nodes[i]));
}

void audiences_reloaded(struct proxy_worker *worker)
{
    for (struct list *at = worker->audiences.next; at != &worker->audiences; at = at->next)
        audience_reloaded(container_of(at, struct audience, link));
}

static struct client *client_of(const struct interest *interest, enum channel_kind kind)
{
    struct subscriber *subscriber =
        container_of(interest->follower - kind, struct subscriber, kinds);
    return container_of(subscriber, struct client_channels, subscriber)->client;
}

/* The channel or pattern by which a message comes, and the kind; false: it is none. */
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

void feed_deliver(struct feed *feed, struct block *block, const char *data, size_t len)
{
    enum channel_kind kind;
    struct bytes name;
    if (!feed->audience || !parse_message((struct bytes){data, len}, &kind, &name))
        return;
    const struct topic *topic = interest_find(feed->audience->sets[kind], name);
    struct interest *interest = topic ? topic_interest_next(topic, NULL) : NULL;
    while (
        interest) { /* one that is cut at its limit leaves the topic, which may go with the last */
        struct interest *next = topic_interest_next(topic, interest);
        client_push(client_of(interest, kind), block, data, len);
        interest = next;
    }
}
