#include "proxy/client/transaction_run.h"

#include "proxy/client/across.h"
#include "proxy/client/transaction.h"
#include "proxy/client/transaction_send.h"
#include "proxy/core/client.h"
#include "proxy/core/handlers.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>
#include <string.h>

enum { PORTION_US = 1000 }; /* commands run for so long before other clients are served */

#define UNEXPECTED_REPLY "ERR the shard's reply to EXEC does not have one element for each command"

bool transaction_is_own(const struct command *command)
{
    return command->route == ROUTE_LOCAL && !(command->flags & (CMD_NO_AUTH | CMD_NO_MULTI)) &&
           !(command->traits & TRAIT_CHANGES_SESSION) && local_handlers[command->id];
}

bool transaction_is_step(const struct client *client, const struct command *command)
{
    bool is_any = command_uses_all_keys(command) && across_rules(client).is_any;
    bool is_for_all =
        !is_any && (command->route == ROUTE_ALL_SHARDS || command->route == ROUTE_CURSOR);
    bool subscribes = command->flags & CMD_PUBSUB && command->route == ROUTE_PINNED;
    return subscribes || command->traits & TRAIT_NOT_IN_EXEC ||
           (is_for_all && client->worker->pool->count > 1);
}

bool transaction_changes_all(const struct command *step)
{
    return step->flags & CMD_WRITE && step->group != GROUP_SCRIPTING &&
           !(step->traits & TRAIT_NOT_IN_EXEC);
}

static enum step_order step_order_of(const struct command *step)
{
    if (step->traits & TRAIT_NOT_IN_EXEC)
        return STEP_BEFORE_NONE; /* it only replies an error */
    if (step->group == GROUP_SCRIPTING)
        return STEP_BEFORE_SCRIPTS;
    bool concerns_keys = command_uses_all_keys(step) || step->flags & CMD_WRITE;
    bool subscribes = step->flags & CMD_PUBSUB; /* messages of all later commands may be for it */
    return concerns_keys || subscribes ? STEP_BEFORE_ALL : STEP_BEFORE_NONE;
}

enum step_order transaction_order_with(enum step_order order, const struct command *step)
{
    enum step_order last = step_order_of(step);
    return last > order ? last : order;
}

bool transaction_must_follow(enum step_order order, const struct command *command)
{
    bool uses_scripts = command->flags & CMD_SCRIPT || command->group == GROUP_SCRIPTING;
    return order == STEP_BEFORE_ALL || (order == STEP_BEFORE_SCRIPTS && uses_scripts);
}

void transaction_run_begin(struct client *client, const struct transaction_target *target)
{
    struct client_transaction *transaction = &client->session.transaction;
    size_t len = transaction->queue.bytes;
    struct transaction_run *run = malloc(sizeof *run + len);
    CHECK(run && !transaction->run);
    *run = (struct transaction_run){
        .target = *target,
        .is_silent = client->session.reply_mode != REPLY_MODE_ON,
        .has_shard = transaction->needs_shard,
        .count = transaction->count,
        .len = len,
    };
    resp_scan_init(&run->scan);
    out_init(&run->pushes);
    out_copy(&transaction->queue, run->frames);
    client_transaction_clear(transaction);
    transaction->run = run;
    client->held_pushes = &run->pushes;
}

static void end_run(struct client *client)
{
    struct client_transaction *transaction = &client->session.transaction;
    client->held_pushes = NULL;
    out_move(stream_out(client->stream), &transaction->run->pushes);
    transaction_run_free(transaction);
}

/* Reads the next queued command; its arguments are then in worker->scratch.argv. */
static const struct command *next_command(struct client *client, struct transaction_run *run,
                                          struct frame *frame)
{
    static const struct resp_limits no_limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = UINT32_MAX};
    const char *text = run->frames + run->at;
    CHECK(resp_scan(&run->scan, &no_limits, text, run->len - run->at) == RESP_FRAME);
    *frame = (struct frame){.data = text,
                            .len = run->scan.size,
                            .base = text,
                            .args = run->scan.args,
                            .argc = run->scan.argc};
    const struct bytes *argv = argv_of(client->worker, frame);
    run->at += frame->len;
    const struct command *command = command_find_argv(argv, frame->argc);
    CHECK(command);
    return command;
}

/* ---- commands of a shard ---- */

static bool is_for_shard(const struct client *client, const struct transaction_run *run,
                         const struct command *command)
{
    return run->has_shard && !transaction_is_step(client, command) &&
           (!transaction_is_own(command) || command->traits & TRAIT_SHARD_ANSWERS);
}

/* The commands for the shard, from run->sent up to the first that must run after a step that is queued before it. */
static struct transaction_frames collect_part(struct client *client, struct transaction_run *run)
{
    struct transaction_frames frames = {.count = 0};
    size_t at = run->at;
    struct frame frame;
    enum step_order order = STEP_BEFORE_NONE;
    out_init(&frames.out);
    for (run->at = run->sent; run->at < run->len; run->sent = run->at) {
        const struct command *command = next_command(client, run, &frame);
        if (transaction_is_step(client, command))
            order = transaction_order_with(order, command);
        if (!is_for_shard(client, run, command))
            continue;
        if (transaction_must_follow(order, command))
            break;
        out_write(&frames.out, frame.data, frame.len);
        frames.count++;
        frames.has_select |=
            transaction_selects(command, client->worker->scratch.argv, frame.argc, &frames.db);
    }
    run->part_count = frames.count;
    run->at = at;
    return frames;
}

/* Keeps the elements of the shard's reply. False: the shard ran nothing. */
static bool keep_elements(struct transaction_run *run, const struct shard_reply *answer)
{
    struct bytes frame = answer->frame;
    struct resp_value array;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(frame, &pos, &array) || array.type != '*' ||
        array.is_null || array.count != run->part_count)
        return false;
    block_unref(run->replies);
    run->replies = block_ref(answer->block);
    run->rest = (struct bytes){frame.data + pos, frame.len - pos};
    return true;
}

/* request_done_fn: the reply to the first part is that of EXEC, unless the shard has run it. */
static void first_part_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct transaction_run *run = client->session.transaction.run;
    const struct shard_reply *answer = request_reply(request, 0);
    transaction_executed(client, request, answer->frame.data);
    if (keep_elements(run, answer)) {
        reply_array(reply, run->count);
        return;
    }
    if (answer->frame.data[0] == '*' && answer->frame.data[1] != '-')
        reply_error(reply, UNEXPECTED_REPLY);
    else
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
    end_run(client);
}

/* request_done_fn: the reply to a later part, whose elements the next steps pass on. It replies nothing. */
static void later_part_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct transaction_run *run = client->session.transaction.run;
    const struct shard_reply *answer = request_reply(request, 0);
    struct bytes frame = answer->frame;
    (void)reply;
    transaction_executed(client, request, frame.data);
    if (keep_elements(run, answer))
        return;
    run->failure =
        frame.data[0] == '-' ? strndup(frame.data, frame.len) : strdup("-" UNEXPECTED_REPLY "\r\n");
    CHECK(run->failure);
}

static void send_part(struct client *client, struct request *request, struct upstream *upstream,
                      request_done_fn *done)
{
    struct transaction_run *run = client->session.transaction.run;
    struct transaction_frames frames = collect_part(client, run);
    client_hold(client, HOLD_ORDER); /* until all commands have run */
    request_wait_parts(request, 1, done);
    request_hold(request);
    transaction_send(client, upstream, request_part(request, 0, upstream->node), &run->target,
                     &frames);
    request_go(request);
}

void transaction_run_first_part(struct client *client, struct request *request,
                                struct upstream *upstream)
{
    send_part(client, request, upstream, first_part_answered);
}

/* Sends the part that begins at run->at. False: the client is held. */
static bool send_later_part(struct client *client, struct transaction_run *run)
{
    const struct command *exec = command_find(BYTES("exec"));
    if (run->target.shard >= client->worker->pool->count)
        run->target.shard =
            0; /* a new map has fewer shards; the transaction follows its keys (bounced.h) */
    struct upstream *upstream = transaction_upstream(client, exec, &run->target);
    if (!upstream)
        return false;
    struct request *request = client_new_request(client, exec);
    request->is_exec = true;
    run->sent = run->at;
    send_part(client, request, upstream, later_part_answered);
    return true;
}

/* Replies the next element of the shard's reply. */
static void pass_element(struct client *client, struct transaction_run *run,
                         const struct command *command)
{
    struct resp_skip skip = {0};
    struct reply reply;
    CHECK(resp_skip(&skip, run->rest.data, run->rest.len) == RESP_FRAME);
    struct request *request = client_begin_element(client, command, &reply);
    out_write_block(reply.out, run->replies, run->rest.data, skip.size);
    run->rest = (struct bytes){run->rest.data + skip.size, run->rest.len - skip.size};
    client_ready(client, request);
}

/* ---- steps ---- */

void transaction_run_header(struct client *client, const struct command *exec)
{
    struct reply reply;
    const struct transaction_run *run = client->session.transaction.run;
    struct request *request = client_begin_reply(client, exec, &reply);
    if (run->has_shard)
        request->count.own = OWN_NOT; /* the shard counts the EXEC that it gets */
    reply_array(&reply, run->count);
    client_ready(client, request);
}

static void reply_failure(struct client *client, const struct transaction_run *run,
                          const struct command *command)
{
    struct reply reply;
    struct request *request = client_begin_element(client, command, &reply);
    out_write(reply.out, run->failure, strlen(run->failure));
    client_ready(client, request);
}

/* Runs a command that is no part of a shard's transaction. False: the client is held. */
static bool run_step(struct client *client, const struct frame *frame,
                     const struct command *command)
{
    const char *refusal = command_exec_error(command);
    if (!refusal)
        return client->worker->client_events->run_queued(client, frame, command);
    client_reply_text(client, command, refusal);
    return true;
}

/* Runs the command at run->at. False: the client is held, and the command must be run again. */
static bool run_one(struct client *client, struct transaction_run *run)
{
    struct frame frame;
    size_t at = run->at;
    const struct command *command = next_command(client, run, &frame);
    bool is_shards = is_for_shard(client, run, command);
    bool is_done = true;
    if (run->failure) {
        reply_failure(client, run, command);
    } else if (is_shards && at < run->sent) {
        pass_element(client, run, command);
    } else if (is_shards) {
        run->at = at; /* its element is passed when the shard has replied */
        return send_later_part(client, run);
    } else if (transaction_is_step(client, command)) {
        is_done = run_step(client, &frame, command);
    } else {
        request_run_local(client_new_request(client, command), local_handlers[command->id],
                          frame.argc);
    }
    if (!is_done)
        run->at = at;
    return is_done;
}

/* ---- portions ---- */

/* request_done_fn of an internal request. */
static void go_on_in_turn(struct client *none, struct request *request, struct reply *reply)
{
    struct client **client = request_state(request, sizeof *client);
    (void)none;
    (void)reply;
    if (!*client)
        return;
    (*client)->session.transaction.run->turn = NULL;
    client_unhold(*client, HOLD_PORTIONS);
}

static void wait_for_turn(struct client *client, struct transaction_run *run)
{
    struct request *request = request_internal(client->worker);
    run->turn = request_state(request, sizeof *run->turn);
    *run->turn = client;
    client_hold(client, HOLD_PORTIONS);
    request_next_turn(request, go_on_in_turn);
}

static bool may_run_next(const struct client *client, const struct transaction_run *run)
{
    return run->at < run->len && client->pipeline.count == 0 && !client->is_closed &&
           !client->is_ending && !(client->held_by & HOLD_OUTPUT);
}

bool transaction_go_on(struct client *client)
{
    struct transaction_run *run = client->session.transaction.run;
    if (!run || run->is_stepping || run->turn)
        return !run;
    uint64_t end_us = clock_mono_us() + PORTION_US;
    uint8_t mode = client->session.reply_mode;
    bool goes_on = true;
    run->is_stepping = true;
    while (goes_on && may_run_next(client, run) && clock_mono_us() < end_us) {
        if (run->is_silent)
            client->session.reply_mode = REPLY_MODE_OFF;
        goes_on = run_one(client, run);
        client->session.reply_mode = mode;
    }
    run->is_stepping = false;
    if (goes_on && may_run_next(client, run))
        wait_for_turn(client, run);
    bool is_over = run->at == run->len && client->pipeline.count == 0;
    if (is_over && !client->is_closed) {
        end_run(client);
        stream_send(client->stream);
    }
    return is_over;
}
