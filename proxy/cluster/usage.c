#include "proxy/cluster/usage.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/check.h"
#include "shared/namespace.h"
#include "shared/number.h"
#include "shared/table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* One namespace. Only worker 0 changes it. */
struct use {
    struct usage_figures figures; /* of the last complete round; guarded by the mutex */
    struct usage_figures sum;     /* of the present round */
    struct metric_cell *cell;     /* NULL: not used yet */
    uint64_t round;               /* the last round that has seen it */
    size_t name_len;
    char name[];
};

struct usages {
    pthread_mutex_t mutex;
    struct table *by_name; /* of struct use */
    uint64_t at_ms;        /* when the last complete round ended, monotonic; 0: none yet */
    /* worker 0 only */
    const struct shard_map *map; /* of the present round; only compared */
    uint64_t begun_ms;           /* the present round, monotonic */
    uint64_t next_ms;            /* when the next one may begin */
    uint64_t round;
    uint32_t left;   /* shards that have not answered their last page */
    bool has_failed; /* a shard of the present round */
};

/* A message in flight; kept in its request. */
struct usage_question {
    struct usages *usages;
    int shard;
};

static void lock_usages(struct usages *usages)
{
    CHECK(pthread_mutex_lock(&usages->mutex) == 0);
}

static void unlock_usages(struct usages *usages)
{
    CHECK(pthread_mutex_unlock(&usages->mutex) == 0);
}

struct usages *usages_new(void)
{
    struct usages *usages = calloc(1, sizeof *usages);
    CHECK(usages);
    CHECK(pthread_mutex_init(&usages->mutex, NULL) == 0);
    usages->by_name = table_new();
    return usages;
}

void usages_free(struct usages *usages)
{
    size_t cursor = 0;
    struct bytes name;
    void *use;
    while (table_next(usages->by_name, &cursor, &name, &use))
        free(use);
    table_free(usages->by_name);
    (void)pthread_mutex_destroy(&usages->mutex);
    free(usages);
}

/* ---- one round ---- */

static struct use *use_of(struct usages *usages, struct bytes name)
{
    struct use *use = table_get(usages->by_name, name);
    if (use)
        return use;
    use = calloc(1, sizeof *use + name.len);
    CHECK(use);
    use->name_len = name.len;
    memcpy(use->name, name.data, name.len);
    lock_usages(usages);
    (void)table_put(usages->by_name, name, use);
    unlock_usages(usages);
    return use;
}

static void add_use(struct usages *usages, struct bytes name, const struct usage_figures *figures)
{
    struct use *use = use_of(usages, name);
    if (use->round != usages->round)
        use->sum = (struct usage_figures){0};
    use->round = usages->round;
    use->sum.keys += figures->keys;
    use->sum.bytes += figures->bytes;
}

/* Gauges of namespaces beyond METRICS_TENANTS_MAX share one cell, so they are added up. */
static void set_use_gauges(struct usages *usages, struct proxy_worker *worker)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    while (table_next(usages->by_name, &cursor, &name, &value)) {
        struct use *use = value;
        if (!use->cell)
            use->cell = proxy_metrics_space(&worker->proxy->labelled, name, worker->index);
        cell_set(use->cell, TENANT_KEYS, 0);
        cell_set(use->cell, TENANT_BYTES, 0);
    }
    cursor = 0;
    while (table_next(usages->by_name, &cursor, &name, &value)) {
        const struct use *use = value;
        cell_add(use->cell, TENANT_KEYS, use->figures.keys);
        cell_add(use->cell, TENANT_BYTES, use->figures.bytes);
    }
}

/* Frees namespaces that the round has not seen: their keys were deleted. */
static void forget_unseen(struct usages *usages)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    struct table *seen = table_new();
    lock_usages(usages);
    while (table_next(usages->by_name, &cursor, &name, &value)) {
        struct use *use = value;
        if (use->round == usages->round)
            (void)table_put(seen, name, use);
        else
            free(use);
    }
    table_free(usages->by_name);
    usages->by_name = seen;
    unlock_usages(usages);
}

/* All shards have answered: the sums of this round replace those before. */
static void take_round(struct usages *usages, struct proxy_worker *worker)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    size_t seen = 0;
    lock_usages(usages);
    while (table_next(usages->by_name, &cursor, &name, &value)) {
        struct use *use = value;
        bool is_seen = use->round == usages->round;
        seen += is_seen;
        use->figures = is_seen ? use->sum : (struct usage_figures){0};
    }
    usages->at_ms = loop_mono_ms(worker->loop);
    unlock_usages(usages);
    set_use_gauges(usages, worker);
    if (seen < table_count(usages->by_name))
        forget_unseen(usages);
}

static void end_shard(struct usages *usages, struct proxy_worker *worker, bool is_good)
{
    CHECK(usages->left > 0);
    usages->has_failed |= !is_good;
    if (--usages->left > 0)
        return;
    uint64_t took_ms = loop_mono_ms(worker->loop) - usages->begun_ms;
    uint64_t pause_ms = took_ms * USAGE_PART;
    usages->next_ms = usages->begun_ms + (pause_ms > USAGE_MS ? pause_ms : USAGE_MS);
    if (!usages->has_failed)
        take_round(usages, worker);
}

/* ---- messages ---- */

static bool next_figure(struct bytes frame, size_t *pos, uint64_t *number)
{
    struct resp_value value;
    return resp_value_next(frame, pos, &value) && value.type == ':' &&
           number_parse_uint64(resp_value_text(&value), number);
}

/* Adds what a page has; returns the number of its namespaces, and the last name. -1: it is no page. */
static int64_t add_usage_page(struct usages *usages, struct bytes frame, struct bytes *last)
{
    struct resp_value value;
    size_t pos = 0;
    int64_t count = 0;
    if (!resp_value_next(frame, &pos, &value) || value.type != '*')
        return -1;
    while (resp_value_next(frame, &pos, &value)) {
        struct usage_figures figures;
        *last = resp_value_text(&value);
        if (value.type != '$' || !next_figure(frame, &pos, &figures.keys) ||
            !next_figure(frame, &pos, &figures.bytes))
            return -1;
        add_use(usages, *last, &figures);
        count++;
    }
    return count;
}

static void ask_usage_page(struct usages *usages, struct proxy_worker *worker, int shard,
                           const struct bytes *after);

/* request_done_fn */
static void usage_answered(struct client *client, struct request *request, struct reply *reply)
{
    struct usage_question question =
        *(struct usage_question *)request_state(request, sizeof question);
    const struct shard_reply *answer = request_reply(request, 0);
    struct bytes last = {NULL, 0};
    (void)client;
    (void)reply;
    int64_t count = answer->is_failure ? -1 : add_usage_page(question.usages, answer->frame, &last);
    bool is_same_map = request->worker->snapshot->map == question.usages->map;
    if (count == USAGE_PAGE && is_same_map)
        ask_usage_page(question.usages, request->worker, question.shard, &last);
    else
        end_shard(question.usages, request->worker, count >= 0 && is_same_map);
}

static void ask_usage_page(struct usages *usages, struct proxy_worker *worker, int shard,
                           const struct bytes *after)
{
    char page[16];
    int len = snprintf(page, sizeof page, "%d", USAGE_PAGE);
    struct bytes argv[4] = {BYTES("SCREE"), BYTES("USAGE"), {page, (size_t)len}};
    struct request *request = request_internal(worker);
    struct usage_question *question = request_state(request, sizeof *question);
    *question = (struct usage_question){.usages = usages, .shard = shard};
    if (after)
        argv[3] = *after;
    const struct fan_out how = {.keyspace = worker->home,
                                .shard = shard,
                                .lane = LANE_CONTROL,
                                .argv = argv,
                                .argc = after ? 4 : 3};
    request_fan_out_with(request, &how, usage_answered);
}

void usages_tick(struct usages *usages, struct proxy_worker *worker)
{
    uint64_t now_ms = loop_mono_ms(worker->loop);
    size_t shards = worker->pool->nodes ? worker->pool->count : 0;
    if (usages->left || !shards || worker->thread.is_stopping ||
        !*worker->snapshot->config.upstream_secret || now_ms < usages->next_ms)
        return;
    usages->begun_ms = now_ms;
    usages->map = worker->snapshot->map;
    usages->round++;
    usages->has_failed = false;
    usages->left = (uint32_t)shards;
    for (size_t i = 0; i < shards; i++)
        ask_usage_page(usages, worker, (int)i, NULL);
}

/* ---- figures ---- */

uint64_t usages_age_ms(struct usages *usages, uint64_t now_ms)
{
    lock_usages(usages);
    uint64_t at_ms = usages->at_ms;
    unlock_usages(usages);
    if (!at_ms)
        return UINT64_MAX;
    return now_ms > at_ms ? now_ms - at_ms : 0;
}

bool usages_find(struct usages *usages, struct bytes name, struct usage_figures *figures)
{
    lock_usages(usages);
    const struct use *use = table_get(usages->by_name, name);
    bool is_known = usages->at_ms > 0;
    *figures = is_known && use ? use->figures : (struct usage_figures){0};
    unlock_usages(usages);
    return is_known;
}

void usages_each(struct usages *usages, usages_fn *on_usage, void *owner)
{
    size_t cursor = 0;
    struct bytes name;
    void *value;
    lock_usages(usages);
    while (table_next(usages->by_name, &cursor, &name, &value)) {
        const struct use *use = value;
        if (use->figures.keys || use->figures.bytes)
            on_usage(owner, name, &use->figures);
    }
    unlock_usages(usages);
}
