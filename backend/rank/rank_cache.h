/*
 * rank_cache.h - recently used blocks of rank trees (rank.h), in memory.
 *
 *   (row prefix, level, separator of the parent) ─hash─► node: all children of one block, or the blocks of the top level
 *                                                     ┌ "m" 160 ┬ "ma" 90 ┬ "r" 250 ┐
 *
 * A collection is identified by the prefix of its rows. Its version alone would not do: two partitions may give the same
 * version to two collections, and slots move from one to the other.
 *
 * The root row is a node of level 0 with one block. The cache has copies of rows: code that writes a block also updates the
 * cached block, code that divides a block adds the new one to the node, and code that removes a block drops its parent's node. Least
 * recently used nodes are dropped above a number of bytes, and those of a collection when anything else than a handler has
 * changed its rows (stamps.h). A node has the ticket of the rows from which it was made, and
 * reading the node counts as reading these rows, so that a reply waits until they are durable.
 */
#pragma once

#include "backend/storage/overlay.h"
#include "shared/list.h"

struct rank_block {
    struct bytes separator;
    uint64_t count;    /* rows */
    uint64_t children; /* blocks of the level below; 0 in a leaf */
};

enum { RANK_FAN_MAX = 32 }; /* blocks of a node */

/* Identifies a node: the children of a block, the blocks of the top level, or the root row. */
struct rank_place {
    struct bytes collection; /* entry_prefix() */
    uint64_t hash;           /* of the collection */
    uint64_t version;        /* of the collection; part of its prefix */
    unsigned level;          /* of the blocks in the node */
    struct bytes parent;     /* separator of the block above; empty: the first block, or none */
};

struct rank_node {
    struct rank_node *next; /* of the same bucket */
    struct list age;
    uint64_t hash;
    struct rank_place place;
    uint64_t stamp; /* of the collection, when the node was made */
    uint64_t ticket;
    size_t bytes;
    uint32_t count;
    struct rank_block block[]; /* ordered; after them the bytes of `place` and of the separators */
};

struct rank_cache;

struct rank_cache *rank_cache_new(struct overlay *overlay, size_t bytes);
/* Sets the limit in bytes; no node may be borrowed. */
void rank_cache_limit(struct rank_cache *cache, size_t bytes);
void rank_cache_free(struct rank_cache *cache); /* NULL is allowed */

/* NULL: the node is not in the cache. Nodes are borrowed until the next rank_cache_add or rank_cache_forget. */
const struct rank_node *rank_cache_get(struct rank_cache *cache, const struct rank_place *place);
/* Adds copies of blocks that were just read. */
const struct rank_node *rank_cache_add(struct rank_cache *cache, const struct rank_place *place,
                                       const struct rank_block *blocks, uint32_t count);
/* Updates the counts of one of the node's blocks. */
void rank_cache_put(struct rank_cache *cache, const struct rank_place *place,
                    const struct rank_block *block);
/* One of the node's blocks was divided: updates it, and adds the second half after it. A node with RANK_FAN_MAX blocks is
 * dropped, because it will be divided too. */
void rank_cache_divide(struct rank_cache *cache, const struct rank_place *place,
                       const struct rank_block *block, const struct rank_block *half);
void rank_cache_forget(struct rank_cache *cache, const struct rank_place *place);
/* Memory in use; for tests. */
size_t rank_cache_bytes(const struct rank_cache *cache);

/* The last block whose separator is not greater than `sub`; the first one when there is none. */
uint32_t rank_node_find(const struct rank_node *node, struct bytes sub);
