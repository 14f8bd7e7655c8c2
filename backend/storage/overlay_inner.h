/*
 * overlay_inner.h - shared by the files overlay*.c.
 *
 *   overlay.c         reads and effects
 *   overlay_view.c    the attempt of a transaction over shards
 *   overlay_batch.c   begin and end of batches and buffers
 *   overlay_room.c    backpressure
 *   overlay_release.c memory of effects that were rolled back
 *   overlay_iter.c    iteration, merged from the buffers and cached_iter.c
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "backend/storage/plain_keys.h"
#include "backend/storage/stamps.h"
#include "backend/storage/view.h"
#include "backend/storage/write_buffer.h"

/* States of the active buffer, a part of a full buffer apart, oldest first, since the savepoint or the start of the attempt or script: what
 * is rolled back is freed as far as the first of them that is not older. */
struct release_marks {
    struct release_mark {
        struct write_buffer_mark rows;
        size_t undo_count;
        size_t changes; /* of the open batch */
    } * items;
    size_t count;
    size_t cap;
    size_t next_bytes; /* the next one is made when the arena has so many */
};

/* A row that a batch changes: its value before, and, when the batch is closed, after. If a command rolled its change
 * back and a later one changed the row again, the row is listed twice. */
struct change {
    struct row *row;
    struct bytes before, after;
    uint8_t state_before, state_after; /* enum row_state */
    bool is_moved;                     /* of the row, when the batch is closed */
};

/* Effects that become durable together. Rows and ranges (from ranges_from on) are in `buffer`. The commit thread reads
 * a copy of the ranges, because the buffer's array may move. */
struct batch {
    struct write_buffer *buffer;
    struct change *changes;
    size_t count;
    size_t cap;
    size_t ranges_from;
    struct range *ranges; /* a copy, made when the batch is closed */
    size_t ranges_count;
    size_t bytes_from; /* of the buffer's arena, at the beginning of the batch */
    size_t big_from;   /* of the buffer's big values, likewise */
    size_t effects;    /* puts, deletes and ranges that were not rolled back */
    size_t secured;    /* of these: the batch is not closed for them (overlay_is_due) … */
    bool is_awaited;   /* … unless something waits for the batch */
    bool is_members;   /* its record has the type EFFECTS_MEMBERS */
    struct batch_header header;
    uint64_t ticket;
};

/* Progress of updating the caches from a write buffer that is in the tables. */
struct fold {
    bool is_begun;
    enum cf cf;
    const struct row *row; /* next row of `cf`; NULL: all are done */
};

/* While this is on, savepoints keep the undo log, and a rollback may return to its beginning. */
struct kept {
    bool is_on;
    struct mark mark;
};

struct overlay {
    struct store *store;
    struct row_cache *cache;    /* NULL: none */
    struct range_cache *ranges; /* runs of rows; NULL: none */
    struct plain_keys *plain;   /* NULL: none */
    struct reader *reader;      /* NULL: reads may block on the disk */
    struct retry *retry;        /* of the running command; NULL: its reads may block */
    bool is_nonblocking;
    size_t buffer_bytes;
    struct write_buffer buffers[2];
    struct write_buffer *active; /* receives the effects of commands */
    /* number of further buffers whose rows are placed (write_buffer_place) at the end of each batch */
    uint8_t iterated[CF_COUNT];
    struct write_buffer *immutable; /* full, being applied; NULL: none */
    struct fold fold;               /* used when it is applied */
    struct batch batches[2];
    struct batch *batch;     /* the open batch */
    struct batch *in_flight; /* closed, being written to the WAL; NULL: none */
    struct stamps stamps;    /* of collections */
    uint64_t observed_reads; /* tickets, since overlay_observe_begin */
    uint64_t observed_writes;
    struct undo_log undo;
    struct overlay_written written; /* of the running call */
    struct mark savepoint;
    struct view *view; /* NULL: none */
    struct {
        struct kept attempt, script, queue; /* an EXEC may have scripts in it */
        struct release_marks marks;
    } kept;
    struct {
        bool is_on;     /* between overlay_secured_begin and overlay_secured_end */
        size_t from;    /* effects of the batch at its beginning */
        bool is_moving; /* between overlay_moved_begin and overlay_moved_end */
    } securing;
};

/* The buffer that receives the effects of commands. */
static inline struct write_buffer *overlay_target(const struct overlay *overlay)
{
    return overlay->view ? &overlay->view->written : overlay->active;
}

/* Records that a row of the batch with this ticket was read; the batch can fail until it is durable. */
static inline void overlay_observe_effect(struct overlay *overlay, uint64_t ticket)
{
    if (ticket > overlay->observed_reads)
        overlay->observed_reads = ticket;
}

/* Records that a row was read. */
static inline void overlay_observe_row(struct overlay *overlay, const struct row *row)
{
    if (!row->is_secured)
        overlay_observe_effect(overlay, row->ticket);
}

/* Number of write buffers whose new rows are placed at once after an iteration over their column family. */
enum { OVERLAY_ITERATED = 2 };

/* Can reads of this column family be suspended? System rows are few and small, and are read with blocking reads. */
static inline bool overlay_may_be_uncached(enum cf cf)
{
    return cf != CF_SYSTEM;
}

/* Drops all cached rows and runs, and all rows that the reader has fetched. */
void overlay_clear_caches(struct overlay *overlay);

/* Are rows of this column family in the row cache? */
static inline bool overlay_caches(const struct overlay *overlay, enum cf cf)
{
    return overlay->cache && (cf == CF_METADATA || cf == CF_DATA || cf == CF_RANK);
}

/* Records whether a metadata row of the store is a string without TTL. */
static inline void overlay_note_plain(struct overlay *overlay, uint64_t hash, struct bytes value)
{
    if (!overlay->plain)
        return;
    if (metadata_is_plain(value))
        plain_keys_add(overlay->plain, hash);
    else
        plain_keys_remove(overlay->plain, hash);
}

/* The next release mark comes after some more bytes. */
void overlay_space_marks(struct overlay *overlay);
/* Adds a release mark, before an effect. */
void overlay_add_mark(struct overlay *overlay);
/* Frees what was rolled back to `mark`, if it is much. */
void overlay_release(struct overlay *overlay, const struct mark *mark);

/* Begins an empty batch. */
void overlay_begin_batch(struct overlay *overlay, uint64_t ticket);
