/*
 * rank.h - which row of a collection is the n-th, and the n-th of what is a row: in O(log n).
 *
 * Rows of a big collection are counted in blocks, blocks in blocks of blocks, and so on: an order-statistic tree
 * over the ordered rows of one column family, kept in rows of its own (CF_RANK, sub key = level | separator).
 *
 *   level 2   ┌ "" 300 ──────────────┐┌ "m" 410 ───────────┐     count of the rows below, and how many blocks
 *   level 1   ┌ "" 90 ┐┌ "ca" 210 ───┐┌ "m" 160 ┐┌ "r" 250 ┐     count of the rows
 *   rows       a b bb   cab cb d …     m mm …     rx s t …       a block holds what lies from its separator to
 *                                                                the next one's
 *
 * The counts of a leaf and of the blocks above it are put by every change; which blocks these are is found in memory
 * (rank_cache.h), where a look costs no engine walk.
 *
 * A small collection has no tree: ranks are found by walking. (1) The first block of each level has the empty
 * separator and is never removed; (2) a block's first child has its separator; (3) of the others, only a block
 * that is its parent's first child may be empty; (4) the tree exists only while the collection has more than
 * RANK_SIZE_MIN rows.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/rank_cache.h"

enum {
    RANK_SIZE_MIN = 64,  /* the tree of a collection that shrinks to this is dropped */
    RANK_LEAF_MAX = 128, /* rows of a leaf block; also the size at which a tree is made */
    RANK_FAN_MAX = 32,   /* blocks of a block */
    RANK_LEVELS_MAX = 10,
};

/* A row was put (it is new) or deleted: keeps the counts. Call it right behind sub_put or sub_delete, when
 * entry->meta.size counts the change already. False: the store failed (replied). */
bool rank_add(struct call *call, struct entry *entry, enum cf cf, struct bytes sub);
bool rank_remove(struct call *call, struct entry *entry, enum cf cf, struct bytes sub);
/* How many rows lie before `sub`, which need not exist. False: the store failed (replied). */
bool rank_of(struct call *call, struct entry *entry, enum cf cf, struct bytes sub, uint64_t *rank);
/* Where to begin a walk to row number `rank` (0 is the first; rank < size): sub_iter_init from *from (in the call's
 * arena, empty: the first row), and *skip rows come before the wanted one. False: the store failed (replied). */
bool rank_seek(struct call *call, struct entry *entry, enum cf cf, uint64_t rank,
               struct bytes *from, uint64_t *skip);
/* Counts all rows at once, by one walk: behind entry_create and many sub_puts without rank_add. */
bool rank_build(struct call *call, struct entry *entry, enum cf cf);

/* Many changes: neighbours share the look for their block.
 *     rank_edit_begin(&edit, call, entry, CF_DATA);
 *     … sub_delete, entry->meta.size--, rank_edit_remove(&edit, sub) …
 *     rank_edit_end(&edit);
 * All return false when the store failed (replied). */
struct rank_edit {
    struct call *call;
    struct entry *entry;
    enum cf cf;
    uint64_t height; /* levels; 0: there is no tree */
    uint64_t tops;   /* blocks of the highest level */
    bool is_open;    /* the root was read */
    bool has_path;
    struct bytes end; /* the path's leaf holds rows before it; data NULL: all to the last */
    struct rank_block path[RANK_LEVELS_MAX]; /* from the leaf up, with changes not yet put;
                                                separators in the call's arena */
};

void rank_edit_begin(struct rank_edit *edit, struct call *call, struct entry *entry, enum cf cf);
bool rank_edit_add(struct rank_edit *edit, struct bytes sub);
bool rank_edit_remove(struct rank_edit *edit, struct bytes sub);
bool rank_edit_end(struct rank_edit *edit);
