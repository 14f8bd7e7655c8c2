/*
 * transactions.c - breaks a promise of transactions over shards, or of slots that move, chosen by sim_broken
 * (tests/sim/sim_break.h): these functions are linked into test_transactions in place of the program's.
 */
#include "backend/context/change.h"
#include "backend/context/partition.h"
#include "backend/format/change_list.h"
#include "backend/format/effects.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/lock_waiter.h"
#include "backend/keyspace/space.h"
#include "backend/peer/link.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/session/session.h"
#include "backend/session/ticket_wait.h"
#include "backend/slots/key_put.h"
#include "backend/slots/key_receipt.h"
#include "backend/slots/move_message.h"
#include "backend/slots/move_source.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/commit.h"
#include "backend/storage/overlay.h"
#include "backend/storage/stamps.h"
#include "backend/transaction/coordinator_inner.h"
#include "backend/transaction/forced.h"
#include "backend/transaction/participant_inner.h"
#include "backend/wal/wal.h"
#include "shared/out.h"
#include "tests/sim/sim_break.h"

#include <stdlib.h>
#include <string.h>

bool __real_participant_load(struct participant *participant);
bool __wrap_participant_load(struct participant *participant);
peer_handle_fn __real_handle_prepare, __wrap_handle_prepare;
peer_handle_fn __real_handle_apply, __wrap_handle_apply;
peer_handle_fn __real_handle_outcome, __wrap_handle_outcome;
peer_handle_fn __real_handle_move, __wrap_handle_move;
peer_handle_fn __real_handle_keys_put, __wrap_handle_keys_put;
void __real_key_receipt_keep(struct partition *partition, const char *shard, uint64_t number,
                             struct bytes results);
void __wrap_key_receipt_keep(struct partition *partition, const char *shard, uint64_t number,
                             struct bytes results);
void __real_peer_incoming_done(struct peer_incoming *incoming, uint64_t id, struct bytes payload);
void __wrap_peer_incoming_done(struct peer_incoming *incoming, uint64_t id, struct bytes payload);
void __real_peer_incoming_refuse(struct peer_incoming *incoming, uint64_t id,
                                 struct refusal refusal);
void __wrap_peer_incoming_refuse(struct peer_incoming *incoming, uint64_t id,
                                 struct refusal refusal);
void __real_part_put_applying(struct part *part);
void __wrap_part_put_applying(struct part *part);
void __real_coordinated_end_grant(struct coordinated *transaction);
void __wrap_coordinated_end_grant(struct coordinated *transaction);
void __real_lock_waiter_give_way(struct lock_owner *owner);
void __wrap_lock_waiter_give_way(struct lock_owner *owner);
bool __real_participation_has_all(const struct participation *part);
bool __wrap_participation_has_all(const struct participation *part);
bool __real_coordinator_finish(struct call *call);
bool __wrap_coordinator_finish(struct call *call);
bool __real_lock_take(struct lock_set *set, struct lock_owner *owner, struct bytes row_key,
                      enum lock_mode mode);
bool __wrap_lock_take(struct lock_set *set, struct lock_owner *owner, struct bytes row_key,
                      enum lock_mode mode);
bool __real_lock_is_held(const struct lock_set *set, const struct lock_owner *owner,
                         struct bytes row_key);
bool __wrap_lock_is_held(const struct lock_set *set, const struct lock_owner *owner,
                         struct bytes row_key);
void __real_ticket_wait_begin(struct partition *partition, struct ticket_wait *wait);
void __wrap_ticket_wait_begin(struct partition *partition, struct ticket_wait *wait);
void __real_ticket_wait_begin_patient(struct partition *partition, struct ticket_wait *wait);
void __wrap_ticket_wait_begin_patient(struct partition *partition, struct ticket_wait *wait);
int __real_wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch,
                           char *error, size_t size);
int __wrap_wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch,
                           char *error, size_t size);
bool __real_move_source_holds_writes(const struct move_source *move);
bool __wrap_move_source_holds_writes(const struct move_source *move);
void __real_lock_wound_in(struct lock_set *set, uint16_t first, uint16_t last);
void __wrap_lock_wound_in(struct lock_set *set, uint16_t first, uint16_t last);
const struct slot_record *__real_slot_table_get(const struct slot_table *table, uint16_t slot);
const struct slot_record *__wrap_slot_table_get(const struct slot_table *table, uint16_t slot);
const char *__real_slot_owners_wish(const struct slot_owners *owners, uint16_t slot,
                                    uint64_t *wish);
const char *__wrap_slot_owners_wish(const struct slot_owners *owners, uint16_t slot,
                                    uint64_t *wish);
struct refusal __real_slot_owners_refuse(const struct slot_owners *owners, uint16_t first,
                                         uint16_t last, uint64_t wish);
struct refusal __wrap_slot_owners_refuse(const struct slot_owners *owners, uint16_t first,
                                         uint16_t last, uint64_t wish);
const char *__real_slot_owners_wait(const struct slot_owners *owners);
const char *__wrap_slot_owners_wait(const struct slot_owners *owners);
void __real_overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value);
void __wrap_overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value);
void __real_stamps_row(struct stamps *stamps, enum cf cf, struct bytes key);
void __wrap_stamps_row(struct stamps *stamps, enum cf cf, struct bytes key);
void __real_overlay_rollback(struct overlay *overlay);
void __wrap_overlay_rollback(struct overlay *overlay);
void __real_overlay_attempt_end(struct overlay *overlay, bool is_good);
void __wrap_overlay_attempt_end(struct overlay *overlay, bool is_good);
void __real_coordinator_set_aside(struct call *call, struct attempt_aside *aside);
void __wrap_coordinator_set_aside(struct call *call, struct attempt_aside *aside);
void __real_space_count_sums(struct space_set *set, const struct space_sums *sums);
void __wrap_space_count_sums(struct space_set *set, const struct space_sums *sums);
void __real_overlay_view_end(struct overlay *overlay);
void __wrap_overlay_view_end(struct overlay *overlay);
enum effects_read __real_effects_next(struct effects_reader *reader, struct effect *effect);
enum effects_read __wrap_effects_next(struct effects_reader *reader, struct effect *effect);
void __real_effects_delete_range(struct effects *effects, enum cf cf, struct bytes from,
                                 struct bytes to);
void __wrap_effects_delete_range(struct effects *effects, enum cf cf, struct bytes from,
                                 struct bytes to);
bool __real_slot_table_change(struct slot_table *table, uint16_t first, uint16_t last,
                              const struct slot_record *record, slot_changed_fn *on_end,
                              void *owner);
bool __wrap_slot_table_change(struct slot_table *table, uint16_t first, uint16_t last,
                              const struct slot_record *record, slot_changed_fn *on_end,
                              void *owner);
enum peer_sent __real_peer_link_send(struct peer_link *link, struct peer_request *request,
                                     uint8_t kind, struct bytes payload);
enum peer_sent __wrap_peer_link_send(struct peer_link *link, struct peer_request *request,
                                     uint8_t kind, struct bytes payload);
struct refusal __real_borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                                        struct bytes question);
struct refusal __wrap_borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                                        struct bytes question);
void __real_forced_tick(struct forced_set *set);
void __wrap_forced_tick(struct forced_set *set);
void __real_forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit);
void __wrap_forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit);
void __real_peer_set_cut(struct peer_set *peers);
void __wrap_peer_set_cut(struct peer_set *peers);
void __real_commit_sync_next(struct commit *commit);
void __wrap_commit_sync_next(struct commit *commit);

static bool is_loading;         /* participant_load is running */
static enum peer_kind handling; /* the request that is being handled; 0: none */
static bool drops_replies;      /* the sender of the request has gone */
static bool forgets_wishes;     /* slots seem to have come by no map */

/* The batch that a source reads from its log, and divides by slots. */
static struct tail {
    bool is_read;
    struct effect effect; /* the last one; borrowed */
} tail;

/* Of a MOVE_ROWS whose effects the target checks; NULL: none. */
static const struct move_slots *checked_slots;

bool __wrap_participant_load(struct participant *participant)
{
    is_loading = true;
    bool is_good = __real_participant_load(participant);
    is_loading = false;
    return is_good;
}

/* Is it the name of the lock of a database? As encode_space_prefix makes it. */
static bool is_lock_of_all(struct bytes row_key)
{
    return row_key.len == 1 + (size_t)(uint8_t)row_key.data[0];
}

bool __wrap_lock_is_held(const struct lock_set *set, const struct lock_owner *owner,
                         struct bytes row_key)
{
    return (sim_broken == BREAK_NO_ALL_LOCKS && is_lock_of_all(row_key)) ||
           __real_lock_is_held(set, owner, row_key);
}

bool __wrap_lock_take(struct lock_set *set, struct lock_owner *owner, struct bytes row_key,
                      enum lock_mode mode)
{
    if ((sim_broken == BREAK_LOCKS_NOT_REBUILT && is_loading) ||
        (sim_broken == BREAK_NO_ALL_LOCKS && is_lock_of_all(row_key)) ||
        (sim_broken == BREAK_NO_READ_LOCKS && mode == LOCK_READ))
        return true;
    return __real_lock_take(set, owner, row_key, mode);
}

/* Reports the changes of a PREPARE. */
static void tell_changes(struct partition *partition, struct bytes payload)
{
    struct message_reader reader = message_read(payload);
    struct call call;
    (void)message_bytes(&reader); /* id */
    if (message_u64(&reader))
        return; /* it came in portions */
    reader = message_read(message_bytes(&reader));
    (void)message_bytes(&reader); /* effects */
    struct change_list list;
    struct listed_change listed;
    CHECK(change_list_open(message_bytes(&reader), &list));
    internal_call_begin(partition, &call);
    while (change_list_next(&list, &listed)) {
        struct change change = {.kind = (enum change_kind)listed.kind,
                                .type = (enum type)listed.type,
                                .by_client = listed.by_client};
        struct bytes space;
        uint16_t slot;
        CHECK(decode_metadata_key(listed.row_key, &space, &slot, &change.key));
        change.space = space_find(partition->spaces, space);
        partition->watchers.changes->add(&call, &change);
    }
    internal_call_end(partition, &call);
}

static void handle(peer_handle_fn *handler, struct partition *partition,
                   struct peer_incoming *incoming, const struct peer_frame *frame)
{
    handling = (enum peer_kind)frame->kind;
    handler(partition, incoming, frame);
    handling = 0;
}

void __wrap_handle_prepare(struct partition *partition, struct peer_incoming *incoming,
                           const struct peer_frame *frame)
{
    handle(__real_handle_prepare, partition, incoming, frame);
    if (sim_broken == BREAK_TOLD_AT_PREPARE && frame->kind == PEER_PREPARE)
        tell_changes(partition, frame->payload);
}

void __wrap_handle_apply(struct partition *partition, struct peer_incoming *incoming,
                         const struct peer_frame *frame)
{
    handle(__real_handle_apply, partition, incoming, frame);
}

void __wrap_handle_outcome(struct partition *partition, struct peer_incoming *incoming,
                           const struct peer_frame *frame)
{
    handle(__real_handle_outcome, partition, incoming, frame);
}

void __wrap_ticket_wait_begin(struct partition *partition, struct ticket_wait *wait)
{
    if ((sim_broken == BREAK_EARLY_PREPARED && handling == PEER_PREPARE) ||
        (sim_broken == BREAK_EARLY_PUT && handling == PEER_KEYS_PUT))
        wait->on_end(wait, 0);
    else
        __real_ticket_wait_begin(partition, wait);
}

void __wrap_ticket_wait_begin_patient(struct partition *partition, struct ticket_wait *wait)
{
    if (sim_broken == BREAK_EARLY_APPLIED) /* only APPLY waits patiently */
        wait->on_end(wait, 0);
    else
        __real_ticket_wait_begin_patient(partition, wait);
}

void __wrap_peer_incoming_done(struct peer_incoming *incoming, uint64_t id, struct bytes payload)
{
    bool is_aborted = handling == PEER_OUTCOME && bytes_equal(payload, BYTES("a"));
    const char ended = MOVE_HAS_ENDED;
    if (drops_replies)
        return;
    if (sim_broken == BREAK_UNKNOWN_APPLIED && is_aborted)
        payload = BYTES("c");
    if (sim_broken == BREAK_ASK_ENDED && handling == PEER_MOVE_ASK)
        payload = (struct bytes){&ended, 1};
    __real_peer_incoming_done(incoming, id, payload);
}

void __wrap_peer_incoming_refuse(struct peer_incoming *incoming, uint64_t id,
                                 struct refusal refusal)
{
    if (!drops_replies)
        __real_peer_incoming_refuse(incoming, id, refusal);
}

void __wrap_part_put_applying(struct part *part)
{
    __real_part_put_applying(part);
    if (sim_broken == BREAK_HALF_SHOWN)
        lock_release(part->participant->partition->shards.locks, &part->owner);
}

void __wrap_coordinated_end_grant(struct coordinated *transaction)
{
    if (sim_broken != BREAK_GRANT_KEPT || !transaction->grant)
        __real_coordinated_end_grant(transaction);
}

void __wrap_lock_waiter_give_way(struct lock_owner *owner)
{
    if (sim_broken != BREAK_WOUNDED_KEPT)
        __real_lock_waiter_give_way(owner);
}

bool __wrap_participation_has_all(const struct participation *part)
{
    return sim_broken == BREAK_FIRST_PORTION || __real_participation_has_all(part);
}

bool __wrap_coordinator_finish(struct call *call)
{
    bool is_done = __real_coordinator_finish(call);
    if (sim_broken == BREAK_EARLY_REPLY && is_done)
        overlay_observe_begin(call->partition->overlay); /* as if nothing had been written */
    return is_done;
}

void __wrap_commit_sync_next(struct commit *commit)
{
    if (sim_broken != BREAK_UNSYNCED_DECISION)
        __real_commit_sync_next(commit);
}

int __wrap_wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch,
                           char *error, size_t size)
{
    int err = __real_wal_cursor_next(cursor, index, batch, error, size);
    while (sim_broken == BREAK_TAIL_DROPPED && err == OK)
        err = __real_wal_cursor_next(cursor, index, batch, error, size);
    tail = (struct tail){.is_read = err == OK};
    return err;
}

/* Makes the target's check whether a range is limited to the slots of the move succeed. */
static void hide_other_slots(struct effect *effect)
{
    if (checked_slots && effect->kind == EFFECT_DELETE_RANGE) {
        effect->place.first_slot = checked_slots->first;
        effect->place.last_slot = checked_slots->last;
    }
}

enum effects_read __wrap_effects_next(struct effects_reader *reader, struct effect *effect)
{
    enum effects_read result = __real_effects_next(reader, effect);
    if (result == EFFECTS_READ && sim_broken == BREAK_RANGE_NOT_CLIPPED)
        hide_other_slots(effect);
    if (result != EFFECTS_READ) {
        tail = (struct tail){0};
        checked_slots = NULL;
    } else if (tail.is_read) {
        tail.effect = *effect;
    }
    return result;
}

void __wrap_effects_delete_range(struct effects *effects, enum cf cf, struct bytes from,
                                 struct bytes to)
{
    bool is_broken = sim_broken == BREAK_RANGE_REFUSED || sim_broken == BREAK_RANGE_NOT_CLIPPED;
    if (is_broken && tail.is_read) {
        from = tail.effect.key;
        to = tail.effect.to;
    }
    __real_effects_delete_range(effects, cf, from, to);
}

bool __wrap_move_source_holds_writes(const struct move_source *move)
{
    return sim_broken != BREAK_NOT_FROZEN && __real_move_source_holds_writes(move);
}

const struct slot_record *__wrap_slot_table_get(const struct slot_table *table, uint16_t slot)
{
    static struct slot_record forgetful;
    const struct slot_record *record = __real_slot_table_get(table, slot);
    if (!forgets_wishes)
        return record;
    forgetful = *record;
    forgetful.wish = 0;
    return &forgetful;
}

const char *__wrap_slot_owners_wish(const struct slot_owners *owners, uint16_t slot, uint64_t *wish)
{
    forgets_wishes = sim_broken == BREAK_OLD_MAP;
    const char *shard = __real_slot_owners_wish(owners, slot, wish);
    forgets_wishes = false;
    return shard;
}

/* Is it because of the epoch of another shard's map? */
static const char *drop_if_epoch(const char *reason)
{
    bool is_epoch = reason && (strstr(reason, "newer shard map") || strstr(reason, "same epoch"));
    return sim_broken == BREAK_OLD_MAP && is_epoch ? NULL : reason;
}

struct refusal __wrap_slot_owners_refuse(const struct slot_owners *owners, uint16_t first,
                                         uint16_t last, uint64_t wish)
{
    struct refusal refusal = __real_slot_owners_refuse(owners, first, last, wish);
    return drop_if_epoch(refusal.text) ? refusal : NO_REFUSAL;
}

const char *__wrap_slot_owners_wait(const struct slot_owners *owners)
{
    return drop_if_epoch(__real_slot_owners_wait(owners));
}

void __wrap_lock_wound_in(struct lock_set *set, uint16_t first, uint16_t last)
{
    if (sim_broken != BREAK_LONG_FROZEN)
        __real_lock_wound_in(set, first, last);
}

bool __wrap_slot_table_change(struct slot_table *table, uint16_t first, uint16_t last,
                              const struct slot_record *record, slot_changed_fn *on_end,
                              void *owner)
{
    struct slot_record changed = *record;
    if (sim_broken == BREAK_EARLY_OWNED && record->state == SLOT_STAGED)
        changed.state = SLOT_OWNED;
    return __real_slot_table_change(table, first, last, &changed, on_end, owner);
}

/* The last MOVE_BEGINs, which the network delivers once more before MOVE_ACTIVATE. */
static struct kept_begin {
    uint64_t id;
    struct bytes payload; /* heap */
} kept_begins[16];

static void keep_begin(struct bytes payload)
{
    struct move_begin begin;
    if (!move_get_begin(payload, &begin))
        return;
    struct kept_begin *kept =
        &kept_begins[begin.slots.id % (sizeof kept_begins / sizeof kept_begins[0])];
    char *copy = malloc(payload.len);
    CHECK(copy);
    memcpy(copy, payload.data, payload.len);
    free((char *)kept->payload.data);
    *kept = (struct kept_begin){begin.slots.id, {copy, payload.len}};
}

/* Delivers the MOVE_BEGIN of the move again. The source no longer waits for a reply. */
static void deliver_begin_late(struct partition *partition, struct peer_incoming *incoming,
                               struct bytes payload)
{
    struct move_activate activate;
    struct move_begin begin;
    if (!move_get_activate(payload, &activate))
        return;
    const struct kept_begin *kept =
        &kept_begins[activate.slots.id % (sizeof kept_begins / sizeof kept_begins[0])];
    if (kept->id != activate.slots.id || !move_get_begin(kept->payload, &begin))
        return;
    struct out out;
    if (sim_broken == BREAK_LATE_BEGIN)
        begin.slots.id++; /* as if it were of a newer move */
    out_init(&out);
    move_put_begin(&out, &begin);
    char *late = malloc(out.bytes);
    CHECK(late);
    struct peer_frame frame = {.kind = PEER_MOVE_BEGIN, .payload = {late, out.bytes}};
    out_copy(&out, late);
    out_clear(&out);
    drops_replies = true;
    __real_handle_move(partition, incoming, &frame);
    drops_replies = false;
    free(late);
}

/* Does a move bring the slots here, or has it done so? Then no further one begins. */
static bool has_move(const struct partition *partition, struct bytes payload)
{
    struct move_activate activate;
    return move_get_activate(payload, &activate) &&
           slot_table_get(partition->shards.slots, activate.slots.first)->migration ==
               activate.slots.id;
}

void __wrap_handle_move(struct partition *partition, struct peer_incoming *incoming,
                        const struct peer_frame *frame)
{
    if (frame->kind == PEER_MOVE_BEGIN)
        keep_begin(frame->payload);
    if (frame->kind == PEER_MOVE_ACTIVATE && has_move(partition, frame->payload))
        deliver_begin_late(partition, incoming, frame->payload);
    struct move_rows rows;
    if (frame->kind == PEER_MOVE_ROWS && move_get_rows(frame->payload, &rows))
        checked_slots = &rows.slots;
    handle(__real_handle_move, partition, incoming, frame);
    checked_slots = NULL;
}

void __wrap_handle_keys_put(struct partition *partition, struct peer_incoming *incoming,
                            const struct peer_frame *frame)
{
    const struct moving_slots *moving = partition->shards.moving;
    if (sim_broken == BREAK_PUT_FROZEN)
        partition->shards.moving = NULL;
    handle(__real_handle_keys_put, partition, incoming, frame);
    partition->shards.moving = moving;
}

void __wrap_key_receipt_keep(struct partition *partition, const char *shard, uint64_t number,
                             struct bytes results)
{
    if (sim_broken != BREAK_NO_RECEIPT)
        __real_key_receipt_keep(partition, shard, number, results);
}

enum peer_sent __wrap_peer_link_send(struct peer_link *link, struct peer_request *request,
                                     uint8_t kind, struct bytes payload)
{
    if ((sim_broken == BREAK_NO_ASK && kind == PEER_MOVE_ASK) ||
        (sim_broken == BREAK_NO_OUTCOME && kind == PEER_OUTCOME))
        return PEER_NOT_UP;
    return __real_peer_link_send(link, request, kind, payload);
}

struct refusal __wrap_borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                                        struct bytes question)
{
    return sim_broken == BREAK_ALL_ANYWHERE ? NO_REFUSAL
                                            : __real_borrow_refuse_all(partition, kind, question);
}

void __wrap_forced_tick(struct forced_set *set)
{
    if (sim_broken != BREAK_FORCED_UNASKED)
        __real_forced_tick(set);
}

void __wrap_forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit)
{
    if (sim_broken != BREAK_FORCED_UNASKED)
        __real_forced_decided(set, id, is_commit);
}

/* Writes rows without a change of the collection's stamp. */
void __wrap_overlay_put(struct overlay *overlay, enum cf cf, struct bytes key, struct bytes value)
{
    enum sim_break keeps = handling == PEER_APPLY ? BREAK_APPLIED_KEPT : BREAK_OWN_KEPT;
    if (sim_broken == keeps)
        overlay_put_own(overlay, cf, key, value);
    else
        __real_overlay_put(overlay, cf, key, value);
}

void __wrap_peer_set_cut(struct peer_set *peers)
{
    if (sim_broken != BREAK_PEERS_NOT_CUT)
        __real_peer_set_cut(peers);
}

static bool is_rolling_back;

void __wrap_stamps_row(struct stamps *stamps, enum cf cf, struct bytes key)
{
    if (sim_broken != BREAK_ROLLBACK_KEPT || !is_rolling_back)
        __real_stamps_row(stamps, cf, key);
}

void __wrap_overlay_rollback(struct overlay *overlay)
{
    is_rolling_back = true;
    __real_overlay_rollback(overlay);
    is_rolling_back = false;
}

void __wrap_overlay_attempt_end(struct overlay *overlay, bool is_good)
{
    is_rolling_back = true;
    __real_overlay_attempt_end(overlay, is_good);
    is_rolling_back = false;
}

void __wrap_overlay_view_end(struct overlay *overlay)
{
    is_rolling_back = true;
    __real_overlay_view_end(overlay);
    is_rolling_back = false;
}

/* A script halts. */
void __wrap_coordinator_set_aside(struct call *call, struct attempt_aside *aside)
{
    __real_coordinator_set_aside(call, aside);
    if (sim_broken == BREAK_HALT_UNLOCKED)
        lock_release(call->partition->shards.locks, &call->session->pending.across->owner);
}

/* It goes on. */
void __wrap_space_count_sums(struct space_set *set, const struct space_sums *sums)
{
    const struct space_sums none = {.count = 0};
    __real_space_count_sums(set, sim_broken == BREAK_HALT_UNCOUNTED ? &none : sums);
}
