/*
 * view.h - rows that one transaction over shards sees, and nothing else does: those of other shards, and those that it writes.
 *
 *   reads:   written ─► borrowed ─► the overlay (overlay.h)
 *   effects: ─► written
 *
 *   view_lend ─► overlay_view_begin ─► commands ─┬─► overlay_view_end: what was written is gone, what was borrowed stays
 *                        ▲                       │
 *                        └── view_lend, more ◄───┴─► overlay_each_written: the effects, which are then prepared
 *
 * A script that waits for keys of other shards leaves its view with what it has written, and enters it again:
 *
 *   overlay_view_begin ─► commands ─► overlay_view_leave ─► others run ─► overlay_view_enter ─► commands ─► overlay_view_end
 *
 * An attempt of the transaction runs inside a view (attempt.h), so it changes neither the open batch nor a write buffer, however it
 * ends. The transaction keeps the view over its attempts: rows are put into it once, when they come from their shard.
 *
 * Rows of a view have the ticket 0: they are in no batch, so no reply waits for them.
 */
#pragma once

#include "backend/storage/stamps.h"
#include "backend/storage/write_buffer.h"

struct overlay;

struct undo {
    struct row *row;
    struct bytes value;
    uint64_t ticket;
    enum row_state state;
    bool is_secured;
};

/* A state to which rollback returns. */
struct mark {
    size_t undo_count;
    size_t ranges_count;
    size_t effects;
    uint64_t observed_writes;
    int64_t written;
};

/* Values of rows before their changes, oldest first, since the savepoint or the start of the attempt or script. */
struct undo_log {
    struct undo *items;
    size_t count;
    size_t cap;
};

struct view {
    struct write_buffer written;  /* in this attempt */
    struct write_buffer borrowed; /* rows of other shards; without ranges */
    size_t effects;               /* in this attempt; not of those that were rolled back */
    /* bits: the places of the stamps of collections whose rows were borrowed, or written before the view was left */
    uint64_t lent[(1 << STAMP_BITS) / 64];
    bool is_all_lent; /* a range of more than one collection was deleted before the view was left */
    /* rows and ranges of `written` whose places are in `lent`: the newest, which all older ones are too, and a number */
    const struct row *placed[CF_COUNT];
    size_t placed_ranges;
    struct {
        struct undo_log undo;
        struct mark mark; /* of its beginning */
    } script;             /* of an EXEC, which waits: so it can be rolled back alone */
};

struct view *view_new(void);
/* NULL is allowed. Not inside overlay_view_begin and _end, nor is view_clear. */
void view_free(struct view *view);
/* Forgets all rows. */
void view_clear(struct view *view);
/* Forgets what was written, because the attempt that has left the view does not go on. */
void view_forget_written(struct view *view);
/* Adds a row of another shard, or replaces it; value NULL: the row does not exist there. Key and value are copied. */
void view_lend(struct view *view, enum cf cf, struct bytes key, const struct bytes *value);
