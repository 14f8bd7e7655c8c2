#include "proxy/local/local_whole.h"

#include "proxy/client/fan_out.h"
#include "proxy/client/lane.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/slot.h"

#include <stdlib.h>

enum {
    PREFIX_WORDS = 2, /* SCREE OWNED */
    PAUSE_MS = 1,     /* before the first repetition; doubled each time */
    PAUSE_MAX_MS = 64,
};

/* State of a command for all keys. */
struct whole {
    const struct bytes *argv;
    uint32_t argc;
    whole_done_fn *done;
    uint64_t until_ms; /* monotonic: end of its time; it is not repeated later */
    uint32_t pause_ms;
    struct timer *timer; /* of the pause; NULL: none */
    struct request *request;
};

static struct whole *whole_of(struct request *request)
{
    return request_state(request, sizeof(struct whole));
}

/* ---- sending ---- */

static void shards_replied(struct client *client, struct request *request, struct reply *reply);

static void ask_all_shards(struct client *client, struct request *request)
{
    const struct whole *whole = whole_of(request);
    struct pool *pool = client->worker->pool;
    uint32_t prefix = local_has_backends(client) ? PREFIX_WORDS : 0;
    bool is_request = command_find_argv(whole->argv, whole->argc) == request->command;
    struct bytes *words = malloc((PREFIX_WORDS + whole->argc) * sizeof *words);
    CHECK(words);
    words[0] = BYTES("SCREE");
    words[1] = BYTES("OWNED");
    memcpy(words + prefix, whole->argv, whole->argc * sizeof *words);
    request_wait_parts(request, (uint32_t)pool->count, shards_replied);
    bool is_handler = request->progress.is_running;
    if (!is_handler)
        request_hold(request);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct part *part = is_request ? request_part(request, i, pool->nodes[i])
                                       : request_helper_part(request, i, pool->nodes[i]);
        upstream_send_words(client_upstream(client, i, request->command, 0), part,
                            client->session.keyspace, words, prefix + whole->argc);
    }
    free(words);
    if (!is_handler)
        request_go(request);
}

void whole_send(struct client *client, struct request *request, const struct bytes *argv,
                uint32_t argc, whole_done_fn *done)
{
    struct whole *whole = whole_of(request);
    uint64_t timeout_ms = client->worker->snapshot->config.upstream_timeout_ms;
    *whole = (struct whole){.argv = argv,
                            .argc = argc,
                            .done = done,
                            .until_ms = loop_mono_ms(client->worker->loop) + timeout_ms,
                            .pause_ms = PAUSE_MS,
                            .request = request};
    client->label = LABEL_BOUNCED;
    ask_all_shards(client, request);
}

/* ---- repeating ---- */

/* request_done_fn: the pause is over. */
static void paused(struct client *client, struct request *request, struct reply *reply)
{
    if (client->worker->pool->nodes)
        ask_all_shards(client, request);
    else
        reply_error(reply, "ERR the proxy is stopping");
}

/* timer_fn */
static void pause_is_over(void *owner)
{
    struct whole *whole = owner;
    timer_free(whole->timer);
    whole->timer = NULL;
    request_wake(whole->request);
}

bool whole_again(struct client *client, struct request *request)
{
    struct whole *whole = whole_of(request);
    struct loop *loop = client->worker->loop;
    if (loop_mono_ms(loop) >= whole->until_ms || client->worker->thread.is_stopping)
        return false;
    request_wait(request, paused);
    whole->timer = timer_new(loop, pause_is_over, whole);
    timer_start(whole->timer, whole->pause_ms, 0);
    whole->pause_ms = whole->pause_ms < PAUSE_MAX_MS ? whole->pause_ms * 2 : PAUSE_MAX_MS;
    return true;
}

/* ---- replies ---- */

/* Removes the sum of the owned slots from the reply, so that only the command's own reply is left. Returns the sum, or -1 if the reply
 * has none. */
static int64_t take_owned(struct shard_reply *answer)
{
    struct resp_value array;
    struct resp_value sum;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &array) || array.type != '*' ||
        array.count != 2 || !resp_value_next(answer->frame, &pos, &sum) || sum.type != ':')
        return -1;
    answer->frame.data += pos;
    answer->frame.len -= pos;
    return sum.count;
}

/* The replies without the sums. *sum: the total of all shards; *are_owners: all replies had a sum. */
static struct shard_reply *take_replies(struct request *request, bool is_wrapped, uint64_t *sum,
                                        bool *are_owners)
{
    uint32_t count = request_reply_count(request);
    struct shard_reply *replies = malloc((count + 1) * sizeof *replies);
    CHECK(replies);
    *sum = 0;
    *are_owners = is_wrapped;
    for (uint32_t i = 0; i < count; i++) {
        replies[i] = *request_reply(request, i);
        int64_t owned = is_wrapped ? take_owned(&replies[i]) : -1;
        *are_owners &= owned >= 0 || replies[i].is_failure;
        if (owned >= 0)
            *sum += (uint64_t)owned;
    }
    *sum &= SLOT_SUM_MASK;
    return replies;
}

/* Leaves out shards that were not reachable. */
static uint32_t drop_failures(struct shard_reply *replies, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!replies[i].is_failure)
            replies[kept++] = replies[i];
    return kept;
}

static bool has_failure(const struct shard_reply *replies, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (replies[i].is_failure)
            return true;
    return false;
}

static void shards_replied(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t count = request_reply_count(request);
    uint64_t sum;
    bool are_owners;
    struct shard_reply *replies =
        take_replies(request, local_has_backends(client), &sum, &are_owners);
    bool is_whole = !are_owners || sum == SLOT_SUM_ALL;
    if (are_owners && is_whole)
        count = drop_failures(replies, count);
    if (is_whole || has_failure(replies, count))
        whole_of(request)->done(client, request, replies, count, reply);
    else if (!whole_again(client, request))
        reply_error(reply,
                    "TRYAGAIN slots are moving to other shards, and the command has not reached "
                    "all of them: send it again");
    free(replies);
}

/* ---- commands ---- */

/* whole_done_fn */
static void reply_merged(struct client *client, struct request *request,
                         const struct shard_reply *replies, uint32_t count, struct reply *reply)
{
    const struct merge merge = {
        .rule = request->command->merge, .replies = replies, .count = count};
    (void)client;
    merge_replies(&merge, reply);
}

static void run_whole(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    request_keep(request);
    whole_send(client, request, request_argv(request), request_argc(request), reply_merged);
}

void local_dbsize(struct client *client, struct request *request, struct reply *reply)
{
    run_whole(client, request, reply);
}

void local_flushall(struct client *client, struct request *request, struct reply *reply)
{
    run_whole(client, request, reply);
}

void local_flushdb(struct client *client, struct request *request, struct reply *reply)
{
    run_whole(client, request, reply);
}

void local_keys(struct client *client, struct request *request, struct reply *reply)
{
    run_whole(client, request, reply);
}

/* The integer that a shard replied, or -1. */
static int64_t answered_count(const struct shard_reply *answer)
{
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != ':')
        return -1;
    return value.count;
}

static void pass_shard_reply(const struct shard_reply *answer, struct reply *reply)
{
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* request_done_fn: the reply of the shard that was chosen. It is null if the shard's keys have moved or expired since. */
static void randomkey_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    bool is_null = answer->frame.data[0] == '_' ||
                   (answer->frame.data[0] == '$' && answer->frame.data[1] == '-');
    if (!is_null || !whole_again(client, request))
        pass_shard_reply(answer, reply);
}

/* whole_done_fn: the shards' numbers of keys are here; chooses a shard and sends RANDOMKEY to it. */
static void sizes_done(struct client *client, struct request *request,
                       const struct shard_reply *replies, uint32_t count, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"RANDOMKEY", 9}};
    struct pool *pool = client->worker->pool;
    int64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (answered_count(&replies[i]) < 0) {
            pass_shard_reply(&replies[i], reply);
            return;
        }
        total += answered_count(&replies[i]);
    }
    if (total == 0) {
        reply_null(reply);
        return;
    }
    int64_t draw = (int64_t)(clock_random() % (uint64_t)total);
    uint32_t i = 0;
    while ((draw -= answered_count(&replies[i])) >= 0)
        i++;
    int shard = 0;
    while ((size_t)shard < pool->count && pool->nodes[shard] != replies[i].node)
        shard++;
    if ((size_t)shard < pool->count)
        request_fan_out(request, client->session.keyspace, shard, ARGV, 1, randomkey_done);
    else if (!whole_again(client, request)) /* a new map has removed the shard */
        reply_null(reply);
}

/* Chooses a shard at random, with the numbers of keys as weights, so that all keys are equally likely. */
void local_randomkey(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"DBSIZE", 6}};
    (void)reply;
    whole_send(client, request, ARGV, 1, sizes_done);
}
