#include "proxy/transaction.h"

#include "proxy/client.h"
#include "proxy/lane.h"
#include "proxy/local/local.h"
#include "proxy/move.h"
#include "proxy/request.h"
#include "proxy/route.h"
#include "proxy/scripts.h"
#include "proxy/tracking.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "proxy/users.h"
#include "proxy/worker.h"
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

/* True when the proxy can run the command itself at EXEC. */
static bool proxy_may_answer(const struct command *command)
{
    return command->route == ROUTE_LOCAL && !(command->flags & (CMD_NO_AUTH | CMD_NO_MULTI)) &&
           !(command->traits & TRAIT_CHANGES_SESSION) && local_handlers[command->id];
}

static void refuse_in_transaction(struct client *client, const struct command *command,
                                  const char *text)
{
    client_transaction_abort(&client->session.transaction);
    client_reply_text(client, command, text);
}

/* A transaction runs either at a shard or at the proxy. False: the command does not fit to those queued before, and an
 * error was replied. */
static bool check_one_side(struct client *client, const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    bool for_proxy = proxy_may_answer(command);
    bool for_shard = !for_proxy || command->traits & TRAIT_SHARD_ANSWERS;
    transaction->needs_shard |= !for_proxy || transaction->dedicated;
    transaction->needs_proxy |= !for_shard;
    if (!transaction->needs_shard || !transaction->needs_proxy)
        return true;
    refuse_in_transaction(
        client, command,
        "ERR Command not allowed inside this transaction: through the proxy a transaction has "
        "either commands on the keys of one shard or commands about clients and the server");
    return false;
}

/* False: the command cannot be queued, and an error was replied. */
static bool check_queueable(struct client *client, const struct frame *frame,
                            const struct command *command, const struct route *route)
{
    bool one_shard = client->worker->pool->count == 1;
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
    case ROUTE_KIND_CROSSSLOT:
        refuse_in_transaction(client, command, error_text(ERR_CROSSSLOT));
        return false;
    case ROUTE_KIND_LOCAL:
        if (command->route == ROUTE_LOCAL
                ? command->traits & TRAIT_SHARD_ANSWERS || proxy_may_answer(command)
                : one_shard && command->route != ROUTE_PINNED)
            break;
        refuse_in_transaction(client, command, "ERR Command not allowed inside a transaction");
        return false;
    case ROUTE_KIND_ALL:
        if (one_shard)
            break;
        refuse_in_transaction(
            client, command,
            "ERR Command not allowed inside a transaction: it concerns all shards");
        return false;
    case ROUTE_KIND_ONE:
    case ROUTE_KIND_ANY:
    case ROUTE_KIND_TRANSACTION: /* UNWATCH */
    case ROUTE_KIND_BLOCKING:    /* WAIT, which does not block in a transaction */
        break;
    }
    return check_one_side(client, command);
}

static void note_select(struct client_transaction *transaction, const struct frame *frame)
{
    int64_t db;
    if (!number_parse_int64(frame_arg(frame, 1), &db) || db < 0 || db >= DATABASES)
        return; /* the shard replies the error */
    transaction->has_select = true;
    transaction->db = (uint8_t)db;
}

static struct route_rules rules_of(const struct client *client)
{
    const struct proxy_snapshot *snapshot = client->worker->snapshot;
    return (struct route_rules){.map = snapshot->map,
                                .entry = client->session.keyspace->entry,
                                .is_strict = snapshot->config.cross_slot == CROSS_SLOT_STRICT};
}

bool transaction_queue_command(struct client *client, const struct frame *frame,
                               const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    struct client_transaction *transaction = &client->session.transaction;
    const struct bytes *argv = argv_of(worker, frame);
    struct route_rules rules = rules_of(client);
    /* blocking commands do not wait in a transaction */
    struct route route =
        command->flags & CMD_BLOCKING
            ? route_by_keys(&rules, command, argv, frame->argc, &worker->scratch.keys)
            : route_plan(&rules, command, argv, frame->argc, &worker->scratch.keys);
    if (command->flags & CMD_SCRIPT_CACHE && !scripts_ready(client, frame, command, &route))
        return false;
    if (!check_queueable(client, frame, command, &route))
        return true;
    if (client_transaction_bytes(transaction) + frame->len >
        worker->snapshot->config.client_query_limit_bytes) {
        client_kill(client, "its transaction exceeds client-query-limit");
        return true;
    }
    for (uint32_t i = 0; route.has_keys && i < worker->scratch.keys.list.count; i++) {
        add_slot(transaction, worker->scratch.keys.slots[i]);
        proxy_worker_count_slot(worker, worker->scratch.keys.slots[i]);
    }
    if (command->id == COMMAND_select) /* only SELECT changes the keyspace at EXEC */
        note_select(transaction, frame);
    transaction->has_script |= (command->flags & CMD_SCRIPT) != 0;
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
    client->session.transaction.dedicated = NULL;
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

/* upstream_events.closed: from now on EXEC fails. */
static void on_watching_closed(struct upstream *dedicated, const char *reason)
{
    struct client *client = dedicated->use.client;
    if (client && client->session.transaction.dedicated == dedicated)
        client_transaction_lost(&client->session.transaction, dedicated->node->name,
                                dedicated->node->address, reason);
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

static bool watch(struct client *client, const struct frame *frame, const struct command *command)
{
    struct proxy_worker *worker = client->worker;
    struct client_transaction *transaction = &client->session.transaction;
    lose_removed_dedicated(client);
    const struct bytes *argv = argv_of(worker, frame);
    struct route_rules rules = rules_of(client);
    if (transaction->dedicated_lost) {
        client_reply_text(client, command, transaction->dedicated_lost);
        return true;
    }
    struct route route = route_by_keys(&rules, command, argv, frame->argc, &worker->scratch.keys);
    bool crosses =
        transaction->dedicated && transaction->dedicated->node != worker->pool->nodes[route.shard];
    if (route.kind != ROUTE_KIND_ONE || crosses) {
        client_reply_code(client, command, ERR_CROSSSLOT);
        return true;
    }
    uint32_t label = client_label(client, command) | LABEL_DEDICATED;
    if (!transaction->dedicated &&
        client->pipeline.count > 0) { /* earlier requests may be on another connection */
        client_hold(client, HOLD_ORDER);
        return false;
    }
    if (!client_may_send(client, label))
        return false;
    if (!transaction->dedicated) {
        transaction->dedicated =
            client_tracks(client)
                ? tracking_upstream(client, route.shard)
                : pool_dedicated(worker->pool, route.shard, client->session.resp, false);
        if (!transaction->dedicated) {
            client_reply_text(client, command, dedicated_limit_error);
            return true;
        }
        transaction->dedicated->use.client = client;
        if (!transaction->dedicated->use.is_kept)
            transaction->dedicated->use.events = &dedicated_events;
    }
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    upstream_send(client_upstream(client, route.shard, command), &request->part,
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

/* Finds the shard of all keys of the transaction. False: the keys belong to several shards. */
static bool find_shard(struct client *client, uint32_t *shard)
{
    struct proxy_worker *worker = client->worker;
    const struct client_transaction *transaction = &client->session.transaction;
    struct route_rules rules = rules_of(client);
    for (uint32_t i = 0; i < transaction->slot_count; i++) {
        uint16_t slot = transaction->slots[i];
        uint16_t found = shard_map_find(rules.map, slot);
        if (i > 0 && (found != *shard || (rules.is_strict && slot != transaction->slots[0])))
            return false;
        *shard = found;
    }
    for (uint32_t i = 0; transaction->dedicated && i < worker->pool->count; i++) {
        if (worker->pool->nodes[i] != transaction->dedicated->node)
            continue;
        if (transaction->slot_count > 0 && *shard != i)
            return false;
        *shard = i;
        return true;
    }
    if (transaction->slot_count == 0)
        *shard = pool_any(worker->pool);
    CHECK(!transaction->dedicated); /* exec() has checked that its node is still in the map */
    return true;
}

/* Sends MULTI, the queued frames and EXEC at once. */
static void send_block(struct client *client, struct request *request, struct upstream *upstream)
{
    struct client_transaction *transaction = &client->session.transaction;
    struct out *out = upstream_begin(upstream, &request->part, client->session.keyspace);
    if (!out)
        return;
    bool moves = transaction->has_select;
    out_write(out, "*1\r\n$5\r\nMULTI\r\n", 15);
    out_move(out, &transaction->queue);
    if (client->session.is_limited && *client->worker->snapshot->config.upstream_secret) {
        users_write_head(client, out,
                         1); /* the user's rules may have changed since the commands were queued */
        out_write(out, "$4\r\nEXEC\r\n", 10);
    } else {
        out_write(out, "*1\r\n$4\r\nEXEC\r\n", 14);
    }
    request->part.swallow = transaction->count + 1;
    request->exec.has_db = moves;
    request->exec.db = transaction->db;
    upstream_commit(upstream, &request->part);
    if (moves) {
        upstream_forget_keyspace(upstream);
        client_hold(
            client,
            HOLD_ORDER); /* whether the session is in the new database depends on the reply */
    }
}

/* Reads the next queued command into the worker's argv. */
static const struct command *next_own(struct client *client, struct own_run *run, uint32_t *argc)
{
    static const struct resp_limits no_limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = UINT32_MAX};
    const char *text = run->frames + run->at;
    CHECK(resp_scan(&run->scan, &no_limits, text, run->len - run->at) == RESP_FRAME);
    const struct frame frame = {.data = text,
                                .len = run->scan.size,
                                .base = text,
                                .args = run->scan.args,
                                .argc = run->scan.argc};
    const struct bytes *argv = argv_of(client->worker, &frame);
    run->at += run->scan.size;
    *argc = frame.argc;
    return command_find_argv(argv, frame.argc);
}

static void run_one(struct client *client, struct own_run *run)
{
    uint8_t wish = client->session.reply_mode;
    uint32_t argc;
    const struct command *command = next_own(client, run, &argc);
    CHECK(command && local_handlers[command->id]);
    if (run->is_silent)
        client->session.reply_mode = REPLY_MODE_OFF;
    request_run_local(client_new_request(client, command), local_handlers[command->id], argc);
    client->session.reply_mode = wish;
}

bool transaction_go_on(struct client *client)
{
    struct client_transaction *transaction = &client->session.transaction;
    struct own_run *run = transaction->run;
    if (!run || run->is_stepping)
        return !run;
    run->is_stepping = true;
    while (run->at < run->len && client->pipeline.count == 0 && !client->is_closed &&
           !client->is_ending)
        run_one(client, run);
    run->is_stepping = false;
    bool is_over = run->at == run->len && client->pipeline.count == 0;
    if (is_over)
        transaction_run_free(transaction);
    return is_over;
}

/* Begins an EXEC of commands that the proxy answers itself: writes the head of the array of their replies. */
static bool exec_own(struct client *client, const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    size_t len = transaction->queue.bytes;
    uint32_t count = transaction->count;
    if (client->pipeline.count > 0) {
        client_hold(client, HOLD_ORDER);
        return false;
    }
    struct own_run *run = malloc(sizeof *run + len);
    CHECK(run);
    *run = (struct own_run){.len = len, .is_silent = client->session.reply_mode != REPLY_MODE_ON};
    resp_scan_init(&run->scan);
    out_copy(&transaction->queue, run->frames);
    client_transaction_clear(transaction);
    client_transaction_release(client);
    transaction->run = run;
    struct reply reply;
    struct request *request = client_begin_reply(client, command, &reply);
    reply_array(&reply, count);
    client_ready(client, request);
    if (!client->is_closed && !transaction_go_on(client))
        client_hold(client,
                    HOLD_ORDER); /* the remaining commands run before the client's next request */
    return true;
}

static bool exec(struct client *client, const struct command *command)
{
    struct client_transaction *transaction = &client->session.transaction;
    uint32_t shard = 0;
    lose_removed_dedicated(client);
    if (transaction->is_aborted)
        return discard(client, command, error_text(ERR_EXECABORT));
    if (transaction->dedicated_lost) {
        char text[UPSTREAM_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", transaction->dedicated_lost);
        return discard(client, command, text);
    }
    if (transaction->needs_proxy)
        return exec_own(client, command);
    if (!find_shard(client, &shard))
        return discard(client, command, error_text(ERR_CROSSSLOT));
    if (transaction->count == 0 && !transaction->dedicated) {
        struct reply reply;
        client_transaction_clear(transaction);
        struct request *request = client_begin_reply(client, command, &reply);
        reply_array(&reply, 0);
        client_ready(client, request);
        return true;
    }
    if (!client_may_send(client, client_label(client, command)))
        return false;
    struct upstream *upstream = client_upstream(client, shard, command);
    if (upstream_is_full(upstream, client))
        return false;
    struct request *request = client_new_request(client, command);
    request->waiting = 1;
    request->is_exec = true;
    (void)detach_dedicated(client); /* transaction_executed() releases it */
    send_block(client, request, upstream);
    client_transaction_clear(transaction);
    return true;
}

void transaction_executed(struct client *client, struct request *request, const char *reply)
{
    struct upstream *upstream = request->part.upstream;
    bool succeeded = reply[0] == '*' && reply[1] != '-';
    request->is_exec = false;
    if (upstream && upstream->use.is_private)
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
