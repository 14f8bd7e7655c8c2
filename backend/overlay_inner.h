/*
 * overlay_inner.h - what overlay.c and overlay_iter.c share.
 */
#pragma once

#include "backend/layer.h"
#include "backend/overlay.h"

struct undo {
    struct row *row;
    struct bytes value;
    enum row_state state;
};

/* What rollback goes back to. */
struct mark {
    size_t undo_count;
    size_t ranges_count;
    size_t effects;
    uint64_t observed_writes;
};

struct overlay {
    struct store *store;
    struct row_cache *cache;  /* of the store's rows; NULL: none */
    struct reader *reader;    /* NULL: reads go to the disk */
    struct reader_wait *wait; /* of the command being run; NULL: it may not unwind */
    bool may_unwind;
    struct layer layers[2];
    struct layer *current;
    struct layer *in_flight; /* NULL: none */
    uint64_t generation;
    uint64_t observed_reads; /* tickets, since observe_begin */
    uint64_t observed_writes;
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct mark savepoint;
    bool is_attempt;
    struct mark attempt; /* where it began */
};

/* What was read of the layer may be taken back until its ticket is through. */
static inline void overlay_observe_layer(struct overlay *overlay, const struct layer *layer)
{
    if (layer->ticket > overlay->observed_reads)
        overlay->observed_reads = layer->ticket;
}

/* Small rows of the whole partition are read where they are needed. */
static inline bool overlay_is_coldable(enum cf cf)
{
    return cf != CF_SYSTEM && cf != CF_EXPIRE;
}
