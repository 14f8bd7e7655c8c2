/*
 * store_mem.h - what a test may do to the store in memory that no engine offers: crash it, make it
 * fail.
 *
 *   durable ──write──► state ──write──► state ──write──► state      ◄── what reads see
 *      ▲                 └──────── not synced: a crash keeps ───┘
 *      └── a synced write                a prefix of them
 *
 * Contents belong to the path and outlive store_close, as files do. One thread. All chance comes
 * from the seed, so a run can be repeated.
 */
#pragma once

#include "backend/store/store.h"

/* Forgets the contents of all paths; every store must be closed. */
void store_mem_reset(void);
/* Chance begins anew. */
void store_mem_seed(uint64_t seed);

/* The process dies here: unsynced writes are lost from a point chosen by chance on. The path can be
 * opened again at once. The old store still answers reads as before, refuses writes, and has to be
 * closed. */
void store_mem_crash(struct store *store);

/* The n-th store_log or store_sync from now (1 = the next) fails with ERR_DISK_FULL or ERR_STORE,
 * and so do all later ones until store_recover. A batch that failed with ERR_STORE may have reached
 * the disk (its fsync failed): by chance it is there after a crash, unless store_recover came before.
 * 0 calls it off. */
void store_mem_fail_next(struct store *store, uint64_t n, int kind);
/* The same for store_apply, which has no doubtful end. */
void store_mem_fail_apply(struct store *store, uint64_t n, int kind);
/* The next `times` calls of store_recover fail with the error the write failed with. */
void store_mem_fail_recover(struct store *store, uint64_t times);
/* The n-th store_get or store_iter_new from now fails, once. 0 calls it off. */
void store_mem_fail_read(struct store *store, uint64_t n);
/* From now on one in so many calls of store_get_cached says ERR_UNCACHED, and of moves of cached iterators; 0: none. */
void store_mem_be_uncached(struct store *store, uint64_t one_in);
/* Calls of store_log and store_sync since store_open. */
uint64_t store_mem_writes(const struct store *store);
