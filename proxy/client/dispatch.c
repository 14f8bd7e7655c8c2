#include "proxy/client/dispatch.h"

#include "proxy/client/across.h"
#include "proxy/client/blocked.h"
#include "proxy/client/lane.h"
#include "proxy/client/monitor.h"
#include "proxy/client/pause.h"
#include "proxy/client/rate.h"
#include "proxy/client/scripts.h"
#include "proxy/client/subscriptions.h"
#include "proxy/client/transaction.h"
#include "proxy/client/users.h"
#include "proxy/client/wide.h"
#include "proxy/core/handlers.h"
#include "proxy/core/request.h"
#include "proxy/core/route.h"
#include "proxy/core/split.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"

#include <stdio.h>
#include <string.h>

/* ---- sending: all return false when the frame must wait, and nothing was done then ------------- */

/* Sends the unchanged frame to one shard. */
static inline bool send_one(struct client *client, const struct frame *frame,
                            const struct command *command, uint32_t shard)
{
    if (!client_may_send(client, client_label(client, command, frame->len)))
        return false;
    struct upstream *upstream = client_upstream(client, shard, command, frame->len);
    if (upstream_is_full(upstream, client))
        return false;
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    if (command->flags & CMD_SCRIPT && monitor_is_on(client->worker->proxy))
        request->part.prefixes = PREFIX_SHOW;
    if (users_rules_are_sent(client, command))
        users_send(client, upstream, request, frame);
    else
        upstream_send(upstream, &request->part, client->session.keyspace, frame,
                      command->flags & CMD_READONLY);
    return true;
}

/* Sends a read to the copy. */
static bool send_to_copy(struct client *client, const struct frame *frame,
                         const struct command *command, struct upstream *copy)
{
    if (!client_may_send(client, client_label(client, command, frame->len) | LABEL_COPY))
        return false;
    if (upstream_is_full(copy, client))
        return false;
    client_send_copy(client, copy, command, frame);
    return true;
}

/* Sends the unchanged frame to the shard of its keys, or a copy of that shard. */
static inline bool send_by_key(struct client *client, const struct frame *frame,
                               const struct command *command, uint32_t shard)
{
    struct upstream *copy =
        client_reads_at_copies(client) ? client_copy(client, shard, command, frame->len) : NULL;
    return copy ? send_to_copy(client, frame, command, copy)
                : send_one(client, frame, command, shard);
}

static bool send_to_all_shards(struct client *client, const struct frame *frame,
                               const struct command *command)
{
    struct pool *pool = client->worker->pool;
    uint32_t count = (uint32_t)pool->count;
    if (count == 1)
        return send_one(client, frame, command, 0);
    if (!client_may_send(client, client_label(client, command, frame->len)))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (upstream_is_full(client_upstream(client, i, command, frame->len), client))
            return false;
    }
    struct request *request = client_new_request(client, command);
    request_make_parts(request, count, 0);
    request_hold(request);
    for (uint32_t i = 0; i < count; i++)
        upstream_send(client_upstream(client, i, command, frame->len),
                      request_part(request, i, pool->nodes[i]), client->session.keyspace, frame,
                      command->flags & CMD_READONLY);
    request_go(request);
    return true;
}

/* Groups the keys by their shards. The result is `made`, or was made before in turns. */
static const struct split_parts *group_parts(const struct client *client, const struct split *split,
                                             struct split_parts *made)
{
    const struct split_parts *prepared = wide_parts(client);
    if (prepared)
        return prepared;
    split_parts_init(made);
    split_group(split, (struct split_range){0, split->keys->count},
                client->worker->scratch.keys->shards, made);
    return made;
}

/* Sends each shard a frame with its keys. */
static bool send_parts(struct client *client, const struct frame *frame,
                       const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    struct upstream *upstreams[SHARD_COUNT_MAX];
    struct out *outs[SHARD_COUNT_MAX];
    struct split_parts made;
    struct split split = {.command = command,
                          .block = frame->block,
                          .base = frame->base,
                          .args = frame->args,
                          .argc = frame->argc,
                          .keys = &worker->scratch.keys->list,
                          .shards = worker->scratch.keys->shards};
    if (!client_may_send(client, client_label(client, command, frame->len)))
        return false;
    const struct split_parts *parts = group_parts(client, &split, &made);
    for (uint32_t i = 0; i < parts->count; i++) {
        upstreams[i] = client_upstream(client, parts->shards[i], command, frame->len);
        if (upstream_is_full(upstreams[i], client))
            return false;
    }
    const uint16_t *order = worker->scratch.keys->shards;
    struct request *request = client_new_request(client, command);
    request_make_parts(request, parts->count, split.keys->count);
    memcpy(request_order(request), order, split.keys->count * sizeof(uint16_t));
    request_hold(request);
    for (uint32_t i = 0; i < parts->count; i++) {
        struct part *part = request_part(request, i, worker->pool->nodes[parts->shards[i]]);
        outs[i] = upstream_begin(upstreams[i], part, client->session.keyspace);
        if (outs[i])
            upstream_write_header(upstreams[i], part, outs[i], parts->argcs[i]);
        if (outs[i] && parts != &made)
            wide_move_part(client, i, outs[i]);
    }
    if (parts == &made)
        split_write(&split, (struct split_range){0, split.keys->count}, order, parts->count, outs);
    for (uint32_t i = 0; i < parts->count; i++) {
        if (outs[i])
            upstream_commit(upstreams[i], request_part_at(request, i));
    }
    request_go(request);
    return true;
}

/* ---- routing --------------------------------------------------------------------------------- */

/* Confirmations and messages are written to the stream, not to the pipeline. SCAN asks one shard after the other, and its later questions must
 * not come before earlier requests that have bounced. */
static bool runs_alone(const struct client *client, const struct command *command)
{
    return command->route == ROUTE_PINNED ||
           (command->route == ROUTE_CURSOR && client->worker->pool->count > 1);
}

static bool run_local(struct client *client, const struct frame *frame,
                      const struct command *command)
{
    local_fn *handler = local_handlers[command->id];
    bool asks_shards = command->route != ROUTE_LOCAL || command->merge != MERGE_ONE;
    CHECK(handler);
    if (runs_alone(client, command) && client->pipeline.count > 0) {
        client_hold(client, HOLD_ORDER);
        return false;
    }
    if (asks_shards && !client_may_send(client, client_label(client, command, 0)))
        return false;
    (void)argv_of(client->worker, frame);
    request_run_local(client_new_request(client, command), handler, frame->argc);
    return true;
}

static bool send_to_one(struct client *client, const struct frame *frame,
                        const struct command *command, const struct route *route, bool may_be_old)
{
    if (route->is_across)
        return across_send_shared(client, frame, command, route->shard);
    return may_be_old && route->has_keys ? send_by_key(client, frame, command, route->shard)
                                         : send_one(client, frame, command, route->shard);
}

static bool follow_plan(struct client *client, const struct frame *frame,
                        const struct command *command, const struct route *route, bool may_be_old)
{
    struct proxy_worker *worker = client->worker;
    switch (route->kind) {
    case ROUTE_KIND_ONE:
        return send_to_one(client, frame, command, route, may_be_old);
    case ROUTE_KIND_ANY: {
        uint32_t shard = pool_any(worker->pool);
        return route->is_across ? across_send_shared(client, frame, command, shard)
                                : send_one(client, frame, command, shard);
    }
    case ROUTE_KIND_ACROSS:
        return across_send(client, frame, command, route->shard);
    case ROUTE_KIND_PARTS:
        return send_parts(client, frame, command);
    case ROUTE_KIND_ALL:
        return send_to_all_shards(client, frame, command);
    case ROUTE_KIND_LOCAL:
        return run_local(client, frame, command);
    case ROUTE_KIND_TRANSACTION:
        return transaction_command(client, frame, command);
    case ROUTE_KIND_BLOCKING:
        return blocked_send(client, frame, command, route);
    case ROUTE_KIND_BLOCKING_PARTS:
        return blocked_send_parts(client, command, frame->argc);
    case ROUTE_KIND_BLOCKING_ACROSS:
        return blocked_send_across(client, command, frame->argc, route);
    case ROUTE_KIND_UNKNOWN:
        client_reply_unknown(client, frame);
        return true;
    case ROUTE_KIND_DENIED:
        client_reply_denied(client, command);
        return true;
    case ROUTE_KIND_CROSSSLOT:
        client_reply_code(client, command, ERR_CROSSSLOT);
        return true;
    }
    return true;
}

/* Dispatches commands with several keys or none, and commands without a shard; not the hot path. `may_be_old`: a copy may serve it. */
static bool dispatch_planned(struct client *client, const struct frame *frame,
                             const struct command *command, bool may_be_old)
{
    struct proxy_worker *worker = client->worker;
    struct route_rules rules = across_rules(client);
    struct route route =
        route_plan(&rules, command, argv_of(worker, frame), frame->argc, worker->scratch.keys);
    bool is_counted = worker->scratch.keys->is_prepared;
    uint32_t key_count = route.has_keys && !is_counted ? worker->scratch.keys->list.count : 0;
    if (command->flags & CMD_SCRIPT_CACHE && !scripts_ready(client, frame, command, &route))
        return false;
    if (!follow_plan(client, frame, command, &route, may_be_old))
        return false;
    if (route.kind == ROUTE_KIND_ACROSS || route.kind == ROUTE_KIND_BLOCKING_ACROSS)
        keyspace_count_over_shards(client->session.keyspace);
    for (uint32_t i = 0; i < key_count; i++)
        proxy_worker_count_slot(worker, worker->scratch.keys->slots[i]);
    return true;
}

bool dispatch_in_exec(struct client *client, const struct frame *frame,
                      const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    const struct frame *outer = worker->scratch.frame;
    worker->scratch.frame = frame; /* for the slow log */
    bool is_done = dispatch_planned(client, frame, command, false);
    worker->scratch.frame = outer;
    return is_done;
}

/* ---- gates ----------------------------------------------------------------------------------- */

/* Refuses EXEC with an error, and ends the transaction. */
static void refuse_exec(struct client *client, const struct command *command, const char *why)
{
    struct reply reply;
    client_transaction_clear(&client->session.transaction);
    client_transaction_release(client);
    struct request *request = client_begin_reply(client, command, &reply);
    metric_add(client->worker->metrics.process, METRIC_PROXY_ERRORS, 1);
    reply_errorf(&reply, "EXECABORT Transaction discarded because of: %s", why);
    client_ready(client, request);
}

static void reply_arity(struct client *client, const struct command *command)
{
    struct reply reply;
    struct request *request = client_begin_reply(client, command, &reply);
    metric_add(client->worker->metrics.process, METRIC_PROXY_ERRORS, 1);
    command_error_arity(&reply, command);
    client_ready(client, request);
}

/* Checks the user's ACL rules. False: an error was replied. */
static bool is_permitted(struct client *client, const struct frame *frame,
                         const struct command *command)
{
    char why[ACL_ERROR_MAX];
    client->last_command = command; /* for ACL LOG */
    if (users_allow(client, frame, command, why))
        return true;
    client_transaction_abort(&client->session.transaction);
    if (command->traits & TRAIT_RUNS_QUEUE)
        refuse_exec(client, command, why);
    else
        client_reply_text(client, command, why);
    return false;
}

/* Checks namespace and user. False: an error was replied. */
static inline bool may_run(struct client *client, const struct frame *frame,
                           const struct command *command)
{
    if (command_is_walled(command, client->session.keyspace->name)) {
        client_transaction_abort(&client->session.transaction);
        client_reply_code(client, command, ERR_OPERATOR_ONLY);
        return false;
    }
    return !client->session.is_limited || is_permitted(client, frame, command);
}

/* True for an HTTP request. A web page may have made a browser send it, so the connection must be closed. */
static bool is_http_frame(const struct frame *frame)
{
    return bytes_is(frame_arg(frame, 0), "post") || bytes_is(frame_arg(frame, 0), "host:");
}

/* A RESP2 client with subscriptions may run few commands, because it could not distinguish other replies from messages.
 * False: an error was replied. */
static bool check_subscriber(struct client *client, const struct command *command)
{
    if (command->traits & TRAIT_SUBSCRIBER)
        return true;
    char text[256];
    (void)snprintf(text, sizeof(text), SUBSCRIBER_ERROR, command_full_name(command));
    client_transaction_abort(&client->session.transaction);
    if (command->traits & TRAIT_RUNS_QUEUE)
        refuse_exec(client, command, text + strlen("ERR "));
    else
        client_reply_text(client, command, text);
    return false;
}

/* The checks before a command runs, in Redis' order. False: an error was replied. */
static bool pass_gates(struct client *client, const struct frame *frame,
                       const struct command *command)
{
    bool is_arity_ok = command && command_arity_ok(command, frame->argc);
    if (is_arity_ok && (client->session.is_authenticated || (command->flags & CMD_NO_AUTH)))
        return may_run(client, frame, command);
    client_transaction_abort(&client->session.transaction);
    if (!command && is_http_frame(frame))
        client_kill(client, "it sent an HTTP request");
    else if (!command)
        client_reply_unknown(client, frame);
    else if (command->traits & TRAIT_RUNS_QUEUE)
        refuse_exec(client, command,
                    is_arity_ok ? error_text(ERR_NOAUTH)
                                : "wrong number of arguments for 'exec' command");
    else if (is_arity_ok)
        client_reply_code(client, command, ERR_NOAUTH);
    else
        reply_arity(client, command);
    return false;
}

/* ---- one frame ------------------------------------------------------------------------------- */

/* Checks the request and sends it, or answers it. False: the frame must wait. */
static bool run(struct client *client, const struct frame *frame, const struct command *command)
{
    if (!pass_gates(client, frame, command))
        return true;
    if (client_monitors(client) && monitor_refuses(client, command))
        return true;
    if (client->worker->pauses.count && pause_holds(client, command))
        return false;
    client->last_command = command_at_hand = command;
    if (command->traits & (TRAIT_AUDITED | TRAIT_AUDITED_ACTIONS))
        users_audit(client, frame, command);
    if (client->channels && client_is_subscriber(client) && !check_subscriber(client, command))
        return true;
    if (client->session.transaction.is_open && !(command->traits & TRAIT_ACTS_IN_MULTI))
        return transaction_queue_command(client, frame, command);
    if (command->route == ROUTE_BY_KEY || command->route == ROUTE_SPLIT) {
        int32_t at = keys_first(command, frame->argc);
        if (at > 0) {
            const struct proxy_snapshot *snapshot = client->worker->snapshot;
            struct route_rules rules = {.map = snapshot->map,
                                        .entry = client->session.keyspace->entry};
            uint16_t slot = route_slot(&rules, frame_arg(frame, (uint32_t)at));
            if (!send_by_key(client, frame, command, shard_map_find(snapshot->map, slot)))
                return false;
            proxy_worker_count_slot(client->worker, slot);
            return true;
        }
    }
    return dispatch_planned(client, frame, command, true);
}

bool dispatch_frame(struct client *client, const struct frame *frame)
{
    const struct command *command =
        command_find_again(&client->worker->scratch.memo, frame_arg(frame, 0));
    if (command && command_has_subs(command) && frame->argc > 1)
        command = command_find_sub(command, frame_arg(frame, 1));
    if (client->session.keyspace->rate_limiter && !rate_pass(client, frame, command))
        return !(client->held_by & HOLD_RATE);
    if (frame->argc < WIDE_ARGS_MIN)
        return run(client, frame, command);
    if (!wide_is_ready(client, frame, command))
        return false;
    struct wide *wide = wide_lend(client);
    bool is_done = run(client, frame, command);
    wide_take_back(wide, is_done);
    return is_done;
}
