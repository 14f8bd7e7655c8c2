#include "proxy/upstream/pool.h"

#include "proxy/core/client.h"
#include "proxy/core/proxy.h"
#include "proxy/core/proxy_metrics.h"
#include "proxy/core/share_limits.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/shard_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char dedicated_limit_error[] =
    "ERR dedicated-limit is reached: too many clients block, watch keys or track at the same time";

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Resumes the clients: their frames are dispatched again. */
static void wake_all_across(struct node *node)
{
    for (struct list *link; (link = fair_queue_pop(&node->across));)
        client_unhold(container_of(link, struct client, links.full), HOLD_UPSTREAM);
}

/* Their copies have been drained. */
static void node_drain(struct node *node)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned resp3 = 0; resp3 < 2; resp3++) {
            struct upstream *upstream = node->shared[lane][resp3];
            node->shared[lane][resp3] = NULL;
            if (upstream)
                upstream_drain(upstream);
        }
    }
    struct upstream *waits = node->waits;
    node->waits = NULL;
    if (waits)
        upstream_drain(waits);
    node->is_removed = true;
    wake_all_across(node);
    while (!list_empty(&node->spare))
        upstream_drain(container_of(node->spare.next, struct upstream, links.spare));
    node_unref(node);
}

/* ---- the pool -------------------------------------------------------------------------------- */

struct pool *pool_new(struct proxy_worker *worker, const struct shard_map *map)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    CHECK(pool);
    pool->worker = worker;
    list_init(&pool->upstreams);
    pool_update(pool, map);
    return pool;
}

static bool is_at_first_address(const struct node *node, const struct shard *shard)
{
    return strcmp(node->address, shard->addresses[0]) == 0;
}

/* Removes the node of the same shard and address from the old nodes; NULL: there is none. If the shard has copies, any address will do. */
static struct node *detach_node(struct node **nodes, size_t count, const struct shard *shard)
{
    for (size_t i = 0; i < count; i++) {
        struct node *node = nodes[i];
        if (node && strcmp(node->name, shard->name) == 0 &&
            (node->has_copies || shard->address_count > 1 || is_at_first_address(node, shard))) {
            nodes[i] = NULL;
            return node;
        }
    }
    return NULL;
}

/* Sends the nodes whose shards are led by another copy now to that one. */
static void follow_leaders(struct pool *pool, const struct shard_map *map)
{
    for (size_t i = 0; i < pool->count; i++) {
        struct node *node = pool->nodes[i];
        node->has_copies = map->shards[i].address_count > 1;
        if (!is_at_first_address(node, &map->shards[i]))
            node_retarget(pool, node, map->shards[i].addresses[0]);
    }
}

/* ---- copies that follow ----------------------------------------------------------------- */

static struct node *new_copy_node(const struct pool *pool, const struct shard *shard,
                                  const char *address)
{
    struct node *copy = node_new(pool->worker, shard, address);
    copy->is_copy = true;
    return copy;
}

/* Takes the copy at the address out of the list; NULL: it is not there. */
static struct node *detach_copy(struct node **copies, uint32_t count, const char *address)
{
    for (uint32_t i = 0; i < count; i++) {
        struct node *copy = copies[i];
        if (copy && strcmp(copy->address, address) == 0) {
            copies[i] = NULL;
            return copy;
        }
    }
    return NULL;
}

/* The copies of a shard are at all its addresses but the first. Those that the leader had before are taken over. */
static void make_copies(const struct pool *pool, struct node *leader, const struct shard *shard,
                        const struct node_copies *before)
{
    struct node_copies *copies = &leader->copies;
    copies->count = (uint32_t)shard->address_count - 1;
    copies->nodes = calloc(copies->count, sizeof(struct node *));
    CHECK(copies->nodes);
    for (uint32_t i = 0; i < copies->count; i++) {
        struct node *copy = detach_copy(before->nodes, before->count, shard->addresses[i + 1]);
        copies->nodes[i] = copy ? copy : new_copy_node(pool, shard, shard->addresses[i + 1]);
        copies->nodes[i]->index = leader->index;
    }
}

/* `shard`: NULL: the nodes of its copies are dropped. */
static void set_copies(struct pool *pool, struct node *leader, const struct shard *shard)
{
    struct node_copies before = leader->copies;
    leader->copies = (struct node_copies){.count = 0};
    pool->zones_version = 0;
    if (shard && shard->address_count > 1)
        make_copies(pool, leader, shard, &before);
    for (uint32_t i = 0; i < before.count; i++)
        if (before.nodes[i])
            node_drain(before.nodes[i]);
    free(before.nodes);
}

/* A connection that may show old data must not serve other clients. */
void pool_update_copies(struct pool *pool, const struct shard_map *map, bool may_read,
                        bool is_fresh)
{
    bool drops = pool->reads_fresh != is_fresh || (pool->reads_at_copies && !may_read);
    pool->reads_at_copies = may_read;
    pool->reads_fresh = is_fresh;
    for (size_t i = 0; i < pool->count; i++) {
        if (drops)
            set_copies(pool, pool->nodes[i], NULL);
        set_copies(pool, pool->nodes[i], &map->shards[i]);
    }
}

void pool_set_zone(struct pool *pool, const char *zone)
{
    (void)snprintf(pool->zone, sizeof pool->zone, "%s", zone);
    pool->zones_version = 0;
}

/* ---- the map --------------------------------------------------------------------------------- */

void pool_update(struct pool *pool, const struct shard_map *map)
{
    struct node **before = pool->nodes;
    size_t count = pool->count;
    pool->nodes = calloc(map->shard_count, sizeof(struct node *));
    CHECK(pool->nodes);
    pool->count = map->shard_count;
    for (size_t i = 0; i < pool->count; i++) {
        pool->nodes[i] = detach_node(before, count, &map->shards[i]);
        if (!pool->nodes[i])
            pool->nodes[i] = node_new(pool->worker, &map->shards[i], map->shards[i].addresses[0]);
        pool->nodes[i]->index = (uint32_t)i;
    }
    for (size_t i = 0; i < count; i++) {
        if (!before[i])
            continue;
        set_copies(pool, before[i], NULL);
        node_drain(before[i]);
    }
    free(before);
    follow_leaders(pool, map);
}

static void pool_bury(struct pool *pool)
{
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams;) {
        struct upstream *upstream = container_of(link, struct upstream, links.pool);
        link = link->next;
        if (upstream->life.is_closed)
            upstream_free(upstream);
    }
    pool->has_closed = false;
}

/* All connections to it are gone. */
static void forget_node(struct node *node)
{
    for (uint32_t i = 0; i < node->copies.count; i++)
        forget_node(node->copies.nodes[i]);
    free(node->copies.nodes);
    node->copies = (struct node_copies){.count = 0};
    memset(node->shared, 0, sizeof(node->shared));
    node->waits = NULL;
    wake_all_across(node);
    node_unref(node);
}

void pool_stop(struct pool *pool)
{
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next)
        upstream_close(container_of(link, struct upstream, links.pool), "the proxy is stopping");
    pool_bury(pool);
    CHECK(list_empty(&pool->upstreams));
    for (size_t i = 0; i < pool->count; i++) {
        forget_node(pool->nodes[i]);
    }
    free(pool->nodes);
    pool->nodes = NULL;
    pool->count = 0;
}

void pool_free(struct pool *pool)
{
    CHECK(!pool->nodes);
    free(pool);
}

struct upstream *pool_make(struct pool *pool, struct node *node, unsigned lane, uint8_t resp)
{
    CHECK(lane < LANES);
    CHECK(!node->shared[lane][resp == 3]);
    struct upstream *upstream = upstream_new(pool->worker, node, lane, resp);
    node->shared[lane][resp == 3] = upstream;
    return upstream;
}

struct upstream *pool_waits(struct pool *pool, uint32_t shard)
{
    struct node *node = pool->nodes[shard];
    if (!node->waits) {
        node->waits = upstream_new(pool->worker, node, LANE_NORMAL, 2);
        node->waits->waits = wait_table_new();
    }
    return node->waits;
}

/* A spare private connection, or a new one. */
static struct upstream *private_connection(const struct pool *pool, struct node *node, uint8_t resp)
{
    for (struct list *link = node->spare.next; link != &node->spare; link = link->next) {
        struct upstream *upstream = container_of(link, struct upstream, links.spare);
        if (upstream->resp == resp) {
            list_remove(&upstream->links.spare);
            return upstream;
        }
    }
    struct upstream *upstream = upstream_new(pool->worker, node, LANE_NORMAL, resp);
    upstream->use.is_private = true;
    return upstream;
}

struct upstream *pool_dedicated(const struct client *client, uint32_t shard, uint8_t resp,
                                bool beyond_limit)
{
    struct pool *pool = client->worker->pool;
    struct keyspace *keyspace = client->session.keyspace;
    if (!share_take_dedicated(client, beyond_limit))
        return NULL;
    struct upstream *upstream = private_connection(pool, pool->nodes[shard], resp);
    upstream->use.dedicated = keyspace_ref(keyspace);
    if (keyspace->cell)
        cell_add(keyspace->cell, TENANT_DEDICATED, 1);
    return upstream;
}

static struct fair_limit across_limit(const struct pool *pool)
{
    const struct proxy_config *config = &pool->worker->snapshot->config;
    return (struct fair_limit){.count = (uint32_t)config->across_limit,
                               .percent = (uint32_t)config->namespace_share};
}

void pool_wake_across(const struct pool *pool, struct node *node)
{
    struct fair_limit limit = across_limit(pool);
    struct list *link;
    for (uint32_t i = node->across.in_use;
         i < limit.count && (link = fair_queue_next(&node->across, limit)); i++) {
        struct client *client = container_of(link, struct client, links.full);
        client->flow.is_next = true;
        client_unhold(client, HOLD_UPSTREAM);
    }
}

/* A client that was resumed but finds no connection is the first of its namespace again. */
static void wait_across(struct node *node, struct fair_group *group, struct client *client)
{
    list_remove(&client->links.full);
    if (!client->flow.is_next)
        client->flow.across_since_ms = loop_mono_ms(client->worker->loop);
    fair_queue_wait(&node->across, group, &client->links.full, client->flow.is_next);
    client_hold(client, HOLD_UPSTREAM);
}

struct upstream *pool_across(struct pool *pool, uint32_t shard, struct client *client)
{
    struct node *node = pool->nodes[shard];
    struct fair_group *group = fair_queue_group(&node->across, client->session.keyspace->name);
    bool others_wait = fair_group_waits(group) && !client->flow.is_next;
    if (others_wait || !fair_queue_has_room(&node->across, group, across_limit(pool))) {
        wait_across(node, group, client);
        return NULL;
    }
    client->flow.is_next = false;
    return pool_across_at_once(pool, shard, client, client->session.resp);
}

struct upstream *pool_across_at_once(struct pool *pool, uint32_t shard, const struct client *client,
                                     uint8_t resp)
{
    struct node *node = pool->nodes[shard];
    struct upstream *upstream = private_connection(pool, node, resp);
    upstream->use.across = fair_queue_group(&node->across, client->session.keyspace->name);
    fair_queue_take(&node->across, upstream->use.across);
    upstream->use.is_single_use = true;
    upstream->use.patience_ms = 0;
    return upstream;
}

struct upstream *pool_patient(struct pool *pool, uint32_t shard, const struct client *client,
                              uint8_t resp)
{
    struct node *node = pool->nodes[shard];
    struct fair_group *group = fair_queue_group(&node->across, client->session.keyspace->name);
    struct fair_limit limit = across_limit(pool);
    limit.count /= 2; /* the others are for requests that need not wait */
    if (fair_queue_has_room(&node->across, group, limit))
        return pool_across_at_once(pool, shard, client, resp);
    struct upstream *upstream = node->shared[LANE_WAITING][resp == 3];
    return upstream ? upstream : pool_make(pool, node, LANE_WAITING, resp);
}

void pool_forget_keyspaces(struct pool *pool)
{
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next)
        upstream_forget_keyspace(container_of(link, struct upstream, links.pool));
}

bool node_is_down(const struct node *node)
{
    for (unsigned resp3 = 0; resp3 < 2; resp3++) {
        const struct upstream *upstream = node->shared[LANE_NORMAL][resp3];
        if (upstream && (upstream->state == UPSTREAM_DOWN || upstream->life.is_holding ||
                         upstream->state == UPSTREAM_RETRYING))
            return true;
    }
    return false;
}

uint32_t pool_any(struct pool *pool)
{
    for (size_t tries = 0; tries < pool->count; tries++) {
        uint32_t shard = pool->any++ % (uint32_t)pool->count;
        if (!node_is_down(pool->nodes[shard]))
            return shard;
    }
    return 0;
}

void pool_shard_back(struct pool *pool, struct bytes shard)
{
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next) {
        struct upstream *upstream = container_of(link, struct upstream, links.pool);
        if (!upstream->life.is_closed && bytes_equal(bytes_of(upstream->node->name), shard))
            upstream_end_backoff(upstream);
    }
}

bool pool_tick(struct pool *pool)
{
    bool needed = false;
    uint64_t now_ms = loop_mono_ms(pool->worker->loop);
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next)
        needed |= upstream_tick(container_of(link, struct upstream, links.pool), now_ms);
    return needed;
}

void pool_slow(struct pool *pool)
{
    uint64_t now_ms = loop_mono_ms(pool->worker->loop);
    for (struct list *link = pool->upstreams.next; link != &pool->upstreams; link = link->next)
        upstream_slow(container_of(link, struct upstream, links.pool), now_ms);
    for (size_t i = 0; i < pool->count; i++)
        pool_wake_across(pool, pool->nodes[i]); /* clients that were resumed may have left */
}

void pool_turn_end(struct pool *pool)
{
    bool has_full = pool->has_full;
    pool->has_full = false;
    for (struct list *link = pool->upstreams.next; has_full && link != &pool->upstreams;
         link = link->next)
        upstream_resume_next(container_of(link, struct upstream, links.pool));
    if (pool->has_closed)
        pool_bury(pool);
}
