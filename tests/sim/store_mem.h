/*
 * store_mem.h - functions of the store in memory that a real engine does not have: a crash and failures on purpose.
 *
 *   durable ──write──► state ──write──► state ──write──► state      ◄── used by reads
 *      ▲                 └────── not synced: a crash keeps ─────┘
 *      └── a synced write              a prefix of these
 *
 * Contents belong to the path and outlive store_close, as files do. Not thread-safe. All random choices depend on the
 * seed, so a run can be repeated.
 */
#pragma once

#include "backend/store/store.h"

/* Forgets the contents of all paths; every store must be closed. */
void store_mem_reset(void);
/* Restarts the random numbers with this seed. */
void store_mem_seed(uint64_t seed);

/* Simulates the death of the process: a random number of the newest unsynced writes is lost. The path can be opened
 * again at once. The old store still answers reads as before, refuses writes, and must be closed. */
void store_mem_crash(struct store *store);

/* The n-th store_log or store_sync from now (1 = the next) fails with ERR_DISK_FULL or ERR_STORE, and so do all
 * later ones until store_recover. A batch that failed with ERR_STORE may have reached the disk (its fsync failed):
 * at random it is there after a crash, unless store_recover was called before. 0 cancels the failure. */
void store_mem_fail_next(struct store *store, uint64_t n, int kind);
/* The same for store_apply; a failed store_apply certainly wrote nothing. */
void store_mem_fail_apply(struct store *store, uint64_t n, int kind);
/* The next `times` calls of store_recover fail with the error of the failed write. */
void store_mem_fail_recover(struct store *store, uint64_t times);
/* The n-th store_get or store_iter_new from now fails, once. 0 cancels the failure. */
void store_mem_fail_read(struct store *store, uint64_t n);
/* From now on one of so many calls of store_get_cached, and of moves of cached iterators, returns ERR_UNCACHED; 0:
 * none. */
void store_mem_be_uncached(struct store *store, uint64_t one_in);
/* Number of calls of store_log and store_sync since store_open. */
uint64_t store_mem_writes(const struct store *store);
