/*
 * cached_iter.h - an iterator over the store's rows that uses the range cache; overlay_iter.c merges it with the write
 * buffers.
 *
 *   seek ─┬─ the range cache has a run there ─► its rows ─► its end ─┐
 *         └─ else ───────────────────────────────────────────────────┴─► RocksDB's iterator ─► the end, or an
 *                                         │ rows that it passes            uncached row: is_uncached, and
 *                                         ▼                                cached_iter_error  requests the range for
 *                                 draft of another run                     the wait
 *
 *   detach ─► rows come from a read-ahead; pending until there are some (read_ahead.h)
 */
#pragma once

#include "backend/storage/overlay_inner.h"
#include "backend/storage/range_cache.h"

struct cached_iter {
    struct overlay *overlay;
    enum cf cf;
    bool is_reverse;
    bool is_through;    /* the iteration has reached its end */
    bool is_uncached;   /* the next row is uncached: the iterator is no longer valid */
    bool is_stuck;      /* uncached or pending: the next row is not known */
    struct bytes lower; /* the bounds; owned by the caller */
    struct bytes upper;
    struct range_cache *ranges; /* NULL: not used by this iterator */
    const struct run *run;      /* the run that is being read; NULL: RocksDB's iterator is used */
    uint32_t run_row; /* index of the current row in the run; in reverse order: of the row after */
    struct run_draft *draft;   /* the run that is being recorded; or NULL */
    struct store_iter *engine; /* NULL: not needed so far, or the read-ahead owns it */
    struct read_ahead *ahead;  /* set if the iterator is detached and there are reader threads */
    struct retry *retry;       /* for uncached rows; NULL: reads may block on the disk */
    struct {                   /* the last seek in RocksDB */
        bool has_from;         /* it was a seek to `key`; else to a bound */
        char *key;             /* heap */
        size_t key_len;
        size_t key_cap;
        uint64_t rows; /* rows passed since */
    } course;
};

/* Iterates over rows of [lower, upper), which must stay valid while the iterator exists. */
void cached_iter_init(struct cached_iter *iter, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper);
void cached_iter_fini(struct cached_iter *iter);
/* From its position on, the iterator reads only from a snapshot of the store: through reader threads, or on this thread
 * if there are none; see overlay_iter_detach. Since the iterator began, the store may have
 * received effects of the write buffers only: overlay_iter_detach copies these, so to have them twice does no harm. */
void cached_iter_detach(struct cached_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                        void *owner);
/* Moves to the first row from `key` on in this direction; has_from false: from the lower bound, or in
 * reverse from the upper bound. */
void cached_iter_seek(struct cached_iter *iter, bool is_reverse, struct bytes key, bool has_from);
void cached_iter_step(struct cached_iter *iter);
/* Skips the rest of a deleted range, to its end in this direction. */
void cached_iter_skip(struct cached_iter *iter, struct bytes end);
/* Checks whether a pending iterator has rows now. */
void cached_iter_look(struct cached_iter *iter);
bool cached_iter_is_pending(const struct cached_iter *iter);
/* Moves the iterator to its end: no further rows are needed. */
void cached_iter_end(struct cached_iter *iter);
bool cached_iter_valid(const struct cached_iter *iter);
struct bytes cached_iter_key(const struct cached_iter *iter);   /* borrowed until the next move */
struct bytes cached_iter_value(const struct cached_iter *iter); /* likewise */
/* Why the iterator is not valid, as overlay_iter_error. */
int cached_iter_error(const struct cached_iter *iter);
