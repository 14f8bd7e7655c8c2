#include "proxy/client/blocked.h"

#include "proxy/client/across.h"
#include "proxy/client/fan_out.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

#include <math.h>
#include <stdio.h>

/* ---- timeouts -------------------------------------------------------------------------------- */

static uint64_t parse_timeout_seconds(struct bytes text)
{
    double seconds;
    if (!number_parse_double(text, &seconds) || isnan(seconds) || seconds < 0)
        return 0; /* invalid timeout: the backend replies the error */
    if (seconds == 0 || seconds * 1000 >= (double)WAIT_FOREVER)
        return WAIT_FOREVER;
    return (uint64_t)ceil(seconds * 1000);
}

static uint64_t parse_milliseconds(struct bytes text)
{
    int64_t value;
    if (!number_parse_int64(text, &value) || value < 0)
        return 0;
    return value ? (uint64_t)value : WAIT_FOREVER;
}

/* How long the command itself may wait, in ms. */
static uint64_t blocking_wait_ms(const struct command *command, const struct bytes *argv,
                                 uint32_t argc)
{
    struct stream_arguments streams;
    switch (command->timeout) {
    case TIMEOUT_SECONDS_LAST:
        break;
    case TIMEOUT_SECONDS_AT_1:
        return parse_timeout_seconds(argv[1]);
    case TIMEOUT_MS_LAST:
        return parse_milliseconds(argv[argc - 1]);
    case TIMEOUT_MS_BLOCK:
        if (!stream_arguments_find(argv, argc, &streams) || !streams.block_at)
            return 0;
        return parse_milliseconds(argv[streams.block_at]);
    }
    return parse_timeout_seconds(argv[argc - 1]);
}

static void on_dedicated_up(struct upstream *dedicated);
static void press(struct upstream *dedicated);

static const struct upstream_events dedicated_events = {.up = on_dedicated_up, .unblock = press};

/* ---- sending blocking commands --------------------------------------------------------------- */

/* Reserves one dedicated connection for each part. False: the limit is reached, and none is reserved. */
static bool reserve_dedicated_connections(struct client *client, uint32_t shard, uint32_t count,
                                          struct upstream **dedicated_connections)
{
    for (uint32_t i = 0; i < count; i++) {
        dedicated_connections[i] = pool_dedicated(client, shard + i, client->session.resp, false);
        if (dedicated_connections[i])
            continue;
        while (i-- > 0)
            upstream_release(dedicated_connections[i], true);
        return false;
    }
    return true;
}

static void send_dedicated(struct client *client, const struct frame *frame,
                           const struct command *command, struct upstream **dedicated_connections,
                           uint32_t count)
{
    struct request *request = client->blocked.request;
    uint64_t patience = blocking_wait_ms(command, client->worker->scratch.argv, frame->argc);
    if (count > 1)
        request_make_parts(request, count, 0);
    else
        request->waiting = 1;
    request_hold(request);
    for (uint32_t i = 0; i < count; i++) {
        struct part *part =
            count > 1 ? request_part(request, i, dedicated_connections[i]->node) : &request->part;
        dedicated_connections[i]->use.events = &dedicated_events;
        upstream_send_single_use(dedicated_connections[i], part, client->session.keyspace, frame,
                                 patience);
    }
    request_go(request);
}

void blocked_begun(struct client *client)
{
    if (--client->blocked.unsent == 0)
        client->worker->clients.blocked++;
}

void blocked_given_back(struct client *client)
{
    client->worker->clients.blocked -= blocked_is_waiting(client);
    client->blocked.unsent++;
}

bool blocked_is_waiting(const struct client *client)
{
    return client->blocked.request && client->blocked.unsent == 0;
}

/* upstream_events.up: the command is sent now. */
static void on_dedicated_up(struct upstream *dedicated)
{
    for (struct part *part = dedicated->queue.first; part; part = part->next)
        if (part->request && part->request->is_blocking)
            blocked_begun(part->request->client);
}

/* Makes the request and holds the client until it is answered. */
static void begin(struct client *client, const struct command *command, const struct route *route)
{
    client->blocked.request = client_new_request(client, command);
    client->blocked.request->is_blocking = true;
    client->blocked.slot = route->has_keys ? route->slot : BLOCKED_ANYWHERE;
    client->blocked.has_parts =
        route->kind == ROUTE_KIND_BLOCKING_PARTS || route->kind == ROUTE_KIND_BLOCKING_ACROSS;
    client->blocked.unblock = UNBLOCK_NOT;
    client->blocked.has_bounced = false;
    client_hold(client, HOLD_BLOCKED);
}

/* Sends the command over dedicated connections, for backends without the secret. */
static bool send_by_dedicated_connections(struct client *client, const struct frame *frame,
                                          const struct command *command, const struct route *route,
                                          uint32_t shard, uint32_t count)
{
    struct upstream *dedicated_connections[SHARD_COUNT_MAX];
    if (!reserve_dedicated_connections(client, shard, count, dedicated_connections)) {
        client_reply_text(client, command, dedicated_limit_error);
        return true;
    }
    begin(client, command, route);
    client->blocked.unsent =
        1; /* one more until all connections are counted, so that the count stays above 0 */
    for (uint32_t i = 0; i < count; i++)
        client->blocked.unsent += dedicated_connections[i]->state != UPSTREAM_UP;
    blocked_begun(client);
    send_dedicated(client, frame, command, dedicated_connections, count);
    return true;
}

/* Sends the command over the connections for blocking commands, which all clients of the worker share. */
static bool send_by_waits(struct client *client, const struct frame *frame,
                          const struct command *command, const struct route *route, uint32_t shard,
                          uint32_t count)
{
    struct pool *pool = client->worker->pool;
    const struct keyspace *keyspace = client->session.keyspace;
    for (uint32_t i = 0; i < count; i++)
        if (wait_table_is_full(pool_waits(pool, shard + i), client))
            return false;
    begin(client, command, route);
    client->blocked.unsent = count;
    struct request *request = client->blocked.request;
    if (count == 1) {
        request->waiting = 1;
        wait_table_send(pool_waits(pool, shard), &request->part, keyspace, frame);
        return true;
    }
    request_make_parts(request, count, 0);
    request_hold(request);
    for (uint32_t i = 0; i < count; i++)
        wait_table_send(pool_waits(pool, i), request_part(request, i, pool->nodes[i]), keyspace,
                        frame);
    request_go(request);
    return true;
}

bool blocked_send(struct client *client, const struct frame *frame, const struct command *command,
                  const struct route *route)
{
    struct proxy_worker *worker = client->worker;
    bool is_for_all = command->merge != MERGE_ONE;
    uint32_t count = is_for_all ? (uint32_t)worker->pool->count : 1;
    uint32_t shard = is_for_all ? 0 : route->has_keys ? route->shard : pool_any(worker->pool);
    if (client->pipeline.count > 0) { /* earlier requests are answered first */
        client_hold(client, HOLD_ORDER);
        return false;
    }
    return *worker->snapshot->config.upstream_secret
               ? send_by_waits(client, frame, command, route, shard, count)
               : send_by_dedicated_connections(client, frame, command, route, shard, count);
}

bool blocked_send_parts(struct client *client, const struct command *command, uint32_t argc)
{
    static const struct route route = {.kind = ROUTE_KIND_BLOCKING_PARTS};
    struct proxy_worker *worker = client->worker;
    if (!*worker->snapshot->config.upstream_secret) {
        client_reply_code(client, command, ERR_CROSSSLOT);
        return true;
    }
    if (client->pipeline.count > 0) { /* earlier requests are answered first */
        client_hold(client, HOLD_ORDER);
        return false;
    }
    uint64_t patience_ms = blocking_wait_ms(command, worker->scratch.argv, argc);
    begin(client, command, &route);
    client->blocked.unsent =
        1; /* not 0: a client whose command only tries the shards does not count as blocked */
    worker->scratch.argc = argc;
    blocked_begin_search(client, patience_ms);
    return true;
}

bool blocked_send_across(struct client *client, const struct command *command, uint32_t argc,
                         const struct route *route)
{
    struct proxy_worker *worker = client->worker;
    const struct route_keys *keys = worker->scratch.keys;
    uint16_t slot = keys->slots[0];
    for (uint32_t i = 0; i < keys->list.count; i++)
        if (keys->shards[i] == route->shard)
            slot = keys->slots[i];
    struct upstream *upstream = across_upstream(client, command, route->shard, false);
    if (!upstream)
        return false;
    uint64_t patience_ms = blocking_wait_ms(command, worker->scratch.argv, argc);
    begin(client, command, route);
    client->blocked.unsent = 1; /* as in blocked_send_parts() */
    worker->scratch.argc = argc;
    blocked_begin_across(client, upstream, slot, patience_ms);
    return true;
}

/* ---- ending a wait --------------------------------------------------------------------------- */

void blocked_round_over(struct client *client)
{
    client->worker->clients.blocked -= blocked_is_waiting(client);
    client->blocked.unsent = 1;
}

static void end_wait(struct client *client)
{
    blocked_round_over(client);
    client->blocked.request = NULL;
}

void blocked_answered(struct client *client)
{
    CHECK(client->blocked.request);
    end_wait(client);
    client_unhold(client, HOLD_BLOCKED);
}

/* Lists the parts of the client's command that still wait; returns their number. */
static uint32_t list_waiting(const struct client *client, struct part **waiting)
{
    struct request *request = client->blocked.request;
    uint32_t parts = request->parts ? request_reply_count(request) : 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < parts; i++) {
        struct part *part = request->parts ? request_part_at(request, i) : &request->part;
        /* with parts, only SCREE AWAIT waits; SCREE TRY is sent on shared connections and must not be ended */
        if (part->upstream && (part->wait || !client->blocked.has_parts))
            waiting[count++] = part;
    }
    return count;
}

void blocked_leave(struct client *client)
{
    struct part *waiting[SHARD_COUNT_MAX];
    if (!client->blocked.request)
        return;
    uint32_t count = list_waiting(client, waiting);
    struct request *request = client->blocked.request;
    bool is_search = client->blocked.has_parts && count > 0;
    if (client->blocked.has_parts)
        blocked_forget_search(request);
    end_wait(client);
    for (uint32_t i = 0; i < count; i++) {
        if (waiting[i]->wait)
            wait_table_cancel(waiting[i]);
        else
            upstream_close(waiting[i]->upstream, "the client has left");
    }
    if (is_search)
        request_abandon(request);
}

/* The shard's index in the map; SHARD_COUNT_MAX: it is no longer in the map. */
static uint32_t shard_of(const struct pool *pool, const struct node *node)
{
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->nodes[i] == node)
            return i;
    return SHARD_COUNT_MAX;
}

/* request_done_fn of CLIENT UNBLOCK: nothing to do, the client's reply comes over the dedicated connection. */
static void pressed(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    (void)reply;
}

/* upstream_events.unblock: sends CLIENT UNBLOCK again, because an earlier one may have overtaken the command. */
static void press(struct upstream *dedicated)
{
    struct proxy_worker *worker = dedicated->worker;
    uint32_t shard = shard_of(worker->pool, dedicated->node);
    if (shard == SHARD_COUNT_MAX) {
        upstream_close(dedicated, "the shard is no longer in the map");
        return;
    }
    if (!dedicated->use.backend_id)
        return;
    char id[INT64_TEXT_MAX];
    size_t len = number_format_int64(id, (int64_t)dedicated->use.backend_id);
    const struct bytes argv[] = {BYTES("CLIENT"),
                                 BYTES("UNBLOCK"),
                                 {id, len},
                                 dedicated->use.unblock == UNBLOCK_ERROR ? BYTES("ERROR")
                                                                         : BYTES("TIMEOUT")};
    request_fan_out(request_internal(worker), NULL, (int)shard, argv, 4, pressed);
}

static void unblock_dedicated(struct upstream *dedicated, bool with_error)
{
    if (dedicated->use.unblock)
        return;
    dedicated->use.unblock = with_error ? UNBLOCK_ERROR : UNBLOCK_TIMEOUT;
    press(dedicated);
    proxy_worker_need_tick(dedicated->worker);
}

static void unblock_waiting(struct client *client, bool with_error)
{
    struct part *waiting[SHARD_COUNT_MAX];
    uint32_t count = list_waiting(client, waiting);
    for (uint32_t i = 0; i < count; i++) {
        if (waiting[i]->wait)
            wait_table_unblock(waiting[i], with_error);
        else
            unblock_dedicated(waiting[i]->upstream, with_error);
    }
}

/* Ends the waits of a search; a part may be answered while this runs, but the request does not complete. */
static void unblock_search(struct client *client, struct request *request, bool with_error)
{
    if (request->progress.is_running)
        return;
    request_hold(request);
    unblock_waiting(client, with_error);
    request_go(request);
}

bool blocked_unblock(struct client *client, bool with_error)
{
    if (!client->blocked.request)
        return false;
    client->blocked.unblock = with_error ? UNBLOCK_ERROR : UNBLOCK_TIMEOUT;
    if (client->blocked.has_parts)
        unblock_search(client, client->blocked.request, with_error);
    else
        unblock_waiting(client, with_error);
    return true;
}

void blocked_begin_again(struct client *client, const struct frame *frame)
{
    static const struct resp_limits no_limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = 1024};
    struct proxy_worker *worker = client->worker;
    struct request *request = client->blocked.request;
    const struct command *command = request->command;
    struct frame again = *frame;
    struct resp_scan scan;
    CHECK(client->pipeline.front == &request->link && client->pipeline.count == 1);
    end_wait(client);
    (void)pipeline_pop(&client->pipeline);
    request->progress.is_queued = false;
    request->waiting = 0;
    part_unlinked(&request->part);
    resp_scan_init(&scan);
    CHECK(resp_scan(&scan, &no_limits, frame->data, frame->len) == RESP_FRAME);
    again.base = frame->data;
    again.args = scan.args;
    if (!worker->client_events->run_queued(client, &again, command))
        client_reply_text(client, command,
                          "TRYAGAIN the keys are on several shards now, and all connections to "
                          "them are in use");
    resp_scan_fini(&scan);
    if (!client->blocked.request)
        client_unhold(client, HOLD_BLOCKED);
}

void blocked_part_answered(struct client *client, struct request *request)
{
    if (client->blocked.has_parts)
        unblock_search(client, request, false);
}

/* True when the shard map now assigns the client's keys to another shard. Shards that own slots by their records (is_owner) end waits
 * themselves (bounced.h). */
static bool is_misplaced(const struct client *client)
{
    struct part *waiting[SHARD_COUNT_MAX];
    const struct proxy_worker *worker = client->worker;
    uint32_t count = list_waiting(client, waiting);
    for (uint32_t i = 0; i < count; i++)
        if (waiting[i]->upstream->node->is_owner)
            return false;
    if (client->blocked.has_parts)
        return blocked_search_is_misplaced(client);
    if (client->blocked.slot == BLOCKED_ANYWHERE) {
        for (uint32_t i = 0; i < count; i++)
            if (waiting[i]->upstream->node->is_removed)
                return true;
        return false;
    }
    uint16_t shard = shard_map_find(worker->snapshot->map, client->blocked.slot);
    return count > 0 && waiting[0]->upstream->node != worker->pool->nodes[shard];
}

static void unblock_misplaced(struct client *client)
{
    if (client->blocked.request && is_misplaced(client))
        (void)blocked_unblock(client, true);
}

void blocked_reloaded(struct proxy_worker *worker)
{
    client_each(worker, unblock_misplaced);
}
