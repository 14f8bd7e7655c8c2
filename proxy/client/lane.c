#include "proxy/client/lane.h"

#include "proxy/client/tracking.h"
#include "proxy/client/users.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/copy_reads.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/command/plain_read.h"

/* A frame of so many bytes holds up the frames behind it for longer than most commands take. */
enum { HEAVY_BYTES = 1024 * 1024 };

/* The lane of the command, whose frame has so many bytes. */
static unsigned lane_of(const struct client *client, const struct command *command, size_t bytes)
{
    const struct client_transaction *transaction = &client->session.transaction;
    bool is_transaction = command->route == ROUTE_TRANSACTION;
    if (client_tracks(client))
        return LANE_NORMAL;
    if (command->flags & CMD_ALLOW_BUSY && command->route == ROUTE_ALL_SHARDS)
        return LANE_CONTROL;
    if (command->flags & CMD_SCRIPT || (is_transaction && transaction->has_script))
        return LANE_SCRIPT;
    if (bytes >= HEAVY_BYTES)
        return LANE_HEAVY;
    return command->flags & CMD_LONG ? LANE_LONG : LANE_NORMAL;
}

uint32_t client_label(const struct client *client, const struct command *command, size_t bytes)
{
    const struct proxy_worker *worker = client->worker;
    return (worker->label.generation + worker->label.replaced) << LABEL_GENERATION_SHIFT |
           (client->session.resp == 3 ? LABEL_RESP3 : 0) |
           (client_tracks(client) || client->session.transaction.dedicated ? LABEL_DEDICATED : 0) |
           (lane_of(client, command, bytes) & LABEL_LANE);
}

struct upstream *client_upstream(struct client *client, uint32_t shard,
                                 const struct command *command, size_t bytes)
{
    struct pool *pool = client->worker->pool;
    struct upstream *dedicated = client->session.transaction.dedicated;
    uint8_t resp = client->session.resp;
    if (dedicated && dedicated->node == pool->nodes[shard]) {
        if (dedicated->resp != resp)
            upstream_hello(dedicated, resp);
        return dedicated;
    }
    if (client_tracks(client))
        return tracking_upstream(client, shard);
    return pool_pick(pool, shard, lane_of(client, command, bytes), resp);
}

/* Does the command only read the keys that it names, and is it no matter of one connection? */
static bool reads_only(const struct client *client, const struct command *command)
{
    enum { OTHERS = CMD_WRITE | CMD_SCRIPT | CMD_MAY_REPLICATE | CMD_PUBSUB };
    return (command->flags & (CMD_READONLY | OTHERS)) == CMD_READONLY &&
           !users_rules_are_sent(client, command);
}

/* Requests at the leader that are in flight need not be awaited by a read that may be there too. */
static bool is_ahead_at_leader(const struct client *client)
{
    return client->pipeline.count && !(client->label & LABEL_COPY);
}

static bool may_read_fresh(const struct client *client, const struct command *command)
{
    return command_is_plain_read(command) && !is_ahead_at_leader(client);
}

bool client_reads_at_copies(const struct client *client)
{
    return client->session.is_readonly || client->worker->pool->reads_fresh;
}

struct upstream *client_copy(const struct client *client, uint32_t shard,
                             const struct command *command, size_t bytes)
{
    const struct pool *pool = client->worker->pool;
    if (!pool->reads_at_copies || !pool->nodes[shard]->copies.count ||
        bytes > COPY_READ_BYTES_MAX || client_tracks(client) ||
        client->session.transaction.dedicated || !reads_only(client, command) ||
        (pool->reads_fresh && !may_read_fresh(client, command)))
        return NULL;
    return copy_reads_pick(client, shard, lane_of(client, command, bytes));
}

void client_send_copy(struct client *client, struct upstream *copy, const struct command *command,
                      const struct frame *frame)
{
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    copy_reads_send(copy, &request->part, client->session.keyspace, frame);
}
