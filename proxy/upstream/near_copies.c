#include "proxy/upstream/near_copies.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/zones.h"

#include <stdlib.h>
#include <string.h>

static bool is_near(const struct pool *pool, const struct node *node)
{
    char zone[ZONE_NAME_MAX + 1];
    zones_get(pool->worker->proxy->routes.zones, bytes_of(node->address), zone);
    return *zone && strcmp(zone, pool->zone) == 0;
}

/* For qsort. */
static int by_zone_then_address(const void *a, const void *b)
{
    const struct node *left = *(struct node *const *)a;
    const struct node *right = *(struct node *const *)b;
    if (left->is_near != right->is_near)
        return left->is_near ? -1 : 1;
    return strcmp(left->address, right->address);
}

static void sort_copies(const struct pool *pool, struct node *leader)
{
    struct node_copies *copies = &leader->copies;
    copies->near_count = 0;
    for (uint32_t i = 0; i < copies->count; i++) {
        copies->nodes[i]->is_near = is_near(pool, copies->nodes[i]);
        copies->near_count += copies->nodes[i]->is_near;
    }
    if (copies->count)
        qsort(copies->nodes, copies->count, sizeof *copies->nodes, by_zone_then_address);
    copies->is_leader_near = copies->count && is_near(pool, leader);
}

void near_copies_update(struct pool *pool)
{
    uint64_t version = zones_version(pool->worker->proxy->routes.zones);
    if (pool->zones_version == version)
        return;
    for (size_t i = 0; i < pool->count; i++)
        sort_copies(pool, pool->nodes[i]);
    pool->zones_version = version;
}
