#include "backend/slots/move_source.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/format/option_row.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_rows.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/slot_purge.h"
#include "backend/slots/slot_table.h"
#include "backend/wal/wal.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    /* Source and target spend about 1 ms on a page, in which they do nothing else. */
    PAGE_BYTES = 64 * 1024,
    PAGE_ROWS = 512,
    PART_BYTES = 1024 * 1024, /* of a page with a long row */
    PURGE_ROWS = 256,         /* at a step */
    RETRY_MS = 200,
    FREEZE_MAX_MS = 10000,
    ROUNDS_MAX = 8, /* pages in a row that were the whole tail: then the slots are frozen */
    LATE_MS = 1000, /* following is late if it takes longer than this and longer than copying */
    /* A step reads the log for this long, or this much, because other commands wait for its end. */
    READ_US = 500,
    READ_BYTES = 1024 * 1024,
};

/* ---- life ---- */

static uint64_t source_now_ms(const struct move_source *move)
{
    return loop_mono_ms(move->host->partition->loop);
}

static void note_progress(struct move_source *move)
{
    move->figures.moved_ms = source_now_ms(move);
    move->reason[0] = 0;
}

static void on_frozen_durable(struct ticket_wait *wait, int err);
static void target_replied(struct peer_request *request, enum peer_result result,
                           struct bytes payload);

static struct move_source *source_alloc(struct move_host *host, uint16_t first, uint16_t last)
{
    struct move_source *move = calloc(1, sizeof *move);
    CHECK(move);
    move->host = host;
    move->slots = (struct move_slots){.first = first, .last = last};
    move->before = *slot_table_get(host->partition->shards.slots, first);
    move->freeze_ms = host->partition->snapshot->config.migration_freeze_ms;
    move->figures.begun_ms = source_now_ms(move);
    list_init(&move->link);
    ticket_wait_init(&move->ticket, on_frozen_durable);
    note_progress(move);
    return move;
}

static struct peer_link *target_link(const struct move_source *move)
{
    struct peer_set *peers = move->host->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(move->target)) : NULL;
}

static void cancel_move_request(struct move_source *move)
{
    struct peer_link *link = target_link(move);
    if (move->kind && link)
        peer_link_cancel(link, &move->request);
    move->kind = 0;
}

/* Ends reading rows and batches. */
static void end_copying(struct move_source *move)
{
    slot_rows_free(move->copy.rows);
    wal_cursor_free(move->copy.cursor);
    effects_free(move->copy.page);
    move->copy = (struct move_copy){0};
}

void move_source_free(struct move_source *move)
{
    CHECK(!move->is_changing);
    list_remove(&move->link);
    cancel_move_request(move);
    ticket_wait_cancel(&move->ticket);
    end_copying(move);
    slot_purge_free(move->purge);
    free(move);
}

static bool is_frozen(const struct move_source *move)
{
    return move->state >= SOURCE_FREEZING && move->state <= SOURCE_RELEASING;
}

bool move_source_holds_writes(const struct move_source *move)
{
    return is_frozen(move) || (move->state == SOURCE_FOLLOWING && move->brake.is_on);
}

static void set_source_state(struct move_source *move, enum source_state state)
{
    bool held_writes = move_source_holds_writes(move);
    move->state = state;
    note_progress(move);
    if (held_writes != move_source_holds_writes(move))
        move->host->changed(move->host);
}

static void set_reason(struct move_source *move, struct bytes reason)
{
    (void)snprintf(move->reason, sizeof move->reason, "%.*s", (int)reason.len, reason.data);
}

/* Records why the move cannot go on now, and that it is tried again after RETRY_MS, because the reason may end by itself. */
static void wait_because(struct move_source *move, struct bytes reason)
{
    set_reason(move, reason);
    move->retry_ms = source_now_ms(move) + RETRY_MS;
}

/* ---- records ---- */

/* Counts how long the slots were frozen, and returns the milliseconds. */
static uint64_t note_freeze(const struct move_source *move)
{
    uint64_t frozen_ms = source_now_ms(move) - move->frozen_ms;
    cell_observe(move->host->partition->metrics.cell, PARTITION_FREEZE_SECONDS, frozen_ms * 1000);
    return frozen_ms;
}

/* slot_changed_fn */
static void source_record_changed(void *owner, int err)
{
    struct move_source *move = owner;
    move->is_changing = false;
    if (err || move->state == SOURCE_DONE)
        return; /* after a failed batch slot_moves_load finds the move again */
    switch (move->state) {
    case SOURCE_STARTING:
        set_source_state(move, SOURCE_BEGINNING);
        break;
    case SOURCE_RELEASING:
        log_event(LOG_INFO, "slots_released",
                  "partition=%u slots=%u-%u to=%s epoch=%" PRIu64 " frozen_ms=%" PRIu64,
                  move->host->partition->index, move->slots.first, move->slots.last, move->target,
                  move->before.epoch + 1, note_freeze(move));
        metric_add(move->host->partition->metrics.process, METRIC_BACKEND_SLOTS_SENT,
                   move->slots.last - move->slots.first + 1);
        end_copying(move);
        set_source_state(move, SOURCE_ACTIVATING);
        move->host->released(move->host, &move->slots);
        break;
    case SOURCE_ABORTING: /* given up while the record was written */
        break;
    case SOURCE_RESTORING:
    case SOURCE_FINISHING:
        set_source_state(move, SOURCE_DONE);
        break;
    default:
        CHECK(false);
    }
    move_source_step(move);
}

/* Begins to change the slots' record. False: not possible now. */
static bool change_source_record(struct move_source *move, const struct slot_record *record)
{
    CHECK(!move->is_changing);
    move->is_changing = slot_table_change(move->host->partition->shards.slots, move->slots.first,
                                          move->slots.last, record, source_record_changed, move);
    if (!move->is_changing)
        wait_because(move, BYTES("writes are refused at present"));
    return move->is_changing;
}

static struct slot_record record_with(const struct move_source *move, enum slot_state state)
{
    struct slot_record record = move->before;
    record.state = (uint8_t)state;
    record.migration = move->slots.id;
    (void)snprintf(record.peer, sizeof record.peer, "%s", move->target);
    return record;
}

struct move_source *move_source_new(struct move_host *host, uint16_t first, uint16_t last,
                                    const char *target, uint64_t wish)
{
    struct move_source *move = source_alloc(host, first, last);
    uint64_t keys = 0;
    move->wish = wish;
    (void)snprintf(move->target, sizeof move->target, "%s", target);
    move->slots.id = partition_version(host->partition, loop_wall_us(host->partition->loop));
    space_count_slots(host->partition->spaces, first, last, &move->figures.keys, &keys);
    struct slot_record record = record_with(move, SLOT_EXPORTING);
    if (change_source_record(move, &record))
        return move;
    move_source_free(move);
    return NULL;
}

struct move_source *move_source_found(struct move_host *host, uint16_t first, uint16_t last,
                                      const struct slot_record *record)
{
    struct move_source *move = source_alloc(host, first, last);
    move->slots.id = record->migration;
    move->wish = record->wish;
    (void)snprintf(move->target, sizeof move->target, "%s", record->peer);
    if (record->state == SLOT_RELEASED)
        move->before.epoch = record->epoch - 1;
    move->state = record->state == SLOT_RELEASED ? SOURCE_ACTIVATING : SOURCE_ABORTING;
    return move;
}

/* ---- requests ---- */

/* Sends a request with the payload in `out`, which is cleared. False: not now. */
static bool send_move_request(struct move_source *move, enum peer_kind kind, struct out *out)
{
    CHECK(!move->kind);
    move->request = (struct peer_request){.on_reply = target_replied};
    bool is_sent =
        peer_link_send_out(target_link(move), &move->request, (uint8_t)kind, out) == PEER_SENT;
    if (is_sent)
        move->kind = kind;
    else
        wait_because(move, BYTES("the target shard is not connected"));
    return is_sent;
}

/* The database maps, as bytes in the arena of the running command. */
static struct bytes maps_of(struct partition *partition)
{
    struct out out;
    out_init(&out);
    space_maps_write(partition->spaces, &out);
    size_t len = out.bytes;
    char *maps = arena_alloc(&partition->running.arena, len + 1);
    out_copy(&out, maps);
    out_clear(&out);
    return (struct bytes){maps, len};
}

/* The rows of all function libraries, and the stored options: a shard that joins empty has none. False: they cannot be read. */
static bool read_libraries(struct partition *partition, struct effects *libraries)
{
    const struct bytes ranges[][2] = {
        {{"F", 1}, {"G", 1}}, {{"f", 1}, {"g", 1}}, {option_rows_from(), option_rows_to()}};
    int err = OK;
    effects_begin(libraries, &(struct effects_header){.type = EFFECTS_BATCH});
    for (size_t i = 0; err == OK && i < sizeof ranges / sizeof ranges[0]; i++) {
        struct overlay_iter *iter =
            overlay_iter_new(partition->overlay, CF_SYSTEM, ranges[i][0], ranges[i][1]);
        for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter))
            effects_put(libraries, CF_SYSTEM, overlay_iter_key(iter), overlay_iter_value(iter));
        err = overlay_iter_error(iter);
        overlay_iter_free(iter);
    }
    return err == OK;
}

/* Libraries are sent to a process once, and again when they have changed. Else leaves none. */
static void drop_sent_libraries(struct move_source *move, struct effects *libraries)
{
    const struct peer_link *link = target_link(move);
    const char *sent = table_get(move->host->libraries, bytes_of(move->target));
    (void)snprintf(move->libraries, sizeof move->libraries, "%s %016" PRIx64,
                   link ? link->peer.run_id : "", hash_bytes(effects_bytes(libraries)));
    if (sent && strcmp(sent, move->libraries) == 0)
        effects_begin(libraries, &(struct effects_header){.type = EFFECTS_BATCH});
}

static void note_sent_libraries(struct move_source *move)
{
    char *sent = strdup(move->libraries);
    CHECK(sent);
    free(table_put(move->host->libraries, bytes_of(move->target), sent));
}

static void send_move_begin(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    struct out out;
    struct effects *libraries = effects_new();
    if (!read_libraries(partition, libraries)) {
        effects_free(libraries);
        wait_because(move, BYTES("the store cannot be read"));
        return;
    }
    drop_sent_libraries(move, libraries);
    const struct move_begin begin = {
        .slots = move->slots,
        .epoch = move->before.epoch,
        .wish = move->wish,
        .version = partition->batch.version,
        .maps = maps_of(partition),
        .libraries = effects_bytes(libraries),
    };
    out_init(&out);
    move_put_begin(&out, &begin);
    effects_free(libraries);
    arena_reset(&partition->running.arena);
    (void)send_move_request(move, PEER_MOVE_BEGIN, &out);
}

static void send_move_end(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    struct out out;
    struct move_end end = {
        .slots = move->slots, .number = move->copy.number, .maps = maps_of(partition)};
    space_count_slots(partition->spaces, move->slots.first, move->slots.last, &end.keys,
                      &end.expires);
    out_init(&out);
    move_put_end(&out, &end);
    arena_reset(&partition->running.arena);
    move->is_stale = false;
    if (send_move_request(move, PEER_MOVE_END, &out))
        set_source_state(move, SOURCE_ENDING);
}

static void send_move_activate(struct move_source *move)
{
    struct out out;
    const struct move_activate activate = {.slots = move->slots, .epoch = move->before.epoch + 1};
    out_init(&out);
    move_put_activate(&out, &activate);
    (void)send_move_request(move, PEER_MOVE_ACTIVATE, &out);
}

/* Restores the record of before: the slots stay here. */
static void restore_record(struct move_source *move)
{
    struct slot_record record = {
        .state = SLOT_OWNED, .epoch = move->before.epoch, .wish = move->before.wish};
    if (change_source_record(move, &record))
        set_source_state(move, SOURCE_RESTORING);
}

static void send_move_abort(struct move_source *move)
{
    const struct peer_link *link = target_link(move);
    struct out out;
    if (!link || link->state != PEER_LINK_UP) {
        restore_record(move); /* the target asks when it is back (MOVE_ASK) */
        return;
    }
    out_init(&out);
    move_put_slots(&out, &move->slots);
    (void)send_move_request(move, PEER_MOVE_ABORT, &out);
}

/* ---- copying ---- */

/* Called when rows have been read. */
static void copy_rows_are_read(void *owner)
{
    move_source_step(owner);
}

static void open_copying(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    /* Batches up to here are in the state that slot_rows reads; the one in flight may be read twice. */
    uint64_t from = storage_logged(partition->storage) + 1;
    end_copying(move);
    move->copy.cursor = wal_cursor_new(storage_wal(partition->storage), from);
    if (!move->copy.cursor) {
        move_source_abort(move, "the log cannot be read");
        return;
    }
    move->copy.rows = slot_rows_new(partition, move->slots.first, move->slots.last, METADATA_FIRST,
                                    copy_rows_are_read, move);
    move->copy.page = effects_new();
    effects_begin(move->copy.page, &(struct effects_header){.type = EFFECTS_BATCH});
    move->copy.opened_ms = source_now_ms(move);
    set_source_state(move, SOURCE_COPYING);
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
    uint64_t copied_ms = source_now_ms(move) - move->copy.opened_ms;
    move->copy.late_ms = source_now_ms(move) + (copied_ms > LATE_MS ? copied_ms : LATE_MS);
    move->brake = (struct move_brake){.on_ms = freeze_ms, .off_ms = freeze_ms};
    set_source_state(move, SOURCE_FOLLOWING);
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

/* Fills the page with effects of batches. *is_all: all that are logged so far were read. False: the move was given up. */
static bool fill_with_effects(struct move_source *move, bool *is_all)
{
    char error[256] = "";
    size_t read = 0;
    uint64_t end_us = clock_mono_us() + READ_US;
    *is_all = false;
    while (!is_page_full(move) && read < READ_BYTES && clock_mono_us() < end_us) {
        uint64_t index;
        struct bytes batch;
        int err = wal_cursor_next(move->copy.cursor, &index, &batch, error, sizeof error);
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
    if (send_move_request(move, PEER_MOVE_ROWS, &out))
        move->host->allowance -= (int64_t)copy->part;
}

/* The target has the part that was sent last. */
static void part_was_received(struct move_source *move)
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

/* ---- clients that write too fast ---- */

/* Why the slots cannot be handed over, however long they are frozen; empty: they can. */
static struct bytes why_not_frozen(const struct move_source *move)
{
    const struct peer_link *link = target_link(move);
    if (!link || link->state != PEER_LINK_UP)
        return BYTES("the target shard is not connected");
    if (lock_is_in_doubt_in(move->host->partition->shards.locks, move->slots.first,
                            move->slots.last))
        return BYTES("a transaction on keys of the slots is in doubt (SCREE TRANSACTIONS)");
    return BYTES("");
}

static bool is_following_late(const struct move_source *move)
{
    return source_now_ms(move) >= move->copy.late_ms;
}

static void set_brake(struct move_source *move, bool is_on)
{
    struct move_brake *brake = &move->brake;
    brake->is_on = is_on;
    brake->until_ms = source_now_ms(move) + (is_on ? brake->on_ms : brake->off_ms);
    move->host->changed(move->host);
}

/* From now on writes go on for half as long; when that is 1 ms, they wait for twice as long, but less than half of lock-timeout. */
static void brake_more(struct move_source *move)
{
    struct move_brake *brake = &move->brake;
    uint64_t timeout_ms = move->host->partition->snapshot->config.lock_timeout_ms;
    if (brake->off_ms > 1)
        brake->off_ms /= 2;
    else if (brake->on_ms < timeout_ms / 4)
        brake->on_ms *= 2;
}

/* While the target does not catch up with the writes to the slots, holds writes and lets them go on in turns (struct move_brake). */
static void brake_writers(struct move_source *move)
{
    const struct move_brake *brake = &move->brake;
    uint64_t now_ms = source_now_ms(move);
    bool is_near = !is_following_late(move) || move->copy.rounds;
    if (now_ms < brake->until_ms)
        return;
    if (brake->is_on) {
        brake_more(move);
        set_brake(move, false);
    } else if (!is_near && now_ms >= move->retry_ms && !move->host->is_paused &&
               !why_not_frozen(move).len) {
        set_brake(move, true);
    }
}

/* ---- handing over ---- */

/* Writes go on; the slots are frozen again later. */
static void thaw_slots(struct move_source *move, struct bytes reason)
{
    ticket_wait_cancel(&move->ticket);
    move->is_stale = true;
    (void)note_freeze(move);
    set_source_state(move, SOURCE_FOLLOWING);
    wait_because(move, reason);
}

/* The slots could not be handed over in the time of a freeze: thaws them, and allows the next freeze more time. */
static void thaw_late(struct move_source *move)
{
    move->freeze_ms = move->freeze_ms < FREEZE_MAX_MS / 2 ? move->freeze_ms * 2 : FREEZE_MAX_MS;
    thaw_slots(move, BYTES("handing over took too long, it will be tried again"));
}

static void freeze_slots(struct move_source *move)
{
    struct bytes reason = why_not_frozen(move);
    if (reason.len) {
        wait_because(move, reason);
        return;
    }
    move->frozen_ms = source_now_ms(move);
    move->copy.rounds = 0;
    move->brake.is_on = false;
    set_source_state(move, SOURCE_FREEZING);
    lock_wound_in(move->host->partition->shards.locks, move->slots.first, move->slots.last);
}

/* ticket_wait.on_end: everything that was written before is in the log. */
static void on_frozen_durable(struct ticket_wait *wait, int err)
{
    struct move_source *move = container_of(wait, struct move_source, ticket);
    if (err || move->state != SOURCE_FREEZING)
        return;
    set_source_state(move, SOURCE_DRAINING);
    move_source_step(move);
}

/* Waits until transactions on keys of the slots have ended, then until the open batch is in the log. */
static void await_quiet(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    if (!list_empty(&move->ticket.link) ||
        lock_is_any_in(partition->shards.locks, move->slots.first, move->slots.last))
        return;
    overlay_observe_begin(partition->overlay);
    if (overlay_dirty(partition->overlay))
        overlay_observe(partition->overlay, overlay_ticket(partition->overlay));
    else if (overlay_in_flight(partition->overlay))
        overlay_observe(partition->overlay, overlay_ticket(partition->overlay) - 1);
    ticket_wait_begin(partition, &move->ticket);
}

static void release_slots(struct move_source *move)
{
    struct slot_record record = record_with(move, SLOT_RELEASED);
    record.epoch = move->before.epoch + 1;
    record.wish = move->wish;
    if (change_source_record(move, &record))
        set_source_state(move, SOURCE_RELEASING);
    else
        thaw_slots(move, BYTES("writes are refused at present"));
}

static void purge_step(struct move_source *move)
{
    struct partition *partition = move->host->partition;
    if (!move->purge)
        move->purge = slot_purge_new(partition, move->slots.first, move->slots.last);
    enum slot_purge_step step =
        slot_purge_step(move->purge, PURGE_ROWS, &move->host->purge_allowance);
    if (step == SLOT_PURGE_GOES_ON)
        return;
    slot_purge_free(move->purge);
    move->purge = NULL;
    if (step == SLOT_PURGE_FAILED) {
        wait_because(move, BYTES("rows cannot be deleted at present"));
        return;
    }
    struct slot_record record = record_with(move, SLOT_RELEASED);
    record.epoch = move->before.epoch + 1;
    record.wish = move->wish;
    record.migration = 0;
    if (change_source_record(move, &record))
        set_source_state(move, SOURCE_FINISHING);
}

/* ---- replies ---- */

/* The target has refused a request: tries again if it has no rows yet or the reason will end by itself, else gives the move up. */
static void move_was_refused(struct move_source *move, enum peer_kind kind, struct bytes reason)
{
    char text[MOVE_REASON_MAX];
    bool is_temporary = refusal_is_temporary(move->request.refusal);
    (void)snprintf(text, sizeof text, "%.*s", (int)reason.len, reason.data);
    if (move->state == SOURCE_ABORTING && kind == PEER_MOVE_ABORT && !is_temporary) {
        restore_record(move);
    } else if (kind == PEER_MOVE_BEGIN || kind == PEER_MOVE_ACTIVATE || is_temporary) {
        if (move->state == SOURCE_ENDING)
            thaw_slots(move, bytes_of(text));
        else
            wait_because(move, bytes_of(text));
    } else if (!(kind == PEER_MOVE_END && move->is_stale)) {
        move_source_abort(move, text);
    }
}

static void move_was_done(struct move_source *move, enum peer_kind kind)
{
    note_progress(move);
    switch (kind) {
    case PEER_MOVE_BEGIN:
        note_sent_libraries(move);
        if (move->state == SOURCE_BEGINNING)
            open_copying(move);
        break;
    case PEER_MOVE_ROWS:
        part_was_received(move);
        break;
    case PEER_MOVE_END:
        if (move->state == SOURCE_ENDING)
            release_slots(move);
        break;
    case PEER_MOVE_ACTIVATE:
        set_source_state(move, SOURCE_PURGING);
        break;
    case PEER_MOVE_ABORT:
        restore_record(move);
        break;
    default:
        CHECK(false);
    }
}

/* peer_request.on_reply */
static void target_replied(struct peer_request *request, enum peer_result result,
                           struct bytes payload)
{
    struct move_source *move = container_of(request, struct move_source, request);
    enum peer_kind kind = move->kind;
    bool is_busy = move->host->partition->running.busy_error != NULL;
    move->kind = 0;
    if (is_busy || move->state == SOURCE_DONE)
        return; /* the request is sent again after the slow script */
    if (result == PEER_LOST) {
        move->copy.sent = 0; /* the target has dropped the parts that it had */
        wait_because(move, BYTES("the connection to the target shard broke"));
        return;
    }
    if (result == PEER_REFUSED)
        move_was_refused(move, kind, refusal_shown(move->request.refusal, payload));
    else
        move_was_done(move, kind);
    move_source_step(move);
}

/* ---- steps ---- */

static bool is_frozen_too_long(const struct move_source *move)
{
    return source_now_ms(move) >= move->frozen_ms + move->freeze_ms;
}

static void copy_rows_step(struct move_source *move)
{
    if (move->kind || move->host->is_paused || move->host->allowance <= 0)
        return;
    if (move->copy.is_closed || fill_with_rows(move))
        send_page(move);
}

/* Sends effects until none are left. True: all that was logged so far is at the target. */
static bool follow_step(struct move_source *move)
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

/* Sends effects. True: the slots may be frozen, because the target has everything, or because it has had all but the writes
 * of one round trip for some time: while clients write without a pause, it never has everything. These are then sent during
 * the freeze. */
static bool follow_until_near(struct move_source *move)
{
    uint32_t rounds = is_following_late(move) ? 1 : ROUNDS_MAX;
    bool is_near = !move->kind && !move->copy.is_closed && move->copy.rounds >= rounds;
    return (is_near && !move->host->is_paused) || follow_step(move);
}

void move_source_step(struct move_source *move)
{
    const struct partition *partition = move->host->partition;
    if (partition->running.busy_error || partition->thread.is_stopping || move->is_changing)
        return;
    bool was_frozen = is_frozen(move);
    struct bytes reason = was_frozen ? why_not_frozen(move) : BYTES("");
    if (was_frozen && is_frozen_too_long(move)) {
        thaw_late(move);
        return;
    }
    if (reason.len && move->state < SOURCE_RELEASING) {
        thaw_slots(move, reason);
        return;
    }
    if (move->state == SOURCE_FOLLOWING)
        brake_writers(move);
    if (!was_frozen && source_now_ms(move) < move->retry_ms)
        return;
    switch (move->state) {
    case SOURCE_BEGINNING:
        if (!move->kind && !move->host->is_paused)
            send_move_begin(move);
        break;
    case SOURCE_COPYING:
        copy_rows_step(move);
        break;
    case SOURCE_FOLLOWING:
        if (follow_until_near(move) && !move->host->is_paused)
            freeze_slots(move);
        break;
    case SOURCE_FREEZING:
        await_quiet(move);
        break;
    case SOURCE_DRAINING:
        if (follow_step(move))
            send_move_end(move);
        break;
    case SOURCE_ACTIVATING:
        if (!move->kind)
            send_move_activate(move);
        break;
    case SOURCE_PURGING:
        purge_step(move);
        break;
    case SOURCE_ABORTING:
        if (!move->kind)
            send_move_abort(move);
        break;
    default:
        break;
    }
}

void move_source_abort(struct move_source *move, const char *reason)
{
    if (move->state >= SOURCE_RELEASING)
        return;
    log_event(LOG_WARN, "slots_move_aborted", "partition=%u slots=%u-%u to=%s reason=\"%s\"",
              move->host->partition->index, move->slots.first, move->slots.last, move->target,
              reason);
    ticket_wait_cancel(&move->ticket);
    cancel_move_request(move);
    end_copying(move);
    set_source_state(move, SOURCE_ABORTING);
    set_reason(move, bytes_of(reason));
}

void move_source_drop(struct move_source *move)
{
    ticket_wait_cancel(&move->ticket);
    cancel_move_request(move);
    end_copying(move);
    slot_purge_free(move->purge);
    move->purge = NULL;
    set_source_state(move, SOURCE_DONE);
}

uint64_t move_source_tail(const struct move_source *move)
{
    return move->copy.page ? page_bytes(move) - move->copy.sent : 0;
}

const char *move_source_state(const struct move_source *move)
{
    static const char *const words[] = {
        [SOURCE_STARTING] = "starting",       [SOURCE_BEGINNING] = "starting",
        [SOURCE_COPYING] = "copying",         [SOURCE_FOLLOWING] = "tail",
        [SOURCE_FREEZING] = "frozen",         [SOURCE_DRAINING] = "frozen",
        [SOURCE_ENDING] = "frozen",           [SOURCE_RELEASING] = "handing-over",
        [SOURCE_ACTIVATING] = "handing-over", [SOURCE_PURGING] = "purging",
        [SOURCE_FINISHING] = "purging",       [SOURCE_ABORTING] = "aborting",
        [SOURCE_RESTORING] = "aborting",      [SOURCE_DONE] = "done",
    };
    return words[move->state];
}
