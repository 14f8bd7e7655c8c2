/*
 * rank_cache.h - blocks of rank trees (rank.h) that were looked at lately, in memory.
 *
 *   (version, level, separator of the parent) ─hash─► node: all children of one block, or the tops
 *                                                     ┌ "m" 160 ┬ "ma" 90 ┬ "r" 250 ┐
 *
 * What the rows say, said again: whoever puts a block puts it here too, and who adds or takes out a block forgets
 * its parent's node. Nodes are forgotten when they are not used for long (so many bytes are kept) and when effects
 * were rolled back (the overlay's generation). A node knows the ticket of what it was made from, and a look at it
 * counts as a look at those rows: a reply never tells what is not committed.
 */
#pragma once

#include "backend/storage/overlay.h"
#include "shared/list.h"

struct rank_block {
    struct bytes separator;
    uint64_t count;    /* rows */
    uint64_t children; /* blocks of the level below; 0 in a leaf */
};

/* Which node: the children, of `level`, of the block `parent` (empty: also the tops). */
struct rank_place {
    uint64_t version; /* of the collection: no other of the partition has it */
    unsigned level;
    struct bytes parent;
};

struct rank_node {
    struct rank_node *next; /* of the same bucket */
    struct list age;
    uint64_t hash;
    struct rank_place place;
    uint64_t generation;
    uint64_t ticket;
    size_t bytes;
    uint32_t count;
    struct rank_block block[]; /* ordered; separators and the parent's lie behind */
};

struct rank_cache;

struct rank_cache *rank_cache_new(struct overlay *overlay, size_t bytes);
/* Keeps at most so many bytes from now on; no node may be borrowed. */
void rank_cache_limit(struct rank_cache *cache, size_t bytes);
void rank_cache_free(struct rank_cache *cache); /* NULL is allowed */

/* NULL: not here. Both nodes are borrowed until the next rank_cache_add or _forget. */
const struct rank_node *rank_cache_get(struct rank_cache *cache, const struct rank_place *place);
/* Copies the blocks, which were just read. */
const struct rank_node *rank_cache_add(struct rank_cache *cache, const struct rank_place *place,
                                       const struct rank_block *blocks, uint32_t count);
/* One of the node's blocks has other counts. */
void rank_cache_put(struct rank_cache *cache, const struct rank_place *place,
                    const struct rank_block *block);
void rank_cache_forget(struct rank_cache *cache, const struct rank_place *place);
/* For tests. */
size_t rank_cache_bytes(const struct rank_cache *cache);

/* The last block whose separator is not greater than `sub`; the first one when there is none. */
uint32_t rank_node_find(const struct rank_node *node, struct bytes sub);
