#include "proxy/client/transaction.h"

#include "proxy/client/across.h"
#include "proxy/client/lane.h"
#include "proxy/client/monitor.h"
#include "proxy/client/move.h"
#include "proxy/client/scripts.h"
#include "proxy/client/tracking.h"
#include "proxy/client/transaction_run.h"
#include "proxy/client/transaction_send.h"
#include "proxy/client/users.h"
#include "proxy/client/watch_lost.h"
#include "proxy/core/client.h"
#include "proxy/core/request.h"
#include "proxy/core/route.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

/* Queued frames of this length or more are kept by reference, not copied. */
enum { REFERENCE_MIN = 16 * 1024 };

static void on_watching_closed(struct upstream *dedicated, const char *reason);

static const struct upstream_events dedicated_events = {.closed = on_watching_closed};

/* ---- the queue ------------------------------------------------------------------------------- */

static void add_slot(struct client_transaction *transaction, uint16_t slot)
{
    if (transaction->slot_count && transaction->slots[transaction->slot_count - 1] == slot)
        return;
    if (transaction->slot_count == transaction->slot_cap) {
        transaction->slot_cap = transaction->slot_cap ? transaction->slot_cap * 2 : 8;
        transaction->slots =
            realloc(transaction->slots, transaction->slot_cap * sizeof(*transaction->slots));
        CHECK(transaction->slots);
    }
    transaction->slots[transaction->slot_count++] = slot;
}

/* Notes the keys of a command that is queued, worker->scratch.keys-> */
static void note_keys(struct client *client)
{
    struct client_transaction *transaction = &client->session.transaction;
    const struct route_keys *keys = client->worker->scratch.keys;
    for (uint32_t i = 0; i < keys->list.count; i++) {
        add_slot(transaction, keys->slots[i]);
        proxy_worker_count_slot(client->worker, keys->slots[i]);
        if (!transaction->has_written && key_is_written(&keys->list.refs[i])) {
            transaction->has_written = true;
            transaction->written = keys->slots[i];
        }
    }
}

static void refuse_in_transaction(struct client *client, const struct command *command,
                                  const char *text)
{
    client_transaction_abort(&client->session.transaction);
    client_reply_text(client, command, text);
}

/* Why the transaction would not be one moment with this command, which is to be queued: a part would run after a step
 * (transaction_run.h). NULL: it would. */
static const char *refuse_division(const struct client *client, const struct command *command)
{
    const struct client_transaction *transaction = &client->session.transaction;
    bool has_part = transaction->needs_shard || transaction->dedicated;
    bool is_step = transaction_is_step(client, command);
    if (command->traits & TRAIT_NOT_IN_EXEC || (!is_step && transaction_is_own(command)))
        return NULL;
    bool changes_all = is_step && transaction_changes_all(command);
    if ((changes_all && (has_part || transaction->steps.changes_all)) ||
        (!is_step && transaction->steps.changes_all))
        return "ERR SWAPDB and other commands that change all shards, one after the other, cannot "
               "be one transaction with commands for keys, nor with WATCH: send them alone";
    if (!is_step && has_part && transaction_must_follow(transaction->steps.order, command))
        return "ERR the command depends on one that is queued before it and concerns all shards, "
               "or subscribes, so it would run as another transaction: send SCRIPT LOAD, FUNCTION "
               "LOAD, SUBSCRIBE and the like before MULTI, or at its end";
    return NULL;
}

/* Notes whether a shard, all shards or the proxy will run a command that is queued. */
static void note_side(struct client *client, const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    bool is_own = transaction_is_own(command);
    if (transaction_is_step(client, command)) {
        transaction->steps.are_queued = true;
        transaction->steps.changes_all |= transaction_changes_all(command);
        transaction->steps.order = transaction_order_with(transaction->steps.order, command);
        transaction->needs_shard |= transaction->dedicated != NULL;
        return;
    }
    if (!is_own && !transaction->needs_shard && !transaction->dedicated) {
        transaction->steps.order_before = transaction->steps.order;
        transaction->steps.order = STEP_BEFORE_NONE;
    }
    transaction->steps.run_first |=
        !is_own && transaction_must_follow(transaction->steps.order_before, command);
    transaction->needs_shard |= !is_own || transaction->dedicated;
    transaction->needs_proxy |= is_own && !(command->traits & TRAIT_SHARD_ANSWERS);
}

/* False: the command cannot be queued, and an error was replied. */
static bool check_queueable(struct client *client, const struct frame *frame,
                            const struct command *command, const struct route *route)
{
    if (command->flags & CMD_NO_MULTI && route->kind != ROUTE_KIND_UNKNOWN) {
        refuse_in_transaction(client, command, "ERR Command not allowed inside a transaction");
        return false;
    }
    switch (route->kind) {
    case ROUTE_KIND_UNKNOWN:
        client_transaction_abort(&client->session.transaction);
        client_reply_unknown(client, frame);
        return false;
    case ROUTE_KIND_DENIED:
        client_transaction_abort(&client->session.transaction);
        client_reply_denied(client, command);
        return false;
    case ROUTE_KIND_PARTS:
    case ROUTE_KIND_BLOCKING_PARTS:
    case ROUTE_KIND_BLOCKING_ACROSS:
    case ROUTE_KIND_ACROSS:
    case ROUTE_KIND_CROSSSLOT:
        refuse_in_transaction(client, command, error_text(ERR_CROSSSLOT));
        return false;
    case ROUTE_KIND_LOCAL:
        if (transaction_is_step(client, command) || transaction_is_own(command) ||
            (command->route == ROUTE_LOCAL ? command->traits & TRAIT_SHARD_ANSWERS
                                           : command->route != ROUTE_PINNED))
            break;
        refuse_in_transaction(client, command, "ERR Command not allowed inside a transaction");
        return false;
    case ROUTE_KIND_ALL:
    case ROUTE_KIND_ONE:
    case ROUTE_KIND_ANY:
    case ROUTE_KIND_TRANSACTION: /* UNWATCH */
    case ROUTE_KIND_BLOCKING:    /* WAIT, which does not block in a transaction */
        break;
    }
    const char *refused = refuse_division(client, command);
    if (refused) {
        refuse_in_transaction(client, command, refused);
        return false;
    }
    note_side(client, command);
    return true;
}

bool transaction_queue_command(struct client *client, const struct frame *frame,
                               const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    struct client_transaction *transaction = &client->session.transaction;
    const struct bytes *argv = argv_of(worker, frame);
    struct route_rules rules = across_rules(client);
    /* blocking commands do not wait in a transaction */
    struct route route =
        command->flags & CMD_BLOCKING
            ? route_by_keys(&rules, command, argv, frame->argc, worker->scratch.keys)
            : route_plan(&rules, command, argv, frame->argc, worker->scratch.keys);
    struct route needs_script = route;
    if (rules.is_any && route.has_keys) /* any shard may run the transaction */
        needs_script.kind = ROUTE_KIND_ANY;
    if (command->flags & CMD_SCRIPT && command->flags & CMD_SCRIPT_CACHE &&
        !scripts_ready(client, frame, command, &needs_script))
        return false;
    if (rules.is_any && (route.kind == ROUTE_KIND_PARTS || route.kind == ROUTE_KIND_ACROSS))
        route.kind = ROUTE_KIND_ONE; /* one shard will run the whole transaction */
    if (!check_queueable(client, frame, command, &route))
        return true;
    if (client_transaction_bytes(transaction) + frame->len >
        worker->snapshot->config.client_query_limit_bytes) {
        client_kill(client, "its transaction exceeds client-query-limit");
        return true;
    }
    if (route.has_keys)
        note_keys(client);
    transaction->has_select |= transaction_selects(command, argv, frame->argc, &transaction->db);
    transaction->has_script |= (command->flags & CMD_SCRIPT) != 0;
    transaction->has_all_keys |= command_uses_all_keys(command);
    /* MSET without its last value: the shard, which replies the error, checks the keys that there are */
    bool is_incomplete = command->route == ROUTE_SPLIT && !route.has_keys;
    transaction->has_unnamed |=
        route.kind != ROUTE_KIND_ACROSS && (route.is_across || is_incomplete);
    if (frame->block && frame->len >= REFERENCE_MIN)
        out_write_block(&transaction->queue, frame->block, frame->data, frame->len);
    else
        out_write(&transaction->queue, frame->data, frame->len);
    transaction->count++;
    client->bytes.copied += frame->len;
    worker->memory.copied += frame->len;
    client_reply_status(client, command, "QUEUED");
    return true;
}

/* ---- the dedicated connection ------------------------------------------------------------------------------- */

/* Removes the dedicated connection from the session; the caller must release the connection. */
static struct upstream *detach_dedicated(struct client *client)
{
    struct upstream *dedicated = client->session.transaction.dedicated;
    client_transaction_forget_watches(&client->session.transaction);
    if (dedicated && !dedicated->use.is_kept)
        dedicated->use.client = NULL;
    return dedicated;
}

void client_transaction_release(struct client *client)
{
    struct upstream *dedicated = detach_dedicated(client);
    if (dedicated)
        upstream_release(dedicated, false);
    free(client->session.transaction.dedicated_lost);
    client->session.transaction.dedicated_lost = NULL;
}

/* upstream_events.closed */
static void on_watching_closed(struct upstream *dedicated, const char *reason)
{
    struct client *client = dedicated->use.client;
    if (client && client->session.transaction.dedicated == dedicated)
        watch_connection_lost(client, dedicated, reason);
}

/* Fails EXEC if the shard that watches is no longer in the map. */
static void lose_removed_dedicated(struct client *client)
{
    struct upstream *dedicated = client->session.transaction.dedicated;
    if (!dedicated || !dedicated->node->is_removed)
        return;
    client_transaction_lost(
        &client->session.transaction, client->session.transaction.dedicated->node->name,
        client->session.transaction.dedicated->node->address, "the shard is no longer in the map");
    upstream_release(dedicated, false);
}

static void use_dedicated(struct client *client, struct upstream *dedicated)
{
    client->session.transaction.dedicated = dedicated;
    dedicated->use.client = client;
    if (!dedicated->use.is_kept)
        dedicated->use.events = &dedicated_events;
}

/* Makes the connection that watches keys. False: there are too many, and an error was replied. */
static bool reserve_dedicated(struct client *client, const struct command *command, uint32_t shard)
{
    struct upstream *dedicated = client_tracks(client)
                                     ? tracking_upstream(client, shard)
                                     : pool_dedicated(client, shard, client->session.resp, false);
    if (dedicated)
        use_dedicated(client, dedicated);
    else
        client_reply_text(client, command, dedicated_limit_error);
    return dedicated;
}

struct upstream *transaction_watch_again(struct client *client, uint32_t shard)
{
    struct client_transaction *transaction = &client->session.transaction;
    CHECK(!transaction->dedicated);
    use_dedicated(client, client_tracks(client)
                              ? tracking_connection(client, shard)
                              : pool_dedicated(client, shard, client->session.resp, true));
    transaction->watches = 1;
    transaction->moves_watch = false;
    return transaction->dedicated;
}

static bool watch(struct client *client, const struct frame *frame, const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    struct client_transaction *transaction = &client->session.transaction;
    lose_removed_dedicated(client);
    const struct bytes *argv = argv_of(worker, frame);
    struct route_rules rules = across_rules(client);
    if (transaction->dedicated_lost && *transaction->dedicated_lost) {
        client_reply_text(client, command, transaction->dedicated_lost);
        client_transaction_unwatched(transaction);
        return true;
    }
    if (transaction->dedicated_lost) { /* EXEC will reply null */
        client_reply_status(client, command, "OK");
        return true;
    }
    struct route route = route_by_keys(&rules, command, argv, frame->argc, worker->scratch.keys);
    uint32_t shard = transaction->dedicated ? transaction->dedicated->node->index : route.shard;
    bool is_across = route.kind != ROUTE_KIND_ONE || route.shard != shard;
    if (is_across && !rules.is_any) {
        client_reply_code(client, command, ERR_CROSSSLOT);
        return true;
    }
    uint32_t label = client_label(client, command, 0) | LABEL_DEDICATED;
    if (!transaction->dedicated &&
        client->pipeline.count > 0) { /* earlier requests may be on another connection */
        client_hold(client, HOLD_ORDER);
        return false;
    }
    if (is_across ? !across_may_send(client, command) : !client_may_send(client, label))
        return false;
    if (!transaction->dedicated && !reserve_dedicated(client, command, shard))
        return true;
    transaction->watches_across |= is_across;
    transaction->watches++;
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    request->part.prefixes = is_across ? PREFIX_ACROSS : 0;
    upstream_send(client_upstream(client, shard, command, 0), &request->part,
                  client->session.keyspace, frame, false);
    return true;
}

/* ---- EXEC ------------------------------------------------------------------------------------ */

/* Discards the transaction with an error. */
static bool discard(struct client *client, const struct command *command, const char *error)
{
    client_transaction_clear(&client->session.transaction);
    client_reply_text(client, command, error);
    client_transaction_release(client);
    return true;
}

/* True when all queued keys are on the shard (with cross-slot = strict: in one slot). */
static bool are_keys_on(const struct client_transaction *transaction,
                        const struct route_rules *rules, uint32_t shard)
{
    for (uint32_t i = 0; i < transaction->slot_count; i++) {
        uint16_t slot = transaction->slots[i];
        if (shard_map_find(rules->map, slot) != shard ||
            (rules->is_strict && slot != transaction->slots[0]))
            return false;
    }
    return true;
}

/* The shard that runs the transaction: the one that watches keys, else that of the first written key, else that of the
 * first key. */
static uint32_t shard_of_transaction(const struct client *client, const struct route_rules *rules)
{
    const struct client_transaction *transaction = &client->session.transaction;
    if (transaction->dedicated) /* exec() has checked that the node is still in the map */
        return transaction->dedicated->node->index;
    if (transaction->slot_count == 0)
        return pool_any(client->worker->pool);
    return shard_map_find(rules->map,
                          transaction->has_written ? transaction->written : transaction->slots[0]);
}

/* False: the keys belong to several shards, and this is not allowed. */
static bool find_exec_target(const struct client *client, struct transaction_target *target)
{
    const struct client_transaction *transaction = &client->session.transaction;
    struct route_rules rules = across_rules(client);
    target->shard = shard_of_transaction(client, &rules);
    target->is_over_shards =
        transaction->watches_across || !are_keys_on(transaction, &rules, target->shard);
    bool is_for_all = transaction->has_all_keys && !transaction->steps.are_queued;
    target->is_across = rules.is_any && (target->is_over_shards || transaction->has_unnamed ||
                                         transaction->has_all_keys);
    target->has_script = transaction->has_script;
    /* the rule may have changed since the commands were queued */
    return rules.is_any ||
           !(target->is_over_shards || (is_for_all && client->worker->pool->count > 1));
}

/* Sends the whole queue to the shard. */
static void exec_at_shard(struct client *client, struct request *request, struct upstream *upstream,
                          const struct transaction_target *target)
{
    struct client_transaction *transaction = &client->session.transaction;
    struct transaction_frames frames = {
        .count = transaction->count, .has_select = transaction->has_select, .db = transaction->db};
    out_init(&frames.out);
    out_move(&frames.out, &transaction->queue);
    request->waiting = 1;
    transaction_send(client, upstream, &request->part, target, &frames);
    client_transaction_clear(transaction);
}

/* If the client has sent MULTI, the commands and EXEC at once, their replies are written together. This is possible when they are the only
 * output that has not been written yet; other replies and messages never wait for EXEC. */
static void hold_queued_replies(struct client *client, uint32_t count)
{
    size_t bytes = BYTES("+OK\r\n").len + count * BYTES("+QUEUED\r\n").len;
    if (!client->is_closed && client->pipeline.count == 1 &&
        stream_pending(client->stream) == bytes)
        stream_hold(client->stream);
}

/* The transaction begins with commands that no shard must run as a transaction. */
static void exec_in_steps(struct client *client, const struct command *command,
                          const struct transaction_target *target)
{
    transaction_run_begin(client, target);
    client_transaction_release(client);
    transaction_run_header(client, command);
    if (!client->is_closed && !transaction_go_on(client)) /* which may close the client */
        client_hold(client,
                    HOLD_ORDER); /* the remaining commands run before the client's next request */
}

static void reply_empty(struct client *client, const struct command *command)
{
    struct reply reply;
    client_transaction_clear(&client->session.transaction);
    struct request *request = client_begin_reply(client, command, &reply);
    reply_array(&reply, 0);
    client_ready(client, request);
}

/* The watched keys may have changed while their shard was away. */
static void reply_nothing(struct client *client, const struct command *command)
{
    struct reply reply;
    client_transaction_clear(&client->session.transaction);
    struct request *request = client_begin_reply(client, command, &reply);
    reply_null_array(&reply);
    client_ready(client, request);
    client_transaction_release(client);
}

static bool exec(struct client *client, const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    struct transaction_target target;
    lose_removed_dedicated(client);
    if (transaction->is_aborted)
        return discard(client, command, error_text(ERR_EXECABORT));
    if (transaction->dedicated_lost && !*transaction->dedicated_lost) {
        reply_nothing(client, command);
        return true;
    }
    if (transaction->dedicated_lost) {
        char text[UPSTREAM_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", transaction->dedicated_lost);
        return discard(client, command, text);
    }
    if (!find_exec_target(client, &target))
        return discard(client, command, error_text(ERR_CROSSSLOT));
    if (transaction->count == 0 && !transaction->dedicated) {
        reply_empty(client, command);
        return true;
    }
    bool is_run = transaction->needs_proxy || transaction->steps.are_queued;
    uint32_t count = transaction->count;
    if (is_run && client->pipeline.count > 0) {
        client_hold(client, HOLD_ORDER);
        return false;
    }
    if (is_run && (!transaction->needs_shard || transaction->steps.run_first)) {
        exec_in_steps(client, command, &target);
        return true;
    }
    struct upstream *upstream = transaction_upstream(client, command, &target);
    if (!upstream)
        return false;
    if (is_run)
        transaction_run_begin(client, &target);
    struct request *request = client_new_request(client, command);
    request->is_exec = true;
    if (target.is_over_shards)
        keyspace_count_over_shards(client->session.keyspace);
    (void)detach_dedicated(client); /* transaction_executed() releases it */
    if (is_run) {
        transaction_run_first_part(client, request, upstream);
    } else {
        exec_at_shard(client, request, upstream, &target);
        hold_queued_replies(client, count);
    }
    return true;
}

void transaction_executed(struct client *client, struct request *request, const char *reply)
{
    const struct part *part = request->parts ? request_part_at(request, 0) : &request->part;
    struct upstream *upstream = part->upstream;
    bool succeeded = reply[0] == '*' && reply[1] != '-';
    request->is_exec = false;
    if (upstream && upstream->use.is_private && !upstream->use.is_single_use)
        upstream_release(upstream, true);
    if (succeeded && request->exec.has_db)
        client_move(client, client->session.keyspace->name, request->exec.db);
}

bool transaction_command(struct client *client, const struct frame *frame,
                         const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    bool is_open = transaction->is_open;
    switch (command->id) { /* the five commands of this file */
    case COMMAND_multi:
        transaction->is_open = true;
        if (is_open)
            client_reply_code(client, command, ERR_NESTED_MULTI);
        else
            client_reply_status(client, command, "OK");
        return true;
    case COMMAND_watch:
        if (!is_open)
            return watch(client, frame, command);
        client_reply_code(client, command, ERR_WATCH_IN_MULTI);
        return true;
    case COMMAND_exec:
        if (is_open)
            return exec(client, command);
        client_reply_code(client, command, ERR_EXEC_WITHOUT_MULTI);
        return true;
    case COMMAND_discard:
        if (!is_open) {
            client_reply_code(client, command, ERR_DISCARD_WITHOUT_MULTI);
            return true;
        }
        client_transaction_clear(transaction);
        break;
    case COMMAND_unwatch:
        break;
    default: /* a row with ROUTE_PINNED that no case handles */
        client_reply_denied(client, command);
        return true;
    }
    client_transaction_release(client);
    client_reply_status(client, command, "OK");
    return true;
}
