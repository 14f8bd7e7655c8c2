/*
 * range_cache.h - runs of rows that were walked over lately, so that most short walks never reach the engine.
 *
 *   (cf, collection) ─hash─► run  ├ r1 r2 r3 … r10            nothing is known of what lies behind
 *                        └─► run             r7 r8 r9 ┤       behind it the collection ends
 *
 * A run says which rows there are between two keys, or the ends of the collection: all of them. A walk that begins
 * between these keys needs no engine until it leaves the run.
 *
 * As in the row cache these are rows as the store's tables have them, never effects that are only in a buffer: when a
 * buffer is in the tables the runs of the collections that it changed are forgotten. And reading everything once
 * forgets little: where a walk begins for the first time it leaves a mark, and a run when one begins there again.
 */
#pragma once

#include "backend/store/store.h"

enum {
    RUN_ROWS_MAX = 128,
    RUN_BYTES_MAX = 16 * 1024,
};

struct run_row {
    uint32_t at; /* of its key, in run->bytes; the value follows */
    uint32_t key_len;
    uint32_t value_len;
};

/* Immutable. */
struct run {
    uint32_t count;
    bool has_start;             /* before its first row the collection begins */
    bool has_end;               /* behind its last row the collection ends */
    struct bytes low, high;     /* else: the keys between which it has all rows, both included */
    const struct run_row *rows; /* in order */
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
/* How many of its rows are before `key`, or are that or before it. */
uint32_t run_before(const struct run *run, struct bytes key, bool or_equal);

/* Where a walk begins. */
struct run_place {
    enum cf cf;
    struct bytes collection; /* the prefix of its rows */
    bool has_from;           /* at `from`; else at the end of the collection that it comes from */
    bool is_reverse;
    struct bytes from;
};

struct range_cache;
struct run_draft;

struct range_cache *range_cache_new(size_t bytes);
/* No run may be held. NULL is allowed. */
void range_cache_free(struct range_cache *cache);

/* A run that the place lies in, held until range_cache_release; or NULL. */
const struct run *range_cache_find(struct range_cache *cache, const struct run_place *place);
void range_cache_release(const struct run *run);

/* A walk begins that found no run. NULL: it leaves none, because none began here lately, or another one is being
 * written. Else the rows it passes are added as they come, and the draft ends before anything is forgotten here. */
struct run_draft *range_cache_draft(struct range_cache *cache, const struct run_place *place);
/* Copies both. Rows that are too many, or too big, are passed over, and so are all behind them. */
void run_draft_add(struct run_draft *draft, struct bytes key, struct bytes value);
/* is_end: the walk came to where the collection ends. */
void run_draft_end(struct run_draft *draft, bool is_end);

/* Rows of the collection changed. */
void range_cache_forget(struct range_cache *cache, enum cf cf, struct bytes collection);
void range_cache_clear(struct range_cache *cache);
bool range_cache_is_empty(const struct range_cache *cache);

struct range_cache_figures {
    uint64_t hits;
    uint64_t misses;
    uint64_t bytes;
};
void range_cache_figures(const struct range_cache *cache, struct range_cache_figures *figures);
