#include "backend/keyspace/slot_rows.h"

#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"

#include <stdlib.h>

enum { FAMILIES = 5 };

static const enum cf families[][FAMILIES] = {
    [METADATA_FIRST] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK},
    [METADATA_LAST] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK, CF_METADATA},
};

struct slot_rows {
    struct partition *partition;
    uint16_t first, last;
    enum slot_rows_order order;
    size_t cursor;             /* of space_next */
    const struct space *space; /* being read; NULL: the next one */
    int family;                /* index in families[order] */
    struct range_rows rows;    /* of the family */
};

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
    range_rows_init(&rows->rows, partition, on_rows, owner);
    return rows;
}

void slot_rows_free(struct slot_rows *rows)
{
    if (!rows)
        return;
    range_rows_fini(&rows->rows);
    free(rows);
}

static void open_family(struct slot_rows *rows)
{
    struct arena arena;
    arena_init(&arena);
    struct bytes from = encode_slot_prefix(&arena, rows->space->name, rows->first);
    struct bytes to =
        encode_prefix_end(&arena, encode_slot_prefix(&arena, rows->space->name, rows->last));
    range_rows_open(&rows->rows, families[rows->order][rows->family], from, to);
    arena_fini(&arena);
}

/* The family has no more rows. */
static void close_family(struct slot_rows *rows)
{
    range_rows_close(&rows->rows);
    if (++rows->family < FAMILIES)
        return;
    rows->family = 0;
    rows->space = NULL;
}

enum rows_step slot_rows_next(struct slot_rows *rows, enum cf *cf, struct bytes *key,
                              struct bytes *value)
{
    for (;;) {
        if (!rows->space)
            rows->space = space_next(rows->partition->spaces, &rows->cursor);
        if (!rows->space)
            return ROWS_END;
        if (!range_rows_is_open(&rows->rows))
            open_family(rows);
        enum rows_step step = range_rows_next(&rows->rows, key, value);
        if (step != ROWS_END) {
            *cf = families[rows->order][rows->family];
            return step;
        }
        close_family(rows);
    }
}
