/*
 * write_buffer.h - rows that are in the WAL and not yet in RocksDB: the effects of many batches, in an arena.
 *
 *   index   all rows by hash, for point reads
 *   rows    of each column family: a chain, newest first; skip lists once they are iterated over (write_buffer_order.c)
 *   ranges  deleted, oldest first; they apply before the rows
 *
 *   row state: VALUE, DELETED, or ABSENT: rolled back, or covered by a deleted range
 *
 * A row that is written again gets new value bytes. The old bytes stay in the arena until the buffer is freed, so rollback
 * can restore them and the commit thread can read without locks. Only what a command has rolled back may be freed before
 * (write_buffer_release): nothing outside of the command refers to it.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/arena.h"
#include "shared/table.h"

#include <stdatomic.h>

enum { WRITE_BUFFER_HEIGHT_MAX = 12 };

enum __attribute__((packed)) row_state { ROW_ABSENT, ROW_DELETED, ROW_VALUE };

struct row {
    struct bytes key;
    struct bytes value;
    uint64_t hash;   /* of cf and key */
    uint64_t ticket; /* of the last batch that changed the row; 0: none */
    struct row *older;
    enum row_state state;
    uint8_t cf;
    uint8_t height;
    bool is_secured : 1; /* its last effect was (overlay_secured_begin) */
    bool is_moved : 1;   /* its last effect was (overlay_moved_begin) */
    struct row *next[];  /* one per level of the row's height */
};

/* A skip list of rows. */
struct row_list {
    struct row **head; /* WRITE_BUFFER_HEIGHT_MAX links; NULL: no row was added yet */
    int height;
};

struct row_group;

/* Rows of one column family. */
struct rows {
    struct row *newest;
    size_t count;
    struct row *placed; /* this row and older ones are in `all` or in a group */
    bool is_whole;      /* the rows are in `all`; else in the groups */
    struct row_list all;
    struct row_group **groups; /* by collection: open addressing, at most half full */
    size_t groups_cap;         /* a power of two, or 0 */
    size_t groups_count;
    struct row_group *latest; /* the one that was found last */
};

struct range {
    enum cf cf;
    bool is_moved; /* as of a row */
    struct bytes from;
    struct bytes to; /* empty: to the end */
    uint64_t ticket; /* of the batch that deleted it */
};

/* Open addressing, at most half full. */
struct index_entry {
    uint64_t hash;
    struct row *row; /* NULL: free */
};

struct write_buffer {
    struct arena arena;
    size_t big_bytes; /* of these: values of BIG_VALUE_BYTES and more; overlay.h */
    struct rows rows[CF_COUNT];
    struct index_entry *index;
    size_t index_cap; /* a power of two, or 0 */
    size_t rows_count;
    struct range *ranges;
    size_t ranges_count;
    size_t ranges_cap;
    uint64_t random;
};

/* A state to which write_buffer_release returns. */
struct write_buffer_mark {
    struct arena_mark arena;
    struct row *newest[CF_COUNT];
    size_t big_bytes;
};

void write_buffer_init(struct write_buffer *buffer);
/* Empties the buffer. */
void write_buffer_reset(struct write_buffer *buffer);
void write_buffer_fini(struct write_buffer *buffer);

/* The row of `key`; a new row is added with state ABSENT. */
struct row *write_buffer_get_or_add(struct write_buffer *buffer, enum cf cf, struct bytes key,
                                    uint64_t hash);
struct write_buffer_mark write_buffer_mark(const struct write_buffer *buffer);
/* Frees rows and values that were added since the mark. The older rows must have their values of that time, and the ranges that
 * were added since must be gone. Takes time for each older row, because they are indexed again. */
void write_buffer_release(struct write_buffer *buffer, const struct write_buffer_mark *mark);
/* Adds a row whose key is not in the buffer, but not to the index: only iterations find the row. */
struct row *write_buffer_append(struct write_buffer *buffer, enum cf cf, struct bytes key);
void write_buffer_add_range(struct write_buffer *buffer, const struct range *range);
/* The newest deleted range of the buffer that contains the key, or NULL. */
const struct range *write_buffer_range_of(const struct write_buffer *buffer, enum cf cf,
                                          struct bytes key);

/* Writes the buffer into RocksDB's tables: its ranges, then its rows in order, in portions whose bytes are added to
 * *written. `batch` is empty before and after. Any thread, while the buffer's effects do not change. */
int write_buffer_apply(const struct write_buffer *buffer, struct store *store,
                       struct store_batch *batch, _Atomic size_t *written, char *error,
                       size_t size);

/* Adds the effects of a batch (effects.h) to a buffer that no overlay uses. False: they are damaged, or of a newer program; then the buffer
 * has a part of them. */
bool write_buffer_add_effects(struct write_buffer *buffer, struct bytes effects, char *error,
                              size_t size);
/* A sorted list of the column family's rows that has at least those with lower <= key < upper (empty `upper`: to the end). To
 * be called again whenever rows may have been added. */
const struct row_list *write_buffer_order(struct write_buffer *buffer, enum cf cf,
                                          struct bytes lower, struct bytes upper);
/* Does a part of the work of the next write_buffer_order, while the newest rows are in the CPU's caches. */
void write_buffer_place(struct write_buffer *buffer, enum cf cf);
/* The first row with key >= `key`. */
struct row *rows_at_or_after(const struct row_list *list, struct bytes key);
/* The last row with key < `key` (or <= when `or_equal`); unbounded: the last row of all. */
struct row *rows_before(const struct row_list *list, struct bytes key, bool or_equal,
                        bool unbounded);

bool range_has(const struct range *range, enum cf cf, struct bytes key);

/* Memory of the rows and of the index. */
static inline size_t write_buffer_memory(const struct write_buffer *buffer)
{
    return buffer->arena.bytes + buffer->index_cap * sizeof *buffer->index;
}

/* The hash of a row whose key has this hash (hash_bytes). */
static inline uint64_t hash_row_of(enum cf cf, uint64_t key_hash)
{
    return key_hash + (uint64_t)cf * 0x9e3779b97f4a7c15;
}

static inline uint64_t hash_row(enum cf cf, struct bytes key)
{
    return hash_row_of(cf, hash_bytes(key));
}

/* A row with this hash will be sought soon. */
static inline void write_buffer_await(const struct write_buffer *buffer, uint64_t hash)
{
    if (buffer->index_cap)
        __builtin_prefetch(&buffer->index[hash & (buffer->index_cap - 1)], 1);
}

/* The row of `key`; NULL: there is none. `hash`: of cf and key. */
static inline struct row *write_buffer_find(const struct write_buffer *buffer, enum cf cf,
                                            struct bytes key, uint64_t hash)
{
    if (buffer->rows_count == 0)
        return NULL;
    size_t mask = buffer->index_cap - 1;
    for (size_t i = hash & mask; buffer->index[i].row; i = (i + 1) & mask) {
        struct row *row = buffer->index[i].row;
        if (buffer->index[i].hash == hash && row->cf == cf && bytes_equal(row->key, key))
            return row;
    }
    return NULL;
}
