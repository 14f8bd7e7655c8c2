#include "backend/keyspace/range_rows.h"

#include "backend/context/partition.h"
#include "backend/storage/overlay.h"

enum { TRIES_MAX = 16 };

/* retry.on_ready */
static void first_row_is_read(struct retry *retry)
{
    struct range_rows *rows = container_of(retry, struct range_rows, wait);
    rows->tries = retry->has_failed ? TRIES_MAX : rows->tries;
    retry->has_failed = false;
    rows->on_rows(rows->owner);
}

/* Called by the detached iterator. */
static void rows_are_read(void *owner)
{
    struct range_rows *rows = owner;
    rows->on_rows(rows->owner);
}

void range_rows_init(struct range_rows *rows, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner)
{
    *rows = (struct range_rows){.partition = partition, .on_rows = on_rows, .owner = owner};
    retry_init(&rows->wait, first_row_is_read);
    arena_init(&rows->arena);
}

void range_rows_close(struct range_rows *rows)
{
    retry_cancel(&rows->wait);
    overlay_iter_free(rows->iter);
    rows->iter = NULL;
    rows->from = rows->to = (struct bytes){0};
    arena_reset(&rows->arena);
}

void range_rows_fini(struct range_rows *rows)
{
    range_rows_close(rows);
    arena_fini(&rows->arena);
}

void range_rows_open(struct range_rows *rows, enum cf cf, struct bytes from, struct bytes to)
{
    range_rows_close(rows);
    rows->cf = cf;
    rows->from = arena_copy(&rows->arena, from);
    rows->to = arena_copy(&rows->arena, to);
    rows->tries = 0;
}

/* Finds the first row, and detaches the iterator. After ROWS_WAIT and ROWS_FAILED there is no iterator. */
static enum rows_step find_first_row(struct range_rows *rows)
{
    struct partition *partition = rows->partition;
    struct overlay *overlay = partition->overlay;
    bool may_wait = partition->reader && rows->tries++ < TRIES_MAX;
    overlay_nonblocking_begin(overlay, may_wait ? &rows->wait : NULL);
    struct overlay_iter *iter = overlay_iter_new(overlay, rows->cf, rows->from, rows->to);
    overlay_iter_seek_first(iter);
    overlay_nonblocking_begin(overlay, NULL);
    if (overlay_iter_error(iter) != OK) {
        overlay_iter_free(iter);
        return rows->wait.pending ? ROWS_WAIT : ROWS_FAILED;
    }
    overlay_iter_detach(iter, UINT64_MAX, rows_are_read, rows);
    rows->iter = iter;
    rows->is_new_row = true;
    return ROWS_ROW;
}

enum rows_step range_rows_next(struct range_rows *rows, struct bytes *key, struct bytes *value)
{
    if (rows->wait.pending)
        return ROWS_WAIT;
    enum rows_step step = rows->iter ? ROWS_ROW : find_first_row(rows);
    if (step != ROWS_ROW)
        return step;
    if (rows->is_new_row)
        overlay_iter_go_on(rows->iter);
    else
        overlay_iter_next(rows->iter);
    rows->is_new_row = overlay_iter_waits(rows->iter);
    if (overlay_iter_valid(rows->iter)) {
        *key = overlay_iter_key(rows->iter);
        *value = overlay_iter_value(rows->iter);
        return ROWS_ROW;
    }
    if (rows->is_new_row)
        return ROWS_WAIT;
    return overlay_iter_error(rows->iter) == OK ? ROWS_END : ROWS_FAILED;
}
