/*
 * request.c - replies of parts, completion of requests, local handlers.
 *
 *   part_answered / part_failed ─► last one? ─► request_complete ─┬─ one part: its bytes pass through
 *                                                                 ├─ several: merge_replies
 *                                                                 └─ a local command's: its callback
 */
#include "proxy/core/request.h"

#include "proxy/core/client.h"
#include "proxy/core/merge.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/node.h"
#include "proxy/core/own_calls.h"
#include "proxy/core/proxy.h"
#include "proxy/core/rate_limiter.h"
#include "proxy/core/slow_log.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/stream.h"

#include <stdlib.h>

enum { FAILURE_MAX = 512 }; /* length of the error of a failed part; a longer one is replaced */

struct parts {
    struct parts *older; /* parts of an earlier fan-out; NULL: none */
    uint32_t count;
    uint32_t order_count;
    struct part *part;         /* [count] */
    struct shard_reply *reply; /* [count] */
    uint16_t *order;           /* [order_count] */
};

/* State of a local command that waits or uses request_state(). */
struct local_state {
    struct bytes *argv;  /* NULL: not copied */
    struct block *block; /* with the arguments' bytes; NULL: they follow argv */
    uint32_t argc;
    request_done_fn *done;
    void *memory;
    struct out *gathered;
    uint32_t gathered_count;
};

/* ---- create and free ------------------------------------------------------------------------- */

struct request *request_new(struct proxy_worker *worker, const struct command *command)
{
    struct request *request;
    if (worker->requests.free) {
        request = container_of(worker->requests.free, struct request, link);
        worker->requests.free = request->link.next;
        __builtin_prefetch(worker->requests.free, 1); /* for the next call */
        if (--worker->requests.free_count < worker->requests.free_least)
            worker->requests.free_least = worker->requests.free_count;
    } else {
        request = malloc(sizeof(*request));
        CHECK(request);
        worker->requests.count++;
    }
    memset(request, 0, offsetof(struct request, kept_text));
    request->worker = worker;
    request->command = command;
    request->part.request = request;
    request->resp = 2;
    return request;
}

static void parts_free(struct parts *parts)
{
    while (parts) {
        struct parts *older = parts->older;
        for (uint32_t i = 0; i < parts->count; i++) {
            block_unref(parts->reply[i].block);
            if (parts->reply[i].node)
                node_unref(parts->reply[i].node);
        }
        free(parts);
        parts = older;
    }
}

static void gathered_free(struct local_state *local)
{
    for (uint32_t i = 0; i < local->gathered_count; i++)
        out_clear(&local->gathered[i]);
    free(local->gathered);
    local->gathered = NULL;
    local->gathered_count = 0;
}

static void local_free(struct local_state *local)
{
    gathered_free(local);
    free(local->argv);
    block_unref(local->block);
    free(local->memory);
    free(local);
}

void request_drop_head(struct request *request)
{
    if (request->head.block)
        block_unref(request->head.block);
    else
        free((char *)request->head.data);
    request->head.data = NULL;
    request->head.block = NULL;
}

void request_copy_head(struct request *request, const char *data)
{
    char *head = malloc(request->head.len);
    CHECK(head);
    memcpy(head, data, request->head.len);
    block_unref(request->head.block);
    request->head.block = NULL;
    request->head.data = head;
}

void request_release(struct request *request)
{
    struct proxy_worker *worker = request->worker;
    if (!request->progress.is_queued)
        request->client = NULL; /* it may be freed before a late reply comes */
    if (request->linked > 0 || request->progress.is_queued || request->progress.is_running)
        return;
    if (request->head.data)
        request_drop_head(request);
    if (request->parts)
        parts_free(request->parts);
    if (request->kept == KEPT_OUT) {
        out_clear(&request->kept_out);
        if (request->local)
            local_free(request->local);
    }
    request->link.next = worker->requests.free;
    worker->requests.free = &request->link;
    worker->requests.free_count++;
}

/* The buffer for a kept reply that is written in pieces. */
static struct out *kept_out(struct request *request)
{
    CHECK(request->kept != KEPT_INLINE);
    if (request->kept == KEPT_NOTHING) {
        out_init(&request->kept_out);
        request->local = NULL;
        request->kept = KEPT_OUT;
    }
    return &request->kept_out;
}

void request_keep_reply(struct request *request, struct block *block, const char *data, size_t len)
{
    if (len <= REQUEST_INLINE_MAX && request->kept == KEPT_NOTHING) {
        memcpy(request->kept_text, data, len);
        request->kept_len = (uint8_t)len;
        request->kept = KEPT_INLINE;
    } else if (block) {
        out_write_block(kept_out(request), block, data, len);
    } else {
        out_write(kept_out(request), data, len);
    }
}

void request_move_kept(struct request *request, struct out *out)
{
    if (request->kept == KEPT_INLINE)
        out_write(out, request->kept_text, request->kept_len);
    else if (request->kept == KEPT_OUT)
        out_move(out, &request->kept_out);
}

size_t request_kept_bytes(const struct request *request)
{
    if (request->kept == KEPT_INLINE)
        return request->kept_len;
    return request->kept == KEPT_OUT ? request->kept_out.bytes : 0;
}

struct bytes request_reply_head(const struct request *request, size_t *len)
{
    struct iovec first;
    const struct out *out =
        request->progress.is_direct ? stream_out(request->client->stream) : NULL;
    *len = !out                              ? request_kept_bytes(request)
           : out->bytes > request->direct_at ? out->bytes - request->direct_at
                                             : 0;
    if (!*len)
        return BYTES("");
    if (out)
        return out_last(out, *len);
    if (request->kept == KEPT_INLINE)
        return (struct bytes){request->kept_text, request->kept_len};
    CHECK(out_iov(&request->kept_out, &first, 1) == 1);
    return (struct bytes){first.iov_base, first.iov_len};
}

/* ---- parts ----------------------------------------------------------------------------------- */

void request_make_parts(struct request *request, uint32_t count, uint32_t order_count)
{
    CHECK(!request->parts);
    CHECK(count > 0 && count <= SHARD_COUNT_MAX);
    size_t size = sizeof(struct parts) +
                  count * (sizeof(struct part) + sizeof(struct shard_reply)) +
                  order_count * sizeof(uint16_t);
    struct parts *parts = calloc(1, size);
    CHECK(parts);
    parts->count = count;
    parts->order_count = order_count;
    parts->part = (struct part *)(parts + 1);
    parts->reply = (struct shard_reply *)(parts->part + count);
    parts->order = (uint16_t *)(parts->reply + count);
    request->parts = parts;
    request->waiting = (uint16_t)count;
}

uint16_t *request_order(struct request *request)
{
    return request->parts->order;
}

struct part *request_helper_part(struct request *request, uint32_t i, struct node *node)
{
    CHECK(i < request->parts->count);
    struct part *part = &request->parts->part[i];
    part->request = request;
    part->index = (uint16_t)i;
    part->prefixes = request->is_internal ? 0 : PREFIX_PART;
    request->parts->reply[i].node = node_ref(node);
    return part;
}

struct part *request_part(struct request *request, uint32_t i, struct node *node)
{
    struct part *part = request_helper_part(request, i, node);
    part->prefixes = request->count.is_shards && !request->is_internal ? PREFIX_PART : 0;
    request->count.is_shards = true;
    return part;
}

struct part *request_part_at(struct request *request, uint32_t i)
{
    CHECK(i < request->parts->count);
    return &request->parts->part[i];
}

uint32_t request_reply_count(const struct request *request)
{
    return request->parts ? request->parts->count : 0;
}

const struct shard_reply *request_reply(const struct request *request, uint32_t i)
{
    CHECK(i < request_reply_count(request));
    struct shard_reply *reply = &request->parts->reply[i];
    reply->shard = reply->node->name;
    return reply;
}

static void keep_part_reply(struct part *part, struct block *block, const char *data, size_t len)
{
    struct shard_reply *reply = &part->request->parts->reply[part->index];
    CHECK(!reply->block);
    if (block && len > OUT_COPY_MAX) {
        reply->block = block_ref(block);
    } else { /* a small reply must not keep a whole block in memory */
        reply->block = block_new_exact(len);
        CHECK(reply->block);
        memcpy(reply->block->data, data, len);
        reply->block->used = len;
        data = reply->block->data;
    }
    reply->frame = (struct bytes){data, len};
}

/* ---- completion ------------------------------------------------------------------------------ */

static void local_continue(struct request *request);

struct out *request_reply_out(struct request *request)
{
    struct client *client = request->client;
    bool is_front = client->pipeline.front == &request->link;
    if (is_front && !request->is_silent && request->kept == KEPT_NOTHING) {
        if (!request->progress.is_direct)
            request->direct_at = stream_out(client->stream)->bytes;
        request->progress.is_direct = true;
        return stream_out(client->stream);
    }
    return kept_out(request);
}

static struct merge merge_of(struct request *request)
{
    const struct parts *parts = request->parts;
    for (uint32_t i = 0; i < parts->count; i++)
        (void)request_reply(request, i);
    return (struct merge){.rule = request->command->merge,
                          .replies = parts->reply,
                          .count = parts->count,
                          .order = parts->order,
                          .order_count = parts->order_count};
}

static void charge_reply(const struct client *client, size_t bytes)
{
    struct rate_limiter *limiter = client->session.keyspace->rate_limiter;
    if (limiter)
        rate_limiter_charge_reply(limiter, loop_mono_ms(client->worker->loop), bytes);
}

/* request_done_fn: a portion of a merge. */
static void merge_some(struct client *client, struct request *request, struct reply *reply)
{
    struct merge merge = merge_of(request);
    if (merge_go_on(&merge, request_state(request, merge_state_size(&merge)), reply))
        request_next_turn(request, merge_some);
    else
        charge_reply(client, reply->out->bytes);
}

static void request_merge(struct request *request)
{
    struct client *client = request->client;
    if (request->is_blocking)
        client->worker->client_events->answered(client, request, NULL);
    struct merge merge = merge_of(request);
    if (merge_state_size(&merge)) {
        request_next_turn(request, merge_some);
        return;
    }
    struct out *out = request_reply_out(request);
    struct reply reply = {.out = out, .resp = request->resp};
    size_t begun = out->bytes;
    merge_replies(&merge, &reply);
    charge_reply(client, out->bytes - begun);
    client_ready(client, request);
}

static void request_complete(struct request *request)
{
    if (request->progress.is_running)
        return; /* request_go, or the caller of the handler, will complete the request */
    if (request->progress.is_async)
        local_continue(request);
    else if (!request->client)
        request_release(request);
    else
        request_merge(request);
}

/* A part has its reply, or has failed: completes the request if it was the last part. */
static void finish_part(struct request *request)
{
    struct client *client = request->client;
    if (request->waiting == 0)
        request_complete(request);
    else if (request->is_blocking && client)
        client->worker->client_events->part_answered(client, request);
}

void part_answered(struct part *part, struct block *block, const char *data, size_t len)
{
    struct request *request = part->request;
    CHECK(request->waiting > 0);
    CHECK(request->linked > 0);
    request->linked--;
    request->waiting--;
    if (request->parts) {
        keep_part_reply(part, block, data, len);
        finish_part(request);
    } else if (request->client) {
        if (request->command && request->command->flags & CMD_SCRIPT_CACHE)
            script_notes_check(&request->worker->script_notes, data, len);
        client_answer(request->client, request, block, data, len);
    } else {
        request_release(request);
    }
}

/* A request counts as one error of the proxy, however many of its parts fail. Those of the proxy itself have no client. */
static void count_failure(struct request *request)
{
    enum metric metric = request->is_internal ? METRIC_PROXY_INTERNAL_ERRORS : METRIC_PROXY_ERRORS;
    if (!request->has_failed || request->is_internal)
        metric_add(request->worker->metrics.process, metric, 1);
    request->has_failed = true;
}

void part_failed(struct part *part, const char *text)
{
    struct request *request = part->request;
    char frame[FAILURE_MAX];
    CHECK(request->waiting > 0);
    request->waiting--;
    struct out out;
    out_init(&out);
    struct reply reply = {.out = &out, .resp = 2};
    reply_error(&reply, text);
    size_t len = out.bytes < sizeof(frame) ? out.bytes : 0;
    if (len)
        out_copy(&out, frame);
    out_clear(&out);
    if (!len)
        len = (size_t)snprintf(frame, sizeof(frame), "-" SHARD_LOST_CODE " shard failed\r\n");
    count_failure(request);
    if (request->parts) {
        request->parts->reply[part->index].is_failure = true;
        keep_part_reply(part, NULL, frame, len);
        finish_part(request);
    } else if (request->client) {
        client_answer(request->client, request, NULL, frame, len);
    }
}

void part_unlinked(struct part *part)
{
    struct request *request = part->request;
    CHECK(request->linked > 0);
    request->linked--;
    bool is_done = !request->progress.is_queued && request->waiting == 0;
    if (!request->progress.is_async && (is_done || !request->client))
        request_release(request);
}

void request_abandon(struct request *request)
{
    CHECK(!request->client);
    request->progress.is_async = false;
    request_release(request);
}

void request_hold(struct request *request)
{
    CHECK(!request->progress.is_running);
    request->progress.is_running = true;
}

void request_go(struct request *request)
{
    CHECK(request->progress.is_running);
    request->progress.is_running = false;
    if (request->waiting == 0)
        request_complete(request);
}

/* ---- local commands -------------------------------------------------------------------------- */

static struct local_state *local_of(struct request *request)
{
    (void)kept_out(request);
    if (!request->local) {
        request->local = calloc(1, sizeof(*request->local));
        CHECK(request->local);
    }
    return request->local;
}

static const struct local_state *kept_local(const struct request *request)
{
    return request->kept == KEPT_OUT ? request->local : NULL;
}

const struct bytes *request_argv(const struct request *request)
{
    const struct local_state *local = kept_local(request);
    return local && local->argv ? local->argv : request->worker->scratch.argv;
}

uint32_t request_argc(const struct request *request)
{
    const struct local_state *local = kept_local(request);
    return local && local->argv ? local->argc : request->worker->scratch.argc;
}

/* Takes over the arguments of a request that was prepared in turns. False: it was not. */
static bool take_prepared(struct local_state *local, struct worker_scratch *scratch)
{
    if (!scratch->made || !scratch->block)
        return false;
    local->block = block_ref(scratch->block);
    local->argv = scratch->argv;
    local->argc = scratch->argc;
    scratch->argv = NULL;
    scratch->argv_cap = 0;
    scratch->made = NULL;
    return true;
}

void request_keep(struct request *request)
{
    struct local_state *local = local_of(request);
    if (local->argv || take_prepared(local, &request->worker->scratch))
        return;
    const struct bytes *argv = request->worker->scratch.argv;
    uint32_t argc = request->worker->scratch.argc;
    size_t size = argc * sizeof(*argv);
    for (uint32_t i = 0; i < argc; i++)
        size += argv[i].len;
    struct bytes *copy = malloc(size + 1);
    CHECK(copy);
    char *text = (char *)(copy + argc);
    for (uint32_t i = 0; i < argc; i++) {
        copy[i] = (struct bytes){text, argv[i].len};
        memcpy(text, argv[i].data, argv[i].len);
        text += argv[i].len;
    }
    local->argv = copy;
    local->argc = argc;
}

void *request_state(struct request *request, size_t size)
{
    struct local_state *local = local_of(request);
    if (!local->memory) {
        local->memory = calloc(1, size);
        CHECK(local->memory);
    }
    return local->memory;
}

/* The handler has written its reply. */
static void local_finish(struct request *request)
{
    struct client *client = request->client;
    if (client)
        client_ready(client, request);
    else
        request_release(request);
}

/* Runs a handler. Its reply obeys client-output-limit while it is made: a longer one becomes an error. */
static void run_limited(struct request *request, request_done_fn *handler, struct reply *reply)
{
    struct client *client = request->client;
    struct out *out = reply->out;
    size_t begun = out == &request->kept_out ? 0 : out->bytes;
    out_limit(out, begun + worker_config(request->worker)->client_output_limit_bytes);
    request->progress.is_running = true;
    handler(client, request, reply);
    request->progress.is_running = false;
    if (client->is_closed) /* the out is gone */
        return;
    bool is_over = out_is_over(out);
    out_limit(out, 0);
    if (!is_over)
        return;
    out_truncate(out, begun);
    reply_error(reply, "ERR the reply would be longer than client-output-limit of the proxy");
}

static void local_continue(struct request *request)
{
    while (request->progress.is_async && request->waiting == 0) {
        struct client *client = request->client;
        const struct local_state *local = local_of(request);
        CHECK(local->done);
        request->progress.is_async = false;
        if (!client && !request->is_internal)
            break;
        struct reply reply = {.out = kept_out(request), .resp = request->resp};
        if (client) {
            run_limited(request, local->done, &reply);
            continue;
        }
        request->progress.is_running = true;
        local->done(NULL, request, NULL);
        request->progress.is_running = false;
    }
    if (!request->progress.is_async)
        local_finish(request);
}

void request_run_local(struct request *request, request_done_fn *handler, uint32_t argc)
{
    struct client *client = request->client;
    struct client_session *session = &client->session;
    CHECK(request->progress.is_queued);
    request->worker->scratch.argc = argc;
    request->is_silent = session->reply_mode != REPLY_MODE_ON;
    request->count.own = OWN_RUN;
    struct reply reply = {.out = request_reply_out(request), .resp = request->resp};
    run_limited(request, handler, &reply);
    request->is_silent =
        session->reply_mode == REPLY_MODE_OFF || session->reply_mode == REPLY_MODE_SKIP;
    if (request->progress.is_async)
        local_continue(request);
    else
        local_finish(request);
}

struct request *request_internal(struct proxy_worker *worker)
{
    struct request *request = request_new(worker, NULL);
    request->is_internal = true;
    return request;
}

/* Makes the request wait for `done`. */
static void local_wait(struct request *request, request_done_fn *done)
{
    struct local_state *local = local_of(request);
    CHECK(!request->progress.is_async);
    gathered_free(local);
    local->done = done;
    request->progress.is_async = true;
    /* what a handler writes before it waits would be a reply of its own */
    CHECK(!request->progress.is_direct ||
          stream_out(request->client->stream)->bytes == request->direct_at);
    request->progress.is_direct = false;
}

/* ---- parts of a handler --------------------------------------------------------------------------------- */

void request_wait_parts(struct request *request, uint32_t count, request_done_fn *done)
{
    struct parts *older = request->parts;
    /* the next commands may use the replies of this fan-out as arguments, so they are freed one fan-out later */
    if (older && request->linked == 0) {
        parts_free(older->older);
        older->older = NULL;
    }
    local_wait(request, done);
    request->parts = NULL;
    request_make_parts(request, count, 0);
    request->parts->older = older;
}

/* ---- waiting for something else ------------------------------------------------------------------------------- */

void request_wait(struct request *request, request_done_fn *done)
{
    local_wait(request, done);
    request->waiting = 1;
    request->linked++;
}

void request_wake(struct request *request)
{
    request->linked--;
    request->waiting--;
    worker_clock(request->worker);
    request_complete(request);
}

void request_put_gathered(struct request *request, struct out *outs, uint32_t count)
{
    request->local->gathered = outs;
    request->local->gathered_count = count;
}

uint32_t request_gathered_count(const struct request *request)
{
    return request->local->gathered_count;
}

struct out *request_gathered(struct request *request, uint32_t i)
{
    CHECK(i < request->local->gathered_count);
    return &request->local->gathered[i];
}
