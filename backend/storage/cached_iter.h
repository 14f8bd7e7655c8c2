/*
 * cached_iter.h - an iterator over the store's rows in front of which the range cache lies; overlay_iter.c merges it
 * with the write buffers.
 *
 *   seek ─┬─ the range cache has a run there ─► its rows ─► its end ─┐
 *         └─ else ───────────────────────────────────────────────────┴─► the engine's iterator ─► the end, or
 *                                         │ rows that it passes            a row that is on the disk only: is_uncached, and
 *                                         ▼                                cached_iter_error has  the range fetched
 *                                 draft of another run                     for the one who waits
 *
 *   detach ─► rows that are read ahead; it is pending until there are some (read_ahead.h)
 */
#pragma once

#include "backend/storage/overlay_inner.h"
#include "backend/storage/range_cache.h"

struct cached_iter {
    struct overlay *overlay;
    enum cf cf;
    bool is_reverse;
    bool is_through;    /* nothing is left to pass */
    bool is_uncached;   /* it would have to go to the disk: nothing is right any more */
    bool is_stuck;      /* it is uncached or pending: what comes next is not known */
    struct bytes lower; /* the bounds: the owner's */
    struct bytes upper;
    struct range_cache *ranges; /* NULL: not for this iterator */
    const struct run *run;      /* it is in there; NULL: in the engine */
    uint32_t run_row;           /* on this row of it, in reverse on the one before */
    struct run_draft *draft;    /* of a run, which it writes; or NULL */
    struct store_iter *engine;  /* NULL: not needed so far, or the read-ahead has it */
    struct read_ahead *ahead;   /* detached, and there are reader threads */
    struct reader_wait *wait;   /* for what is not in memory; NULL: it goes to the disk */
    struct {                    /* how it came to where it is in the engine */
        bool has_from;          /* a seek to `key`; else to the end of the bounds */
        char *key;              /* heap */
        size_t key_len;
        size_t key_cap;
        uint64_t rows; /* passed since */
    } course;
};

/* Rows of [lower, upper), which stay where they are as long as the iterator does. */
void cached_iter_init(struct cached_iter *iter, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper);
void cached_iter_fini(struct cached_iter *iter);
/* From where it stands on the iterator is the engine's alone, over a snapshot of the store: reader threads read for it,
 * or it goes to the disk by itself where there are none; see overlay_iter_detach. The store may have changed since it
 * began, but only by what the buffers hold. */
void cached_iter_detach(struct cached_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                        void *owner);
/* To the first row from `key` on in the direction; has_from false: to the end of the bounds that it comes from. */
void cached_iter_seek(struct cached_iter *iter, bool is_reverse, struct bytes key, bool has_from);
void cached_iter_step(struct cached_iter *iter);
/* Over what is left of a deleted range, to its end in this direction. */
void cached_iter_skip(struct cached_iter *iter, struct bytes end);
/* It was pending: is it still? */
void cached_iter_look(struct cached_iter *iter);
bool cached_iter_is_pending(const struct cached_iter *iter);
/* There is nothing in the rest of the bounds that matters. */
void cached_iter_end(struct cached_iter *iter);
bool cached_iter_valid(const struct cached_iter *iter);
struct bytes cached_iter_key(const struct cached_iter *iter);   /* borrowed until the next move */
struct bytes cached_iter_value(const struct cached_iter *iter); /* likewise */
/* Why it is not valid, as overlay_iter_error. */
int cached_iter_error(const struct cached_iter *iter);
