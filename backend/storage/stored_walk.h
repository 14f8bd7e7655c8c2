/*
 * stored_walk.h - a walk over the store's rows alone, which overlay_iter.c merges with what the buffers say.
 *
 *   seek ─┬─ the range cache has a run there ─► its rows ─► its end ─┐
 *         └─ else ───────────────────────────────────────────────────┴─► the engine's iterator ─► the end, or
 *                                         │ rows that it passes            a row that is on the disk only: is_uncached, and
 *                                         ▼                                stored_walk_failed has the range fetched
 *                                 draft of another run                     for the one who waits
 *
 *   detach ─► rows that a feed brings, or it is dry until there are some (row_feed.h)
 */
#pragma once

#include "backend/storage/overlay_inner.h"
#include "backend/storage/range_cache.h"

struct stored_walk {
    struct overlay *overlay;
    enum cf cf;
    bool is_reverse;
    bool is_through;    /* nothing is left to pass */
    bool is_uncached;   /* it would have to go to the disk: nothing is right any more */
    bool is_stuck;      /* it is uncached or dry: what comes next is not known */
    struct bytes lower; /* the bounds: the owner's */
    struct bytes upper;
    struct range_cache *ranges; /* NULL: not for this walk */
    const struct run *run;      /* it is in there; NULL: in the engine */
    uint32_t run_row;           /* on this row of it, in reverse on the one before */
    struct run_draft *draft;    /* of a run, which it writes; or NULL */
    struct store_iter *iter;    /* NULL: not needed so far, or the feed has it */
    struct row_feed *feed;      /* detached, and there are reader threads */
    struct reader_wait *wait;   /* for what is not in memory; NULL: it goes to the disk */
    struct {                    /* how it came to where it is in the engine */
        bool has_from;          /* a seek to `key`; else to the end of the bounds */
        char *key;              /* heap */
        size_t key_len;
        size_t key_cap;
        uint64_t rows; /* passed since */
    } course;
};

/* Rows of [lower, upper), which stay where they are as long as the walk does. */
void stored_walk_init(struct stored_walk *walk, struct overlay *overlay, enum cf cf,
                      struct bytes lower, struct bytes upper);
void stored_walk_fini(struct stored_walk *walk);
/* From where it stands on the walk is the engine's alone, over a snapshot of the store: reader threads read for it, or
 * it goes to the disk by itself where there are none; see overlay_iter_detach. The store may have changed since it
 * began, but only by what the buffers hold. */
void stored_walk_detach(struct stored_walk *walk, uint64_t rows, void (*on_rows)(void *owner),
                        void *owner);
/* To the first row from `key` on in the direction; has_from false: to the end of the bounds that it comes from. */
void stored_walk_seek(struct stored_walk *walk, bool is_reverse, struct bytes key, bool has_from);
void stored_walk_step(struct stored_walk *walk);
/* Over what is left of a deleted range, to its end in this direction. */
void stored_walk_skip(struct stored_walk *walk, struct bytes end);
/* It was dry: is it still? */
void stored_walk_look(struct stored_walk *walk);
bool stored_walk_is_dry(const struct stored_walk *walk);
/* There is nothing in the rest of the bounds that matters. */
void stored_walk_end(struct stored_walk *walk);
bool stored_walk_valid(const struct stored_walk *walk);
struct bytes stored_walk_key(const struct stored_walk *walk);   /* borrowed until the next move */
struct bytes stored_walk_value(const struct stored_walk *walk); /* likewise */
bool stored_walk_failed(const struct stored_walk *walk);
