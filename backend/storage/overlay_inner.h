/*
 * overlay_inner.h - what the files overlay*.c share.
 *
 *   overlay.c         reads and effects
 *   overlay_batch.c   batches and buffers come and go
 *   overlay_iter.c    iteration, merged from the buffers and cached_iter.c
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "backend/storage/write_buffer.h"

struct undo {
    struct row *row;
    struct bytes value;
    uint64_t ticket;
    enum row_state state;
};

/* What rollback goes back to. */
struct mark {
    size_t undo_count;
    size_t ranges_count;
    size_t effects;
    uint64_t observed_writes;
};

/* A row that a batch changes: what it was before, and, when the batch is closed, what it has become. When a command
 * took its change back and another one made one, the row is there twice. */
struct change {
    struct row *row;
    struct bytes before, after;
    uint8_t state_before, state_after; /* enum row_state */
};

/* Effects that become durable together. Its rows are in `buffer`, and so are its ranges, from ranges_from on; the copy
 * of them is for the commit thread, under which the buffer's array may move. */
struct batch {
    struct write_buffer *buffer;
    struct change *changes;
    size_t count;
    size_t cap;
    size_t ranges_from;
    struct range *ranges; /* when it is closed */
    size_t ranges_count;
    size_t bytes_from; /* of the buffer's arena */
    size_t effects;    /* puts, deletes and ranges that were not rolled back */
    struct batch_header header;
    uint64_t ticket;
};

/* What is remembered of the store's rows is brought up to date with a write buffer that is in the tables now. */
struct fold {
    bool is_begun;
    enum cf cf;
    const struct row *row; /* of cf: the next one; NULL: all were */
};

struct overlay {
    struct store *store;
    struct row_cache *cache;    /* of the store's rows; NULL: none */
    struct range_cache *ranges; /* of runs of its rows; NULL: none */
    struct reader *reader;      /* NULL: reads go to the disk */
    struct reader_wait *wait;   /* of the command being run; NULL: its reads may block */
    bool is_nonblocking;
    size_t buffer_bytes;
    struct write_buffer buffers[2];
    struct write_buffer *active; /* takes the effects of commands */
    uint8_t
        iterated[CF_COUNT]; /* for so many buffers more its rows are put in order with each batch */
    struct write_buffer *immutable; /* full, on its way into the store's tables; NULL: none */
    struct fold fold;               /* when it is there */
    struct batch batches[2];
    struct batch *batch;     /* collects effects, in current */
    struct batch *in_flight; /* closed, on its way into the WAL; NULL: none */
    uint64_t generation;
    uint64_t observed_reads; /* tickets, since observe_begin */
    uint64_t observed_writes;
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct mark savepoint;
    bool is_attempt;
    struct mark attempt; /* where it began */
    bool is_script;      /* a script runs: savepoints keep the undo log */
    struct mark script;  /* where the script began */
};

/* What was read comes from the batch with this ticket, and may be rolled back until that is durable. */
static inline void overlay_observe_effect(struct overlay *overlay, uint64_t ticket)
{
    if (ticket > overlay->observed_reads)
        overlay->observed_reads = ticket;
}

/* Write buffers whose column family is walked over are kept in order: this one and the next. */
enum { OVERLAY_ITERATED = 2 };

/* Small rows of the whole partition are read where they are needed. */
static inline bool overlay_may_be_uncached(enum cf cf)
{
    return cf != CF_SYSTEM && cf != CF_EXPIRE;
}

/* Rows of this column family are kept in the row cache. */
static inline bool overlay_caches(const struct overlay *overlay, enum cf cf)
{
    return overlay->cache && (cf == CF_METADATA || cf == CF_DATA || cf == CF_RANK);
}

/* Its rows are those of collections, of which the range cache keeps runs. */
static inline bool overlay_keeps_ranges(enum cf cf)
{
    return cf == CF_DATA || cf == CF_ZSET_SCORE || cf == CF_STREAM || cf == CF_RANK;
}

/* From now on effects are those of an empty batch. */
void overlay_begin_batch(struct overlay *overlay, uint64_t ticket);
