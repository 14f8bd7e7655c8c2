#include "proxy/limit_rounds.h"

#include "proxy/fan_out.h"
#include "proxy/limits_inner.h"
#include "proxy/proxy.h"
#include "proxy/upstream/node.h"
#include "proxy/upstream/pool.h"
#include "proxy/worker.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    IDLE_ROUNDS = 5, /* without limits only every fifth round asks for maxmemory */
    /* While a namespace has max-keys: what clients create at several shards between two rounds may exceed it. */
    OFTEN_MS = 50,
};

/* A message in flight; kept in its request. */
struct question {
    struct limits *limits;
    struct limit **asked; /* heap */
    uint32_t count;
    int shard;
};

/* Reads the next integer of an array of integers. */
static bool next_number(const struct shard_reply *answer, size_t *pos, uint64_t *number)
{
    struct resp_value value;
    return resp_value_next(answer->frame, pos, &value) && value.type == ':' &&
           number_parse_uint64(resp_value_text(&value), number);
}

static void keep_answer(struct limits *limits, const struct question *question,
                        const struct shard_reply *answer, int shard)
{
    struct resp_value head;
    size_t pos = 0;
    struct usage usage = {.is_known = true};
    uint64_t maxmemory;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &head) || head.type != '*' ||
        !next_number(answer, &pos, &usage.bytes) || !next_number(answer, &pos, &maxmemory))
        return; /* the shard is down, or older than this proxy: what it had before is kept */
    usage.asked = limits->shares[shard].asked;
    limits->shares[shard] = usage;
    usage.asked = 0;
    if (maxmemory > limits->maxmemory)
        limits->maxmemory = maxmemory;
    for (uint32_t i = 0; i < question->count; i++) {
        if (!next_number(answer, &pos, &usage.keys) || !next_number(answer, &pos, &usage.bytes))
            return;
        question->asked[i]->usage[shard] = usage;
    }
}

/* request_done_fn */
static void limits_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct question *question = request_state(request, sizeof *question);
    struct limits *limits = question->limits;
    const struct shard_reply *answer = request_reply(request, 0);
    (void)client;
    (void)reply;
    limits_lock(limits);
    int shard = limits_shard(limits, answer->node->name);
    if (shard >= 0) {
        limits->shares[shard].asked -= limits->shares[shard].asked > 0;
        keep_answer(limits, question, answer, shard);
    }
    for (uint32_t i = 0; i < question->count; i++)
        question->asked[i]->in_flight--;
    limits_unlock(limits);
    free(question->asked);
}

/* Sends the limits after *last, at most NAMESPACES_EACH, to a shard; *last becomes the last of them. Other workers may add
 * limits at the end of the list. True: there are more. */
static bool send_some(struct limits *limits, struct proxy_worker *worker, int shard,
                      struct list **last)
{
    struct limit_message *message = malloc(sizeof *message);
    struct request *request = request_internal(worker);
    struct question *question = request_state(request, sizeof *question);
    *question = (struct question){.limits = limits, .shard = shard};
    question->asked = calloc(NAMESPACES_EACH, sizeof(struct limit *));
    CHECK(message && question->asked);
    limits_lock(limits);
    limit_message_begin(limits, message, shard);
    while ((*last)->next != &limits->all && question->count < NAMESPACES_EACH) {
        *last = (*last)->next;
        struct limit *limit = container_of(*last, struct limit, link);
        limit_message_add(limits, message, limit, shard);
        limit->in_flight++;
        question->asked[question->count++] = limit;
    }
    bool has_more = (*last)->next != &limits->all;
    limits->shares[shard].asked++;
    limits_unlock(limits);
    request_fan_out(request, NULL, shard, message->argv, message->argc, limits_answered);
    free(message);
    return has_more;
}

/* Sends the limits to each shard that has answered the messages before. */
static void ask_for_counts(struct limits *limits, struct proxy_worker *worker)
{
    const struct pool *pool = worker->pool;
    for (size_t i = 0; pool->nodes && i < limits->shard_count && i < pool->count; i++) {
        struct list *last = &limits->all;
        while (limits->shares[i].asked == 0 && send_some(limits, worker, (int)i, &last))
            ;
    }
}

void limit_rounds_often(void *owner)
{
    struct proxy_worker *worker = owner;
    ask_for_counts(worker->proxy->tenants.limits, worker);
}

static bool has_max_keys(const struct limits *limits)
{
    bool found = false;
    for (const struct list *at = limits->all.next; !found && at != &limits->all; at = at->next)
        found = container_of(at, struct limit, link)->max_keys > 0;
    return found;
}

/* ---- once a second ---- */

static void set_limit_gauges(struct limits *limits, struct proxy_worker *worker,
                             struct limit *limit)
{
    struct usage sum = limits_sum(limits, limit->usage, -1);
    bool is_shown = limit->refs && sum.is_known;
    if (!limit->cell)
        limit->cell = proxy_metrics_space(&worker->proxy->labelled, limit_name(limit), 0);
    cell_set(limit->cell, TENANT_MAX_KEYS, limit->refs ? limit->max_keys : 0);
    cell_set(limit->cell, TENANT_MAX_BYTES, limit->refs ? limit->max_bytes : 0);
    cell_set(limit->cell, TENANT_KEYS, is_shown ? sum.keys : 0);
    cell_set(limit->cell, TENANT_BYTES, is_shown ? sum.bytes : 0);
}

/* Sets the gauges, and frees the limits of namespaces without clients. */
static void look_at_all(struct limits *limits, struct proxy_worker *worker)
{
    struct list *next;
    for (struct list *at = limits->all.next; at != &limits->all; at = next) {
        struct limit *limit = container_of(at, struct limit, link);
        next = at->next;
        set_limit_gauges(limits, worker, limit);
        if (!limit->refs && !limit->in_flight)
            limit_free(limits, limit);
    }
}

void limit_rounds_tick(struct limits *limits, struct proxy_worker *worker)
{
    struct pool *pool = worker->pool;
    if (!pool->nodes || !*worker->snapshot->config.upstream_secret)
        return;
    const char **names = calloc(pool->count + 1, sizeof *names);
    CHECK(names);
    for (size_t i = 0; i < pool->count; i++)
        names[i] = pool->nodes[i]->name;
    limits_lock(limits);
    limits_set_shards(limits, names, pool->count);
    look_at_all(limits, worker);
    bool has_any = !list_empty(&limits->all);
    bool is_due =
        has_any || (pool->count > 1 && (limits->maxmemory || limits->rounds % IDLE_ROUNDS == 0));
    bool is_often = pool->count > 1 && has_max_keys(limits);
    limits->rounds++;
    if (is_due)
        limits->maxmemory = 0; /* the answers set it */
    limits_unlock(limits);
    free(names);
    if (is_due)
        ask_for_counts(limits, worker);
    if (is_often)
        timer_start(worker->thread.limits, OFTEN_MS, OFTEN_MS);
    else
        timer_stop(worker->thread.limits);
}
