#include "proxy/client/fan_out.h"

#include "proxy/core/client.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/copy_control.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"

#include <string.h>

/* Sends the command to one shard. */
static void send_to(struct request *request, const struct fan_out *how, uint32_t i, uint32_t shard)
{
    struct pool *pool = request->worker->pool;
    struct client *client = request->client;
    bool is_control = how->lane == LANE_CONTROL;
    uint8_t resp = is_control ? 2 : request->resp;
    struct keyspace *keyspace = how->keyspace;
    struct bytes words[FAN_OUT_ARGS];
    const struct bytes *argv = how->argv;
    if (!keyspace)
        keyspace = client && !is_control ? client->session.keyspace : request->worker->home;
    if (how->name_at) {
        CHECK(how->argc <= FAN_OUT_ARGS);
        memcpy(words, argv, how->argc * sizeof words[0]);
        words[how->name_at] = bytes_of(pool->nodes[shard]->name);
        argv = words;
    }
    struct node *node = pool->nodes[shard];
    struct part *part = command_find_argv(argv, how->argc) == request->command
                            ? request_part(request, i, node)
                            : request_helper_part(request, i, node);
    upstream_send_words(pool_pick(pool, shard, how->lane, resp), part, keyspace, argv, how->argc);
}

void request_fan_out_with(struct request *request, const struct fan_out *how, request_done_fn *done)
{
    struct pool *pool = request->worker->pool;
    /* if a handler of the request is on the stack, the request is completed when that handler returns */
    bool is_handler = request->progress.is_running;
    if (!pool->nodes) { /* the worker is stopping */
        request_release(request);
        return;
    }
    uint32_t first = how->shard == SHARDS_ALL   ? 0
                     : how->shard == SHARDS_ANY ? pool_any(pool)
                                                : (uint32_t)how->shard;
    uint32_t count = how->shard == SHARDS_ALL ? (uint32_t)pool->count : 1;
    CHECK(first + count <= pool->count);
    request_wait_parts(request, count, done);
    if (!is_handler)
        request_hold(request);
    for (uint32_t i = 0; i < count; i++)
        send_to(request, how, i, first + i);
    if (!is_handler)
        request_go(request);
}

/* Sends a part on the control connection of its copy. */
static void send_fan_part(struct request *request, const struct fan_part *how, uint32_t i)
{
    struct pool *pool = request->worker->pool;
    struct node *node = how->node;
    struct upstream *upstream =
        node->is_copy ? copy_control(pool, node) : pool_pick(pool, node->index, LANE_CONTROL, 2);
    struct part *part = command_find_argv(how->argv, how->argc) == request->command
                            ? request_part(request, i, node)
                            : request_helper_part(request, i, node);
    upstream_send_words(upstream, part, request->worker->home, how->argv, how->argc);
}

void request_fan_out_to(struct request *request, const struct fan_part *parts, uint32_t count,
                        request_done_fn *done)
{
    bool is_handler = request->progress.is_running;
    if (!request->worker->pool->nodes) { /* the worker is stopping */
        request_release(request);
        return;
    }
    CHECK(count > 0 && count <= UINT16_MAX);
    request_wait_parts(request, count, done);
    if (!is_handler)
        request_hold(request);
    for (uint32_t i = 0; i < count; i++)
        send_fan_part(request, &parts[i], i);
    if (!is_handler)
        request_go(request);
}

void request_fan_out_each(struct request *request, const struct fan_out *commands, uint32_t count,
                          request_done_fn *done)
{
    struct pool *pool = request->worker->pool;
    bool is_handler = request->progress.is_running;
    if (!pool->nodes) { /* the worker is stopping */
        request_release(request);
        return;
    }
    uint32_t shards = (uint32_t)pool->count;
    request_wait_parts(request, count * shards, done);
    if (!is_handler)
        request_hold(request);
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = 0; i < shards; i++)
            send_to(request, &commands[c], c * shards + i, i);
    if (!is_handler)
        request_go(request);
}

void request_fan_out(struct request *request, struct keyspace *keyspace, int shard,
                     const struct bytes *argv, uint32_t argc, request_done_fn *done)
{
    const struct fan_out how = {.keyspace = keyspace, .shard = shard, .argv = argv, .argc = argc};
    request_fan_out_with(request, &how, done);
}
