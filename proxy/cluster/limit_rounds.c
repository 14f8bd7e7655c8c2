#include "proxy/cluster/limit_rounds.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/limits_inner.h"
#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    IDLE_ROUNDS = 5, /* without limits only every fifth round asks for maxmemory */
    OFTEN_MS = 50,   /* while a namespace has max-keys and there are several shards */
    REPEATS_MAX =
        8, /* rounds that begin at once, because a shard wants more keys, until the timer's next one */
};

/* A message in flight; kept in its request. */
struct question {
    struct limits *limits;
    struct limit **asked; /* heap */
    uint32_t *tenures;    /* of their ledgers; heap */
    uint32_t count;
    int shard;
    bool has_grants;
};

static void ask_for_counts(struct limits *limits, struct proxy_worker *worker);

/* Reads the next integer of an array of integers. */
static bool next_number(const struct shard_reply *answer, size_t *pos, uint64_t *number)
{
    struct resp_value value;
    return resp_value_next(answer->frame, pos, &value) && value.type == ':' &&
           number_parse_uint64(resp_value_text(&value), number);
}

/* Reads the report about one grant at *pos, from a shard that has `keys` keys. Its number `fewest` stands at *tail, behind the reports of
 * all namespaces. */
static bool next_report(const struct shard_reply *answer, size_t *pos, size_t *tail, uint64_t keys,
                        struct grant_report *report)
{
    uint64_t is_new;
    uint64_t wants;
    *report = (struct grant_report){.keys = keys};
    if (!next_number(answer, pos, &report->claim) || !next_number(answer, pos, &report->version) ||
        !next_number(answer, pos, &is_new) || !next_number(answer, pos, &wants) ||
        !next_number(answer, tail, &report->fewest))
        return false;
    report->is_new = is_new > 0;
    report->wants = wants > 0;
    return true;
}

/* The position after the reports of this number of namespaces. */
static size_t after_reports(const struct shard_reply *answer, size_t pos, uint32_t namespaces)
{
    enum { REPORT_NUMBERS = 6 };
    uint64_t number;
    for (uint32_t i = 0; i < namespaces * REPORT_NUMBERS; i++)
        if (!next_number(answer, &pos, &number))
            break;
    return pos;
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
    size_t tail = question->has_grants ? after_reports(answer, pos, question->count) : 0;
    for (uint32_t i = 0; i < question->count; i++) {
        if (!next_number(answer, &pos, &usage.keys) || !next_number(answer, &pos, &usage.bytes))
            return;
        question->asked[i]->usage[shard] = usage;
        struct grant_report report;
        if (!question->has_grants)
            continue;
        if (!next_report(answer, &pos, &tail, usage.keys, &report))
            return;
        grant_reported(&question->asked[i]->grants, (size_t)shard, question->tenures[i], &report);
    }
}

/* True when all shards have answered, and one of them needs a bigger grant of a namespace, or the certainty that the namespace is full. */
static bool wants_more(const struct limits *limits, const struct question *question)
{
    for (size_t i = 0; i < limits->shard_count; i++)
        if (limits->shares[i].asked)
            return false;
    for (uint32_t i = 0; question->has_grants && i < question->count; i++)
        if (grant_is_wanted(&question->asked[i]->grants))
            return true;
    return false;
}

/* request_done_fn */
static void limits_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct question *question = request_state(request, sizeof *question);
    struct limits *limits = question->limits;
    const struct shard_reply *answer = request_reply(request, 0);
    struct proxy_worker *worker = request->worker;
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
    bool is_again = limits->repeats < REPEATS_MAX && wants_more(limits, question);
    limits->repeats += is_again;
    limits_unlock(limits);
    free(question->asked);
    free(question->tenures);
    if (is_again)
        ask_for_counts(limits, worker);
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
    question->tenures = calloc(NAMESPACES_EACH, sizeof(uint32_t));
    CHECK(message && question->asked && question->tenures);
    limits_lock(limits);
    limit_message_begin(limits, message, shard, true);
    question->has_grants = message->has_grants;
    while ((*last)->next != &limits->all && question->count < NAMESPACES_EACH) {
        *last = (*last)->next;
        struct limit *limit = container_of(*last, struct limit, link);
        limit_message_add(limits, message, limit, shard);
        limit->in_flight++;
        question->tenures[question->count] = limit->grants.tenure;
        question->asked[question->count++] = limit;
    }
    bool has_more = (*last)->next != &limits->all;
    limits->shares[shard].asked++;
    limits_unlock(limits);
    /* not behind commands of clients, which may wait for these orders */
    const struct fan_out how = {.keyspace = worker->home,
                                .shard = shard,
                                .lane = LANE_CONTROL,
                                .argv = message->argv,
                                .argc = message->argc};
    request_fan_out_with(request, &how, limits_answered);
    free(message);
    return has_more;
}

/* Sends the limits to each shard that has answered all earlier messages. */
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
    struct limits *limits = worker->proxy->tenants.limits;
    limits->repeats = 0;
    ask_for_counts(limits, worker);
}

static bool has_max_keys(const struct limits *limits)
{
    bool found = false;
    for (const struct list *at = limits->all.next; !found && at != &limits->all; at = at->next)
        found = container_of(at, struct limit, link)->max_keys > 0;
    return found;
}

/* ---- once a second ---- */

static void set_limit_gauges(struct proxy_worker *worker, struct limit *limit)
{
    if (!limit->cell)
        limit->cell = proxy_metrics_space(&worker->proxy->labelled, limit_name(limit), 0);
    cell_set(limit->cell, TENANT_MAX_KEYS, limit->refs ? limit->max_keys : 0);
    cell_set(limit->cell, TENANT_MAX_BYTES, limit->refs ? limit->max_bytes : 0);
}

/* Sets the gauges, and frees the limits of namespaces without clients. */
static void look_at_all(struct limits *limits, struct proxy_worker *worker)
{
    struct list *next;
    for (struct list *at = limits->all.next; at != &limits->all; at = next) {
        struct limit *limit = container_of(at, struct limit, link);
        next = at->next;
        set_limit_gauges(worker, limit);
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
    limits->epoch = worker->snapshot->map->epoch;
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

/* struct task */
static void begin_round(struct task *task)
{
    struct limits *limits = container_of(task, struct limits, begin);
    limits_lock(limits);
    struct proxy_worker *worker = limits->worker;
    limits->is_begun = false;
    limits_unlock(limits);
    if (worker)
        limit_rounds_tick(limits, worker);
}

void limit_rounds_serve(struct limits *limits, struct proxy_worker *worker)
{
    limits_lock(limits);
    limits->worker = worker;
    limits->begin.run = begin_round;
    limits_unlock(limits);
}
