#include "proxy/client/across.h"

#include "proxy/client/lane.h"
#include "proxy/client/monitor.h"
#include "proxy/client/tracking.h"
#include "proxy/client/users.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"

_Static_assert(SHARD_COUNT_MAX <= 1 << (LABEL_GENERATION_SHIFT - LABEL_SHARD_SHIFT),
               "a label has room for every shard");

struct route_rules across_rules(const struct client *client)
{
    const struct proxy_worker *worker = client->worker;
    const struct proxy_config *config = worker_config(worker);
    bool is_any =
        config->cross_slot == CROSS_SLOT_ANY && *config->upstream_secret && worker->pool->count > 1;
    return (struct route_rules){.map = worker->snapshot->map,
                                .entry = client->session.keyspace->entry,
                                .is_strict = config->cross_slot == CROSS_SLOT_STRICT,
                                .is_any = is_any,
                                .is_atomic = config->atomic_split};
}

static void send_prefixed(struct client *client, struct upstream *upstream,
                          const struct frame *frame, const struct command *command)
{
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    request->part.prefixes = PREFIX_ACROSS;
    if (command->flags & CMD_SCRIPT && monitor_is_on(client->worker->proxy))
        request->part.prefixes |= PREFIX_SHOW;
    metric_add(client->worker->metrics.process, METRIC_PROXY_ACROSS, 1);
    if (users_rules_are_sent(client, command))
        users_send(client, upstream, request, frame);
    else
        upstream_send(upstream, &request->part, client->session.keyspace, frame,
                      command->flags & CMD_READONLY);
}

bool across_may_send(struct client *client, const struct command *command)
{
    if (client->pipeline.count > 0) {
        client_hold(client, HOLD_ORDER);
        return false;
    }
    return client_may_send(client, client_label(client, command, 0) | LABEL_ALONE);
}

struct upstream *across_upstream(struct client *client, const struct command *command,
                                 uint32_t shard, bool has_script)
{
    struct proxy_worker *worker = client->worker;
    if (!across_may_send(client, command))
        return NULL;
    struct upstream *upstream = client_tracks(client) ? tracking_upstream(client, shard)
                                                      : pool_across(worker->pool, shard, client);
    if (upstream && has_script) /* as on LANE_SCRIPT: a slow script gets the time to be noticed */
        upstream->use.patience_ms = worker_config(worker)->upstream_timeout_ms;
    return upstream;
}

bool across_send(struct client *client, const struct frame *frame, const struct command *command,
                 uint32_t shard)
{
    struct upstream *upstream =
        across_upstream(client, command, shard, command->flags & CMD_SCRIPT);
    if (!upstream)
        return false;
    send_prefixed(client, upstream, frame, command);
    return true;
}

bool across_send_shared(struct client *client, const struct frame *frame,
                        const struct command *command, uint32_t shard)
{
    uint32_t label =
        client_label(client, command, frame->len) | LABEL_ACROSS | shard << LABEL_SHARD_SHIFT;
    if (!client_may_send(client, label))
        return false;
    struct upstream *upstream = client_upstream(client, shard, command, frame->len);
    if (upstream_is_full(upstream, client))
        return false;
    send_prefixed(client, upstream, frame, command);
    return true;
}
