/*
 * participant_prepare.c - PREPARE: the keys that the transaction changes are locked for writing, in slices; then the record is written.
 *
 *   PREPARE ─► keys of effects ─► … ─► keys of changes ─► … ─┬─ all of them were locked ─► record, durable ─► the answer
 *              each slice in a turn of its own               └─ else it ends, and is refused
 *
 * The locks are those that LOCK has taken, so nothing waits here, and nothing is seen of the slices: an older transaction that needs a
 * key waits, as it would a turn later, and RELEASE or the end of the connection release all locks.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/session/internal_call.h"
#include "shared/error.h"

/* ---- the record ---- */

static void put_record(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct arena *arena = &partition->running.arena;
    overlay_put(partition->overlay, CF_SYSTEM,
                encode_transaction_key(arena, TRANSACTION_PREPARED, &part->id),
                encode_prepared(arena, part->effects, part->changes));
}

static void log_prepared(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct call call;
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    put_record(part);
    internal_call_end(partition, &call);
    part_set_state(part, PART_PREPARING);
    part->owner.is_prepared = true;
    commit_sync_next(partition->commit);
    ticket_wait_begin(partition, &part->ticket);
}

/* ---- locks ---- */

/* False: effects or changes are not valid. */
static bool begin_locking(struct part *part)
{
    struct effects_header header;
    struct prepare_progress *prepare = &part->progress.prepare;
    prepare->were_locked = true;
    return effects_open(part->effects, &header, &prepare->effects) == EFFECTS_READ &&
           change_list_open(part->changes, &prepare->changes);
}

/* As effects_next_key, for changes. */
static enum effects_read changes_next_key(struct change_list *list, struct bytes *row_key)
{
    struct listed_change change;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (!change_list_next(list, &change))
        return list->rest.len ? EFFECTS_DAMAGED : EFFECTS_END;
    *row_key = change.row_key;
    bool is_valid = change.kind <= CHANGE_GROUP_DELETED && change.type < TYPE_COUNT &&
                    decode_metadata_key(change.row_key, &space, &slot, &key);
    return is_valid ? EFFECTS_READ : EFFECTS_DAMAGED;
}

/* Locks the next key for writing. END: none is left. */
static enum effects_read lock_next(struct part *part, struct arena *arena)
{
    struct lock_set *locks = part->participant->partition->shards.locks;
    struct prepare_progress *prepare = &part->progress.prepare;
    struct bytes row_key;
    enum effects_read result = effects_next_key(&prepare->effects, arena, &row_key);
    if (result == EFFECTS_END)
        result = changes_next_key(&prepare->changes, &row_key);
    if (result != EFFECTS_READ)
        return result;
    prepare->were_locked &= lock_is_held(locks, &part->owner, row_key);
    (void)lock_take(locks, &part->owner, row_key, LOCK_WRITE);
    return EFFECTS_READ;
}

/* Locks keys until the slice ends; NULL: all. READ: some are left. */
static enum effects_read lock_some(struct part *part, struct part_slice *slice)
{
    struct arena arena;
    enum effects_read result = EFFECTS_READ;
    arena_init(&arena);
    while (result == EFFECTS_READ && (!slice || part_slice_goes_on(slice))) {
        result = lock_next(part, &arena);
        if (slice)
            part_slice_spend(slice, 0);
        arena_reset(&arena);
    }
    arena_fini(&arena);
    return result;
}

/* True: all keys are locked. */
static bool are_locked(const struct part *part, enum effects_read result)
{
    return result == EFFECTS_END && list_empty(&part->owner.requests);
}

bool part_lock_again(struct part *part)
{
    /* the locks of before the start are gone: were_locked says nothing */
    return begin_locking(part) && are_locked(part, lock_some(part, NULL));
}

/* ---- slices ---- */

/* All keys were looked at, or one is not valid. */
static void end_checking(struct part *part, enum effects_read result)
{
    struct commit *commit = part->participant->partition->commit;
    /* else the coordinator takes this shard for the owner of a slot whose keys it has locked at another one */
    if (!part->progress.prepare.were_locked)
        part_end(part, REFUSAL(LOCKS_LOST, "the transaction has not locked these keys here"));
    else if (!are_locked(part, result))
        part_end(part, REQUEST_IS_NOT_VALID);
    else if (commit_is_failed(commit, NULL))
        part_end(part, REFUSAL(OTHER, error_text((enum error)commit_error(commit))));
    else
        log_prepared(part);
}

void part_prepare_some(struct part *part)
{
    struct part_slice slice = part_slice_begin(part);
    enum effects_read result = lock_some(part, &slice);
    if (result == EFFECTS_READ && part->progress.prepare.were_locked)
        part_go_on_later(part, 0);
    else
        end_checking(part, result);
}

/* All of PREPARE is in part->arrived: reads it. False: it is not valid. */
static bool read_prepared(struct part *part)
{
    struct message_reader reader =
        message_read((struct bytes){part->arrived.bytes, part->arrived.len});
    part->effects = message_bytes(&reader);
    part->changes = message_bytes(&reader);
    return message_is_read(&reader);
}

void part_prepare(struct part *part)
{
    if (!read_prepared(part) || !begin_locking(part)) {
        part_end(part, REQUEST_IS_NOT_VALID);
        return;
    }
    part_set_state(part, PART_CHECKING);
    part_prepare_some(part);
}
