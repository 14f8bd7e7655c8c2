#include "backend/keyspace/slot_rows.h"

#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"
#include "backend/storage/reader.h"

#include <stdlib.h>

enum { FAMILIES = 5, TRIES_MAX = 16 };

static const enum cf families[][FAMILIES] = {
    [METADATA_FIRST] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK},
    [METADATA_LAST] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK, CF_METADATA},
};

struct slot_rows {
    struct partition *partition;
    uint16_t first, last;
    enum slot_rows_order order;
    void (*on_rows)(void *owner);
    void *owner;
    size_t cursor;             /* of space_next */
    const struct space *space; /* being read; NULL: the next one */
    int family;                /* index in families[order] */
    struct overlay_iter *iter; /* of the family; NULL: not open */
    bool is_new_row;           /* the iterator's row was not returned yet */
    uint32_t tries;            /* to find the first row of the family */
    struct reader_wait wait;   /* for the first row */
    struct arena arena;
};

/* reader_wait.on_ready */
static void first_row_is_read(struct reader_wait *wait)
{
    struct slot_rows *rows = container_of(wait, struct slot_rows, wait);
    rows->tries = wait->has_failed ? TRIES_MAX : rows->tries;
    wait->has_failed = false;
    rows->on_rows(rows->owner);
}

/* Called by the detached iterator. */
static void rows_are_read(void *owner)
{
    struct slot_rows *rows = owner;
    rows->on_rows(rows->owner);
}

struct slot_rows *slot_rows_new(struct partition *partition, uint16_t first, uint16_t last,
                                enum slot_rows_order order, void (*on_rows)(void *owner),
                                void *owner)
{
    struct slot_rows *rows = calloc(1, sizeof *rows);
    CHECK(rows);
    rows->partition = partition;
    rows->first = first;
    rows->last = last;
    rows->order = order;
    rows->on_rows = on_rows;
    rows->owner = owner;
    reader_wait_init(&rows->wait, first_row_is_read);
    arena_init(&rows->arena);
    return rows;
}

void slot_rows_free(struct slot_rows *rows)
{
    if (!rows)
        return;
    reader_wait_cancel(&rows->wait);
    overlay_iter_free(rows->iter);
    arena_fini(&rows->arena);
    free(rows);
}

/* Opens the iterator at the first row of the family, and detaches it. WAIT or FAILED: it is not open. */
static enum slot_rows_step open_family(struct slot_rows *rows)
{
    struct partition *partition = rows->partition;
    struct overlay *overlay = partition->overlay;
    bool may_wait = partition->reader && rows->tries++ < TRIES_MAX;
    arena_reset(&rows->arena);
    struct bytes from = encode_slot_prefix(&rows->arena, rows->space->name, rows->first);
    struct bytes to = encode_prefix_end(
        &rows->arena, encode_slot_prefix(&rows->arena, rows->space->name, rows->last));
    overlay_nonblocking_begin(overlay, may_wait ? &rows->wait : NULL);
    struct overlay_iter *iter =
        overlay_iter_new(overlay, families[rows->order][rows->family], from, to);
    overlay_iter_seek_first(iter);
    overlay_nonblocking_begin(overlay, NULL);
    int err = overlay_iter_error(iter);
    if (err != OK) {
        overlay_iter_free(iter);
        return rows->wait.pending ? SLOT_ROWS_WAIT : SLOT_ROWS_FAILED;
    }
    overlay_iter_detach(iter, UINT64_MAX, rows_are_read, rows);
    rows->iter = iter;
    rows->is_new_row = true;
    rows->tries = 0;
    return SLOT_ROWS_ROW;
}

/* The family has no more rows. */
static void close_family(struct slot_rows *rows)
{
    overlay_iter_free(rows->iter);
    rows->iter = NULL;
    if (++rows->family < FAMILIES)
        return;
    rows->family = 0;
    rows->space = NULL;
}

/* Moves the open iterator to the next row of the family; END: it has no more. */
static enum slot_rows_step next_of_family(struct slot_rows *rows)
{
    if (rows->is_new_row)
        overlay_iter_go_on(rows->iter);
    else
        overlay_iter_next(rows->iter);
    rows->is_new_row = overlay_iter_waits(rows->iter);
    if (overlay_iter_valid(rows->iter))
        return SLOT_ROWS_ROW;
    if (rows->is_new_row)
        return SLOT_ROWS_WAIT;
    return overlay_iter_error(rows->iter) == OK ? SLOT_ROWS_END : SLOT_ROWS_FAILED;
}

enum slot_rows_step slot_rows_next(struct slot_rows *rows, enum cf *cf, struct bytes *key,
                                   struct bytes *value)
{
    if (rows->wait.pending)
        return SLOT_ROWS_WAIT;
    for (;;) {
        if (!rows->space)
            rows->space = space_next(rows->partition->spaces, &rows->cursor);
        if (!rows->space)
            return SLOT_ROWS_END;
        enum slot_rows_step step = rows->iter ? SLOT_ROWS_ROW : open_family(rows);
        if (step == SLOT_ROWS_ROW)
            step = next_of_family(rows);
        if (step == SLOT_ROWS_END) {
            close_family(rows);
            continue;
        }
        if (step == SLOT_ROWS_ROW) {
            *cf = families[rows->order][rows->family];
            *key = overlay_iter_key(rows->iter);
            *value = overlay_iter_value(rows->iter);
        }
        return step;
    }
}
