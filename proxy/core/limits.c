#include "proxy/core/limits.h"

#include "proxy/core/limits_inner.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/out.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void limits_lock(struct limits *limits)
{
    CHECK(pthread_mutex_lock(&limits->mutex) == 0);
}

void limits_unlock(struct limits *limits)
{
    CHECK(pthread_mutex_unlock(&limits->mutex) == 0);
}

struct limits *limits_new(uint64_t id)
{
    struct limits *limits = calloc(1, sizeof *limits);
    CHECK(limits);
    CHECK(pthread_mutex_init(&limits->mutex, NULL) == 0);
    limits->by_name = table_new();
    list_init(&limits->all);
    limits->coordinator = id;
    return limits;
}

void limit_free(struct limits *limits, struct limit *limit)
{
    list_remove(&limit->link);
    CHECK(table_remove(limits->by_name, limit_name(limit)) == limit);
    free(limit->usage);
    free(limit->grants.shares);
    free(limit);
}

static void forget_shards(struct limits *limits)
{
    for (size_t i = 0; i < limits->shard_count; i++)
        free(limits->shards[i]);
    free(limits->shards);
    free(limits->shares);
}

void limits_free(struct limits *limits)
{
    while (!list_empty(&limits->all))
        limit_free(limits, container_of(limits->all.next, struct limit, link));
    forget_shards(limits);
    table_free(limits->by_name);
    (void)pthread_mutex_destroy(&limits->mutex);
    free(limits);
}

/* ---- namespaces ---- */

static struct limit *limit_acquire(struct limits *limits, struct bytes name)
{
    struct limit *limit = table_get(limits->by_name, name);
    if (!limit) {
        limit = calloc(1, sizeof *limit + name.len);
        CHECK(limit);
        limit->name_len = name.len;
        memcpy(limit->name, name.data, name.len);
        limit->usage = calloc(limits->shard_count + 1, sizeof *limit->usage);
        limit->grants.shares = calloc(limits->shard_count + 1, sizeof *limit->grants.shares);
        limit->grants.count = limits->shard_count;
        CHECK(limit->usage && limit->grants.shares);
        list_init(&limit->link);
        list_push(&limits->all, &limit->link);
        (void)table_put(limits->by_name, name, limit);
    }
    limit->refs++;
    return limit;
}

/* Has worker 0 begin a round at once, so that a namespace need not wait for its first grants. */
static void post_round(struct limits *limits)
{
    if (!limits->worker || limits->is_begun)
        return;
    limits->is_begun = true;
    loop_post(limits->worker->loop, &limits->begin);
}

void limits_follow(struct limits *limits, struct keyspace *keyspace)
{
    const struct namespace *entry = keyspace->entry;
    bool is_limited = entry && (entry->max_keys || entry->max_bytes);
    if (!limits || (!is_limited && !keyspace->limit))
        return;
    limits_lock(limits);
    if (!keyspace->limit)
        keyspace->limit = limit_acquire(limits, keyspace->name);
    keyspace->limit->max_keys = entry ? entry->max_keys : 0;
    keyspace->limit->max_bytes = entry ? entry->max_bytes : 0;
    post_round(limits);
    limits_unlock(limits);
    atomic_fetch_add_explicit(&limits->version, 1, memory_order_relaxed);
}

void limits_forget(struct limits *limits, struct keyspace *keyspace)
{
    if (!keyspace->limit)
        return;
    limits_lock(limits);
    CHECK(keyspace->limit->refs > 0);
    keyspace->limit->refs--; /* limit_rounds_tick frees it */
    keyspace->limit = NULL;
    limits_unlock(limits);
}

struct usage limits_sum(const struct limits *limits, const struct usage *usage, int without)
{
    struct usage sum = {.is_known = true};
    for (size_t i = 0; i < limits->shard_count; i++) {
        if ((int)i == without)
            continue;
        sum.keys += usage[i].keys;
        sum.bytes += usage[i].bytes;
        sum.is_known = sum.is_known && usage[i].is_known;
    }
    return sum;
}

bool limits_find(struct limits *limits, struct bytes name, struct limit_figures *figures)
{
    limits_lock(limits);
    const struct limit *limit = table_get(limits->by_name, name);
    if (limit) {
        struct usage sum = limits_sum(limits, limit->usage, -1);
        *figures = (struct limit_figures){.max_keys = limit->max_keys,
                                          .max_bytes = limit->max_bytes,
                                          .keys = sum.keys,
                                          .bytes = sum.bytes,
                                          .is_known = sum.is_known};
    }
    limits_unlock(limits);
    return limit && (figures->max_keys || figures->max_bytes);
}

/* ---- shards ---- */

int limits_shard(const struct limits *limits, const char *name)
{
    for (size_t i = 0; i < limits->shard_count; i++)
        if (strcmp(limits->shards[i], name) == 0)
            return (int)i;
    return -1;
}

static bool has_shards(const struct limits *limits, const char *const *names, size_t count)
{
    bool is_same = limits->shard_count == count;
    for (size_t i = 0; is_same && i < count; i++)
        is_same = strcmp(limits->shards[i], names[i]) == 0;
    return is_same;
}

/* An array for these shards with the old items of those that were known. `old` NULL: there are none. */
static void *remap(const struct limits *limits, void *old, size_t size, const char *const *names,
                   size_t count)
{
    char *items = calloc(count + 1, size);
    CHECK(items);
    for (size_t i = 0; old && i < count; i++) {
        int index = limits_shard(limits, names[i]);
        if (index >= 0)
            memcpy(items + i * size, (const char *)old + (size_t)index * size, size);
    }
    free(old);
    return items;
}

void limits_set_shards(struct limits *limits, const char *const *names, size_t count)
{
    if (has_shards(limits, names, count))
        return;
    for (struct list *at = limits->all.next; at != &limits->all; at = at->next) {
        struct limit *limit = container_of(at, struct limit, link);
        limit->usage = remap(limits, limit->usage, sizeof *limit->usage, names, count);
        limit->grants.shares =
            remap(limits, limit->grants.shares, sizeof *limit->grants.shares, names, count);
        limit->grants.count = count;
    }
    struct usage *shares = remap(limits, limits->shares, sizeof *shares, names, count);
    limits->shares = NULL;
    forget_shards(limits);
    limits->shares = shares;
    limits->shards = calloc(count + 1, sizeof(char *));
    CHECK(limits->shards);
    limits->shard_count = count;
    for (size_t i = 0; i < count; i++) {
        limits->shards[i] = strdup(names[i]);
        CHECK(limits->shards[i]);
    }
}

/* ---- messages ---- */

static void add_number(struct limit_message *message, uint64_t number)
{
    char *text = message->text[message->numbers++];
    int len = snprintf(text, sizeof message->text[0], "%" PRIu64, number);
    message->argv[message->argc++] = (struct bytes){text, (size_t)len};
}

void limit_message_begin(const struct limits *limits, struct limit_message *message, int shard,
                         bool has_orders)
{
    message->has_grants = limits->shard_count > 1;
    message->has_orders = has_orders && shard >= 0;
    message->argv[0] = BYTES("SCREE");
    message->argv[1] = message->has_grants ? BYTES("GRANTS") : BYTES("LIMITS");
    message->argc = 2;
    message->numbers = 0;
    if (message->has_grants) {
        add_number(message, message->has_orders ? limits->coordinator : 0);
        add_number(message, limits->epoch);
    }
    add_number(message, limits_sum(limits, limits->shares, shard).bytes);
}

/* Adds the grant of the shard, and the version that it has reported. */
static void add_grant(struct limit_message *message, struct limit *limit, int shard)
{
    uint64_t keys = 0;
    uint64_t version = 0;
    if (message->has_orders) {
        keys = grant_next(&limit->grants, (size_t)shard, limit->max_keys);
        version = limit->grants.shares[shard].version;
    }
    add_number(message, keys);
    add_number(message, version);
}

/* Keys at the other shards. Without grants: the sum of their last answers. With grants: as many as they had together at one moment, at
 * least (grant_fewest_elsewhere), so that the shard refuses a key only if the namespace was full for certain; 0 if the message does not
 * come from worker 0. */
static uint64_t keys_elsewhere(const struct limit_message *message, const struct limit *limit,
                               int shard, uint64_t answered)
{
    if (!message->has_grants)
        return answered;
    return message->has_orders ? grant_fewest_elsewhere(&limit->grants, (size_t)shard) : 0;
}

void limit_message_add(const struct limits *limits, struct limit_message *message,
                       struct limit *limit, int shard)
{
    struct usage elsewhere = limits_sum(limits, limit->usage, shard);
    message->argv[message->argc++] = limit_name(limit);
    add_number(message, limit->max_keys);
    add_number(message, limit->max_bytes);
    add_number(message, keys_elsewhere(message, limit, shard, elsewhere.keys));
    add_number(message, elsewhere.bytes);
    if (message->has_grants)
        add_grant(message, limit, shard);
}

uint64_t limits_version(struct limits *limits)
{
    return atomic_load_explicit(&limits->version, memory_order_relaxed);
}

void limits_write(struct limits *limits, const struct keyspace *keyspace, const char *shard,
                  struct out *out)
{
    struct limit_message *message = malloc(sizeof *message);
    CHECK(message);
    limits_lock(limits);
    int index = limits_shard(limits, shard);
    limit_message_begin(limits, message, index, false);
    limit_message_add(limits, message, keyspace->limit, index);
    /* if there are more, the next round sends them */
    for (struct list *at = limits->all.next;
         at != &limits->all && message->argc + LIMIT_WORDS <= LIMIT_WORDS_MAX; at = at->next)
        limit_message_add(limits, message, container_of(at, struct limit, link), index);
    out_printf(out, "*%u\r\n", message->argc);
    for (uint32_t i = 0; i < message->argc; i++) {
        out_printf(out, "$%zu\r\n", message->argv[i].len);
        out_write(out, message->argv[i].data, message->argv[i].len);
        out_write(out, "\r\n", 2);
    }
    limits_unlock(limits);
    free(message);
}
