/*
 * rank.h - the n-th row of a collection, and the rank of a row, in O(log n).
 *
 * Rows of a big collection are counted in blocks, and these blocks in bigger blocks: an order-statistic tree
 * over the ordered rows of one column family, kept in rows of its own (CF_RANK, sub key = level | separator).
 *
 *   level 2   ┌ "" 300 ──────────────┐┌ "m" 410 ───────────┐     count of the rows below, and number of blocks
 *   level 1   ┌ "" 90 ┐┌ "ca" 210 ───┐┌ "m" 160 ┐┌ "r" 250 ┐     count of the rows
 *   rows       a b bb   cab cb d …     m mm …     rx s t …       a block has the rows from its separator to the
 *                                                                next block's separator
 *
 * Every change writes the counts of a leaf and of the blocks above it; these blocks are found in memory (rank_cache.h),
 * without an iterator.
 *
 * A small collection has no tree: ranks are found by iterating. (1) The first block of each level has the empty
 * separator and is never removed; (2) a block's first child has the block's own separator; (3) apart from (1), only a
 * block that is its parent's first child may be empty; (4) the tree exists only while the collection has more than
 * RANK_SIZE_MIN rows.
 *
 * A stale tree, which an older program wrote, is not used: rank_rebuild.h replaces it.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "backend/rank/rank_cache.h"

enum {
    RANK_SIZE_MIN = 64,  /* a collection that shrinks to this size loses its tree */
    RANK_LEAF_MAX = 128, /* rows of a leaf block; a tree is made at this size */
    RANK_LEVELS_MAX = 10,
};

/* A row was added or deleted: updates the counts. To be called right after sub_put or sub_delete, when
 * entry->meta.size includes the change. False: the store failed (replied). */
bool rank_add(struct call *call, struct entry *entry, enum cf cf, struct bytes sub);
bool rank_remove(struct call *call, struct entry *entry, enum cf cf, struct bytes sub);
/* Number of rows before `sub`, which need not exist. False: the store failed (replied). */
bool rank_of(struct call *call, struct entry *entry, enum cf cf, struct bytes sub, uint64_t *rank);
/* The start of an iteration to row number `rank` (0 is the first; rank < size): sub_iter_init at *from (in the call's
 * arena, empty: the first row), then skip *skip rows. False: the store failed (replied). */
bool rank_seek(struct call *call, struct entry *entry, enum cf cf, uint64_t rank,
               struct bytes *from, uint64_t *skip);
/* Builds the tree by one iteration over all rows; for use after entry_create and many sub_puts without rank_add. */
bool rank_build(struct call *call, struct entry *entry, enum cf cf);
/* The same from the sub keys of all rows in their order, so that no row is read. */
bool rank_build_of(struct call *call, struct entry *entry, enum cf cf, const struct bytes *subs,
                   uint64_t count);
/* Is there a tree whose counts may be wrong? False: the store failed (replied). */
bool rank_is_stale(struct call *call, struct entry *entry, bool *is_stale);
/* Replaces the tree by one with these leaves; their separators are in order, the first one is empty. False: the store failed
 * (replied). */
bool rank_replace(struct call *call, struct entry *entry, enum cf cf,
                  const struct rank_block *leaves, size_t count);
/* The shortest text that is greater than `before` and not greater than `row`, in the arena. */
struct bytes rank_separator(struct arena *arena, struct bytes before, struct bytes row);

/* Many changes in one edit: consecutive rows share the search of their block. rank_edit_begin(&edit, call, entry,
 * CF_DATA); … sub_delete, entry->meta.size--, rank_edit_remove(&edit, sub) … rank_edit_end(&edit); All return false
 * when the store failed (replied). */
struct rank_edit {
    struct call *call;
    struct entry *entry;
    enum cf cf;
    uint64_t height; /* levels; 0: there is no tree */
    uint64_t tops;   /* blocks of the highest level */
    bool is_open;    /* the root was read */
    bool is_stale;   /* an older program wrote the tree; the height is 0 */
    bool has_path;
    struct bytes end; /* separator of the next leaf; data NULL: there is none */
    struct rank_block path[RANK_LEVELS_MAX]; /* from the leaf up, with changes not yet put;
                                                separators in the call's arena */
};

void rank_edit_begin(struct rank_edit *edit, struct call *call, struct entry *entry, enum cf cf);
bool rank_edit_add(struct rank_edit *edit, struct bytes sub);
bool rank_edit_remove(struct rank_edit *edit, struct bytes sub);
bool rank_edit_end(struct rank_edit *edit);
