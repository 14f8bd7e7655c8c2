/*
 * rank.h - which row of a collection is the n-th, and the n-th of what is a row: in O(log n).
 *
 * Rows of a big collection are counted in blocks, blocks in blocks of blocks, and so on: an order-statistic tree
 * over the ordered rows of one column family, in rows of its own (CF_RANK). Small collections have none.
 */
#pragma once

#include "backend/keyspace.h"

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
