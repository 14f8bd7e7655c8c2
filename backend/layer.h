/*
 * layer.h - a layer of the overlay: effects in arenas, as the write batch they become.
 *
 *   every column family's rows in order (skip list), and all of them by hash for point reads
 *   deleted ranges, which apply before the rows
 *   row state: VALUE, DELETED, or ABSENT: made and rolled back, or wiped by a range; says nothing by itself
 *
 * A row that is put again gets new value bytes; the old ones stay in the arena until the layer ends, which is what lets
 * rollback restore them and the commit thread read without locks.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/arena.h"
#include "shared/table.h"

enum { LAYER_HEIGHT_MAX = 12 };

enum row_state { ROW_ABSENT, ROW_DELETED, ROW_VALUE };

struct row {
    struct bytes key;
    struct bytes value;
    uint64_t hash; /* of cf and key */
    enum cf cf;
    enum row_state state;
    struct row *next[]; /* one per level of the row's height */
};

/* Rows of one column family, ordered. */
struct rows {
    struct row *head[LAYER_HEIGHT_MAX];
    int height;
};

struct range {
    enum cf cf;
    struct bytes from;
    struct bytes to; /* empty: to the end */
};

/* Open addressing, at most half full. */
struct index_entry {
    uint64_t hash;
    struct row *row; /* NULL: free */
};

struct layer {
    struct arena arena;
    struct rows rows[CF_COUNT];
    struct index_entry *index;
    size_t index_cap; /* a power of two, or 0 */
    size_t rows_count;
    struct range *ranges;
    size_t ranges_count;
    size_t ranges_cap;
    struct bytes header;
    uint64_t ticket;
    size_t effects; /* puts, deletes and ranges that were not rolled back */
    uint64_t random;
};

/* Empty, with ticket 0. */
void layer_init(struct layer *layer);
/* Empty again. */
void layer_reset(struct layer *layer, uint64_t ticket);
void layer_fini(struct layer *layer);

/* The row of `key`, made ABSENT when it is new. */
struct row *layer_get_or_add(struct layer *layer, enum cf cf, struct bytes key);
/* The deleted range of the layer that covers the key, or NULL. */
const struct range *layer_range_of(const struct layer *layer, enum cf cf, struct bytes key);
/* Adds the layer's ranges, then its rows in order, to the batch. Returns how many. */
size_t layer_write(const struct layer *layer, struct store *store, struct store_batch *batch);

/* The first row with key >= `key`. */
struct row *rows_at_or_after(struct rows *rows, struct bytes key);
/* The last row with key < `key` (or <= when `or_equal`); unbounded: the very last. */
struct row *rows_before(struct rows *rows, struct bytes key, bool or_equal, bool unbounded);

bool range_has(const struct range *range, enum cf cf, struct bytes key);

static inline uint64_t hash_row(enum cf cf, struct bytes key)
{
    return hash_bytes(key) + (uint64_t)cf * 0x9e3779b97f4a7c15;
}

/* `hash`: of cf and key. NULL: there is none. */
static inline struct row *layer_find(const struct layer *layer, enum cf cf, struct bytes key,
                                     uint64_t hash)
{
    if (layer->rows_count == 0)
        return NULL;
    size_t mask = layer->index_cap - 1;
    for (size_t i = hash & mask; layer->index[i].row; i = (i + 1) & mask) {
        struct row *row = layer->index[i].row;
        if (layer->index[i].hash == hash && row->cf == cf && bytes_equal(row->key, key))
            return row;
    }
    return NULL;
}
