#include "backend/slots/move_target.h"

#include "backend/context/partition.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/format/option_row.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/slots/slot_purge.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"
#include "shared/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIPE_ROWS = 256 /* at a step */, ASK_MS = 2000 };

const struct state_row move_target_states[TARGET_STATES] = {
    [TARGET_OPENING] = {"OPENING", "starting",
                        STATE_BIT(TARGET_IMPORTING) | STATE_BIT(TARGET_WIPING) |
                            STATE_BIT(TARGET_DONE)},
    [TARGET_IMPORTING] = {"IMPORTING", "copying",
                          STATE_BIT(TARGET_STAGING) | STATE_BIT(TARGET_WIPING) |
                              STATE_BIT(TARGET_DONE)},
    [TARGET_STAGING] = {"STAGING", "frozen",
                        STATE_BIT(TARGET_STAGED) | STATE_BIT(TARGET_WIPING) |
                            STATE_BIT(TARGET_DONE)},
    [TARGET_STAGED] = {"STAGED", "staged",
                       STATE_BIT(TARGET_STAGING) | STATE_BIT(TARGET_ACTIVATING) |
                           STATE_BIT(TARGET_WIPING) | STATE_BIT(TARGET_DONE)},
    [TARGET_ACTIVATING] = {"ACTIVATING", "handing-over", STATE_BIT(TARGET_DONE)},
    [TARGET_WIPING] = {"WIPING", "purging", STATE_BIT(TARGET_FINISHING) | STATE_BIT(TARGET_DONE)},
    [TARGET_FINISHING] = {"FINISHING", "purging", STATE_BIT(TARGET_DONE)},
    [TARGET_DONE] = {"DONE", "done", 0},
};

/* What was received can still be given up. */
static const uint32_t UNDOABLE = STATE_BIT(TARGET_OPENING) | STATE_BIT(TARGET_IMPORTING) |
                                 STATE_BIT(TARGET_STAGING) | STATE_BIT(TARGET_STAGED);

/* ---- life ---- */

static void drop_held_rows(struct move_target *move)
{
    free((char *)move->held.data);
    move->held = (struct bytes){0};
    move->has_held = false;
}

/* peer_call.on_abandoned: the source asks again, and sends the rows again. */
static void source_went_away(struct peer_call *call)
{
    struct move_target *move = container_of(call, struct move_target, call);
    move->has_call = false;
    drop_held_rows(move);
}

static struct move_target *target_alloc(struct move_host *host, const struct move_slots *slots,
                                        const char *source)
{
    struct move_target *move = calloc(1, sizeof *move);
    CHECK(move);
    move->host = host;
    move->slots = *slots;
    (void)snprintf(move->source, sizeof move->source, "%s", source);
    move->figures.begun_ms = move->figures.moved_ms = loop_mono_ms(host->partition->loop);
    list_init(&move->link);
    return move;
}

/* Answers the open request, if there is one. */
static void reply_done(struct move_target *move)
{
    if (move->has_call)
        peer_call_done(&move->call, BYTES(""));
    move->has_call = false;
}

static void reply_refused(struct move_target *move, struct refusal refusal)
{
    if (move->has_call)
        peer_call_refuse(&move->call, refusal);
    move->has_call = false;
}

static struct peer_link *source_link(const struct move_target *move)
{
    struct peer_set *peers = move->host->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(move->source)) : NULL;
}

void move_target_free(struct move_target *move)
{
    struct peer_link *link = source_link(move);
    CHECK(!move->is_changing);
    if (move->is_asking && link)
        peer_link_cancel(link, &move->ask);
    reply_refused(move, REFUSAL(OTHER, "the move has ended at the target"));
    list_remove(&move->link);
    drop_held_rows(move);
    ascending_rows_clear(&move->rows);
    slot_purge_free(move->purge);
    free(move);
}

bool move_target_is_arriving(const struct move_target *move)
{
    return move->state == TARGET_STAGED || move->state == TARGET_ACTIVATING;
}

static void note_heard(struct move_target *move)
{
    move->figures.moved_ms = loop_mono_ms(move->host->partition->loop);
    move->ask_ms = move->figures.moved_ms + ASK_MS;
}

static void set_target_state(struct move_target *move, enum target_state state)
{
    bool was_arriving = move_target_is_arriving(move);
    CHECK(state_may_follow(move_target_states, move->state, state));
    move->state = state;
    note_heard(move);
    if (was_arriving != move_target_is_arriving(move))
        move->host->changed(move->host);
}

static void open_target_call(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                             size_t bytes)
{
    move->has_call = true;
    move->call.on_abandoned = source_went_away;
    peer_call_open(&move->call, incoming, id, bytes);
}

/* ---- records ---- */

/* slot_changed_fn */
static void target_record_changed(void *owner, int err)
{
    struct move_target *move = owner;
    move->is_changing = false;
    if (err || move->state == TARGET_DONE)
        return; /* after a failed batch slot_moves_load finds the move again */
    switch (move->state) {
    case TARGET_OPENING:
        set_target_state(move, TARGET_IMPORTING);
        break;
    case TARGET_STAGING:
        set_target_state(move, TARGET_STAGED);
        break;
    case TARGET_ACTIVATING:
        log_event(LOG_INFO, "slots_received", "partition=%u slots=%u-%u from=%s epoch=%" PRIu64,
                  move->host->partition->index, move->slots.first, move->slots.last, move->source,
                  move->epoch + 1);
        metric_add(move->host->partition->metrics.process, METRIC_BACKEND_SLOTS_RECEIVED,
                   move->slots.last - move->slots.first + 1);
        set_target_state(move, TARGET_DONE);
        break;
    case TARGET_FINISHING:
        set_target_state(move, TARGET_DONE);
        break;
    default: /* given up */
        break;
    }
    if (!move->must_unstage)
        reply_done(move);
}

static bool change_target_record(struct move_target *move, enum slot_state state, uint64_t epoch)
{
    bool keeps_id = state != SLOT_RELEASED;
    struct slot_record record = {.state = (uint8_t)state,
                                 .epoch = epoch,
                                 .migration = keeps_id ? move->slots.id : 0,
                                 .wish = move->wish};
    if (state != SLOT_OWNED)
        (void)snprintf(record.peer, sizeof record.peer, "%s", move->source);
    CHECK(!move->is_changing);
    move->is_changing = slot_table_change(move->host->partition->shards.slots, move->slots.first,
                                          move->slots.last, &record, target_record_changed, move);
    return move->is_changing;
}

/* ---- beginning ---- */

/* Why this partition cannot receive the slots. */
static struct refusal why_not_slots(struct partition *partition, const struct move_slots *slots,
                                    uint64_t epoch)
{
    const struct slot_table *table = partition->shards.slots;
    uint64_t keys = 0;
    uint64_t expires = 0;
    if (epoch == UINT64_MAX)
        return REFUSAL(OTHER, "the epoch of these slots cannot be raised");
    for (unsigned slot = slots->first; slot <= slots->last; slot++) {
        const struct slot_record *record = slot_table_get(table, (uint16_t)slot);
        if (record->state == SLOT_OWNED || record->state == SLOT_EXPORTING)
            return REFUSAL(OTHER, "it owns one of the slots");
        if (record->state == SLOT_IMPORTING || record->state == SLOT_STAGED)
            return REFUSAL(WAIT, "it deletes what it has received in an earlier attempt");
        if (record->state == SLOT_RELEASED && record->migration)
            return REFUSAL(WAIT, "it has not deleted yet what it had in these slots");
        if (record->epoch > epoch)
            return REFUSAL(OTHER, "it knows a newer owner of one of the slots");
    }
    space_count_slots(partition->spaces, slots->first, slots->last, &keys, &expires);
    return keys ? REFUSAL(OTHER, "it stores stray keys in these slots: see SCREE STRAYS")
                : NO_REFUSAL;
}

static bool has_keys_or_slots(const struct partition *partition)
{
    return slot_table_count(partition->shards.slots, SLOT_OWNED) ||
           space_keys_stored(partition->spaces);
}

/* Are the database maps (SWAPDB) those of the source? A shard without keys takes them over. */
static bool has_maps(struct partition *partition, struct bytes maps)
{
    struct out out;
    struct call call;
    out_init(&out);
    space_maps_write(partition->spaces, &out);
    struct bytes own = out_take(&out);
    bool is_equal = bytes_equal(own, maps);
    free((char *)own.data);
    if (is_equal || has_keys_or_slots(partition))
        return is_equal;
    internal_call_begin(partition, &call);
    is_equal = space_maps_replace(partition->spaces, maps);
    internal_call_end(partition, &call);
    return is_equal;
}

static bool is_of_all_shards(const struct effect *effect)
{
    return effect->kind == EFFECT_PUT && effect->cf == CF_SYSTEM &&
           (is_function_key(effect->key) || is_option_key(effect->key));
}

/* A shard without keys takes over the function libraries and the stored options of the source. False: they are not valid. */
static bool take_libraries(struct partition *partition, struct bytes libraries)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct call call;
    if (has_keys_or_slots(partition))
        return true;
    internal_call_begin(partition, &call);
    enum effects_read result = effects_open(libraries, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (is_of_all_shards(&effect))
            overlay_put(partition->overlay, CF_SYSTEM, effect.key, effect.value);
    call.failed = result != EFFECTS_END;
    bool is_good = !call.failed;
    internal_call_end(partition, &call);
    partition->shards.libraries_changed(partition);
    return is_good;
}

struct move_target *move_target_begin(struct move_host *host, struct peer_incoming *incoming,
                                      uint64_t id, const struct move_begin *begin)
{
    struct partition *partition = host->partition;
    struct refusal refused = why_not_slots(partition, &begin->slots, begin->epoch);
    if (!refused.code && commit_is_failed(partition->commit, NULL))
        refused = REFUSAL(OTHER, error_text((enum error)commit_error(partition->commit)));
    if (!refused.code && !has_maps(partition, begin->maps))
        refused = REFUSAL(WAIT, "its databases are swapped in another way (SWAPDB)");
    if (!refused.code && !(partition_hear_version(partition, begin->version) &&
                           take_libraries(partition, begin->libraries)))
        refused = REQUEST_IS_NOT_VALID;
    if (refused.code) {
        peer_incoming_refuse(incoming, id, refused);
        return NULL;
    }
    struct move_target *move = target_alloc(host, &begin->slots, incoming->peer.shard);
    move->epoch = begin->epoch;
    move->wish = begin->wish;
    move->is_whole = true;
    if (!change_target_record(move, SLOT_IMPORTING, move->epoch)) {
        move_target_free(move);
        peer_incoming_refuse(incoming, id,
                             REFUSAL(WAIT, "its records of slots cannot be written now"));
        return NULL;
    }
    open_target_call(move, incoming, id, 0);
    return move;
}

struct move_target *move_target_found(struct move_host *host, uint16_t first, uint16_t last,
                                      const struct slot_record *record)
{
    const struct move_slots slots = {.id = record->migration, .first = first, .last = last};
    struct move_target *move = target_alloc(host, &slots, record->peer);
    move->epoch = record->epoch;
    move->wish = record->wish;
    move->state = record->state == SLOT_STAGED ? TARGET_STAGED : TARGET_WIPING;
    return move;
}

/* ---- rows ---- */

/* Do all effects belong to the slots? */
static bool are_effects_of(const struct move_slots *slots, struct bytes effects)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result = effects_open(effects, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (effect.cf == CF_SYSTEM || effect.place.is_any_space || !effect_is_at_place(&effect) ||
            effect.place.first_slot < slots->first || effect.place.last_slot > slots->last)
            return false;
    return result == EFFECTS_END;
}

/* Writes effects into the open batch. False: they cannot be written. */
static bool write_effects(struct move_target *move, struct bytes effects)
{
    struct partition *partition = move->host->partition;
    struct call call;
    if (commit_is_failed(partition->commit, NULL))
        return false;
    internal_call_begin(partition, &call);
    overlay_moved_begin(partition->overlay);
    call.failed = !apply_ascending_effects(partition, effects, &move->rows);
    overlay_moved_end(partition->overlay);
    bool is_good = !call.failed;
    internal_call_end(partition, &call);
    if (!is_good)
        return false;
    move->number++;
    move->figures.bytes += effects.len;
    note_heard(move);
    return true;
}

/* Writes the effects that have waited for room. */
static void write_held_rows(struct move_target *move)
{
    bool is_good = write_effects(move, move->held);
    drop_held_rows(move);
    if (is_good)
        reply_done(move);
    else
        reply_refused(move, REFUSAL(OTHER, "the rows cannot be written at the target"));
}

/* Why requests of the source cannot be executed now. */
static struct refusal why_not_now(const struct move_target *move)
{
    bool is_open = move->state == TARGET_IMPORTING || move->state == TARGET_STAGED;
    if (move->has_call || move->is_changing)
        return REFUSAL(WAIT, "the last request of the move is still being executed");
    return is_open && move->is_whole ? NO_REFUSAL
                                     : REFUSAL(OTHER, "the target has lost rows of the move");
}

/* Adds a part to those that are held. False: a part before it is missing. */
static bool hold_part(struct move_target *move, const struct move_rows *rows)
{
    size_t end = rows->offset + rows->part.len;
    if (!rows->offset)
        drop_held_rows(move);
    if (end <= move->held.len)
        return true; /* it was sent again */
    if (rows->offset != move->held.len)
        return false;
    char *held = message_join((char *)move->held.data, move->held.len, rows->part);
    move->held = (struct bytes){held, end};
    return true;
}

void move_target_rows(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                      const struct move_rows *rows)
{
    struct refusal refused = why_not_now(move);
    bool is_next = rows->number == move->number + 1;
    if (!refused.code && (is_next ? !hold_part(move, rows) : rows->number != move->number))
        refused = REFUSAL(OTHER, "rows are missing");
    bool is_whole = !refused.code && is_next && move->held.len == rows->total;
    if (is_whole && !are_effects_of(&move->slots, move->held)) {
        drop_held_rows(move);
        refused = REFUSAL(OTHER, "the rows are not valid, or belong to other slots");
    }
    if (refused.code) {
        peer_incoming_refuse(incoming, id, refused);
    } else if (!is_whole) {
        note_heard(move);
        peer_incoming_done(incoming, id, BYTES(""));
    } else {
        move->has_held = true;
        open_target_call(move, incoming, id, rows->part.len);
        if (!partition_is_full(move->host->partition))
            write_held_rows(move);
    }
}

/* ---- end ---- */

void move_target_end(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                     const struct move_end *end)
{
    struct partition *partition = move->host->partition;
    struct refusal refused = why_not_now(move);
    uint64_t keys = 0;
    uint64_t expires = 0;
    space_count_slots(partition->spaces, move->slots.first, move->slots.last, &keys, &expires);
    if (!refused.code && end->number != move->number)
        refused = REFUSAL(OTHER, "rows are missing");
    if (!refused.code && (keys != end->keys || expires != end->expires)) {
        refused = REFUSAL(OTHER, "the target has another number of keys than the source");
        log_event(LOG_ERROR, "slots_move_miscounted",
                  "partition=%u slots=%u-%u from=%s keys=%" PRIu64 " of=%" PRIu64
                  " expires=%" PRIu64 " of=%" PRIu64,
                  partition->index, move->slots.first, move->slots.last, move->source, keys,
                  end->keys, expires, end->expires);
    }
    if (!refused.code && !has_maps(partition, end->maps))
        refused = REFUSAL(WAIT, "its databases are swapped in another way (SWAPDB)");
    if (!refused.code && !change_target_record(move, SLOT_STAGED, move->epoch))
        refused = REFUSAL(WAIT, "its records of slots cannot be written now");
    if (refused.code) {
        peer_incoming_refuse(incoming, id, refused);
        return;
    }
    open_target_call(move, incoming, id, 0);
    set_target_state(move, TARGET_STAGING);
}

void move_target_activate(struct move_target *move, struct peer_incoming *incoming, uint64_t id,
                          const struct move_activate *activate)
{
    if (move->is_changing || move->has_call) {
        peer_incoming_refuse(incoming, id,
                             REFUSAL(WAIT, "the last request of the move is still being executed"));
        return;
    }
    if (move->state != TARGET_STAGED || activate->epoch != move->epoch + 1) {
        peer_incoming_refuse(incoming, id,
                             REFUSAL(OTHER, "the target has not all rows of these slots"));
        return;
    }
    slot_table_come_from(move->host->partition->shards.slots, incoming->peer.log_id);
    if (!change_target_record(move, SLOT_OWNED, activate->epoch)) {
        peer_incoming_refuse(incoming, id,
                             REFUSAL(WAIT, "its records of slots cannot be written now"));
        return;
    }
    open_target_call(move, incoming, id, 0);
    set_target_state(move, TARGET_ACTIVATING);
}

void move_target_give_up(struct move_target *move)
{
    if (!state_is_in(move->state, UNDOABLE))
        return;
    reply_refused(move, REFUSAL(OTHER, "the move was aborted"));
    drop_held_rows(move);
    move->is_whole = false;
    move->must_unstage = move->state == TARGET_STAGING || move->state == TARGET_STAGED;
    set_target_state(move, TARGET_WIPING);
}

void move_target_abort(struct move_target *move, struct peer_incoming *incoming, uint64_t id)
{
    move_target_give_up(move);
    if (move->has_call)
        peer_incoming_refuse(incoming, id,
                             REFUSAL(WAIT, "the last request of the move is still being executed"));
    else if (move->must_unstage || move->is_changing)
        open_target_call(move, incoming, id, 0);
    else
        peer_incoming_done(incoming, id, BYTES(""));
}

/* ---- steps ---- */

static void wipe_step(struct move_target *move)
{
    struct partition *partition = move->host->partition;
    if (move->must_unstage) {
        move->must_unstage = !change_target_record(move, SLOT_IMPORTING, move->epoch);
        return;
    }
    if (!move->purge)
        move->purge = slot_purge_new(partition, move->slots.first, move->slots.last);
    enum slot_purge_step step =
        slot_purge_step(move->purge, WIPE_ROWS, &move->host->purge_allowance);
    if (step == SLOT_PURGE_GOES_ON)
        return;
    slot_purge_free(move->purge);
    move->purge = NULL;
    if (step == SLOT_PURGE_DONE && change_target_record(move, SLOT_RELEASED, move->epoch))
        set_target_state(move, TARGET_FINISHING);
}

/* peer_request.on_reply of MOVE_ASK */
static void source_told(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct move_target *move = container_of(request, struct move_target, ask);
    move->is_asking = false;
    bool has_ended = result == PEER_OK && payload.len && payload.data[0] == MOVE_HAS_ENDED;
    bool waits = move->state == TARGET_STAGED || move->state == TARGET_IMPORTING;
    if (!has_ended || !waits || move->is_changing)
        return;
    log_event(LOG_WARN, "slots_move_ended", "partition=%u slots=%u-%u from=%s",
              move->host->partition->index, move->slots.first, move->slots.last, move->source);
    move_target_give_up(move);
}

static void ask_source(struct move_target *move)
{
    struct peer_link *link = source_link(move);
    uint64_t now_ms = loop_mono_ms(move->host->partition->loop);
    struct out out;
    char payload[64];
    if (!link || move->is_asking || now_ms < move->ask_ms)
        return;
    move->ask_ms = now_ms + ASK_MS;
    out_init(&out);
    move_put_activate(&out, &(struct move_activate){.slots = move->slots, .epoch = move->epoch});
    size_t len = out.bytes;
    CHECK(len <= sizeof payload);
    out_copy(&out, payload);
    out_clear(&out);
    move->ask = (struct peer_request){.on_reply = source_told};
    move->is_asking =
        peer_link_send(link, &move->ask, PEER_MOVE_ASK, (struct bytes){payload, len}) == PEER_SENT;
}

/* Waits for the source, unless an operator has made the slots owned here. */
static void staged_step(struct move_target *move)
{
    const struct slot_table *table = move->host->partition->shards.slots;
    if (slot_table_state(table, move->slots.first) == SLOT_STAGED)
        ask_source(move);
    else
        move_target_drop(move);
}

void move_target_step(struct move_target *move)
{
    const struct partition *partition = move->host->partition;
    if (partition->running.busy_error || partition->thread.is_stopping || move->is_changing)
        return;
    if (move->state == TARGET_STAGED) {
        staged_step(move);
        return;
    }
    if (move->state == TARGET_WIPING)
        wipe_step(move);
    else if (move->has_held && !partition_is_full(partition))
        write_held_rows(move);
    else if (move->state == TARGET_IMPORTING && !move->has_held)
        ask_source(move);
}

void move_target_drop(struct move_target *move)
{
    reply_refused(move, REFUSAL(WAIT, "a batch could not be written at the target"));
    drop_held_rows(move);
    slot_purge_free(move->purge);
    move->purge = NULL;
    if (move->state != TARGET_DONE)
        set_target_state(move, TARGET_DONE);
}
