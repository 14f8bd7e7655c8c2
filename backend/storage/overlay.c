/*
 * overlay.c - two buffers of effects above the store: reads, effects, and the undo log of the command.
 *
 *   undo log:  (row, its value before)  newest last; rollback walks it back
 */
#include "backend/storage/overlay.h"

#include "backend/storage/overlay_inner.h"
#include "backend/storage/range_cache.h"
#include "backend/storage/reader.h"
#include "backend/storage/row_cache.h"
#include "config/memory_plan.h"
#include "shared/big_memory.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

enum { WRITE_BUFFER_BYTES = 16 << 20 }; /* default; see overlay_use_buffers */

struct overlay *overlay_new(struct store *store)
{
    struct overlay *overlay = calloc(1, sizeof *overlay);
    CHECK(overlay);
    overlay->store = store;
    write_buffer_init(&overlay->buffers[0]);
    write_buffer_init(&overlay->buffers[1]);
    overlay->buffer_bytes = WRITE_BUFFER_BYTES;
    overlay->active = &overlay->buffers[0];
    overlay->batch = &overlay->batches[0];
    overlay_begin_batch(overlay, 1);
    return overlay;
}

void overlay_free(struct overlay *overlay)
{
    if (!overlay)
        return;
    for (int i = 0; i < 2; i++) {
        write_buffer_fini(&overlay->buffers[i]);
        free(overlay->batches[i].changes);
        free(overlay->batches[i].ranges);
    }
    row_cache_free(overlay->cache);
    range_cache_free(overlay->ranges);
    plain_keys_free(overlay->plain);
    free(overlay->undo.items);
    free(overlay->kept.marks.items);
    free(overlay);
}

void overlay_use_buffers(struct overlay *overlay, size_t bytes)
{
    overlay->buffer_bytes = bytes;
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

void overlay_use_range_cache(struct overlay *overlay, size_t bytes)
{
    range_cache_free(overlay->ranges);
    overlay->ranges = bytes ? range_cache_new(bytes) : NULL;
}

void overlay_range_figures(const struct overlay *overlay, struct range_cache_figures *figures)
{
    *figures = (struct range_cache_figures){0};
    if (overlay->ranges)
        range_cache_figures(overlay->ranges, figures);
}

void overlay_use_plain_keys(struct overlay *overlay, size_t bytes)
{
    plain_keys_free(overlay->plain);
    overlay->plain = bytes ? plain_keys_new(bytes) : NULL;
}

void overlay_plain_figures(const struct overlay *overlay, uint64_t *keys, uint64_t *bytes)
{
    *keys = overlay->plain ? plain_keys_count(overlay->plain) : 0;
    *bytes = overlay->plain ? plain_keys_bytes(overlay->plain) : 0;
}

void overlay_use_reader(struct overlay *overlay, struct reader *reader)
{
    CHECK(!overlay->reader);
    overlay->reader = reader;
}

/* State of a key in one buffer: ROW_VALUE (with *value), ROW_DELETED, or ROW_ABSENT: look in the older buffer or the
 * store. */
static enum row_state buffer_look(struct overlay *overlay, struct write_buffer *buffer, enum cf cf,
                                  struct bytes key, uint64_t hash, struct slice *value)
{
    struct row *row = write_buffer_find(buffer, cf, key, hash);
    enum row_state state = row ? row->state : ROW_ABSENT;
    if (state == ROW_ABSENT && buffer->ranges_count) {
        const struct range *range = write_buffer_range_of(buffer, cf, key);
        if (!range)
            return ROW_ABSENT;
        overlay_observe_effect(overlay, range->ticket);
        return ROW_DELETED;
    }
    if (state != ROW_ABSENT)
        overlay_observe_row(overlay, row);
    if (state == ROW_VALUE)
        *value = (struct slice){row->value.data, row->value.len, NULL};
    return state;
}

/* Reads a row that is neither in buffers nor in caches: from the store, or, if the command must not block, through a
 * reader thread. */
static int uncached_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                        struct slice *value)
{
    if (!overlay->is_nonblocking) {
        reader_note_blocking(overlay->reader);
        return store_get(overlay->store, cf, key, value);
    }
    reader_want(overlay->reader, cf, key, hash, overlay->retry);
    return ERR_RETRY;
}

/* Reads a row from the store's memory. Where a reader thread can fetch the row, this is only tried if it succeeds often. */
static int memory_get(struct overlay *overlay, enum cf cf, struct bytes key, bool may_fetch,
                      struct slice *value)
{
    if (may_fetch && !reader_expects_memory(overlay->reader))
        return ERR_UNCACHED;
    int err = store_get_cached(overlay->store, cf, key, value);
    reader_note_memory(overlay->reader, err != ERR_UNCACHED);
    return err;
}

static int stored_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                      struct slice *value)
{
    if (!overlay->reader || !overlay_may_be_uncached(cf))
        return store_get(overlay->store, cf, key, value);
    int err = reader_look(overlay->reader, cf, key, hash, value);
    if (err == ERR_UNCACHED)
        err = memory_get(overlay, cf, key, overlay->is_nonblocking, value);
    return err == ERR_UNCACHED ? uncached_get(overlay, cf, key, hash, value) : err;
}

/* Reads a row of the store through the row cache. */
static int cached_get(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t hash,
                      struct slice *value)
{
    struct bytes found;
    bool is_cached = overlay_caches(overlay, cf);
    if (is_cached && row_cache_get(overlay->cache, cf, key, hash, &found)) {
        *value = (struct slice){found.data, found.len, NULL};
        return OK;
    }
    int err = stored_get(overlay, cf, key, hash, value);
    if (err == OK && is_cached)
        row_cache_offer(overlay->cache, cf, key, hash, slice_bytes(value));
    if (err == OK && cf == CF_METADATA)
        overlay_note_plain(overlay, hash, slice_bytes(value));
    return err;
}

void overlay_nonblocking_begin(struct overlay *overlay, struct retry *retry)
{
    overlay->retry = retry;
    overlay->is_nonblocking = retry != NULL;
}

void overlay_nonblocking_end(struct overlay *overlay)
{
    overlay->is_nonblocking = false;
}

struct retry *overlay_retry(const struct overlay *overlay)
{
    return overlay->retry;
}

bool overlay_has_read_aheads(const struct overlay *overlay)
{
    return overlay->reader && reader_has_read_aheads(overlay->reader);
}

bool overlay_retries(const struct overlay *overlay)
{
    return overlay->retry && (overlay->retry->pending > 0 || overlay->retry->refusal);
}

/* True when the buffer has the row. Rows whose effects were all rolled back do not count. */
static bool buffer_has(struct write_buffer *buffer, enum cf cf, struct bytes key, uint64_t hash)
{
    const struct row *row = buffer ? write_buffer_find(buffer, cf, key, hash) : NULL;
    return row && row->state != ROW_ABSENT;
}

bool overlay_prefetch(struct overlay *overlay, enum cf cf, struct bytes key, struct retry *retry)
{
    uint64_t hash = hash_row(cf, key);
    struct bytes found;
    struct slice value;
    if (buffer_has(overlay->active, cf, key, hash) ||
        buffer_has(overlay->immutable, cf, key, hash) ||
        (overlay_caches(overlay, cf) && row_cache_get(overlay->cache, cf, key, hash, &found)) ||
        reader_look(overlay->reader, cf, key, hash, &value) != ERR_UNCACHED)
        return true;
    if (reader_has(overlay->reader, cf, key, hash, retry))
        return false;
    int err = memory_get(overlay, cf, key, true, &value);
    if (err == ERR_UNCACHED)
        reader_want(overlay->reader, cf, key, hash, retry);
    else if (err != ERR_STORE)
        reader_keep(overlay->reader, cf, key, hash, err, &value);
    return err != ERR_UNCACHED;
}

/* ROW_ABSENT: the view does not have the row. */
static enum row_state view_look(struct overlay *overlay, enum cf cf, struct bytes key,
                                uint64_t hash, struct slice *value)
{
    struct view *view = overlay->view;
    enum row_state state = buffer_look(overlay, &view->written, cf, key, hash, value);
    return state == ROW_ABSENT ? buffer_look(overlay, &view->borrowed, cf, key, hash, value)
                               : state;
}

static enum row_state buffers_look(struct overlay *overlay, enum cf cf, struct bytes key,
                                   uint64_t hash, struct slice *value)
{
    enum row_state state = ROW_ABSENT;
    if (overlay->view)
        state = view_look(overlay, cf, key, hash, value);
    if (state == ROW_ABSENT)
        state = buffer_look(overlay, overlay->active, cf, key, hash, value);
    if (state == ROW_ABSENT && overlay->immutable)
        state = buffer_look(overlay, overlay->immutable, cf, key, hash, value);
    return state;
}

int overlay_get_replaced(struct overlay *overlay, struct bytes key, uint64_t key_hash,
                         struct slice *value)
{
    uint64_t hash = hash_row_of(CF_METADATA, key_hash);
    enum row_state state = buffers_look(overlay, CF_METADATA, key, hash, value);
    if (state == ROW_VALUE)
        return OK;
    if (state == ROW_DELETED)
        return ERR_NOT_FOUND;
    if (!overlay->plain || !plain_keys_has(overlay->plain, hash))
        return cached_get(overlay, CF_METADATA, key, hash, value);
    struct bytes plain = metadata_plain();
    *value = (struct slice){plain.data, plain.len, NULL};
    return OK;
}

bool overlay_knows_plain(const struct overlay *overlay, struct bytes key)
{
    return overlay->plain && plain_keys_has(overlay->plain, hash_row(CF_METADATA, key));
}

int overlay_get_hashed(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t key_hash,
                       struct slice *value)
{
    uint64_t hash = hash_row_of(cf, key_hash);
    enum row_state state = buffers_look(overlay, cf, key, hash, value);
    if (state == ROW_VALUE)
        return OK;
    if (state == ROW_DELETED)
        return ERR_NOT_FOUND;
    return cached_get(overlay, cf, key, hash, value);
}

int overlay_get(struct overlay *overlay, enum cf cf, struct bytes key, struct slice *value)
{
    return overlay_get_hashed(overlay, cf, key, hash_bytes(key), value);
}

int overlay_get_borrowed(struct overlay *overlay, enum cf cf, struct bytes key, struct slice *value)
{
    enum row_state state = view_look(overlay, cf, key, hash_row(cf, key), value);
    if (state == ROW_ABSENT)
        return ERR_RETRY;
    return state == ROW_VALUE ? OK : ERR_NOT_FOUND;
}

static void *grow_array(void *array, size_t *cap, size_t size)
{
    *cap = *cap ? *cap * 2 : 64;
    array = realloc(array, *cap * size);
    CHECK(array);
    return array;
}

/* Adds a row to the batch, which changes it for the first time. */
static void log_change(struct batch *batch, struct row *row)
{
    if (batch->count == batch->cap)
        batch->changes = grow_array(batch->changes, &batch->cap, sizeof *batch->changes);
    batch->changes[batch->count++] =
        (struct change){.row = row, .before = row->value, .state_before = (uint8_t)row->state};
    row->ticket = batch->ticket;
}

static size_t *effects_of(struct overlay *overlay)
{
    return overlay->view ? &overlay->view->effects : &overlay->batch->effects;
}

static void count_effect(struct overlay *overlay)
{
    ++*effects_of(overlay);
    if (!overlay->view)
        overlay->observed_writes = overlay->batch->ticket;
}

/* The row is written: its bytes count once (struct overlay_written), and its new value will be added. */
static void count_written(struct overlay *overlay, struct row *row)
{
    bool is_counted =
        overlay->view ? row->state != ROW_ABSENT : row->ticket == overlay->batch->ticket;
    if (is_counted)
        overlay->written.bytes -= (int64_t)row->value.len;
    else
        overlay->written.bytes += (int64_t)row->key.len;
    if (!is_counted && !overlay->view)
        log_change(overlay->batch, row);
}

/* Saves the row's present state in the undo log, and counts one effect, whose value has `len` bytes. */
static void log_effect(struct overlay *overlay, struct row *row, size_t len)
{
    if (overlay_target(overlay)->arena.bytes + len >= overlay->kept.marks.next_bytes)
        overlay_add_mark(overlay);
    if (overlay->undo.count == overlay->undo.cap)
        overlay->undo.items =
            grow_array(overlay->undo.items, &overlay->undo.cap, sizeof *overlay->undo.items);
    overlay->undo.items[overlay->undo.count++] =
        (struct undo){row, row->value, row->ticket, row->state, row->is_secured};
    row->is_secured = overlay->securing.is_on;
    row->is_moved = overlay->securing.is_moving;
    count_written(overlay, row);
    count_effect(overlay);
}

void overlay_put_hashed(struct overlay *overlay, enum cf cf, struct bytes key, uint64_t key_hash,
                        struct bytes head, struct bytes tail)
{
    struct write_buffer *to = overlay_target(overlay);
    struct row *row = write_buffer_get_or_add(to, cf, key, hash_row_of(cf, key_hash));
    log_effect(overlay, row, head.len + tail.len);
    char *data = arena_alloc(&to->arena, head.len + tail.len);
    if (head.len)
        memcpy(data, head.data, head.len);
    big_copy(data + head.len, tail.data, tail.len);
    row->value = (struct bytes){data, head.len + tail.len};
    row->state = ROW_VALUE;
    overlay->written.bytes += (int64_t)row->value.len;
    if (row->value.len >= BIG_VALUE_BYTES)
        to->big_bytes += row->value.len;
}

void overlay_await_put(const struct overlay *overlay, enum cf cf, uint64_t key_hash)
{
    write_buffer_await(overlay_target(overlay), hash_row_of(cf, key_hash));
}

void overlay_put_own(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value)
{
    overlay_put_hashed(overlay, cf, key, hash_bytes(key), value, (struct bytes){NULL, 0});
}

void overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value)
{
    stamps_row(&overlay->stamps, cf, key);
    overlay_put_own(overlay, cf, key, value);
}

void overlay_delete(struct overlay *overlay, enum cf cf, struct bytes key)
{
    stamps_row(&overlay->stamps, cf, key);
    overlay_delete_own(overlay, cf, key);
}

void overlay_delete_own(struct overlay *overlay, enum cf cf, struct bytes key)
{
    struct row *row = write_buffer_get_or_add(overlay_target(overlay), cf, key, hash_row(cf, key));
    log_effect(overlay, row, 0);
    row->value = (struct bytes){NULL, 0};
    row->state = ROW_DELETED;
}

/* Does the batch already have this range, or in a view: the attempt, as its effects may be collected? */
static bool has_range(const struct write_buffer *buffer, size_t from, const struct range *range)
{
    for (size_t i = from; i < buffer->ranges_count; i++) {
        const struct range *other = &buffer->ranges[i];
        if (other->cf == range->cf && bytes_equal(other->from, range->from) &&
            bytes_equal(other->to, range->to))
            return true;
    }
    return false;
}

void overlay_delete_range(struct overlay *overlay, enum cf cf, struct bytes from, struct bytes to)
{
    struct write_buffer *buffer = overlay_target(overlay);
    uint64_t ticket = overlay->view ? 0 : overlay->batch->ticket;
    struct range range = {cf, overlay->securing.is_moving, from, to, ticket};
    stamps_range(&overlay->stamps, cf, from, to);
    const struct row_list *list = write_buffer_order(buffer, cf, from, to);
    for (struct row *row = rows_at_or_after(list, from); row && range_has(&range, cf, row->key);
         row = row->next[0])
        if (row->state != ROW_ABSENT) {
            log_effect(overlay, row, 0);
            row->value = (struct bytes){NULL, 0};
            row->state = ROW_ABSENT;
        }
    count_effect(overlay);
    if (!has_range(buffer, overlay->view ? 0 : overlay->batch->ranges_from, &range))
        write_buffer_add_range(buffer, &range);
}

void overlay_savepoint(struct overlay *overlay)
{
    if (overlay->cache)
        row_cache_release_borrowed(overlay->cache);
    if (!overlay->kept.attempt.is_on && !overlay->kept.script.is_on && !overlay->kept.queue.is_on)
        overlay->undo.count = overlay->kept.marks.count = 0;
    struct mark *mark = &overlay->savepoint;
    mark->undo_count = overlay->undo.count;
    mark->ranges_count = overlay_target(overlay)->ranges_count;
    mark->effects = *effects_of(overlay);
    mark->observed_writes = overlay->observed_writes;
    mark->written = overlay->written.bytes;
}

static void roll_back_ranges(struct overlay *overlay, const struct mark *mark)
{
    struct write_buffer *buffer = overlay_target(overlay);
    for (size_t i = mark->ranges_count; i < buffer->ranges_count; i++) {
        const struct range *range = &buffer->ranges[i];
        stamps_range(&overlay->stamps, range->cf, range->from, range->to);
    }
    buffer->ranges_count = mark->ranges_count;
    if (overlay->view && overlay->view->placed_ranges > mark->ranges_count)
        overlay->view->placed_ranges = mark->ranges_count;
}

static void roll_back_rows(struct overlay *overlay, const struct mark *mark)
{
    while (overlay->undo.count > mark->undo_count) {
        const struct undo *undo = &overlay->undo.items[--overlay->undo.count];
        stamps_row(&overlay->stamps, (enum cf)undo->row->cf, undo->row->key);
        undo->row->value = undo->value;
        undo->row->ticket = undo->ticket;
        undo->row->state = undo->state;
        undo->row->is_secured = undo->is_secured;
    }
    roll_back_ranges(overlay, mark);
    *effects_of(overlay) = mark->effects;
    overlay->observed_writes = mark->observed_writes;
    overlay->written.bytes = mark->written;
    overlay_release(overlay, mark);
}

struct overlay_written *overlay_written(struct overlay *overlay)
{
    return &overlay->written;
}

size_t overlay_effects_memory(const struct overlay *overlay)
{
    return write_buffer_memory(overlay_target(overlay)) +
           overlay->undo.count * sizeof(struct undo) +
           overlay->batch->count * sizeof(struct change);
}

void overlay_rollback(struct overlay *overlay)
{
    roll_back_rows(overlay, &overlay->savepoint);
}

void overlay_attempt_begin(struct overlay *overlay)
{
    CHECK(!overlay->kept.attempt.is_on);
    overlay_savepoint(overlay);
    overlay->kept.attempt.is_on = true;
    overlay->kept.attempt.mark = overlay->savepoint;
}

void overlay_attempt_end(struct overlay *overlay, bool is_good)
{
    CHECK(overlay->kept.attempt.is_on);
    overlay->kept.attempt.is_on = false;
    if (!is_good)
        roll_back_rows(overlay, &overlay->kept.attempt.mark);
}

void overlay_script_begin(struct overlay *overlay)
{
    CHECK(!overlay->kept.script.is_on);
    overlay_savepoint(overlay);
    overlay->kept.script.is_on = true;
    overlay->kept.script.mark = overlay->savepoint;
}

void overlay_script_end(struct overlay *overlay, bool is_good)
{
    CHECK(overlay->kept.script.is_on);
    overlay->kept.script.is_on = false;
    if (!is_good)
        roll_back_rows(overlay, &overlay->kept.script.mark);
    overlay_savepoint(overlay);
}

void overlay_queue_begin(struct overlay *overlay)
{
    CHECK(!overlay->kept.queue.is_on && !overlay->kept.script.is_on);
    overlay->kept.queue.is_on = true;
    overlay->kept.queue.mark = overlay->savepoint;
}

void overlay_queue_end(struct overlay *overlay, bool is_good)
{
    CHECK(overlay->kept.queue.is_on);
    overlay->kept.queue.is_on = false;
    if (is_good)
        return;
    roll_back_rows(overlay, &overlay->kept.queue.mark);
    overlay_savepoint(overlay);
}

void overlay_observe_begin(struct overlay *overlay)
{
    overlay->observed_reads = overlay->observed_writes = 0;
}

void overlay_observe(struct overlay *overlay, uint64_t ticket)
{
    overlay_observe_effect(overlay, ticket);
}

uint64_t overlay_observed(const struct overlay *overlay)
{
    uint64_t oldest = overlay->batch->ticket - (overlay->in_flight != NULL);
    uint64_t newest = overlay->observed_reads > overlay->observed_writes ? overlay->observed_reads
                                                                         : overlay->observed_writes;
    if (newest == overlay->batch->ticket && overlay->batch->effects == 0)
        newest--; /* its effects were rolled back; it may never be written */
    return newest >= oldest ? newest : 0;
}

uint64_t overlay_change_ticket(const struct overlay *overlay)
{
    return overlay->securing.is_on ? 0 : overlay->batch->ticket;
}

uint64_t overlay_pending_ticket(const struct overlay *overlay)
{
    uint64_t closed = overlay->in_flight ? overlay->batch->ticket - 1 : 0;
    return overlay->batch->effects ? overlay->batch->ticket : closed;
}

uint64_t overlay_ticket(const struct overlay *overlay)
{
    return overlay->batch->ticket;
}

bool overlay_in_flight(const struct overlay *overlay)
{
    return overlay->in_flight != NULL;
}

bool overlay_dirty(const struct overlay *overlay)
{
    return overlay->batch->effects > 0;
}

bool overlay_is_due(const struct overlay *overlay)
{
    const struct batch *batch = overlay->batch;
    return batch->effects > (batch->is_awaited ? 0 : batch->secured);
}

void overlay_await(struct overlay *overlay, uint64_t ticket)
{
    overlay->batch->is_awaited |= ticket == overlay->batch->ticket;
}

void overlay_await_secured(struct overlay *overlay)
{
    overlay->batch->is_awaited |= overlay->batch->secured > 0;
}

void overlay_secured_begin(struct overlay *overlay)
{
    CHECK(!overlay->securing.is_on && !overlay->kept.attempt.is_on && !overlay->kept.script.is_on &&
          !overlay->kept.queue.is_on);
    overlay->securing.is_on = true;
    overlay->securing.from = overlay->batch->effects;
}

void overlay_secured_end(struct overlay *overlay)
{
    CHECK(overlay->securing.is_on && overlay->batch->effects >= overlay->securing.from);
    overlay->securing.is_on = false;
    overlay->batch->secured += overlay->batch->effects - overlay->securing.from;
    overlay_savepoint(overlay);
}

void overlay_moved_begin(struct overlay *overlay)
{
    overlay->securing.is_moving = true;
}

void overlay_moved_end(struct overlay *overlay)
{
    overlay->securing.is_moving = false;
}

size_t overlay_memory(const struct overlay *overlay)
{
    size_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += overlay->buffers[i].arena.bytes +
                 overlay->buffers[i].index_cap * sizeof *overlay->buffers[i].index +
                 overlay->batches[i].cap * sizeof *overlay->batches[i].changes;
    return bytes;
}

void overlay_stamp_all(struct overlay *overlay)
{
    stamps_all(&overlay->stamps);
}

uint64_t overlay_stamp(const struct overlay *overlay, uint64_t version)
{
    return stamps_get(&overlay->stamps, version);
}

void overlay_clear_caches(struct overlay *overlay)
{
    if (overlay->cache)
        row_cache_clear(overlay->cache);
    if (overlay->ranges)
        range_cache_clear(overlay->ranges);
    if (overlay->plain)
        plain_keys_clear(overlay->plain);
    if (overlay->reader)
        reader_forget_all(overlay->reader);
}

void overlay_store_changed(struct overlay *overlay)
{
    stamps_all(&overlay->stamps);
    overlay_clear_caches(overlay);
}
