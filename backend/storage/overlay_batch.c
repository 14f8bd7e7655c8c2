/*
 * overlay_batch.c - batches, which go to the WAL, and write buffers, which go to RocksDB's tables.
 *
 *   batch:  (row, its value before, its value after) for each changed row; discard restores the values before
 */
#include "backend/storage/overlay_inner.h"

#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/range_cache.h"
#include "backend/storage/reader.h"
#include "backend/storage/row_cache.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ROW_BYTES = 256, /* a buffer has at most its bytes / ROW_BYTES rows */
    /* maximum number of deleted ranges in a buffer: each read compares all of them */
    WRITE_BUFFER_RANGES = 64,
    CHANGES_KEPT = 65536, /* a batch, or an undo log, with memory for more changes frees it */
};

/* ---- batches ---- */

static void empty_undo_log(struct undo_log *undo)
{
    undo->count = 0;
    if (undo->cap <= CHANGES_KEPT)
        return;
    free(undo->items);
    *undo = (struct undo_log){0};
}

void overlay_begin_batch(struct overlay *overlay, uint64_t ticket)
{
    struct batch *batch = overlay->batch;
    batch->buffer = overlay->active;
    batch->count = 0;
    batch->ranges_from = overlay->active->ranges_count;
    batch->bytes_from = overlay->active->arena.bytes;
    batch->big_from = overlay->active->big_bytes;
    batch->effects = 0;
    batch->secured = 0;
    batch->is_awaited = false;
    batch->is_members = false;
    batch->header = (struct batch_header){0};
    batch->ticket = ticket;
    empty_undo_log(&overlay->undo);
    overlay->kept.marks.count = 0;
    overlay_space_marks(overlay);
}

void overlay_set_header(struct overlay *overlay, struct bytes key,
                        const struct batch_header *header)
{
    overlay_put(overlay, CF_SYSTEM, key, encode_batch_header(&overlay->active->arena, header));
    overlay->batch->header = *header;
}

void overlay_set_members(struct overlay *overlay)
{
    overlay->batch->is_members = true;
}

static void keep_ranges(struct batch *batch)
{
    batch->ranges_count = batch->buffer->ranges_count - batch->ranges_from;
    if (!batch->ranges_count)
        return;
    size_t size = batch->ranges_count * sizeof *batch->ranges;
    batch->ranges = realloc(batch->ranges, size);
    CHECK(batch->ranges);
    memcpy(batch->ranges, batch->buffer->ranges + batch->ranges_from, size);
}

void overlay_each_put(const struct overlay *overlay,
                      void (*on_put)(void *owner, enum cf cf, struct bytes key, size_t value_len),
                      void *owner)
{
    for (size_t i = 0; i < overlay->batch->count; i++) {
        const struct row *row = overlay->batch->changes[i].row;
        if (row->state == ROW_VALUE)
            on_put(owner, (enum cf)row->cf, row->key, row->value.len);
    }
}

const struct batch *overlay_close_batch(struct overlay *overlay)
{
    struct batch *closed = overlay->batch;
    CHECK(!overlay->in_flight && !overlay->view && !overlay->kept.attempt.is_on &&
          !overlay->kept.script.is_on && !overlay->kept.queue.is_on);
    for (size_t i = 0; i < closed->count; i++) {
        struct change *change = &closed->changes[i];
        change->after = change->row->value;
        change->state_after = (uint8_t)change->row->state;
        change->is_moved = change->row->is_moved;
    }
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (overlay->iterated[cf])
            write_buffer_place(overlay->active, cf);
    keep_ranges(closed);
    overlay->in_flight = closed;
    overlay->batch = closed == &overlay->batches[0] ? &overlay->batches[1] : &overlay->batches[0];
    overlay_begin_batch(overlay, closed->ticket + 1);
    return closed;
}

/* Rows with state ABSENT are not written: they were absent before, or one of the batch's ranges covers them. */
void batch_write(const struct batch *batch, struct effects *to)
{
    effects_begin(to, &(struct effects_header){
                          .type = batch->is_members ? EFFECTS_MEMBERS : EFFECTS_BATCH,
                          .index = batch->header.index,
                          .term = batch->header.epoch,
                          .commit = batch->header.index,
                          .origin_ms = batch->header.origin_ms,
                          .version = batch->header.version,
                          .hybrid = batch->header.hybrid,
                      });
    for (size_t i = 0; i < batch->ranges_count; i++) {
        const struct range *range = &batch->ranges[i];
        effects_set_internal(to, range->is_moved);
        if (!range->to.len || bytes_compare(range->from, range->to) < 0)
            effects_delete_range(to, range->cf, range->from, range->to);
    }
    for (size_t i = 0; i < batch->count; i++) {
        const struct change *change = &batch->changes[i];
        const struct row *row = change->row;
        effects_set_internal(to, change->is_moved);
        if (change->state_after == ROW_VALUE)
            effects_put(to, (enum cf)row->cf, row->key, change->after);
        else if (change->state_after == ROW_DELETED)
            effects_delete(to, (enum cf)row->cf, row->key);
    }
}

uint64_t batch_term(const struct batch *batch)
{
    return batch->header.epoch;
}

void overlay_batch_committed(struct overlay *overlay)
{
    struct batch *batch = overlay->in_flight;
    CHECK(batch);
    overlay->in_flight = NULL;
    if (batch->cap <= CHANGES_KEPT)
        return;
    free(batch->changes);
    batch->changes = NULL;
    batch->cap = batch->count = 0;
}

/* Moved rows are not taken for rows that clients have used. */
static void show_effect(struct overlay *overlay, const struct effect *effect)
{
    if (effect->is_internal)
        overlay_moved_begin(overlay);
    switch (effect->kind) {
    case EFFECT_PUT:
        overlay_put(overlay, effect->cf, effect->key, effect->value);
        break;
    case EFFECT_DELETE:
        overlay_delete(overlay, effect->cf, effect->key);
        break;
    case EFFECT_DELETE_RANGE:
        overlay_delete_range(overlay, effect->cf, effect->key, effect->to);
        break;
    case EFFECT_NOTE:
        break;
    }
    overlay_moved_end(overlay);
}

/* EFFECTS_END: all were added. */
static enum effects_read add_effects(struct overlay *overlay, struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result =
        effects_is_write_batch(record) ? EFFECTS_NEWER : effects_open(record, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        show_effect(overlay, &effect);
    return result;
}

int overlay_add_committed(struct overlay *overlay, struct bytes record, char *error, size_t size)
{
    CHECK(!overlay_dirty(overlay) && !overlay->in_flight);
    overlay_savepoint(overlay);
    enum effects_read result = add_effects(overlay, record);
    if (result != EFFECTS_END) {
        overlay_rollback(overlay);
        (void)snprintf(error, size, "a batch of the WAL: %s", effects_refusal(result));
        return ERR_STORE;
    }
    if (overlay_dirty(overlay)) {
        (void)overlay_close_batch(overlay);
        overlay_batch_committed(overlay);
        overlay_savepoint(overlay);
    }
    return OK;
}

bool overlay_has_changed(const struct overlay *overlay)
{
    return overlay->batch->effects != overlay->savepoint.effects;
}

/* Rolls the batch back; newer batches must have been rolled back before. */
static void batch_roll_back(struct batch *batch)
{
    for (size_t i = batch->count; i > 0; i--) {
        const struct change *change = &batch->changes[i - 1];
        change->row->value = change->before;
        change->row->state = (enum row_state)change->state_before;
        change->row->ticket = 0;
    }
    batch->count = 0;
    batch->buffer->ranges_count = batch->ranges_from;
}

void overlay_discard(struct overlay *overlay)
{
    batch_roll_back(overlay->batch);
    if (overlay->in_flight)
        batch_roll_back(overlay->in_flight);
    overlay->in_flight = NULL;
    stamps_all(&overlay->stamps);
    overlay_begin_batch(overlay, overlay->batch->ticket + 1);
}

/* ---- buffers ---- */

bool overlay_is_full(const struct overlay *overlay)
{
    const struct write_buffer *buffer = overlay->active;
    return buffer->arena.bytes >= overlay->buffer_bytes ||
           buffer->rows_count >= overlay->buffer_bytes / ROW_BYTES ||
           buffer->ranges_count >= WRITE_BUFFER_RANGES;
}

bool overlay_is_empty(const struct overlay *overlay)
{
    return overlay->active->rows_count == 0 && overlay->active->ranges_count == 0;
}

void overlay_switch_buffers(struct overlay *overlay)
{
    CHECK(!overlay->immutable && overlay->batch->effects == 0);
    overlay->immutable = overlay->active;
    overlay->active =
        overlay->immutable == &overlay->buffers[0] ? &overlay->buffers[1] : &overlay->buffers[0];
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (overlay->iterated[cf])
            overlay->iterated[cf]--;
    overlay_begin_batch(overlay, overlay->batch->ticket);
    /* a command may be running: its marks refer to the old buffer */
    overlay->savepoint = (struct mark){0};
    overlay->kept.attempt.mark = overlay->kept.script.mark = overlay->kept.queue.mark =
        (struct mark){0};
}

const struct write_buffer *overlay_immutable(const struct overlay *overlay)
{
    return overlay->immutable;
}

const struct write_buffer *overlay_active(const struct overlay *overlay)
{
    return overlay->active;
}

/* Drops cached runs and rows of deleted ranges, whose rows are not known individually. */
static void fold_ranges(struct overlay *overlay)
{
    if (overlay->immutable->ranges_count)
        overlay_clear_caches(overlay);
}

/* Updates the row cache from a row that is in the tables now. */
static void fold_cached(struct overlay *overlay, const struct row *row)
{
    enum cf cf = (enum cf)row->cf;
    row_cache_release_borrowed(overlay->cache);
    if (row->state == ROW_VALUE && row->is_moved)
        row_cache_replace(overlay->cache, cf, row->key, row->hash, row->value);
    else if (row->state == ROW_VALUE)
        row_cache_put(overlay->cache, cf, row->key, row->hash, row->value);
    else if (row->state == ROW_DELETED)
        row_cache_remove(overlay->cache, cf, row->key, row->hash);
}

/* Updates what is known of plain keys from a metadata row. Of moved keys nothing is added, only removed. */
static void fold_plain(struct overlay *overlay, const struct row *row)
{
    bool is_new = row->is_moved && row->state == ROW_VALUE && metadata_is_plain(row->value);
    if (row->state == ROW_VALUE && !is_new)
        overlay_note_plain(overlay, row->hash, row->value);
    else if (row->state == ROW_DELETED && overlay->plain)
        plain_keys_remove(overlay->plain, row->hash);
}

static void fold_row(struct overlay *overlay, const struct row *row)
{
    enum cf cf = (enum cf)row->cf;
    struct bytes collection;
    if (row->older && overlay_caches(overlay, cf))
        row_cache_await(overlay->cache, row->older->hash);
    if (overlay_caches(overlay, cf))
        fold_cached(overlay, row);
    if (cf == CF_METADATA)
        fold_plain(overlay, row);
    if (overlay->ranges && cf_has_collections(cf) && !range_cache_is_empty(overlay->ranges) &&
        decode_collection_prefix(row->key, &collection))
        range_cache_forget(overlay->ranges, cf, collection);
    if (overlay->reader && !reader_is_empty(overlay->reader))
        reader_forget(overlay->reader, cf, row->key, row->hash);
}

bool overlay_applied(struct overlay *overlay, size_t rows)
{
    struct fold *fold = &overlay->fold;
    CHECK(overlay->immutable);
    if (!fold->is_begun) {
        *fold = (struct fold){.is_begun = true, .row = overlay->immutable->rows[0].newest};
        fold_ranges(overlay);
    }
    while (rows > 0 && fold->cf < CF_COUNT) {
        for (; rows > 0 && fold->row; fold->row = fold->row->older, rows--)
            fold_row(overlay, fold->row);
        if (!fold->row && ++fold->cf < CF_COUNT)
            fold->row = overlay->immutable->rows[fold->cf].newest;
    }
    if (fold->cf < CF_COUNT)
        return false;
    *fold = (struct fold){0};
    write_buffer_reset(overlay->immutable);
    overlay->immutable = NULL;
    return true;
}

void overlay_forget(struct overlay *overlay)
{
    CHECK(!overlay->in_flight && overlay->batch->effects == 0);
    write_buffer_reset(&overlay->buffers[0]);
    write_buffer_reset(&overlay->buffers[1]);
    overlay->immutable = NULL;
    overlay->fold = (struct fold){0};
    overlay_begin_batch(overlay, overlay->batch->ticket);
}
