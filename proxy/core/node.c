#include "proxy/core/node.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/shard_map.h"

#include <stdlib.h>
#include <string.h>

enum { BUSY_MS = 1500 }; /* how long a BUSY reply counts; a late shard is pinged more often */

struct node *node_new(const struct proxy_worker *worker, const struct shard *shard,
                      const char *address)
{
    struct node *node = calloc(1, sizeof(*node));
    CHECK(node);
    node->refs = 1;
    node->name = strdup(shard->name);
    node->address = strdup(address);
    CHECK(node->name);
    CHECK(node->address);
    node->has_copies = shard->address_count > 1;
    list_init(&node->spare);
    list_init(&node->waiting_to_open);
    fair_queue_init(&node->across);
    node->cell = labels_cell(worker->proxy->labelled.shards, bytes_of(shard->name), worker->index);
    return node;
}

bool node_is_busy(const struct node *node, uint32_t now_ms)
{
    return node->said_busy && now_ms - node->busy_ms < BUSY_MS;
}

struct node *node_ref(struct node *node)
{
    CHECK(node->refs > 0);
    node->refs++;
    return node;
}

void node_unref(struct node *node)
{
    if (--node->refs > 0)
        return;
    CHECK(list_empty(&node->spare));
    CHECK(list_empty(&node->waiting_to_open));
    CHECK(!node->copies.nodes);
    fair_queue_fini(&node->across);
    free(node->name);
    free(node->address);
    free(node);
}
