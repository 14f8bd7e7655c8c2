#include "backend/slots/slot_purge.h"

#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/slot_rows.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"

#include <stdlib.h>

struct slot_purge {
    struct partition *partition;
    struct slot_rows *rows;
};

/* A row that was read, copied to the arena. */
struct doomed {
    enum cf cf;
    struct bytes key;
    struct metadata meta; /* of a metadata row */
};

/* The rows are read again at the next step. */
static void purge_goes_on_later(void *owner)
{
    (void)owner;
}

struct slot_purge *slot_purge_new(struct partition *partition, uint16_t first, uint16_t last)
{
    struct slot_purge *purge = calloc(1, sizeof *purge);
    CHECK(purge);
    purge->partition = partition;
    purge->rows = slot_rows_new(partition, first, last, METADATA_LAST, purge_goes_on_later, purge);
    return purge;
}

void slot_purge_free(struct slot_purge *purge)
{
    if (!purge)
        return;
    slot_rows_free(purge->rows);
    free(purge);
}

static void delete_metadata(struct partition *partition, const struct doomed *row)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    uint64_t due_ms = metadata_due_ms(&row->meta);
    if (row->meta.type == TYPE_NONE || !decode_metadata_key(row->key, &space, &slot, &key))
        return; /* damaged: it was never counted */
    if (due_ms)
        overlay_delete(partition->overlay, CF_EXPIRE,
                       encode_expire_key(&partition->running.arena, due_ms, row->key));
    struct space *from = space_find(partition->spaces, space);
    space_count(partition->spaces, from, slot, -1, row->meta.expire_ms ? -1 : 0);
    if (row->meta.field_ttls)
        space_count_ttl_hash(partition->spaces, from, row->key, -1);
}

static void delete_row(struct partition *partition, const struct doomed *row)
{
    overlay_delete(partition->overlay, row->cf, row->key);
    if (row->cf == CF_METADATA)
        delete_metadata(partition, row);
}

enum slot_purge_step slot_purge_step(struct slot_purge *purge, uint32_t rows, int64_t *allowance)
{
    struct partition *partition = purge->partition;
    struct arena *arena = &partition->running.arena;
    struct call call;
    enum rows_step step = ROWS_ROW;
    if (commit_is_failed(partition->commit, NULL))
        return SLOT_PURGE_FAILED;
    if (partition_is_full(partition) || *allowance <= 0)
        return SLOT_PURGE_GOES_ON;
    internal_call_begin(partition, &call);
    struct doomed *doomed = arena_alloc(arena, rows * sizeof *doomed);
    uint32_t count = 0;
    while (count < rows) {
        struct bytes key;
        struct bytes value;
        struct doomed *row = &doomed[count];
        *row = (struct doomed){0};
        step = slot_rows_next(purge->rows, &row->cf, &key, &value);
        if (step != ROWS_ROW)
            break;
        row->key = arena_copy(arena, key);
        *allowance -= (int64_t)(key.len + value.len);
        if (row->cf == CF_METADATA && !decode_metadata(value, &row->meta))
            row->meta.type = TYPE_NONE;
        count++;
    }
    overlay_moved_begin(partition->overlay);
    for (uint32_t i = 0; i < count; i++)
        delete_row(partition, &doomed[i]);
    overlay_moved_end(partition->overlay);
    internal_call_end(partition, &call);
    return step == ROWS_FAILED ? SLOT_PURGE_FAILED
           : step == ROWS_END  ? SLOT_PURGE_DONE
                               : SLOT_PURGE_GOES_ON;
}
