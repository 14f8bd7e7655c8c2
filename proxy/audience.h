/*
 * audience.h - who of a worker's clients listens to which channels, and the connections messages come by.
 *
 *   backend of each shard ──[message x hi]──► feed ─► audience of a namespace: x ─► client, client, client
 *              ▲                                │
 *              └── SCREE LISTEN message x 3 ────┘       three clients of this worker listen to x
 *
 * A message is published at one shard, and every feed of the namespace listens to every channel: so it comes to
 * every worker of every proxy once, from whichever shard it is told at - that of the channel's slot (PUBLISH),
 * of a transaction's or script's keys, or of the key that changed (keyspace events). Backends know how many
 * clients stand behind a feed, so PUBLISH and PUBSUB NUMSUB count as one server would.
 *
 * (1) Channels belong to a namespace and not to a database. An audience exists while it has a channel, and for some
 *     seconds after that; only clients with a subscription point to it.
 * (2) A feed that was lost is opened again, and told of all channels. What is published meanwhile is missed,
 *     as by any subscriber whose connection breaks; clients are not told.
 * (3) A plain Redis as backend is told SUBSCRIBE and UNSUBSCRIBE: then it counts workers, not clients.
 */
#pragma once

#include "proxy/request.h"
#include "shared/channel.h"

struct audience;
struct feed;

/* One client's subscriptions; made by its first. */
struct client_channels {
    struct client *client;
    struct subscriber subscriber;
    size_t bytes;              /* memory of its subscriptions */
    struct audience *audience; /* between commands NULL if and only if it has no subscription */
    struct out confirmations;  /* of the command that is under way */
    struct out waiting; /* messages that came meanwhile: they leave behind the confirmations */
    bool is_changing;   /* a command is under way */
};

/* Subscriptions of all kinds. */
uint32_t client_subscriptions(const struct client *client);
/* Is it a RESP2 client in subscriber mode, where few commands may be given? */
bool client_is_subscriber(const struct client *client);
/* The client joins or leaves a channel of its namespace; false: it had, or had not. */
bool audience_join(struct client *client, enum channel_kind kind, struct bytes name);
bool audience_leave(struct client *client, enum channel_kind kind, struct bytes name);
/* Memory that subscribing to a channel or pattern takes. */
size_t audience_cost(struct bytes name);
/* Memory of all its subscriptions, and of messages that wait for a confirmation. */
size_t client_channel_bytes(const struct client *client);
/* Made when it is new. */
struct client_channels *client_channels(struct client *client);
/* Called after a command that changed subscriptions: a client that has none left gives up its pointer to the audience,
 * which may then be freed. */
void audience_leave_if_unused(struct client *client);

struct channel_name {
    enum channel_kind kind;
    struct bytes name;
};
/* Tells every shard how many listen to these channels now, all in one request: `done` comes when all have
 * answered, or cannot; those will be told when they come back. NULL request: nobody waits. False: there was
 * nothing to tell, `done` does not come. */
bool audience_tell(struct audience *audience, struct request *request,
                   const struct channel_name *channels, uint32_t count, request_done_fn *done);
/* Ends all subscriptions of a client, without a word to it. */
void audience_clear(struct client *client);
void client_channels_free(struct client *client);

/* ---- for upstream.c and worker.c ---- */

/* The feed's connection is open: tells it what it has missed. */
void feed_up(struct feed *feed);
/* The connection was lost. */
void feed_lost(struct feed *feed);
/* Its connection is about to be freed. */
void feed_gone(struct feed *feed);
/* One push frame: data[0..len) in `block`. */
void feed_deliver(struct feed *feed, struct block *block, const char *data, size_t len);
/* After a new map: every audience has a feed for every shard. */
void audiences_reloaded(struct proxy_worker *worker);
/* Once a second: frees audiences that nobody is in. */
void audiences_slow(struct proxy_worker *worker);
/* The worker stops: no client is left. */
void audiences_fini(struct proxy_worker *worker);
