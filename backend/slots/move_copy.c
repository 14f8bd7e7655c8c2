/*
 * move_copy.c - what a move sends: the rows of its slots, then the effects of all batches since the copy began (move_source.h).
 *
 *   slot_rows ──► rows ───┐                        ┌─ MOVE_ROWS part 1
 *                         ├─► page: effects ─ close ┼─ MOVE_ROWS part 2      until the target has the whole page;
 *   wal_cursor ─► effects ┘   of the slots only    └─ …                     after a lost connection from its beginning
 */
#include "backend/slots/move_source.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/slot_rows.h"
#include "backend/slots/move_source_inner.h"
#include "backend/wal/wal.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <stdio.h>

enum {
    /* Source and target spend about 1 ms on a page, in which they do nothing else. */
    PAGE_BYTES = 64 * 1024,
    PAGE_ROWS = 512,
    PART_BYTES = 1024 * 1024, /* of a page with a long row */
    LATE_MS = 1000, /* following is late if it takes longer than this and longer than copying */
    /* A step reads the log for this long, or this much, because other commands wait for its end. */
    READ_US = 500,
    READ_BYTES = 1024 * 1024,
};

void move_copy_end(struct move_source *move)
{
    slot_rows_free(move->copy.rows);
    wal_cursor_free(move->copy.cursor);
    effects_free(move->copy.page);
    move->copy = (struct move_copy){0};
}

/* Called when rows have been read. */
static void copy_rows_are_read(void *owner)
{
    move_source_step(owner);
}

void move_copy_begin(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    /* Batches up to here are in the state that slot_rows reads; the one in flight may be read twice. */
    uint64_t from = storage_logged(partition->storage) + 1;
    move_copy_end(move);
    move->copy.cursor = wal_cursor_new(storage_wal(partition->storage), from);
    move->copy.read = from - 1;
    if (!move->copy.cursor) {
        move_source_abort(move, "the log cannot be read");
        return;
    }
    move->copy.rows = slot_rows_new(partition, move->slots.first, move->slots.last, METADATA_FIRST,
                                    copy_rows_are_read, move);
    move->copy.page = effects_new();
    effects_begin(move->copy.page, &(struct effects_header){.type = EFFECTS_BATCH});
    move->copy.opened_ms = move_now_ms(move);
    move_set_state(move, SOURCE_COPYING);
}

static size_t page_bytes(const struct move_source *move)
{
    return effects_bytes(move->copy.page).len;
}

static bool is_page_full(const struct move_source *move)
{
    return page_bytes(move) >= PAGE_BYTES || effects_count(move->copy.page) >= PAGE_ROWS;
}

/* Gives the move up, because the metadata row cannot be decoded: the key would be lost at the target. */
static void refuse_damaged_row(struct move_source *move, struct bytes row)
{
    struct bytes space;
    struct bytes key;
    char reason[MOVE_REASON_MAX];
    uint16_t slot = move->slots.first;
    (void)decode_metadata_key(row, &space, &slot, &key);
    (void)snprintf(reason, sizeof reason, "slot %u has a damaged metadata row", slot);
    log_event(LOG_ERROR, "slot_damaged", "partition=%u slot=%u", move->host->partition->index,
              slot);
    move->host->damaged(move->host, slot);
    move_source_abort(move, reason);
}

/* Adds a row to the page, and the row of the expiry index that belongs to a metadata row. False: the row is damaged. */
static bool page_add_row(struct move_source *move, enum cf cf, struct bytes key, struct bytes value)
{
    struct arena *arena = &move->host->partition->running.arena;
    struct metadata meta;
    if (cf == CF_METADATA && !decode_metadata(value, &meta))
        return false;
    effects_put(move->copy.page, cf, key, value);
    if (cf != CF_METADATA || !metadata_due_ms(&meta))
        return true;
    char type = (char)meta.type;
    effects_put(move->copy.page, CF_EXPIRE, encode_expire_key(arena, metadata_due_ms(&meta), key),
                (struct bytes){&type, 1});
    arena_reset(arena);
    return true;
}

/* All rows are copied. */
static void begin_following(struct move_source *move)
{
    uint64_t freeze_ms = move->host->partition->snapshot->config.migration_freeze_ms;
    uint64_t copied_ms = move_now_ms(move) - move->copy.opened_ms;
    move->copy.late_ms = move_now_ms(move) + (copied_ms > LATE_MS ? copied_ms : LATE_MS);
    move->brake = (struct move_brake){.on_ms = freeze_ms, .off_ms = freeze_ms};
    move_set_state(move, SOURCE_FOLLOWING);
}

/* Fills the page with rows. False: they are still being read, or the move was given up. */
static bool fill_with_rows(struct move_source *move)
{
    while (!is_page_full(move)) {
        enum cf cf;
        struct bytes key;
        struct bytes value;
        switch (slot_rows_next(move->copy.rows, &cf, &key, &value)) {
        case ROWS_ROW:
            if (page_add_row(move, cf, key, value))
                break;
            refuse_damaged_row(move, key);
            return false;
        case ROWS_WAIT:
            return false;
        case ROWS_END:
            slot_rows_free(move->copy.rows);
            move->copy.rows = NULL;
            begin_following(move);
            return true;
        case ROWS_FAILED:
            move_source_abort(move, "the store cannot be read");
            return false;
        }
    }
    return true;
}

/* The smaller of two first keys after a range; empty: to the end. */
static struct bytes earlier_end(struct bytes a, struct bytes b)
{
    if (!a.len || !b.len)
        return a.len ? a : b;
    return bytes_compare(a, b) < 0 ? a : b;
}

/* Adds a deleted range, limited to the slots. */
static void page_add_range(struct move_source *move, const struct effect *effect)
{
    struct arena *arena = &move->host->partition->running.arena;
    struct bytes from = encode_slot_prefix(arena, effect->place.space, move->slots.first);
    struct bytes to =
        encode_prefix_end(arena, encode_slot_prefix(arena, effect->place.space, move->slots.last));
    if (bytes_compare(effect->key, from) > 0)
        from = effect->key;
    effects_delete_range(move->copy.page, effect->cf, from, earlier_end(to, effect->to));
    arena_reset(arena);
}

/* Adds an effect of a batch if it concerns the slots. False: it concerns them in a way that cannot be limited to them. */
static bool page_add_effect(struct move_source *move, const struct effect *effect)
{
    const struct effect_place *place = &effect->place;
    if (effect->cf == CF_SYSTEM || (effect->kind == EFFECT_DELETE_RANGE && effect->cf == CF_EXPIRE))
        return true;
    if (place->is_any_space)
        return false;
    if (place->first_slot == EFFECT_NO_SLOT || place->last_slot < move->slots.first ||
        place->first_slot > move->slots.last)
        return true;
    if (effect->kind == EFFECT_PUT)
        effects_put(move->copy.page, effect->cf, effect->key, effect->value);
    else if (effect->kind == EFFECT_DELETE)
        effects_delete(move->copy.page, effect->cf, effect->key);
    else
        page_add_range(move, effect);
    return true;
}

static bool page_add_batch(struct move_source *move, struct bytes batch)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(batch, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (!page_add_effect(move, &effect))
            return false;
    return result == EFFECTS_END;
}

/* The log of a group of copies may have a batch that is not on enough of them, and may be replaced. */
static bool has_read_committed(const struct move_source *move)
{
    return move->copy.read >= storage_committed(move->host->partition->storage);
}

/* Fills the page with effects of batches. *is_all: all that are committed so far were read. False: the move was given up. */
static bool fill_with_effects(struct move_source *move, bool *is_all)
{
    char error[256] = "";
    size_t read = 0;
    uint64_t end_us = clock_mono_us() + READ_US;
    *is_all = false;
    while (!is_page_full(move) && read < READ_BYTES && clock_mono_us() < end_us) {
        struct bytes batch;
        int err = has_read_committed(move) ? ERR_NOT_FOUND
                                           : wal_cursor_next(move->copy.cursor, &move->copy.read,
                                                             &batch, error, sizeof error);
        *is_all = err == ERR_NOT_FOUND;
        if (*is_all)
            return true;
        if (err != OK || !page_add_batch(move, batch)) {
            move_source_abort(move, err == OK ? "a batch of the log cannot be divided by slots"
                                              : "the log cannot be read");
            return false;
        }
        read += batch.len;
    }
    return true;
}

/* From now on the page is sent. */
static void close_page(struct move_source *move)
{
    struct move_copy *copy = &move->copy;
    effects_set_version(copy->page, move->host->partition->batch.version);
    copy->number++;
    copy->is_closed = true;
    copy->sent = 0;
    move->figures.bytes += page_bytes(move);
}

/* The longest part of a page that one request may have. */
static size_t part_max(const struct move_source *move)
{
    size_t limit = move->host->partition->snapshot->config.peer_output_limit_bytes / 4;
    return limit < PART_BYTES ? limit : PART_BYTES;
}

/* Sends the next part of the page. */
static void send_page_part(struct move_source *move)
{
    struct move_copy *copy = &move->copy;
    struct bytes page = effects_bytes(copy->page);
    size_t left = page.len - copy->sent;
    struct out out;
    copy->part = left < part_max(move) ? left : part_max(move);
    const struct move_rows rows = {
        .slots = move->slots,
        .number = copy->number,
        .total = page.len,
        .offset = copy->sent,
        .part = {page.data + copy->sent, copy->part},
    };
    out_init(&out);
    move_put_rows(&out, &rows);
    if (move_send(move, PEER_MOVE_ROWS, &out))
        move->host->allowance -= (int64_t)copy->part;
}

void move_copy_was_received(struct move_source *move)
{
    struct move_copy *copy = &move->copy;
    copy->sent += copy->part;
    if (copy->sent < page_bytes(move))
        return;
    copy->is_closed = false;
    copy->sent = 0;
    effects_begin(copy->page, &(struct effects_header){.type = EFFECTS_BATCH});
}

static void send_page(struct move_source *move)
{
    if (!move->copy.is_closed && effects_count(move->copy.page))
        close_page(move);
    if (move->copy.is_closed)
        send_page_part(move);
}

/* ---- steps ---- */

void move_copy_rows(struct move_source *move)
{
    if (move->kind || move->host->is_paused || move->host->allowance <= 0)
        return;
    if (move->copy.is_closed || fill_with_rows(move))
        send_page(move);
}

bool move_copy_follow(struct move_source *move)
{
    bool is_all = false;
    if (move->kind)
        return false;
    if (!move->copy.is_closed) {
        if (!fill_with_effects(move, &is_all))
            return false;
        if (!effects_count(move->copy.page))
            return is_all;
        move->copy.rounds = is_all ? move->copy.rounds + 1 : 0;
    }
    send_page(move);
    return false;
}

uint64_t move_source_tail(const struct move_source *move)
{
    return move->copy.page ? page_bytes(move) - move->copy.sent : 0;
}
