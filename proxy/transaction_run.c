#include "proxy/transaction_run.h"

#include "proxy/client.h"
#include "proxy/local/local.h"
#include "proxy/request.h"
#include "proxy/transaction.h"
#include "proxy/worker.h"
#include "shared/check.h"

#include <stdlib.h>

bool transaction_is_own(const struct command *command)
{
    return command->route == ROUTE_LOCAL && !(command->flags & (CMD_NO_AUTH | CMD_NO_MULTI)) &&
           !(command->traits & TRAIT_CHANGES_SESSION) && local_handlers[command->id];
}

void transaction_run_begin(struct client *client)
{
    struct client_transaction *transaction = &client->session.transaction;
    size_t len = transaction->queue.bytes;
    struct transaction_run *run = malloc(sizeof *run + len);
    CHECK(run && !transaction->run);
    *run = (struct transaction_run){
        .is_silent = client->session.reply_mode != REPLY_MODE_ON,
        .has_shard = transaction->needs_shard,
        .count = transaction->count,
        .len = len,
    };
    resp_scan_init(&run->scan);
    out_copy(&transaction->queue, run->frames);
    client_transaction_clear(transaction);
    transaction->run = run;
}

/* Reads the next queued command; its arguments are then in worker->scratch.argv. */
static const struct command *next_command(struct client *client, struct transaction_run *run,
                                          struct bytes *frame_bytes, uint32_t *argc)
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
    run->at += frame.len;
    *frame_bytes = (struct bytes){text, frame.len};
    *argc = frame.argc;
    const struct command *command = command_find_argv(argv, frame.argc);
    CHECK(command);
    return command;
}

static bool is_for_shard(const struct transaction_run *run, const struct command *command)
{
    return run->has_shard &&
           (!transaction_is_own(command) || command->traits & TRAIT_SHARD_ANSWERS);
}

uint32_t transaction_run_shard_part(struct client *client, struct out *out)
{
    struct transaction_run *run = client->session.transaction.run;
    struct bytes frame;
    uint32_t argc;
    while (run->at < run->len) {
        if (!is_for_shard(run, next_command(client, run, &frame, &argc)))
            continue;
        out_write(out, frame.data, frame.len);
        run->shard_count++;
    }
    run->at = 0;
    return run->shard_count;
}

void transaction_run_own(struct client *client, const struct command *exec)
{
    struct reply reply;
    struct request *request = client_begin_reply(client, exec, &reply);
    reply_array(&reply, client->session.transaction.run->count);
    client_ready(client, request);
}

void transaction_run_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct client_transaction *transaction = &client->session.transaction;
    struct transaction_run *run = transaction->run;
    const struct shard_reply *answer = request_reply(request, 0);
    struct bytes frame = answer->frame;
    struct resp_value array;
    size_t pos = 0;
    transaction_executed(client, request, frame.data);
    bool has_run = !answer->is_failure && resp_value_next(frame, &pos, &array) &&
                   array.type == '*' && !array.is_null;
    if (has_run && array.count == run->shard_count) {
        reply_array(reply, run->count);
        run->replies = block_ref(answer->block);
        run->rest = (struct bytes){frame.data + pos, frame.len - pos};
        return;
    }
    if (has_run)
        reply_error(reply,
                    "ERR the shard's reply to EXEC does not have one element for each command");
    else
        out_write_block(reply->out, answer->block, frame.data, frame.len);
    transaction_run_free(transaction);
}

/* Replies the next element of the shard's reply. */
static void pass_element(struct client *client, struct transaction_run *run,
                         const struct command *command)
{
    struct resp_skip skip = {0};
    struct reply reply;
    CHECK(resp_skip(&skip, run->rest.data, run->rest.len) == RESP_FRAME);
    struct request *request = client_begin_reply(client, command, &reply);
    out_write_block(reply.out, run->replies, run->rest.data, skip.size);
    run->rest = (struct bytes){run->rest.data + skip.size, run->rest.len - skip.size};
    client_ready(client, request);
}

static void run_one(struct client *client, struct transaction_run *run)
{
    uint8_t mode = client->session.reply_mode;
    struct bytes frame;
    uint32_t argc;
    const struct command *command = next_command(client, run, &frame, &argc);
    if (run->is_silent)
        client->session.reply_mode = REPLY_MODE_OFF;
    if (is_for_shard(run, command))
        pass_element(client, run, command);
    else
        request_run_local(client_new_request(client, command), local_handlers[command->id], argc);
    client->session.reply_mode = mode;
}

bool transaction_go_on(struct client *client)
{
    struct transaction_run *run = client->session.transaction.run;
    if (!run || run->is_stepping)
        return !run;
    run->is_stepping = true;
    while (run->at < run->len && client->pipeline.count == 0 && !client->is_closed &&
           !client->is_ending)
        run_one(client, run);
    run->is_stepping = false;
    bool is_over = run->at == run->len && client->pipeline.count == 0;
    if (is_over)
        transaction_run_free(&client->session.transaction);
    return is_over;
}
