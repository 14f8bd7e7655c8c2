/*
 * store_mem.h - functions of the store in memory that a real engine does not have: a crash and failures on purpose.
 *
 *   tables, used by reads ──at random, and by a flush──► files        a crash keeps the files
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

/* Simulates the death of the process. The path can be opened again at once. The old store still answers reads as before,
 * refuses writes, and must be closed. */
void store_mem_crash(struct store *store);

/* The n-th store_apply from now (1 = the next) fails with ERR_DISK_FULL or ERR_STORE, and so do all later ones until
 * store_reopen; a failed one wrote nothing. 0 cancels the failure. */
void store_mem_fail_apply(struct store *store, uint64_t n, int kind);
/* The next `times` attempts to reopen the database fail, at random in store_try_disk, before it is closed, or after. */
void store_mem_fail_reopen(struct store *store, uint64_t times);
/* From now on rows that are applied must come in order and each once: the order is what makes applying cheap. */
void store_mem_expect_order(struct store *store);
/* The n-th store_get or store_iter_new from now fails, once. 0 cancels the failure. */
void store_mem_fail_read(struct store *store, uint64_t n);
/* From now on one in `one_in` calls of store_get_cached, and moves of cached iterators, returns ERR_UNCACHED; 0:
 * none. */
void store_mem_be_uncached(struct store *store, uint64_t one_in);
