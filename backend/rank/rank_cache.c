#include "backend/rank/rank_cache.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    NODE_BYTES = 1024, /* size of a typical node: determines the number of buckets */
    BUCKETS_MIN = 16,
};

struct rank_cache {
    struct overlay *overlay;
    struct rank_node **buckets;
    size_t bucket_count; /* a power of two */
    struct list ages;    /* all nodes, least recently used first */
    size_t bytes;
    size_t bytes_max;
};

struct rank_cache *rank_cache_new(struct overlay *overlay, size_t bytes)
{
    struct rank_cache *cache = calloc(1, sizeof *cache);
    CHECK(cache);
    cache->overlay = overlay;
    cache->bytes_max = bytes;
    cache->bucket_count = BUCKETS_MIN;
    while (cache->bucket_count * NODE_BYTES < bytes)
        cache->bucket_count *= 2;
    cache->buckets = calloc(cache->bucket_count, sizeof *cache->buckets);
    CHECK(cache->buckets);
    list_init(&cache->ages);
    return cache;
}

static void node_unlink(struct rank_cache *cache, struct rank_node *node)
{
    struct rank_node **at = &cache->buckets[node->hash & (cache->bucket_count - 1)];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    list_remove(&node->age);
    cache->bytes -= node->bytes;
}

static void node_free(struct rank_cache *cache, struct rank_node *node)
{
    node_unlink(cache, node);
    free(node);
}

static struct rank_node *oldest(const struct rank_cache *cache)
{
    return container_of(cache->ages.next, struct rank_node, age);
}

void rank_cache_free(struct rank_cache *cache)
{
    if (!cache)
        return;
    while (!list_empty(&cache->ages))
        node_free(cache, oldest(cache));
    free(cache->buckets);
    free(cache);
}

void rank_cache_limit(struct rank_cache *cache, size_t bytes)
{
    cache->bytes_max = bytes;
    while (cache->bytes > bytes && !list_empty(&cache->ages))
        node_free(cache, oldest(cache));
}

static uint64_t hash_of(const struct rank_place *place)
{
    uint64_t parent = place->parent.len ? hash_bytes(place->parent) : 0;
    return parent ^ (place->hash + place->level) * 0x9e3779b97f4a7c15 >> 16;
}

static bool is_same_place(const struct rank_place *a, const struct rank_place *b)
{
    return a->hash == b->hash && a->level == b->level && bytes_equal(a->parent, b->parent) &&
           bytes_equal(a->collection, b->collection);
}

/* The node, if it is still valid. */
static struct rank_node *find_node(struct rank_cache *cache, const struct rank_place *place)
{
    uint64_t hash = hash_of(place);
    struct rank_node *node = cache->buckets[hash & (cache->bucket_count - 1)];
    while (node && (node->hash != hash || !is_same_place(&node->place, place)))
        node = node->next;
    if (node && node->stamp != overlay_stamp(cache->overlay, place->version)) {
        node_free(cache, node);
        return NULL;
    }
    return node;
}

const struct rank_node *rank_cache_get(struct rank_cache *cache, const struct rank_place *place)
{
    struct rank_node *node = find_node(cache, place);
    if (!node)
        return NULL;
    list_remove(&node->age);
    list_push(&cache->ages, &node->age);
    overlay_observe(cache->overlay, node->ticket);
    return node;
}

const struct rank_node *rank_cache_add(struct rank_cache *cache, const struct rank_place *place,
                                       const struct rank_block *blocks, uint32_t count)
{
    size_t bytes = sizeof(struct rank_node) + count * sizeof *blocks + place->parent.len +
                   place->collection.len;
    for (uint32_t i = 0; i < count; i++)
        bytes += blocks[i].separator.len;
    rank_cache_forget(cache, place);
    while (cache->bytes + bytes > cache->bytes_max && !list_empty(&cache->ages))
        node_free(cache, oldest(cache));
    struct rank_node *node = malloc(bytes);
    CHECK(node);
    char *end = (char *)&node->block[count];
    struct rank_node **bucket = &cache->buckets[hash_of(place) & (cache->bucket_count - 1)];
    node->next = *bucket;
    node->hash = hash_of(place);
    node->place = *place;
    node->place.parent = bytes_copy_to(&end, place->parent);
    node->place.collection = bytes_copy_to(&end, place->collection);
    node->stamp = overlay_stamp(cache->overlay, place->version);
    node->ticket = overlay_observed(cache->overlay);
    node->bytes = bytes;
    node->count = count;
    for (uint32_t i = 0; i < count; i++) {
        node->block[i] = blocks[i];
        node->block[i].separator = bytes_copy_to(&end, blocks[i].separator);
    }
    *bucket = node;
    list_push(&cache->ages, &node->age);
    cache->bytes += bytes;
    return node;
}

void rank_cache_put(struct rank_cache *cache, const struct rank_place *place,
                    const struct rank_block *block)
{
    struct rank_node *node = find_node(cache, place);
    if (!node)
        return;
    struct rank_block *kept = &node->block[rank_node_find(node, block->separator)];
    if (!bytes_equal(kept->separator, block->separator)) { /* separators out of order */
        node_free(cache, node);
        return;
    }
    kept->count = block->count;
    kept->children = block->children;
    node->ticket = overlay_ticket(cache->overlay);
}

void rank_cache_divide(struct rank_cache *cache, const struct rank_place *place,
                       const struct rank_block *block, const struct rank_block *half)
{
    struct rank_node *node = find_node(cache, place);
    if (!node)
        return;
    struct rank_block blocks[RANK_FAN_MAX];
    uint32_t at = rank_node_find(node, block->separator);
    if (node->count == RANK_FAN_MAX ||
        !bytes_equal(node->block[at].separator, block->separator)) { /* full, or out of order */
        node_free(cache, node);
        return;
    }
    memcpy(blocks, node->block, (at + 1) * sizeof *blocks);
    blocks[at].count = block->count;
    blocks[at].children = block->children;
    blocks[at + 1] = *half;
    memcpy(blocks + at + 2, node->block + at + 1, (node->count - at - 1) * sizeof *blocks);
    node_unlink(cache, node);
    (void)rank_cache_add(cache, place, blocks, node->count + 1);
    free(node);
}

void rank_cache_forget(struct rank_cache *cache, const struct rank_place *place)
{
    struct rank_node *node = find_node(cache, place);
    if (node)
        node_free(cache, node);
}

size_t rank_cache_bytes(const struct rank_cache *cache)
{
    return cache->bytes;
}

uint32_t rank_node_find(const struct rank_node *node, struct bytes sub)
{
    uint32_t low = 0;
    uint32_t high = node->count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (bytes_compare(node->block[middle].separator, sub) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}
