/*
 * overlay.c - layers of effects as skip lists in arenas, and the merged walk over them and the store.
 *
 * A row that is put again gets new value bytes; the old ones stay in the arena until the layer ends, which is
 * what lets rollback restore them and the commit thread read without locks.
 *
 *   a layer:   every column family's rows in order (skip list), and all of them by hash for point reads
 *   undo log:  (row, its value before)  newest last; rollback walks it back
 *   row state: VALUE, DELETED, or ABSENT: made and rolled back, or wiped by a range; says nothing by itself
 */
#include "backend/overlay.h"

#include "backend/reader.h"
#include "backend/row_cache.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/table.h"

#include <stdlib.h>

enum {
    HEIGHT_MAX = 12,
    INDEX_MIN = 64,    /* entries of a layer's index, at first */
    INDEX_KEPT = 8192, /* a bigger one is given back when the layer ends */
};

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
    struct row *head[HEIGHT_MAX];
    int height;
};

struct range {
    enum cf cf;
    struct bytes from;
    struct bytes to; /* empty: to the end */
};

struct undo {
    struct row *row;
    struct bytes value;
    enum row_state state;
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
};

/* What rollback goes back to. */
struct mark {
    size_t undo_count;
    size_t ranges_count;
    size_t effects;
    uint64_t observed_writes;
};

struct overlay {
    struct store *store;
    struct row_cache *cache;  /* of the store's rows; NULL: none */
    struct reader *reader;    /* NULL: reads go to the disk */
    struct reader_wait *wait; /* of the command being run; NULL: it may not unwind */
    bool may_unwind;
    struct layer layers[2];
    struct layer *current;
    struct layer *in_flight; /* NULL: none */
    uint64_t random;
    uint64_t generation;
    uint64_t observed_reads; /* tickets, since observe_begin */
    uint64_t observed_writes;
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct mark savepoint;
    bool is_attempt;
    struct mark attempt; /* where it began */
};

/* ---- one column family's rows ---- */

/* The last row with key < `key` on every level (NULL: the head). Returns the first row with key >= `key`. */
static struct row *rows_search(struct rows *rows, struct bytes key, struct row **before[HEIGHT_MAX])
{
    struct row **links = rows->head;
    for (int level = rows->height - 1; level >= 0; level--) {
        while (links[level] && bytes_compare(links[level]->key, key) < 0)
            links = links[level]->next;
        before[level] = links;
    }
    return rows->height ? links[0] : NULL;
}

/* The first row with key >= `key`. */
static struct row *rows_at_or_after(struct rows *rows, struct bytes key)
{
    struct row **before[HEIGHT_MAX];
    return rows_search(rows, key, before);
}

/* The last row with key < `key` (or <= when `or_equal`); an empty `key` with !or_equal means the very last. */
static struct row *rows_before(struct rows *rows, struct bytes key, bool or_equal, bool unbounded)
{
    struct row **links = rows->head;
    struct row *found = NULL;
    for (int level = rows->height - 1; level >= 0; level--)
        while (links[level]) {
            int order = unbounded ? -1 : bytes_compare(links[level]->key, key);
            if (order > 0 || (order == 0 && !or_equal))
                break;
            found = links[level];
            links = found->next;
        }
    return found;
}

static int random_height(struct overlay *overlay)
{
    overlay->random ^= overlay->random << 13;
    overlay->random ^= overlay->random >> 7;
    overlay->random ^= overlay->random << 17;
    int height = 1 + __builtin_ctzll(overlay->random | (1ULL << 62)) / 2; /* a quarter per level */
    return height < HEIGHT_MAX ? height : HEIGHT_MAX;
}

/* ---- layers ---- */

static uint64_t hash_row(enum cf cf, struct bytes key)
{
    return hash_bytes(key) + (uint64_t)cf * 0x9e3779b97f4a7c15;
}

static struct row *layer_find(const struct layer *layer, enum cf cf, struct bytes key,
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

static void index_add(struct layer *layer, struct row *row)
{
    size_t mask = layer->index_cap - 1;
    size_t i = row->hash & mask;
    while (layer->index[i].row)
        i = (i + 1) & mask;
    layer->index[i] = (struct index_entry){row->hash, row};
}

static void index_grow(struct layer *layer)
{
    free(layer->index);
    layer->index_cap = layer->index_cap ? layer->index_cap * 2 : INDEX_MIN;
    layer->index = calloc(layer->index_cap, sizeof *layer->index);
    CHECK(layer->index);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (struct row *row = layer->rows[cf].head[0]; row; row = row->next[0])
            index_add(layer, row);
}

/* The row of `key`, made ABSENT when it is new. */
static struct row *layer_get_or_add(struct overlay *overlay, struct layer *layer, enum cf cf,
                                    struct bytes key)
{
    uint64_t hash = hash_row(cf, key);
    struct row *row = layer_find(layer, cf, key, hash);
    if (row)
        return row;
    if (layer->rows_count * 2 >= layer->index_cap)
        index_grow(layer);
    struct rows *rows = &layer->rows[cf];
    struct row **before[HEIGHT_MAX];
    (void)rows_search(rows, key, before);
    int height = random_height(overlay);
    for (; rows->height < height; rows->height++)
        before[rows->height] = rows->head;
    row = arena_alloc(&layer->arena, sizeof *row + (size_t)height * sizeof row->next[0]);
    row->key = arena_copy(&layer->arena, key);
    row->value = (struct bytes){NULL, 0};
    row->hash = hash;
    row->cf = cf;
    row->state = ROW_ABSENT;
    for (int level = 0; level < height; level++) {
        row->next[level] = before[level][level];
        before[level][level] = row;
    }
    layer->rows_count++;
    index_add(layer, row);
    return row;
}

static void layer_init(struct layer *layer)
{
    memset(layer, 0, sizeof *layer);
    arena_init(&layer->arena);
}

/* Empty again. The index may be much bigger than what is in it: a small batch after a big one. Every entry
 * lies in an unbroken run that begins at its row's place. */
static void index_clear(struct layer *layer)
{
    size_t mask = layer->index_cap - 1;
    if (layer->index_cap > INDEX_KEPT) {
        free(layer->index);
        layer->index = NULL;
        layer->index_cap = 0;
        return;
    }
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = layer->rows[cf].head[0]; row; row = row->next[0])
            for (size_t i = row->hash & mask; layer->index[i].row; i = (i + 1) & mask)
                layer->index[i].row = NULL;
}

static void layer_reset(struct layer *layer, uint64_t ticket)
{
    index_clear(layer);
    arena_reset(&layer->arena);
    memset(layer->rows, 0, sizeof layer->rows);
    layer->rows_count = 0;
    layer->ranges_count = 0;
    layer->header = (struct bytes){NULL, 0};
    layer->effects = 0;
    layer->ticket = ticket;
}

static void layer_fini(struct layer *layer)
{
    arena_fini(&layer->arena);
    free(layer->index);
    free(layer->ranges);
}

static bool range_has(const struct range *range, enum cf cf, struct bytes key)
{
    return range->cf == cf && bytes_compare(key, range->from) >= 0 &&
           (range->to.len == 0 || bytes_compare(key, range->to) < 0);
}

/* The deleted range of the layer that covers the key, or NULL. */
static const struct range *layer_range_of(const struct layer *layer, enum cf cf, struct bytes key)
{
    for (size_t i = 0; i < layer->ranges_count; i++)
        if (range_has(&layer->ranges[i], cf, key))
            return &layer->ranges[i];
    return NULL;
}

size_t layer_write(const struct layer *layer, struct store *store, struct store_batch *batch)
{
    if (layer->header.len)
        store_batch_log_data(batch, layer->header);
    for (size_t i = 0; i < layer->ranges_count; i++)
        store_batch_delete_range(batch, store, layer->ranges[i].cf, layer->ranges[i].from,
                                 layer->ranges[i].to);
    size_t count = layer->ranges_count;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = layer->rows[cf].head[0]; row; row = row->next[0]) {
            if (row->state == ROW_ABSENT)
                continue;
            if (row->state == ROW_VALUE)
                store_batch_put(batch, store, cf, row->key, row->value);
            else
                store_batch_delete(batch, store, cf, row->key);
            count++;
        }
    return count;
}

/* ---- the overlay ---- */

struct overlay *overlay_new(struct store *store)
{
    struct overlay *overlay = calloc(1, sizeof *overlay);
    CHECK(overlay);
    overlay->store = store;
    overlay->random = clock_random() | 1;
    layer_init(&overlay->layers[0]);
    layer_init(&overlay->layers[1]);
    overlay->current = &overlay->layers[0];
    overlay->current->ticket = 1;
    return overlay;
}

void overlay_free(struct overlay *overlay)
{
    if (!overlay)
        return;
    layer_fini(&overlay->layers[0]);
    layer_fini(&overlay->layers[1]);
    row_cache_free(overlay->cache);
    free(overlay->undo);
    free(overlay);
}

void overlay_use_cache(struct overlay *overlay, size_t bytes)
{
    row_cache_free(overlay->cache);
    overlay->cache = bytes ? row_cache_new(bytes) : NULL;
}

void overlay_cache_figures(const struct overlay *overlay, struct row_cache_figures *figures)
{
    *figures = (struct row_cache_figures){0};
    if (overlay->cache)
        row_cache_figures(overlay->cache, figures);
}

void overlay_use_reader(struct overlay *overlay, struct reader *reader)
{
    CHECK(!overlay->reader);
    overlay->reader = reader;
}

static bool is_cached(const struct overlay *overlay, enum cf cf)
{
    return overlay->cache && (cf == CF_METADATA || cf == CF_DATA);
}

static void observe_read(struct overlay *overlay, const struct layer *layer)
{
    if (layer->ticket > overlay->observed_reads)
        overlay->observed_reads = layer->ticket;
}

/* What one layer says of a key: ROW_VALUE (then *value), ROW_DELETED, or ROW_ABSENT (ask below). */
static enum row_state layer_look(struct overlay *overlay, struct layer *layer, enum cf cf,
                                 struct bytes key, uint64_t hash, struct slice *value)
{
    struct row *row = layer_find(layer, cf, key, hash);
    enum row_state state = row ? row->state : ROW_ABSENT;
    if (state == ROW_ABSENT && layer->ranges_count && layer_range_of(layer, cf, key))
        state = ROW_DELETED;
    if (state != ROW_ABSENT)
        observe_read(overlay, layer);
    if (state == ROW_VALUE)
        *value = (struct slice){row->value.data, row->value.len, NULL};
    return state;
}

/* Small rows of the whole partition are read where they are needed. */
static bool is_coldable(enum cf cf)
{
    return cf != CF_SYSTEM && cf != CF_EXPIRE;
}

/* The row is on the disk. */
static int cold_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                    struct slice *value)
{
    if (!overlay->may_unwind) {
        reader_note_blocking(overlay->reader);
        return store_get(overlay->store, cf, key, value);
    }
    reader_want(overlay->reader, cf, key, hash, overlay->wait);
    return ERR_STORE;
}

static int stored_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                      struct slice *value)
{
    if (!overlay->reader || !is_coldable(cf))
        return store_get(overlay->store, cf, key, value);
    int err = store_get_cached(overlay->store, cf, key, value);
    if (err == ERR_COLD)
        err = reader_look(overlay->reader, cf, key, hash, value);
    return err == ERR_COLD ? cold_get(overlay, cf, key, hash, value) : err;
}

/* From the store, through the cache. */
static int cached_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                      struct slice *value)
{
    struct bytes found;
    if (!is_cached(overlay, cf))
        return stored_get(overlay, cf, key, hash, value);
    if (row_cache_get(overlay->cache, cf, key, hash, &found)) {
        *value = (struct slice){found.data, found.len, NULL};
        return OK;
    }
    int err = stored_get(overlay, cf, key, hash, value);
    if (err == OK)
        row_cache_offer(overlay->cache, cf, key, hash, slice_bytes(value));
    return err;
}

void overlay_unwind_begin(struct overlay *overlay, struct reader_wait *wait)
{
    overlay->wait = wait;
    overlay->may_unwind = wait != NULL;
}

void overlay_unwind_end(struct overlay *overlay)
{
    overlay->may_unwind = false;
}

bool overlay_is_cold(const struct overlay *overlay)
{
    return overlay->wait && overlay->wait->pending > 0;
}

static bool in_layers(const struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash)
{
    return layer_find(overlay->current, cf, key, hash) ||
           (overlay->in_flight && layer_find(overlay->in_flight, cf, key, hash));
}

bool overlay_ask(struct overlay *overlay, enum cf cf, struct bytes key, struct reader_wait *wait)
{
    uint64_t hash = hash_row(cf, key);
    struct bytes found;
    struct slice value;
    if (in_layers(overlay, cf, key, hash) ||
        (is_cached(overlay, cf) && row_cache_get(overlay->cache, cf, key, hash, &found)) ||
        reader_look(overlay->reader, cf, key, hash, &value) != ERR_COLD)
        return true;
    if (reader_has(overlay->reader, cf, key, hash, wait))
        return false;
    int err = store_get_cached(overlay->store, cf, key, &value);
    if (err == ERR_COLD)
        reader_want(overlay->reader, cf, key, hash, wait);
    if (err == OK)
        slice_release(&value);
    return err != ERR_COLD;
}

int overlay_get(struct overlay *overlay, enum cf cf, struct bytes key, struct slice *value)
{
    uint64_t hash = hash_row(cf, key);
    enum row_state state = layer_look(overlay, overlay->current, cf, key, hash, value);
    if (state == ROW_ABSENT && overlay->in_flight)
        state = layer_look(overlay, overlay->in_flight, cf, key, hash, value);
    if (state == ROW_VALUE)
        return OK;
    if (state == ROW_DELETED)
        return ERR_NOT_FOUND;
    return cached_get(overlay, cf, key, hash, value);
}

/* Remembers the row as it is, then counts one effect. */
static void log_effect(struct overlay *overlay, struct row *row)
{
    if (overlay->undo_count == overlay->undo_cap) {
        overlay->undo_cap = overlay->undo_cap ? overlay->undo_cap * 2 : 64;
        overlay->undo = realloc(overlay->undo, overlay->undo_cap * sizeof *overlay->undo);
        CHECK(overlay->undo);
    }
    overlay->undo[overlay->undo_count++] = (struct undo){row, row->value, row->state};
    overlay->current->effects++;
    overlay->observed_writes = overlay->current->ticket;
}

void overlay_put_parts(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes head,
                       struct bytes tail)
{
    struct row *row = layer_get_or_add(overlay, overlay->current, cf, key);
    log_effect(overlay, row);
    char *data = arena_alloc(&overlay->current->arena, head.len + tail.len);
    if (head.len)
        memcpy(data, head.data, head.len);
    if (tail.len)
        memcpy(data + head.len, tail.data, tail.len);
    row->value = (struct bytes){data, head.len + tail.len};
    row->state = ROW_VALUE;
}

void overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value)
{
    overlay_put_parts(overlay, cf, key, value, (struct bytes){NULL, 0});
}

void overlay_delete(struct overlay *overlay, enum cf cf, struct bytes key)
{
    struct row *row = layer_get_or_add(overlay, overlay->current, cf, key);
    log_effect(overlay, row);
    row->value = (struct bytes){NULL, 0};
    row->state = ROW_DELETED;
}

void overlay_delete_range(struct overlay *overlay, enum cf cf, struct bytes from, struct bytes to)
{
    struct layer *layer = overlay->current;
    struct range range = {cf, from, to};
    for (struct row *row = rows_at_or_after(&layer->rows[cf], from);
         row && range_has(&range, cf, row->key); row = row->next[0])
        if (row->state != ROW_ABSENT) {
            log_effect(overlay, row);
            row->state = ROW_ABSENT;
        }
    layer->effects++;
    overlay->observed_writes = layer->ticket;
    for (size_t i = 0; i < layer->ranges_count; i++)
        if (layer->ranges[i].cf == cf && bytes_equal(layer->ranges[i].from, from) &&
            bytes_equal(layer->ranges[i].to, to))
            return;
    if (layer->ranges_count == layer->ranges_cap) {
        layer->ranges_cap = layer->ranges_cap ? layer->ranges_cap * 2 : 8;
        layer->ranges = realloc(layer->ranges, layer->ranges_cap * sizeof *layer->ranges);
        CHECK(layer->ranges);
    }
    range.from = arena_copy(&layer->arena, from);
    range.to = arena_copy(&layer->arena, to);
    layer->ranges[layer->ranges_count++] = range;
}

void overlay_savepoint(struct overlay *overlay)
{
    if (overlay->cache)
        row_cache_turn(overlay->cache);
    if (!overlay->is_attempt)
        overlay->undo_count = 0;
    overlay->savepoint = (struct mark){
        .undo_count = overlay->undo_count,
        .ranges_count = overlay->current->ranges_count,
        .effects = overlay->current->effects,
        .observed_writes = overlay->observed_writes,
    };
}

static void roll_back(struct overlay *overlay, const struct mark *mark)
{
    overlay->generation += overlay->current->effects != mark->effects;
    while (overlay->undo_count > mark->undo_count) {
        const struct undo *undo = &overlay->undo[--overlay->undo_count];
        undo->row->value = undo->value;
        undo->row->state = undo->state;
    }
    overlay->current->ranges_count = mark->ranges_count;
    overlay->current->effects = mark->effects;
    overlay->observed_writes = mark->observed_writes;
}

void overlay_rollback(struct overlay *overlay)
{
    roll_back(overlay, &overlay->savepoint);
}

void overlay_attempt_begin(struct overlay *overlay)
{
    CHECK(!overlay->is_attempt);
    overlay_savepoint(overlay);
    overlay->is_attempt = true;
    overlay->attempt = overlay->savepoint;
}

void overlay_attempt_end(struct overlay *overlay, bool is_good)
{
    CHECK(overlay->is_attempt);
    overlay->is_attempt = false;
    if (!is_good)
        roll_back(overlay, &overlay->attempt);
}

void overlay_observe_begin(struct overlay *overlay)
{
    overlay->observed_reads = overlay->observed_writes = 0;
}

void overlay_observe(struct overlay *overlay, uint64_t ticket)
{
    const struct layer *oldest = overlay->in_flight ? overlay->in_flight : overlay->current;
    if (ticket >= oldest->ticket && ticket > overlay->observed_reads)
        overlay->observed_reads = ticket;
}

uint64_t overlay_observed(const struct overlay *overlay)
{
    return overlay->observed_reads > overlay->observed_writes ? overlay->observed_reads
                                                              : overlay->observed_writes;
}

uint64_t overlay_ticket(const struct overlay *overlay)
{
    return overlay->current->ticket;
}

bool overlay_in_flight(const struct overlay *overlay)
{
    return overlay->in_flight != NULL;
}

bool overlay_dirty(const struct overlay *overlay)
{
    return overlay->current->effects > 0;
}

size_t overlay_bytes(const struct overlay *overlay)
{
    return overlay->current->arena.bytes;
}

void overlay_set_header(struct overlay *overlay, struct bytes key, struct bytes header)
{
    overlay_put(overlay, CF_SYSTEM, key, header);
    overlay->current->header = arena_copy(&overlay->current->arena, header);
}

struct layer *overlay_seal(struct overlay *overlay)
{
    CHECK(!overlay->in_flight && !overlay->is_attempt);
    overlay->in_flight = overlay->current;
    overlay->current =
        overlay->in_flight == &overlay->layers[0] ? &overlay->layers[1] : &overlay->layers[0];
    layer_reset(overlay->current, overlay->in_flight->ticket + 1);
    overlay->undo_count = 0;
    return overlay->in_flight;
}

/* The layer is in the store: what the cache says of its rows follows. */
static void cache_layer(struct overlay *overlay, const struct layer *layer)
{
    if (layer->ranges_count && overlay->cache)
        row_cache_clear(overlay->cache);
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        if (!is_cached(overlay, cf))
            continue;
        for (const struct row *row = layer->rows[cf].head[0]; row; row = row->next[0]) {
            row_cache_turn(overlay->cache);
            if (row->state == ROW_VALUE)
                row_cache_put(overlay->cache, cf, row->key, row->hash, row->value);
            else if (row->state == ROW_DELETED)
                row_cache_remove(overlay->cache, cf, row->key, row->hash);
        }
    }
}

/* The layer is in the store: what was fetched of its rows is old. */
static void forget_layer(struct overlay *overlay, const struct layer *layer)
{
    if (!overlay->reader || reader_is_empty(overlay->reader))
        return;
    if (layer->ranges_count)
        reader_forget_all(overlay->reader);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = layer->rows[cf].head[0]; row; row = row->next[0])
            reader_forget(overlay->reader, cf, row->key, row->hash);
}

uint64_t overlay_generation(const struct overlay *overlay)
{
    return overlay->generation;
}

void overlay_store_changed(struct overlay *overlay)
{
    overlay->generation++;
    if (overlay->cache)
        row_cache_clear(overlay->cache);
    if (overlay->reader)
        reader_forget_all(overlay->reader);
}

static void drop_in_flight(struct overlay *overlay)
{
    layer_reset(overlay->in_flight, 0);
    overlay->in_flight = NULL;
}

void overlay_retire(struct overlay *overlay)
{
    CHECK(overlay->in_flight);
    cache_layer(overlay, overlay->in_flight);
    forget_layer(overlay, overlay->in_flight);
    drop_in_flight(overlay);
}

void overlay_discard(struct overlay *overlay)
{
    if (overlay->in_flight)
        drop_in_flight(overlay);
    overlay_store_changed(overlay);
    layer_reset(overlay->current, overlay->current->ticket + 1);
    overlay->undo_count = 0;
}

/* ---- the merged walk ----
 *
 * Three sources, newest first: current, in flight, store. Each stands on its next row in the walk's direction.
 * The nearest key wins; at equal keys the newest source does, and the others step over it.
 */

struct overlay_iter {
    struct overlay *overlay;
    enum cf cf;
    bool reverse;
    struct layer *layers[2]; /* current, in flight (or NULL) */
    struct row *rows[2];     /* where the walk stands in each */
    struct layer *own;       /* detached: two, which layers[] point to; NULL: it is not */
    struct store_iter *store;
    struct reader_wait *
        wait; /* the store's walk is of what is in memory, and this waits for the rest; NULL: of all */
    bool is_through;   /* nothing of the store is left to pass */
    bool is_cold;      /* it would have to go to the disk: nothing is right any more */
    struct {           /* how it came to where it is */
        bool has_from; /* a seek to `key`; else to the end of the bounds */
        char *key;     /* heap */
        size_t key_len;
        size_t key_cap;
        uint64_t rows; /* passed since */
    } course;
    struct bytes lower;
    struct bytes upper; /* empty: unbounded */
    int winner;         /* 0, 1: a layer; 2: the store; -1: the end */
    char bounds[];
};

struct overlay_iter *overlay_iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                      struct bytes upper)
{
    struct overlay_iter *iter = calloc(1, sizeof *iter + lower.len + upper.len);
    CHECK(iter);
    iter->overlay = overlay;
    iter->cf = cf;
    iter->layers[0] = overlay->current;
    iter->layers[1] = overlay->in_flight;
    iter->wait = overlay->may_unwind && is_coldable(cf) ? overlay->wait : NULL;
    iter->store = iter->wait ? store_iter_new_cached(overlay->store, cf, lower, upper)
                             : store_iter_new(overlay->store, cf, lower, upper);
    if (lower.len)
        memcpy(iter->bounds, lower.data, lower.len);
    if (upper.len)
        memcpy(iter->bounds + lower.len, upper.data, upper.len);
    iter->lower = (struct bytes){iter->bounds, lower.len};
    iter->upper = (struct bytes){iter->bounds + lower.len, upper.len};
    iter->winner = -1;
    return iter;
}

void overlay_iter_free(struct overlay_iter *iter)
{
    if (!iter)
        return;
    store_iter_free(iter->store);
    free(iter->course.key);
    if (iter->own) {
        layer_fini(&iter->own[0]);
        layer_fini(&iter->own[1]);
        free(iter->own);
    }
    free(iter);
}

static bool in_bounds(const struct overlay_iter *iter, struct bytes key)
{
    return bytes_compare(key, iter->lower) >= 0 &&
           (iter->upper.len == 0 || bytes_compare(key, iter->upper) < 0);
}

/* The rows of a layer that the walk has still to pass, the one it stands on included. */
static void copy_rows(struct overlay_iter *iter, int index, struct layer *copy)
{
    struct layer *layer = iter->layers[index];
    struct row *at = iter->rows[index];
    struct row *last = iter->reverse ? at : NULL;
    struct row *row = iter->reverse ? rows_at_or_after(&layer->rows[iter->cf], iter->lower) : at;
    for (; at && row && in_bounds(iter, row->key); row = row->next[0]) {
        if (row->state != ROW_ABSENT) {
            struct row *own = layer_get_or_add(iter->overlay, copy, iter->cf, row->key);
            own->state = row->state;
            own->value = arena_copy(&copy->arena, row->value);
            if (row == at)
                iter->rows[index] = own;
        }
        if (row == last)
            break;
    }
}

static void copy_ranges(const struct overlay_iter *iter, const struct layer *layer,
                        struct layer *copy)
{
    if (!layer->ranges_count)
        return;
    copy->ranges = malloc(layer->ranges_count * sizeof *copy->ranges);
    CHECK(copy->ranges);
    for (size_t i = 0; i < layer->ranges_count; i++) {
        const struct range *range = &layer->ranges[i];
        if (range->cf == iter->cf)
            copy->ranges[copy->ranges_count++] =
                (struct range){.cf = range->cf,
                               .from = arena_copy(&copy->arena, range->from),
                               .to = arena_copy(&copy->arena, range->to)};
    }
}

/* From now on the store's walk goes to the disk. The store may have changed since it began, but only by what the
 * layers hold. */
static void store_reopen(struct overlay_iter *iter)
{
    struct store_iter *old = iter->store;
    CHECK(!iter->is_cold);
    iter->store = store_iter_new(iter->overlay->store, iter->cf, iter->lower, iter->upper);
    iter->wait = NULL;
    if (store_iter_valid(old) && iter->reverse) {
        store_iter_seek_for_prev(iter->store, store_iter_key(old));
    } else if (store_iter_valid(old)) {
        store_iter_seek(iter->store, store_iter_key(old));
    } else {
        iter->is_through = true;
    }
    store_iter_free(old);
}

void overlay_iter_detach(struct overlay_iter *iter)
{
    CHECK(!iter->own);
    iter->own = malloc(2 * sizeof *iter->own);
    CHECK(iter->own);
    if (iter->wait)
        store_reopen(iter);
    for (int i = 0; i < 2; i++) {
        struct layer *copy = &iter->own[i];
        layer_init(copy); /* ticket 0: nothing more is observed */
        if (!iter->layers[i])
            continue;
        copy_rows(iter, i, copy);
        copy_ranges(iter, iter->layers[i], copy);
        if (copy->rows_count || copy->ranges_count)
            observe_read(iter->overlay, iter->layers[i]);
        iter->layers[i] = copy;
    }
}

static void course_begin(struct overlay_iter *iter, struct bytes key, bool has_from)
{
    iter->course.has_from = has_from;
    iter->course.rows = 0;
    iter->course.key_len = has_from ? key.len : 0;
    if (iter->course.key_len > iter->course.key_cap) {
        free(iter->course.key);
        iter->course.key = malloc(key.len);
        CHECK(iter->course.key);
        iter->course.key_cap = key.len;
    }
    if (iter->course.key_len)
        memcpy(iter->course.key, key.data, key.len);
}

/* The store's walk has moved: has it come to what is on the disk? */
static void store_moved(struct overlay_iter *iter)
{
    iter->is_cold = iter->wait && !store_iter_valid(iter->store) && store_iter_is_cold(iter->store);
}

/* What lies before a cold walk is read into memory. */
static void iter_want(const struct overlay_iter *iter)
{
    const struct store_range range = {
        .cf = iter->cf,
        .is_reverse = iter->reverse,
        .has_from = iter->course.has_from,
        .lower = iter->lower,
        .upper = iter->upper,
        .from = {iter->course.key, iter->course.key_len},
        .rows = iter->course.rows,
    };
    reader_want_range(iter->overlay->reader, &range, iter->wait);
}

/* From `row` on in the walk's direction: the first row that says something and lies within the bounds. */
static struct row *layer_settle(struct overlay_iter *iter, struct layer *layer, struct row *row)
{
    struct rows *rows = &layer->rows[iter->cf];
    while (row && row->state == ROW_ABSENT)
        row = iter->reverse ? rows_before(rows, row->key, false, false) : row->next[0];
    return row && in_bounds(iter, row->key) ? row : NULL;
}

static void layer_step(struct overlay_iter *iter, int index)
{
    struct row *row = iter->rows[index];
    struct rows *rows = &iter->layers[index]->rows[iter->cf];
    row = iter->reverse ? rows_before(rows, row->key, false, false) : row->next[0];
    iter->rows[index] = layer_settle(iter, iter->layers[index], row);
}

static void store_step(struct overlay_iter *iter)
{
    if (iter->reverse)
        store_iter_prev(iter->store);
    else
        store_iter_next(iter->store);
    store_moved(iter);
    iter->course.rows++;
}

/* To the first row from `key` on in the walk's direction; has_from false: to the end that it comes from. */
static void store_seek(struct overlay_iter *iter, struct bytes key, bool has_from)
{
    iter->is_through = false;
    if (iter->wait)
        course_begin(iter, key, has_from);
    if (iter->reverse && has_from)
        store_iter_seek_for_prev(iter->store, key);
    else if (iter->reverse)
        store_iter_seek_last(iter->store);
    else if (has_from)
        store_iter_seek(iter->store, key);
    else
        store_iter_seek_first(iter->store);
    store_moved(iter);
}

static struct bytes source_key(const struct overlay_iter *iter, int source)
{
    return source < 2 ? iter->rows[source]->key : store_iter_key(iter->store);
}

static bool source_valid(const struct overlay_iter *iter, int source)
{
    return source < 2 ? iter->rows[source] != NULL
                      : !iter->is_through && store_iter_valid(iter->store);
}

static void source_step(struct overlay_iter *iter, int source)
{
    if (source < 2)
        layer_step(iter, source);
    else
        store_step(iter);
}

/* The nearest source, newest at ties, or -1; older sources step over the same key. */
static int nearest_source(struct overlay_iter *iter)
{
    int winner = -1;
    for (int source = 0; source < 3; source++) {
        if (!source_valid(iter, source))
            continue;
        int order =
            winner < 0 ? -1 : bytes_compare(source_key(iter, source), source_key(iter, winner));
        if (winner >= 0 && order == 0)
            source_step(iter, source);
        else if (winner < 0 || (iter->reverse ? order > 0 : order < 0))
            winner = source;
    }
    return winner;
}

/* Did a layer newer than `source` delete a range with this key? */
static const struct range *covered(struct overlay_iter *iter, int source, struct bytes key)
{
    for (int newer = 0; newer < source && newer < 2; newer++) {
        const struct layer *layer = iter->layers[newer];
        const struct range *range =
            layer && layer->ranges_count ? layer_range_of(layer, iter->cf, key) : NULL;
        if (range) {
            observe_read(iter->overlay, layer);
            return range;
        }
    }
    return NULL;
}

/* Moves the store's walk over a deleted range instead of through it. */
static void store_jump(struct overlay_iter *iter, const struct range *range)
{
    if (iter->reverse) {
        struct bytes from = range->from;
        store_seek(iter, from, true);
        if (store_iter_valid(iter->store) && bytes_equal(store_iter_key(iter->store), from))
            store_step(iter);
    } else if (range->to.len == 0 ||
               (iter->upper.len && bytes_compare(range->to, iter->upper) >= 0)) {
        iter->is_through = true;
    } else {
        store_seek(iter, range->to, true);
    }
}

/* Finds the next visible row from where the sources stand. */
static void iter_settle(struct overlay_iter *iter)
{
    for (;;) {
        int winner = iter->is_cold ? -1 : nearest_source(iter);
        if (iter->is_cold) /* an older source stepped over a key */
            winner = -1;
        iter->winner = winner;
        if (winner < 0)
            return;
        if (winner < 2)
            observe_read(iter->overlay, iter->layers[winner]);
        const struct range *range = covered(iter, winner, source_key(iter, winner));
        if (!range && (winner == 2 || iter->rows[winner]->state == ROW_VALUE))
            return;
        if (range && winner == 2)
            store_jump(iter, range);
        else
            source_step(iter, winner);
    }
}

void overlay_iter_seek(struct overlay_iter *iter, struct bytes key)
{
    if (bytes_compare(key, iter->lower) < 0)
        key = iter->lower;
    iter->reverse = false;
    for (int i = 0; i < 2; i++)
        if (iter->layers[i])
            iter->rows[i] = layer_settle(iter, iter->layers[i],
                                         rows_at_or_after(&iter->layers[i]->rows[iter->cf], key));
    store_seek(iter, key, true);
    iter_settle(iter);
}

void overlay_iter_seek_first(struct overlay_iter *iter)
{
    overlay_iter_seek(iter, iter->lower);
}

static void seek_back(struct overlay_iter *iter, struct bytes key, bool or_equal, bool unbounded)
{
    iter->reverse = true;
    for (int i = 0; i < 2; i++)
        if (iter->layers[i])
            iter->rows[i] = layer_settle(
                iter, iter->layers[i],
                rows_before(&iter->layers[i]->rows[iter->cf], key, or_equal, unbounded));
}

void overlay_iter_seek_last(struct overlay_iter *iter)
{
    seek_back(iter, iter->upper, false, iter->upper.len == 0);
    store_seek(iter, iter->upper, false);
    iter_settle(iter);
}

void overlay_iter_seek_for_prev(struct overlay_iter *iter, struct bytes key)
{
    if (iter->upper.len && bytes_compare(key, iter->upper) >= 0) {
        overlay_iter_seek_last(iter);
        return;
    }
    seek_back(iter, key, true, false);
    store_seek(iter, key, true);
    iter_settle(iter);
}

void overlay_iter_next(struct overlay_iter *iter)
{
    CHECK(!iter->reverse);
    source_step(iter, iter->winner);
    iter_settle(iter);
}

void overlay_iter_prev(struct overlay_iter *iter)
{
    CHECK(iter->reverse);
    source_step(iter, iter->winner);
    iter_settle(iter);
}

bool overlay_iter_valid(const struct overlay_iter *iter)
{
    return iter->winner >= 0;
}

struct bytes overlay_iter_key(const struct overlay_iter *iter)
{
    return source_key(iter, iter->winner);
}

struct bytes overlay_iter_value(const struct overlay_iter *iter)
{
    return iter->winner < 2 ? iter->rows[iter->winner]->value : store_iter_value(iter->store);
}

bool overlay_iter_failed(const struct overlay_iter *iter)
{
    if (iter->is_cold)
        iter_want(iter);
    return iter->is_cold || store_iter_failed(iter->store);
}
