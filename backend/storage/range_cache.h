/*
 * range_cache.h - runs of rows that were recently iterated over, so that most short iterations need no RocksDB iterator.
 *
 *   (cf, collection) ─hash─► run  ├ r1 r2 r3 … r10            the rows after r10 are not known
 *                        └─► run             r7 r8 r9 ┤       the collection ends after r9
 *
 * A run has all rows between two keys, or up to an end of the collection. An iteration that begins between these keys needs
 * no RocksDB iterator until it leaves the run.
 *
 * As in the row cache, rows are those of RocksDB's tables, without effects that are only in a write buffer: when a buffer
 * was applied, runs of the collections that it changed are dropped. A full scan evicts little: the first iteration that
 * begins at a position only marks it, and a run is recorded when the next iteration begins there.
 */
#pragma once

#include "backend/store/store.h"

enum {
    RUN_ROWS_MAX = 128,
    RUN_BYTES_MAX = 16 * 1024,
};

struct run_row {
    uint32_t at; /* offset of its key in run->bytes; the value follows */
    uint32_t key_len;
    uint32_t value_len;
};

/* Immutable. */
struct run {
    uint32_t count;
    bool has_start; /* the run's first row is the first row of the collection */
    bool has_end;   /* the run's last row is the last row of the collection */
    struct bytes low,
        high; /* bounds, unless has_start or has_end: the run has all rows between them, both included */
    const struct run_row *rows; /* sorted */
    const char *bytes;
};

static inline struct bytes run_key(const struct run *run, uint32_t row)
{
    return (struct bytes){run->bytes + run->rows[row].at, run->rows[row].key_len};
}
static inline struct bytes run_value(const struct run *run, uint32_t row)
{
    const struct run_row *at = &run->rows[row];
    return (struct bytes){run->bytes + at->at + at->key_len, at->value_len};
}
/* Number of the run's rows before `key` (or_equal: or equal to `key`). */
uint32_t run_before(const struct run *run, struct bytes key, bool or_equal);

/* Where an iteration begins. */
struct run_place {
    enum cf cf;
    struct bytes collection; /* prefix of its rows */
    bool has_from;           /* at `from`; else at the first row in this direction */
    bool is_reverse;
    struct bytes from;
};

struct range_cache;
struct run_draft;

struct range_cache *range_cache_new(size_t bytes);
/* No run may be in use. NULL is allowed. */
void range_cache_free(struct range_cache *cache);

/* Finds a run that contains the position, to be released with range_cache_release; NULL: there is none. */
const struct run *range_cache_find(struct range_cache *cache, const struct run_place *place);
void range_cache_release(const struct run *run);

/* Called when an iteration begins without a run. NULL: nothing is recorded, because no iteration began here recently,
 * or another iteration is being recorded. Otherwise the caller adds the rows that it passes to the draft, and ends the
 * draft before runs of this cache are dropped. */
struct run_draft *range_cache_draft(struct range_cache *cache, const struct run_place *place);
/* Copies key and value. Rows beyond a limit of number or size, and all rows after them, are ignored. */
void run_draft_add(struct run_draft *draft, struct bytes key, struct bytes value);
/* is_end: the iteration reached the end of the collection. */
void run_draft_end(struct run_draft *draft, bool is_end);

/* Drops the runs of a collection whose rows have changed. */
void range_cache_forget(struct range_cache *cache, enum cf cf, struct bytes collection);
void range_cache_clear(struct range_cache *cache);
bool range_cache_is_empty(const struct range_cache *cache);

struct range_cache_figures {
    uint64_t hits;
    uint64_t misses;
    uint64_t bytes;
};
void range_cache_figures(const struct range_cache *cache, struct range_cache_figures *figures);
