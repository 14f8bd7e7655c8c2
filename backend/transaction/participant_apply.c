/*
 * participant_apply.c - APPLY in slices: however large a transaction is, other clients wait for one slice at most.
 *
 *   APPLY ─► effects ─► effects ─► reports ─► locks ─► locks ─► the reply, when everything is durable
 *            each slice in a turn of its own
 *            └─ record APPLYING    records of ─┘ └─ from now on others see what the transaction has changed
 *                                  both deleted
 *
 * No client sees a half: all keys are locked until the last effect is applied and reported. A slice leaves the transaction as it is, or
 * applies as much as it can in some milliseconds. Nearly all transactions have one.
 *
 * After a crash or a failed batch between two slices the record APPLYING says that the transaction was committed. So it is applied from the
 * beginning, and no coordinator or operator is asked: a part is in the store. Effects that are applied twice do no harm, because
 * nothing else has changed the locked keys. The record says also which changes were reported, so that each is reported once.
 */
#include "backend/context/partition.h"
#include "backend/keyspace/apply_effects.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"
#include "backend/session/limits.h"
#include "backend/session/tracking.h"
#include "backend/session/waiters.h"
#include "backend/transaction/participant_inner.h"

/* ---- effects ---- */

/* The namespace in which the effects change keys; data NULL: no namespace has limits, or no key is changed. */
static struct bytes space_of_effects(const struct part *part)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect = {0};
    size_t cursor = 0;
    if (!space_limit_next(part->participant->partition->spaces, &cursor))
        return (struct bytes){0};
    enum effects_read result = effects_open(part->effects, &header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        if (effect.cf == CF_METADATA && !effect.place.is_any_space)
            return effect.place.space;
    return (struct bytes){0};
}

/* Leaves out the changes that were reported before a start. False: there are no such changes. */
static bool skip_reported(struct part *part)
{
    struct bytes *rest = &part->progress.apply.changes.rest;
    size_t begin = part->changes.len - rest->len;
    if (!part->progress.apply.reported)
        return true;
    if (part->progress.apply.reported < begin || part->progress.apply.reported > part->changes.len)
        return false;
    *rest = (struct bytes){part->changes.data + part->progress.apply.reported,
                           part->changes.len - part->progress.apply.reported};
    return true;
}

/* False: the record is not valid. */
static bool start_apply(struct part *part, struct call *call)
{
    struct apply_progress *apply = &part->progress.apply;
    struct partition *partition = part->participant->partition;
    *apply = (struct apply_progress){
        .is_begun = true, .space = space_of_effects(part), .reported = apply->reported};
    part_report_flushes(part, call);
    return apply_effects_open(partition, part->effects, &apply->effects) &&
           change_list_open(part->changes, &apply->changes) && skip_reported(part);
}

/* Applies effects. True: none is left. */
static bool apply_some(struct part *part, struct call *call, struct part_slice *slice)
{
    size_t bytes = 1;
    while (!call->failed && bytes && part_slice_goes_on(slice)) {
        if (!apply_next_effect(call->partition, &part->progress.apply.effects, &bytes))
            call->failed = true;
        else if (bytes)
            part_slice_spend(slice, bytes);
    }
    return !bytes && !call->failed;
}

/* Counts the keys that the slice has added or removed. */
static bool apply_counted(struct part *part, struct call *call, struct part_slice *slice)
{
    const struct bytes name = part->progress.apply.space;
    struct space_set *spaces = call->partition->spaces;
    struct space_limit *limit = name.data ? space_find(spaces, name)->limit : NULL;
    uint64_t before = limit ? space_limit_keys(limit) : 0;
    bool is_done = apply_some(part, call, slice);
    if (limit)
        part->progress.apply.keys += (int64_t)(space_limit_keys(limit) - before);
    /* what is deleted here makes room where the transaction creates keys */
    if (limit && is_done && part->progress.apply.keys < 0)
        limits_keys_left(limit, (uint64_t)-part->progress.apply.keys);
    return is_done;
}

/* Reports changes. True: none is left. */
static bool report_some(struct part *part, struct call *call, struct part_slice *slice)
{
    struct change_list *changes = &part->progress.apply.changes;
    struct session *by = tracking_find(call->partition->watchers.tracking, changes->client);
    while (part_slice_goes_on(slice)) {
        if (!part_report_change(changes, call, by))
            return true;
        part_slice_spend(slice, 1);
    }
    return false;
}

/* Are some effects applied already, before this slice? */
static bool is_partly_applied(const struct part *part)
{
    return part->state == PART_APPLYING;
}

static void end_slice(struct part *part)
{
    if (!part->progress.apply.is_applied) {
        part_put_applying(part);
        return;
    }
    part_delete_record(part, TRANSACTION_PREPARED);
    if (is_partly_applied(part))
        part_delete_record(part, TRANSACTION_APPLYING);
}

/* Applies a slice. False: it cannot be applied now, and nothing was changed. */
static bool apply_slice(struct part *part)
{
    struct partition *partition = part->participant->partition;
    const struct apply_progress before = part->progress.apply;
    struct part_slice slice = part_slice_begin(part);
    struct call call;
    if (commit_is_failed(partition->commit, NULL))
        return false;
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    call.failed = !part->progress.apply.is_begun && !start_apply(part, &call);
    overlay_secured_begin(partition->overlay);
    part->progress.apply.is_applied =
        apply_counted(part, &call, &slice) && report_some(part, &call, &slice);
    end_slice(part);
    bool is_good = !call.failed;
    internal_call_end(partition, &call);
    overlay_secured_end(partition->overlay);
    part->progress.apply.ticket = overlay_observed(partition->overlay);
    if (is_good)
        commit_sync_next(partition->commit); /* what was reported leaves when the record says so */
    else
        part->progress.apply = before;
    return is_good;
}

/* ---- slices ---- */

/* All locks are released. May free the transaction. */
static void end_when_durable(struct part *part)
{
    struct partition *partition = part->participant->partition;
    waiters_resume(partition->watchers.blocking);
    overlay_observe_begin(partition->overlay);
    overlay_observe(partition->overlay, part->progress.apply.ticket);
    ticket_wait_begin_patient(partition, &part->ticket);
}

/* After a slice. May free the transaction. */
static void next_slice(struct part *part)
{
    struct partition *partition = part->participant->partition;
    if (part->progress.apply.is_applied && lock_release_some(partition->shards.locks, &part->owner,
                                                             partition->shards.steps.apply_effects))
        end_when_durable(part);
    else
        part_go_on_later(part, 0);
}

void part_apply_some(struct part *part)
{
    bool was_applied = part->progress.apply.is_applied;
    if (was_applied || apply_slice(part))
        next_slice(part);
    else
        part_go_on_later(part, SLICE_RETRY_MS);
}

bool part_apply(struct part *part)
{
    if (!apply_slice(part))
        return false;
    part_set_state(part, PART_APPLYING);
    part->owner.is_in_doubt = false;
    next_slice(part);
    return true;
}

bool part_apply_again(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct slice value;
    int err = overlay_get(
        partition->overlay, CF_SYSTEM,
        encode_transaction_key(&partition->running.arena, TRANSACTION_APPLYING, &part->id), &value);
    if (err != OK)
        return err == ERR_NOT_FOUND;
    bool is_good = decode_applying(slice_bytes(&value), &part->progress.apply.reported);
    slice_release(&value);
    if (!is_good)
        return false;
    part->owner.is_in_doubt = false;
    part_set_state(part, PART_APPLYING);
    part_go_on_later(part, 0);
    return true;
}
