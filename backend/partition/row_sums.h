/*
 * row_sums.h - one number for all rows of a slot that the tables have at one moment, so that copies can be compared without sending rows.
 *
 *   row_sums_new ─► the tables as they are now ─► row_sums_run, on another thread ─► a sum for each slot
 *
 *   slot     sum of the hashes of: its metadata rows; the rows of their collections
 *   system   rows of CF_SYSTEM; and, if all slots are summed, of the expiry index
 *
 * Copies that have carried out the same records have the same sums. What may differ is left out: rows that belong to no key, and those of collections
 * that have expired at `now_ms`. Each copy drops them when its own compaction gets there (orphan.h).
 */
#pragma once

#include "backend/store/store.h"
#include "shared/slot.h"

#include <stdatomic.h>

struct row_sums {
    uint16_t first, last; /* slots */
    uint64_t now_ms;
    uint64_t of[SLOT_COUNT];
    uint64_t system;
    uint64_t rows;  /* that were summed */
    bool is_failed; /* some rows could not be read; valid after row_sums_run */
    atomic_bool is_stopped;
    uint64_t nap_us; /* monotonic: when its last nap ended; 0: there was none */
    struct store_iter *iters[CF_COUNT];
};

/* Until row_sums_free the store must not be shut. */
struct row_sums *row_sums_new(struct store *store, uint16_t first, uint16_t last, uint64_t now_ms);
/* Sums up, using half of a CPU at most. On any thread, once. */
void row_sums_run(struct row_sums *sums);
/* row_sums_run ends soon, and the sums are worth nothing. Any thread. */
void row_sums_stop(struct row_sums *sums);
/* NULL is allowed. */
void row_sums_free(struct row_sums *sums);
