/*
 * overlay.c - two layers of effects above the store, and the log that takes them back.
 *
 *   undo log:  (row, its value before)  newest last; rollback walks it back
 */
#include "backend/overlay.h"

#include "backend/overlay_inner.h"
#include "backend/reader.h"
#include "backend/row_cache.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

struct overlay *overlay_new(struct store *store)
{
    struct overlay *overlay = calloc(1, sizeof *overlay);
    CHECK(overlay);
    overlay->store = store;
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

/* What one layer says of a key: ROW_VALUE (then *value), ROW_DELETED, or ROW_ABSENT (ask below). */
static enum row_state layer_look(struct overlay *overlay, struct layer *layer, enum cf cf,
                                 struct bytes key, uint64_t hash, struct slice *value)
{
    struct row *row = layer_find(layer, cf, key, hash);
    enum row_state state = row ? row->state : ROW_ABSENT;
    if (state == ROW_ABSENT && layer->ranges_count && layer_range_of(layer, cf, key))
        state = ROW_DELETED;
    if (state != ROW_ABSENT)
        overlay_observe_layer(overlay, layer);
    if (state == ROW_VALUE)
        *value = (struct slice){row->value.data, row->value.len, NULL};
    return state;
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
    if (!overlay->reader || !overlay_is_coldable(cf))
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
    struct row *row = layer_get_or_add(overlay->current, cf, key);
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
    struct row *row = layer_get_or_add(overlay->current, cf, key);
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
