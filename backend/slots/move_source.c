#include "backend/slots/move_source.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/format/option_row.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/move_source_inner.h"
#include "backend/slots/slot_purge.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PURGE_ROWS = 256, /* at a step */
    RETRY_MS = 200,
    ROUNDS_MAX = 8, /* pages in a row that were the whole tail: then the slots are frozen */
};

const struct state_row move_source_states[SOURCE_STATES] = {
    [SOURCE_STARTING] = {"STARTING", "starting",
                         STATE_BIT(SOURCE_BEGINNING) | STATE_BIT(SOURCE_ABORTING) |
                             STATE_BIT(SOURCE_DONE)},
    [SOURCE_BEGINNING] = {"BEGINNING", "starting",
                          STATE_BIT(SOURCE_COPYING) | STATE_BIT(SOURCE_ABORTING) |
                              STATE_BIT(SOURCE_DONE)},
    [SOURCE_COPYING] = {"COPYING", "copying",
                        STATE_BIT(SOURCE_FOLLOWING) | STATE_BIT(SOURCE_ABORTING) |
                            STATE_BIT(SOURCE_DONE)},
    [SOURCE_FOLLOWING] = {"FOLLOWING", "tail",
                          STATE_BIT(SOURCE_FREEZING) | STATE_BIT(SOURCE_ABORTING) |
                              STATE_BIT(SOURCE_DONE)},
    [SOURCE_FREEZING] = {"FREEZING", "frozen",
                         STATE_BIT(SOURCE_DRAINING) | STATE_BIT(SOURCE_FOLLOWING) |
                             STATE_BIT(SOURCE_ABORTING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_DRAINING] = {"DRAINING", "frozen",
                         STATE_BIT(SOURCE_ENDING) | STATE_BIT(SOURCE_FOLLOWING) |
                             STATE_BIT(SOURCE_ABORTING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_ENDING] = {"ENDING", "frozen",
                       STATE_BIT(SOURCE_RELEASING) | STATE_BIT(SOURCE_FOLLOWING) |
                           STATE_BIT(SOURCE_ABORTING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_RELEASING] = {"RELEASING", "handing-over",
                          STATE_BIT(SOURCE_ACTIVATING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_ACTIVATING] = {"ACTIVATING", "handing-over",
                           STATE_BIT(SOURCE_PURGING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_PURGING] = {"PURGING", "purging", STATE_BIT(SOURCE_FINISHING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_FINISHING] = {"FINISHING", "purging", STATE_BIT(SOURCE_DONE)},
    [SOURCE_ABORTING] = {"ABORTING", "aborting",
                         STATE_BIT(SOURCE_RESTORING) | STATE_BIT(SOURCE_DONE)},
    [SOURCE_RESTORING] = {"RESTORING", "aborting", STATE_BIT(SOURCE_DONE)},
    [SOURCE_DONE] = {"DONE", "done", 0},
};

/* The record RELEASED is not being written yet: the slots can stay here. */
static const uint32_t UNDOABLE = STATE_BIT(SOURCE_STARTING) | STATE_BIT(SOURCE_BEGINNING) |
                                 STATE_BIT(SOURCE_COPYING) | STATE_BIT(SOURCE_FOLLOWING) |
                                 STATE_BIT(SOURCE_FREEZING) | STATE_BIT(SOURCE_DRAINING) |
                                 STATE_BIT(SOURCE_ENDING);
static const uint32_t FROZEN =
    STATE_BIT(SOURCE_FREEZING) | STATE_BIT(SOURCE_DRAINING) | STATE_BIT(SOURCE_ENDING);

/* ---- life ---- */

uint64_t move_now_ms(const struct move_source *move)
{
    return loop_mono_ms(move->host->partition->loop);
}

static void note_progress(struct move_source *move)
{
    move->figures.moved_ms = move_now_ms(move);
    move->reason[0] = 0;
}

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
    move->figures.begun_ms = move_now_ms(move);
    list_init(&move->link);
    ticket_wait_init(&move->ticket, move_on_frozen);
    note_progress(move);
    return move;
}

struct peer_link *move_target_link(const struct move_source *move)
{
    struct peer_set *peers = move->host->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(move->target)) : NULL;
}

static void cancel_move_request(struct move_source *move)
{
    struct peer_link *link = move_target_link(move);
    if (move->kind && link)
        peer_link_cancel(link, &move->request);
    move->kind = 0;
}

void move_source_free(struct move_source *move)
{
    CHECK(!move->is_changing);
    list_remove(&move->link);
    cancel_move_request(move);
    ticket_wait_cancel(&move->ticket);
    move_copy_end(move);
    slot_purge_free(move->purge);
    free(move);
}

bool move_source_may_abort(const struct move_source *move)
{
    return state_is_in(move->state, UNDOABLE);
}

bool move_source_holds_writes(const struct move_source *move)
{
    return state_is_in(move->state, FROZEN | STATE_BIT(SOURCE_RELEASING)) ||
           (move->state == SOURCE_FOLLOWING && move->brake.is_on);
}

void move_set_state(struct move_source *move, enum source_state state)
{
    bool held_writes = move_source_holds_writes(move);
    CHECK(state_may_follow(move_source_states, move->state, state));
    move->state = state;
    note_progress(move);
    if (held_writes != move_source_holds_writes(move))
        move->host->changed(move->host);
}

static void set_reason(struct move_source *move, struct bytes reason)
{
    (void)snprintf(move->reason, sizeof move->reason, "%.*s", (int)reason.len, reason.data);
}

void move_wait_because(struct move_source *move, struct bytes reason)
{
    set_reason(move, reason);
    move->retry_ms = move_now_ms(move) + RETRY_MS;
}

/* ---- records ---- */

/* slot_changed_fn */
static void source_record_changed(void *owner, int err)
{
    struct move_source *move = owner;
    move->is_changing = false;
    if (err || move->state == SOURCE_DONE)
        return; /* after a failed batch slot_moves_load finds the move again */
    switch (move->state) {
    case SOURCE_STARTING:
        move_set_state(move, SOURCE_BEGINNING);
        break;
    case SOURCE_RELEASING:
        log_event(LOG_INFO, "slots_released",
                  "partition=%u slots=%u-%u to=%s epoch=%" PRIu64 " frozen_ms=%" PRIu64,
                  move->host->partition->index, move->slots.first, move->slots.last, move->target,
                  move->before.epoch + 1, move_freeze_ended(move));
        metric_add(move->host->partition->metrics.process, METRIC_BACKEND_SLOTS_SENT,
                   move->slots.last - move->slots.first + 1);
        move_copy_end(move);
        move_set_state(move, SOURCE_ACTIVATING);
        move->host->released(move->host, &move->slots);
        break;
    case SOURCE_ABORTING: /* given up while the record was written */
        break;
    case SOURCE_RESTORING:
    case SOURCE_FINISHING:
        move_set_state(move, SOURCE_DONE);
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
        move_wait_because(move, BYTES("writes are refused at present"));
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

bool move_send(struct move_source *move, enum peer_kind kind, struct out *out)
{
    CHECK(!move->kind);
    move->request = (struct peer_request){.on_reply = target_replied};
    bool is_sent =
        peer_link_send_out(move_target_link(move), &move->request, (uint8_t)kind, out) == PEER_SENT;
    if (is_sent)
        move->kind = kind;
    else
        move_wait_because(move, BYTES("the target shard is not connected"));
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
    const struct peer_link *link = move_target_link(move);
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
        move_wait_because(move, BYTES("the store cannot be read"));
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
    (void)move_send(move, PEER_MOVE_BEGIN, &out);
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
    if (move_send(move, PEER_MOVE_END, &out))
        move_set_state(move, SOURCE_ENDING);
}

static void send_move_activate(struct move_source *move)
{
    struct out out;
    const struct move_activate activate = {.slots = move->slots, .epoch = move->before.epoch + 1};
    out_init(&out);
    move_put_activate(&out, &activate);
    (void)move_send(move, PEER_MOVE_ACTIVATE, &out);
}

/* Restores the record of before: the slots stay here. */
static void restore_record(struct move_source *move)
{
    struct slot_record record = {
        .state = SLOT_OWNED, .epoch = move->before.epoch, .wish = move->before.wish};
    if (change_source_record(move, &record))
        move_set_state(move, SOURCE_RESTORING);
}

static void send_move_abort(struct move_source *move)
{
    const struct peer_link *link = move_target_link(move);
    struct out out;
    if (!link || link->state != PEER_LINK_UP) {
        restore_record(move); /* the target asks when it is back (MOVE_ASK) */
        return;
    }
    out_init(&out);
    move_put_slots(&out, &move->slots);
    (void)move_send(move, PEER_MOVE_ABORT, &out);
}

/* ---- handing over ---- */

static void release_slots(struct move_source *move)
{
    struct slot_record record = record_with(move, SLOT_RELEASED);
    record.epoch = move->before.epoch + 1;
    record.wish = move->wish;
    if (change_source_record(move, &record))
        move_set_state(move, SOURCE_RELEASING);
    else
        move_thaw(move, BYTES("writes are refused at present"));
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
        move_wait_because(move, BYTES("rows cannot be deleted at present"));
        return;
    }
    struct slot_record record = record_with(move, SLOT_RELEASED);
    record.epoch = move->before.epoch + 1;
    record.wish = move->wish;
    record.migration = 0;
    if (change_source_record(move, &record))
        move_set_state(move, SOURCE_FINISHING);
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
            move_thaw(move, bytes_of(text));
        else
            move_wait_because(move, bytes_of(text));
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
            move_copy_begin(move);
        break;
    case PEER_MOVE_ROWS:
        move_copy_was_received(move);
        break;
    case PEER_MOVE_END:
        if (move->state == SOURCE_ENDING)
            release_slots(move);
        break;
    case PEER_MOVE_ACTIVATE:
        move_set_state(move, SOURCE_PURGING);
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
        move_wait_because(move, BYTES("the connection to the target shard broke"));
        return;
    }
    if (result == PEER_REFUSED)
        move_was_refused(move, kind, refusal_shown(move->request.refusal, payload));
    else
        move_was_done(move, kind);
    move_source_step(move);
}

/* ---- steps ---- */

/* Sends effects. True: the slots may be frozen, because the target has everything, or because it has had all but the writes
 * of one round trip for some time: while clients write without a pause, it never has everything. These are then sent during
 * the freeze. */
static bool follow_until_near(struct move_source *move)
{
    uint32_t rounds = move_is_late(move) ? 1 : ROUNDS_MAX;
    bool is_near = !move->kind && !move->copy.is_closed && move->copy.rounds >= rounds;
    return (is_near && !move->host->is_paused) || move_copy_follow(move);
}

void move_source_step(struct move_source *move)
{
    const struct partition *partition = move->host->partition;
    if (partition->running.busy_error || partition->thread.is_stopping || move->is_changing)
        return;
    bool was_frozen = state_is_in(move->state, FROZEN);
    struct bytes reason = was_frozen ? move_why_not_frozen(move) : BYTES("");
    if (was_frozen && move_is_frozen_too_long(move)) {
        move_thaw_late(move);
        return;
    }
    if (reason.len) {
        move_thaw(move, reason);
        return;
    }
    if (move->state == SOURCE_FOLLOWING)
        move_brake_step(move);
    if (!was_frozen && move_now_ms(move) < move->retry_ms)
        return;
    switch (move->state) {
    case SOURCE_BEGINNING:
        if (!move->kind && !move->host->is_paused)
            send_move_begin(move);
        break;
    case SOURCE_COPYING:
        move_copy_rows(move);
        break;
    case SOURCE_FOLLOWING:
        if (follow_until_near(move) && !move->host->is_paused)
            move_freeze(move);
        break;
    case SOURCE_FREEZING:
        move_await_quiet(move);
        break;
    case SOURCE_DRAINING:
        if (move_copy_follow(move))
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
    if (!move_source_may_abort(move))
        return;
    log_event(LOG_WARN, "slots_move_aborted", "partition=%u slots=%u-%u to=%s reason=\"%s\"",
              move->host->partition->index, move->slots.first, move->slots.last, move->target,
              reason);
    ticket_wait_cancel(&move->ticket);
    cancel_move_request(move);
    move_copy_end(move);
    move_set_state(move, SOURCE_ABORTING);
    set_reason(move, bytes_of(reason));
}

void move_source_drop(struct move_source *move)
{
    ticket_wait_cancel(&move->ticket);
    cancel_move_request(move);
    move_copy_end(move);
    slot_purge_free(move->purge);
    move->purge = NULL;
    if (move->state != SOURCE_DONE)
        move_set_state(move, SOURCE_DONE);
}
