#include "backend/slots/slot_moves.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/watch.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/pause.h"
#include "backend/session/tracking.h"
#include "backend/slots/move_rate.h"
#include "backend/slots/move_target.h"
#include "backend/slots/slot_moves_inner.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"
#include "config/shards_file.h"
#include "shared/log.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STEP_MS = 2,
    BURST_MS = 20, /* of migration-rate */
    DAMAGED_MS = 60 * 1000,
    TARGETS_MAX = 64,
};

/* Some rows may be missing at a target. */
static const uint32_t ARRIVING =
    STATE_BIT(TARGET_OPENING) | STATE_BIT(TARGET_IMPORTING) | STATE_BIT(TARGET_STAGING);

/* ---- slots in transition ---- */

void move_slots_add(struct slot_set *set, const struct move_slots *slots)
{
    for (unsigned slot = slots->first; slot <= slots->last; slot++)
        slot_set_add(set, (uint16_t)slot);
}

/* move_host.changed: commands that wait try again. */
static void moving_slots_changed(struct move_host *host)
{
    struct slot_moves *moves = container_of(host, struct slot_moves, host);
    struct partition *partition = host->partition;
    bool is_any = false;
    memset(&moves->moving, 0, sizeof moves->moving);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        if (move_source_holds_writes(source_at(at))) {
            move_slots_add(&moves->moving.frozen, &source_at(at)->slots);
            moves->moving.has_frozen = is_any = true;
        }
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next)
        if (move_target_is_arriving(target_at(at))) {
            move_slots_add(&moves->moving.arriving, &target_at(at)->slots);
            is_any = true;
        }
    partition->shards.moving = is_any ? &moves->moving : NULL;
    slot_owners_reload(partition->shards.owners);
    slots_resume(partition);
    partition_resume(partition);
}

/* move_host.released: clients that watch, cache or wait for keys of the slots must look elsewhere. */
static void slots_were_released(struct move_host *host, const struct move_slots *slots)
{
    struct partition *partition = host->partition;
    slot_load_forget(partition, slots->first, slots->last);
    watch_touch_slots(partition->watchers.watches, slots->first, slots->last);
    tracking_forget_slots(partition, slots->first, slots->last);
    blocking_check_all(partition->watchers.blocking);
    blocking_resume(partition->watchers.blocking);
}

/* move_host.damaged */
static void slot_is_damaged(struct move_host *host, uint16_t slot)
{
    struct slot_moves *moves = container_of(host, struct slot_moves, host);
    slot_set_add(&moves->damaged, slot);
    moves->damaged_ms = moves_now_ms(moves) + DAMAGED_MS;
}

/* Damaged slots are tried again: their rows may have been replaced. */
static void forgive_damaged(struct slot_moves *moves)
{
    if (!moves->damaged_ms || moves_now_ms(moves) < moves->damaged_ms)
        return;
    memset(&moves->damaged, 0, sizeof moves->damaged);
    moves->damaged_ms = 0;
}

/* ---- life ---- */

static void step_moves(void *owner);

struct slot_moves *slot_moves_new(struct partition *partition)
{
    struct slot_moves *moves = calloc(1, sizeof *moves);
    CHECK(moves);
    moves->host = (struct move_host){.partition = partition,
                                     .allowance = INT64_MAX,
                                     .purge_allowance = INT64_MAX,
                                     .changed = moving_slots_changed,
                                     .damaged = slot_is_damaged,
                                     .released = slots_were_released};
    list_init(&moves->sources);
    list_init(&moves->targets);
    moves->must_load = true;
    moves->host.libraries = table_new();
    moves->timer = timer_new(partition->loop, step_moves, moves);
    return moves;
}

static void free_libraries(struct table *libraries)
{
    size_t cursor = 0;
    struct bytes shard;
    void *sent;
    while (table_next(libraries, &cursor, &shard, &sent))
        free(sent);
    table_free(libraries);
}

void slot_moves_free(struct slot_moves *moves)
{
    if (!moves)
        return;
    moves->host.partition->shards.moving = NULL;
    timer_free(moves->timer);
    while (!list_empty(&moves->sources)) {
        struct move_source *move = source_at(moves->sources.next);
        move->is_changing = false; /* the table drops the change */
        move_source_free(move);
    }
    while (!list_empty(&moves->targets)) {
        struct move_target *move = target_at(moves->targets.next);
        move->is_changing = false;
        move_target_free(move);
    }
    free_libraries(moves->host.libraries);
    free(moves);
}

/* Frees the moves that are over. */
static void free_ended_moves(struct slot_moves *moves)
{
    struct list *next;
    for (struct list *at = moves->sources.next; at != &moves->sources; at = next) {
        next = at->next;
        if (source_at(at)->state == SOURCE_DONE && !source_at(at)->is_changing)
            move_source_free(source_at(at));
    }
    for (struct list *at = moves->targets.next; at != &moves->targets; at = next) {
        next = at->next;
        if (target_at(at)->state == TARGET_DONE && !target_at(at)->is_changing)
            move_target_free(target_at(at));
    }
}

void slot_moves_load(struct slot_moves *moves)
{
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        move_source_drop(source_at(at));
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next)
        move_target_drop(target_at(at));
    moves->must_load = true;
}

static bool is_interrupted(const struct slot_record *record)
{
    return record->state == SLOT_EXPORTING || record->state == SLOT_IMPORTING ||
           record->state == SLOT_STAGED || (record->state == SLOT_RELEASED && record->migration);
}

/* Makes the move of the record of slots first .. last. */
static void resume_move(struct slot_moves *moves, uint16_t first, uint16_t last,
                        const struct slot_record *record)
{
    log_event(LOG_INFO, "slots_move_found", "partition=%u slots=%u-%u state=%s peer=%s",
              moves->host.partition->index, first, last,
              slot_state_name((enum slot_state)record->state), record->peer);
    if (record->state == SLOT_EXPORTING || record->state == SLOT_RELEASED)
        list_push(&moves->sources, &move_source_found(&moves->host, first, last, record)->link);
    else
        list_push(&moves->targets, &move_target_found(&moves->host, first, last, record)->link);
}

/* Reads whether moves were paused. */
static void load_paused(struct slot_moves *moves)
{
    struct slice value;
    moves->host.is_paused =
        overlay_get(moves->host.partition->overlay, CF_SYSTEM, moves_paused_key(), &value) == OK;
    if (moves->host.is_paused)
        slice_release(&value);
}

/* Finds the moves that a restart or a failed batch has interrupted. */
static void resume_moves(struct slot_moves *moves)
{
    load_paused(moves);
    const struct slot_table *table = moves->host.partition->shards.slots;
    for (unsigned slot = 0; slot < SLOT_COUNT;) {
        const struct slot_record *record = slot_table_get(table, (uint16_t)slot);
        unsigned end = slot + 1;
        while (end < SLOT_COUNT && end - slot < MOVE_SLOTS_MAX &&
               slot_record_equal(record, slot_table_get(table, (uint16_t)end)))
            end++;
        if (is_interrupted(record))
            resume_move(moves, (uint16_t)slot, (uint16_t)(end - 1), record);
        slot = end;
    }
    moving_slots_changed(&moves->host);
}

/* ---- steps ---- */

/* What may be done now, if `rate` bytes a second are allowed (0: no limit), of which `bytes` are new. It is never more than the bytes of
 * BURST_MS: otherwise a move that has waited would copy for a while as if it had no rate. */
static int64_t refill(int64_t allowance, int64_t rate, int64_t bytes)
{
    if (!rate)
        return INT64_MAX;
    int64_t most = rate * BURST_MS / 1000 + 1;
    if (allowance >= most)
        return most;
    allowance += bytes;
    return allowance < most ? allowance : most;
}

/* Copying and deleting have the rate each, since what one partition copies away it deletes soon after. */
static void fill_move_allowances(struct slot_moves *moves)
{
    int64_t rate = (int64_t)moves->host.partition->snapshot->config.migration_rate_bytes;
    int64_t bytes = move_rate_bytes(rate, moves_now_ms(moves), &moves->filled_ms);
    moves->host.allowance = refill(moves->host.allowance, rate, bytes);
    moves->host.purge_allowance = refill(moves->host.purge_allowance, rate, bytes);
}

/* Timer. */
static void step_moves(void *owner)
{
    struct slot_moves *moves = owner;
    struct list *next;
    const struct partition *partition = moves->host.partition;
    if (partition->running.busy_error || partition->thread.is_stopping ||
        partition_lease_is_over(partition))
        return;
    fill_move_allowances(moves);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = next) {
        next = at->next;
        move_source_step(source_at(at));
    }
    for (struct list *at = moves->targets.next; at != &moves->targets; at = next) {
        next = at->next;
        move_target_step(target_at(at));
    }
    free_ended_moves(moves);
    if (!moves->must_load)
        moves_plan(moves);
}

static void run_moves_timer(struct slot_moves *moves)
{
    bool is_needed = !list_empty(&moves->sources) || !list_empty(&moves->targets);
    if (is_needed && !moves->is_running)
        timer_start(moves->timer, STEP_MS, STEP_MS);
    else if (!is_needed && moves->is_running)
        timer_stop(moves->timer);
    moves->is_running = is_needed;
}

void slot_moves_tick(struct slot_moves *moves)
{
    struct partition *partition = moves->host.partition;
    if (partition->thread.is_stopping || !partition->shards.is_gated)
        return;
    slots_resume_late(partition);
    free_ended_moves(moves);
    bool is_empty = list_empty(&moves->sources) && list_empty(&moves->targets);
    if (moves->must_load && is_empty && !commit_is_failed(partition->commit, NULL)) {
        moves->must_load = false;
        resume_moves(moves);
    }
    if (!moves->must_load) {
        moves_check_wishes(moves);
        forgive_damaged(moves);
        moves_plan(moves);
    }
    run_moves_timer(moves);
}

/* ---- requests ---- */

static struct move_target *target_of(const struct slot_moves *moves,
                                     const struct peer_incoming *incoming, uint64_t id)
{
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next)
        if (target_at(at)->slots.id == id && target_at(at)->state != TARGET_DONE &&
            strcmp(target_at(at)->source, incoming->peer.shard) == 0)
            return target_at(at);
    return NULL;
}

static void confirm_move(struct peer_incoming *incoming, const struct peer_frame *frame)
{
    peer_incoming_done(incoming, frame->id, (struct bytes){"", 0});
}

/* Did the source, or an earlier owner of the slots, begin `move` before the move of `begin`? */
static bool is_earlier(const struct move_target *move, const char *source,
                       const struct move_begin *begin)
{
    return strcmp(move->source, source) == 0 ? move->slots.id < begin->slots.id
                                             : move->epoch < begin->epoch;
}

/* Gives up earlier attempts to receive some of the slots. Returns why the new one cannot begin now. A
 * late request, from an earlier connection, must not end a move that was begun after it: the source may have released the
 * slots. */
static struct refusal end_attempts(struct slot_moves *moves, const char *source,
                                   const struct move_begin *begin)
{
    struct refusal refused = NO_REFUSAL;
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next) {
        struct move_target *move = target_at(at);
        bool overlaps =
            move->slots.first <= begin->slots.last && begin->slots.first <= move->slots.last;
        if (!overlaps || move->state == TARGET_DONE)
            continue;
        if (!is_earlier(move, source, begin))
            return REFUSAL(WAIT,
                           "it receives these slots by a move that began later, or by this one");
        move_target_give_up(move);
        refused = REFUSAL(WAIT, "it deletes what it has received in an earlier attempt");
    }
    return refused;
}

/* Why the move cannot begin now. `move`: the one with this id that has begun, or NULL. */
static struct refusal refuse_begin(struct slot_moves *moves, const struct move_target *move,
                                   const char *source, const struct move_begin *begin)
{
    struct refusal refused = slot_owners_refuse(moves->host.partition->shards.owners,
                                                begin->slots.first, begin->slots.last, begin->wish);
    if (refused.code)
        return refused;
    if (count_moves(&moves->targets) >= TARGETS_MAX)
        return REFUSAL(WAIT, "too many slots are on their way to it");
    if (moves->is_held)
        return REFUSAL(WAIT, "a backup is being made");
    if (move && move->state == TARGET_OPENING)
        return REFUSAL(WAIT, "it opens the move");
    return end_attempts(moves, source, begin);
}

static void handle_move_begin(struct slot_moves *moves, struct peer_incoming *incoming,
                              const struct peer_frame *frame)
{
    struct move_begin begin;
    if (!move_get_begin(frame->payload, &begin)) {
        peer_incoming_refuse(incoming, frame->id, REQUEST_IS_NOT_VALID);
        return;
    }
    struct move_target *move = target_of(moves, incoming, begin.slots.id);
    if (move && move->state == TARGET_IMPORTING && move->is_whole && !move->number) {
        confirm_move(incoming, frame); /* the last reply was lost */
        return;
    }
    struct refusal refused = refuse_begin(moves, move, incoming->peer.shard, &begin);
    if (refused.code) {
        peer_incoming_refuse(incoming, frame->id, refused);
        return;
    }
    move = move_target_begin(&moves->host, incoming, frame->id, &begin);
    if (move)
        list_push(&moves->targets, &move->link);
    run_moves_timer(moves);
}

/* Refuses a request about a move that this partition does not have. */
static void refuse_unknown(struct peer_incoming *incoming, const struct peer_frame *frame)
{
    peer_incoming_refuse(incoming, frame->id, REFUSAL(OTHER, "the target does not know the move"));
}

static void handle_move_rows(struct slot_moves *moves, struct peer_incoming *incoming,
                             const struct peer_frame *frame)
{
    struct move_rows rows;
    bool is_good = move_get_rows(frame->payload, &rows);
    struct move_target *move = is_good ? target_of(moves, incoming, rows.slots.id) : NULL;
    if (move)
        move_target_rows(move, incoming, frame->id, &rows);
    else
        refuse_unknown(incoming, frame);
}

static void handle_move_end(struct slot_moves *moves, struct peer_incoming *incoming,
                            const struct peer_frame *frame)
{
    struct move_end end;
    bool is_good = move_get_end(frame->payload, &end);
    struct move_target *move = is_good ? target_of(moves, incoming, end.slots.id) : NULL;
    if (move)
        move_target_end(move, incoming, frame->id, &end);
    else
        refuse_unknown(incoming, frame);
}

/* Did this partition get the slots before, with this epoch or a later one? */
static bool were_received(const struct slot_moves *moves, const struct move_activate *activate)
{
    const struct slot_table *table = moves->host.partition->shards.slots;
    for (unsigned slot = activate->slots.first; slot <= activate->slots.last; slot++) {
        const struct slot_record *record = slot_table_get(table, (uint16_t)slot);
        bool was_here = record->state == SLOT_OWNED || record->state == SLOT_EXPORTING ||
                        record->state == SLOT_RELEASED;
        if (!was_here || record->epoch < activate->epoch)
            return false;
    }
    return true;
}

static void handle_move_activate(struct slot_moves *moves, struct peer_incoming *incoming,
                                 const struct peer_frame *frame)
{
    struct move_activate activate;
    bool is_good = move_get_activate(frame->payload, &activate);
    struct move_target *move = is_good ? target_of(moves, incoming, activate.slots.id) : NULL;
    if (move)
        move_target_activate(move, incoming, frame->id, &activate);
    else if (is_good && were_received(moves, &activate))
        confirm_move(incoming, frame);
    else
        refuse_unknown(incoming, frame);
}

static void handle_move_abort(struct slot_moves *moves, struct peer_incoming *incoming,
                              const struct peer_frame *frame)
{
    struct move_slots slots;
    bool is_good = move_get_slots(frame->payload, &slots);
    struct move_target *move = is_good ? target_of(moves, incoming, slots.id) : NULL;
    if (move)
        move_target_abort(move, incoming, frame->id);
    else
        confirm_move(incoming, frame);
}

/* Does a record say that this move has not ended? */
static bool is_of_move(const struct slot_record *record, uint64_t id)
{
    return record->migration == id &&
           (record->state == SLOT_EXPORTING || record->state == SLOT_RELEASED);
}

/* Answers a target that asks whether its move goes on. It has ended only if the slots' records are as new as the move, and none names it. */
static void handle_move_ask(struct slot_moves *moves, struct peer_incoming *incoming,
                            const struct peer_frame *frame)
{
    struct move_activate ask;
    const struct slot_table *table = moves->host.partition->shards.slots;
    if (!move_get_activate(frame->payload, &ask)) {
        peer_incoming_refuse(incoming, frame->id, REQUEST_IS_NOT_VALID);
        return;
    }
    bool has_ended = true;
    for (unsigned slot = ask.slots.first; slot <= ask.slots.last; slot++) {
        const struct slot_record *record = slot_table_get(table, (uint16_t)slot);
        has_ended &= record->epoch >= ask.epoch && !is_of_move(record, ask.slots.id);
    }
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        has_ended &= source_at(at)->slots.id != ask.slots.id || source_at(at)->state == SOURCE_DONE;
    char news = has_ended ? MOVE_HAS_ENDED : MOVE_GOES_ON;
    peer_incoming_done(incoming, frame->id, (struct bytes){&news, 1});
}

/* peer_handle_fn */
void handle_move(struct partition *partition, struct peer_incoming *incoming,
                 const struct peer_frame *frame)
{
    static void (*const functions[])(struct slot_moves *, struct peer_incoming *,
                                     const struct peer_frame *) = {
        [PEER_MOVE_BEGIN] = handle_move_begin, [PEER_MOVE_ROWS] = handle_move_rows,
        [PEER_MOVE_END] = handle_move_end,     [PEER_MOVE_ACTIVATE] = handle_move_activate,
        [PEER_MOVE_ABORT] = handle_move_abort, [PEER_MOVE_ASK] = handle_move_ask};
    if (partition->shards.moves->must_load)
        peer_incoming_refuse(incoming, frame->id, REFUSAL(WAIT, "it reads its records"));
    else
        functions[frame->kind](partition->shards.moves, incoming, frame);
}

/* ---- control ---- */

void slot_moves_pause(struct slot_moves *moves, bool is_paused)
{
    struct overlay *overlay = moves->host.partition->overlay;
    /* written even if moves->host.is_paused has this value already: after a start the row has not been read yet */
    if (is_paused)
        overlay_put(overlay, CF_SYSTEM, moves_paused_key(), BYTES(""));
    else
        overlay_delete(overlay, CF_SYSTEM, moves_paused_key());
    moves->host.is_paused = is_paused;
    moves->plan_ms = 0;
}

uint32_t slot_moves_cancel(struct slot_moves *moves)
{
    uint32_t count = 0;
    slot_moves_pause(moves, true);
    for (struct list *at = moves->sources.next; at != &moves->sources; at = at->next)
        if (move_source_may_abort(source_at(at))) {
            move_source_abort(source_at(at), "cancelled by SCREE MOVES CANCEL");
            count++;
        }
    return count;
}

void slot_moves_ask(struct slot_moves *moves, const char *shard)
{
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next)
        if (strcmp(target_at(at)->source, shard) == 0)
            target_at(at)->ask_ms = 0;
}

void slot_moves_give_up_lost(struct slot_moves *moves)
{
    const struct peer_set *peers = moves->host.partition->shards.peers;
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next) {
        struct move_target *move = target_at(at);
        const struct peer_link *link =
            peer_set_find((struct peer_set *)peers, bytes_of(move->source));
        bool is_lost = !link || link->state != PEER_LINK_UP;
        if (is_lost && state_is_in(move->state, ARRIVING))
            move_target_give_up(move);
    }
}

bool slot_moves_is_receiving(const struct slot_moves *moves)
{
    for (struct list *at = moves->targets.next; at != &moves->targets; at = at->next)
        if (state_is_in(target_at(at)->state, ARRIVING))
            return true;
    return false;
}

/* Does the map give the shard exactly the slots that are served here? */
static bool is_true_map(const struct slot_moves *moves, struct bytes text, struct bytes name)
{
    char error[256];
    struct shard_map *map = shards_parse("", text, error, sizeof error);
    int shard = map ? shard_map_named(map, name) : -1;
    bool is_true = map != NULL;
    for (unsigned slot = 0; is_true && slot < SLOT_COUNT; slot++)
        is_true = (shard_map_find(map, (uint16_t)slot) == shard) ==
                  slot_is_served(moves->host.partition, (uint16_t)slot);
    if (map)
        shard_map_unref(map);
    return is_true;
}

const char *slot_moves_hold(struct slot_moves *moves, struct bytes map, struct bytes shard)
{
    bool is_still = list_empty(&moves->sources) && list_empty(&moves->targets);
    if (!moves->host.partition->shards.is_gated)
        return NULL;
    if (moves->must_load || !is_still || (map.len && !is_true_map(moves, map, shard)))
        return "ERR slots are moving, or the shards own other slots than the map says: start the "
               "backup when SCREE MAP STATUS shows settled:1";
    moves->is_held = true;
    return NULL;
}

void slot_moves_go_on(struct slot_moves *moves)
{
    moves->is_held = false;
    moves->plan_ms = 0;
}
