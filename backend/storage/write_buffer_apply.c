/*
 * write_buffer_apply.c - writes the rows of a buffer into RocksDB's tables, in order.
 *
 *   rows, newest first ─► sorted (row_sort.h) ─► portions ─► store_apply
 */
#include "backend/storage/row_sort.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

enum {
    PORTION_BYTES = 64 * 1024, /* rows that are written to the tables together */
    AHEAD = 16,                /* rows that are prefetched into the CPU's caches */
};

/* Sorts the rows of a column family that are not ABSENT; `room` is for twice as many. Returns where the result begins
 * in it. */
static struct sorted_row *sort_rows(const struct rows *rows, struct sorted_row *room, size_t *count)
{
    *count = 0;
    for (struct row *row = rows->newest; row; row = row->older)
        if (row->state != ROW_ABSENT)
            room[(*count)++].row = row;
    return row_sort(room, *count);
}

/* The store and the batch to which a buffer is written. */
struct target {
    struct store *store;
    struct store_batch *batch;
    _Atomic size_t *written;
    char *error;
    size_t size;
};

static int apply_portion(const struct target *to)
{
    int err = store_apply(to->store, to->batch, to->error, to->size);
    atomic_fetch_add_explicit(to->written, store_batch_bytes(to->batch), memory_order_relaxed);
    store_batch_clear(to->batch);
    return err;
}

/* Prefetches the row that is AHEAD rows later, and the bytes of the row half as far, which is in the cache by then. */
static void prefetch_rows(const struct sorted_row *sorted, size_t i, size_t count)
{
    if (i + AHEAD >= count)
        return;
    const struct row *half = sorted[i + AHEAD / 2].row;
    __builtin_prefetch(sorted[i + AHEAD].row);
    __builtin_prefetch(half->key.data);
    __builtin_prefetch(half->value.data);
}

static int apply_rows(const struct rows *rows, enum cf cf, const struct target *to)
{
    struct sorted_row *room = malloc((2 * rows->count + 1) * sizeof *room);
    CHECK(room);
    size_t count;
    const struct sorted_row *sorted = sort_rows(rows, room, &count);
    int err = OK;
    for (size_t i = 0; i < count && err == OK; i++) {
        const struct row *row = sorted[i].row;
        prefetch_rows(sorted, i, count);
        if (row->state == ROW_VALUE)
            store_batch_put(to->batch, to->store, cf, row->key, row->value);
        else
            store_batch_delete(to->batch, to->store, cf, row->key);
        if (store_batch_bytes(to->batch) >= PORTION_BYTES || i + 1 == count)
            err = apply_portion(to);
    }
    free(room);
    return err;
}

/* The metadata row of a collection is written before its rows: a row without metadata is an orphan, which compaction
 * may drop. */
int write_buffer_apply(const struct write_buffer *buffer, struct store *store,
                       struct store_batch *batch, _Atomic size_t *written, char *error, size_t size)
{
    _Static_assert(CF_METADATA < CF_DATA && CF_METADATA < CF_ZSET_SCORE &&
                       CF_METADATA < CF_STREAM && CF_METADATA < CF_RANK,
                   "metadata goes first");
    const struct target to = {store, batch, written, error, size};
    for (size_t i = 0; i < buffer->ranges_count; i++)
        store_batch_delete_range(batch, store, buffer->ranges[i].cf, buffer->ranges[i].from,
                                 buffer->ranges[i].to);
    int err = buffer->ranges_count ? apply_portion(&to) : OK;
    for (enum cf cf = 0; cf < CF_COUNT && err == OK; cf++)
        err = apply_rows(&buffer->rows[cf], cf, &to);
    return err;
}
