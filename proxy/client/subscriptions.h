/*
 * subscriptions.h - subscriptions of a worker's clients, and the subscription connections that receive messages.
 *
 *   backend of each shard ──[message x hi]──► subscription connection ─► subscriptions of a namespace: x ─► clients
 *              ▲                                     │
 *              └── SCREE LISTEN message x 3 ─────────┘       three clients of this worker are subscribed to x
 *
 * A message is published at one shard: the shard of the channel's slot (PUBLISH), of the keys of a transaction or script,
 * or of the key that changed (keyspace events). A worker has a subscription connection to every shard, and subscribes all
 * of them to the channels of its clients. So it receives each message once, whichever shard publishes it. SCREE LISTEN
 * sends the number of clients that a subscription connection represents, so PUBLISH and PUBSUB NUMSUB count clients as a
 * single server does.
 *
 * (1) Channels belong to a namespace and not to a database. A subscription table exists while it has a
 *     channel, and some seconds longer; only clients with a subscription have a pointer to the table.
 * (2) A subscription connection that was lost is opened again and subscribed to all channels. Messages published in
 *     between are lost, as for any subscriber whose connection breaks; clients are not informed.
 * (3) A plain Redis as backend gets SUBSCRIBE and UNSUBSCRIBE: its PUBLISH counts workers, not clients.
 */
#pragma once

#include "proxy/core/request.h"
#include "shared/acl/channel.h"

struct subscriptions;

/* A client's subscriptions; made by its first SUBSCRIBE. */
struct client_channels {
    struct client *client; /* NULL: it has left, and its subscriptions end in later turns */
    struct list leaving;   /* in worker->clients.leaving_channels: it has left */
    struct subscriber subscriber;
    size_t bytes; /* memory of its subscriptions */
    /* between commands NULL if and only if the client has no subscription */
    struct subscriptions *subscriptions;
    struct out confirmations; /* replies of the SUBSCRIBE or UNSUBSCRIBE that runs */
    /* messages that arrived while that command runs; they are sent after the confirmations */
    struct out waiting;
    struct out *
        held_before; /* where the client's messages had to wait before that command; NULL: they did not */
};

/* Number of the client's subscriptions of all kinds. */
uint32_t client_subscriptions(const struct client *client);
/* True for a RESP2 client with subscriptions, which may run few commands only. */
bool client_is_subscriber(const struct client *client);
/* Subscribes the client to a channel of its namespace, or unsubscribes it. False: nothing has changed. */
bool subscriptions_join(struct client *client, enum channel_kind kind, struct bytes name);
bool subscriptions_leave(struct client *client, enum channel_kind kind, struct bytes name);
/* Memory that a subscription to this channel or pattern takes. */
size_t subscriptions_cost(struct bytes name);
/* Memory of all subscriptions of the client, and of messages that wait for a confirmation. */
size_t client_channel_bytes(const struct client *client);
/* The client's subscriptions; made if there are none. */
struct client_channels *client_channels(struct client *client);
/* Called after commands that changed subscriptions: a client without subscriptions releases its pointer to the
 * subscription table, which may then be freed. */
void subscriptions_leave_if_unused(struct client *client);

struct channel_name {
    enum channel_kind kind;
    struct bytes name;
};
/* Sends every shard the number of subscribers of these channels, all in one request. `done` is called when all shards
 * have answered or failed; a failed one gets the numbers when it is connected again. NULL request: no reply is needed.
 * False: there was nothing to send, and `done` is not called. */
bool subscriptions_tell(struct subscriptions *subscriptions, struct request *request,
                        const struct channel_name *channels, uint32_t count, request_done_fn *done);
/* Ends all subscriptions of a client without confirmations. */
void subscriptions_clear(struct client *client);
void client_channels_free(struct client *client);

/* ---- for worker_run.c ---- */

/* After a new map: opens subscription connections to new shards. */
void all_subscriptions_reloaded(struct proxy_worker *worker);
/* Once a second: frees subscription tables that have been empty for some time. */
void all_subscriptions_slow(struct proxy_worker *worker);
/* The worker stops: no client is left. */
void all_subscriptions_fini(struct proxy_worker *worker);
