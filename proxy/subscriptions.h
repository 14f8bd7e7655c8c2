/*
 * subscriptions.h - subscriptions of a worker's clients, and the subscription connections by which messages come.
 *
 *   backend of each shard ──[message x hi]──► subscription connection ─► subscriptions of a namespace: x ─► clients
 *              ▲                                     │
 *              └── SCREE LISTEN message x 3 ─────────┘       three clients of this worker listen to x
 *
 * A message is published at one shard, and every subscription connection of the namespace listens to every channel: so
 * it comes to every worker of every proxy once, from whichever shard it is told at - that of the channel's slot
 * (PUBLISH), of a transaction's or script's keys, or of the key that changed (keyspace events). Backends know how many
 * clients stand behind a subscription connection, so PUBLISH and PUBSUB NUMSUB count as one server would.
 *
 * (1) Channels belong to a namespace and not to a database. A subscriptions table exists while it has a channel, and
 * for some
 *     seconds after that; only clients with a subscription point to it.
 * (2) A subscription connection that was lost is opened again, and told of all channels. What is published meanwhile is
 * missed,
 *     as by any subscriber whose connection breaks; clients are not told.
 * (3) A plain Redis as backend is told SUBSCRIBE and UNSUBSCRIBE: then it counts workers, not clients.
 */
#pragma once

#include "proxy/request.h"
#include "shared/channel.h"

struct subscriptions;

/* One client's subscriptions; made by its first. */
struct client_channels {
    struct client *client;
    struct subscriber subscriber;
    size_t bytes; /* memory of its subscriptions */
    struct subscriptions
        *subscriptions;       /* between commands NULL if and only if it has no subscription */
    struct out confirmations; /* of the command that is under way */
    struct out waiting; /* messages that came meanwhile: they leave behind the confirmations */
};

/* Subscriptions of all kinds. */
uint32_t client_subscriptions(const struct client *client);
/* Is it a RESP2 client in subscriber mode, where few commands may be given? */
bool client_is_subscriber(const struct client *client);
/* The client joins or leaves a channel of its namespace; false: it had, or had not. */
bool subscriptions_join(struct client *client, enum channel_kind kind, struct bytes name);
bool subscriptions_leave(struct client *client, enum channel_kind kind, struct bytes name);
/* Memory that subscribing to a channel or pattern takes. */
size_t subscriptions_cost(struct bytes name);
/* Memory of all its subscriptions, and of messages that wait for a confirmation. */
size_t client_channel_bytes(const struct client *client);
/* Made when it is new. */
struct client_channels *client_channels(struct client *client);
/* Called after a command that changed subscriptions: a client that has none left gives up its pointer to the
 * subscription table, which may then be freed. */
void subscriptions_leave_if_unused(struct client *client);

struct channel_name {
    enum channel_kind kind;
    struct bytes name;
};
/* Tells every shard how many listen to these channels now, all in one request: `done` comes when all have
 * answered, or cannot; those will be told when they come back. NULL request: nobody waits. False: there was
 * nothing to tell, `done` does not come. */
bool subscriptions_tell(struct subscriptions *subscriptions, struct request *request,
                        const struct channel_name *channels, uint32_t count, request_done_fn *done);
/* Ends all subscriptions of a client, without a word to it. */
void subscriptions_clear(struct client *client);
void client_channels_free(struct client *client);

/* ---- for worker_run.c ---- */

/* After a new map: every subscription table has a subscription connection for every shard. */
void all_subscriptions_reloaded(struct proxy_worker *worker);
/* Once a second: frees subscription tables that nobody is in. */
void all_subscriptions_slow(struct proxy_worker *worker);
/* The worker stops: no client is left. */
void all_subscriptions_fini(struct proxy_worker *worker);
