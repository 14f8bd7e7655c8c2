/*
 * coordinator_collect.c - the effects and changes of the last attempt, by the shard that has the keys.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/change.h"
#include "backend/context/partition.h"
#include "backend/format/change_list.h"
#include "backend/format/effects.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/session/tracking.h"

/* Where effects of an attempt go. */
struct collecting {
    struct call *call;
    struct coordinated *transaction;
};

static bool is_foreign(const struct call *call, uint16_t slot)
{
    return slot != EFFECT_NO_SLOT && call->slots && !slot_set_has(call->slots, slot);
}

static struct effects *begin_effects(const struct partition *partition)
{
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH,
                                                    .origin_ms = loop_wall_ms(partition->loop),
                                                    .version = partition->batch.version});
    return effects;
}

/* The effects of the shard that has the rows of this place. */
static struct effects *effects_for(const struct collecting *collecting,
                                   const struct effect_place *place)
{
    struct coordinated *transaction = collecting->transaction;
    const struct partition *partition = collecting->call->partition;
    /* a range over several slots is a flush, by owner (borrow_each_run) */
    if (place->is_any_space || !is_foreign(collecting->call, place->first_slot))
        return transaction->own;
    struct participation *part =
        participation_of(transaction, coordinated_shard_of(partition, place->first_slot));
    if (!part->effects)
        part->effects = begin_effects(partition);
    return part->effects;
}

static void collect_range(void *owner, enum cf cf, struct bytes from, struct bytes to)
{
    struct effect_place place = effect_place_of_range(cf, from, to);
    effects_delete_range(effects_for(owner, &place), cf, from, to);
}

static void collect_row(void *owner, enum cf cf, struct bytes key, const struct bytes *value)
{
    struct effect_place place = effect_place_of_row(cf, key);
    struct effects *effects = effects_for(owner, &place);
    if (value)
        effects_put(effects, cf, key, *value);
    else
        effects_delete(effects, cf, key);
}

/* Adds a change to those that another shard will report. False: the key is of this partition. */
static bool collect_change(struct call *call, const struct change *change)
{
    if (change->kind > CHANGE_GROUP_DELETED || !change->space)
        return false;
    uint16_t slot = slot_rule_slot(call->slot_rule, change->key);
    if (!is_foreign(call, slot))
        return false;
    struct participation *part = participation_of(call->session->pending.across,
                                                  coordinated_shard_of(call->partition, slot));
    if (!part->effects) /* the key is touched, and no row changes */
        part->effects = begin_effects(call->partition);
    if (!part->changes.bytes)
        change_list_begin(&part->changes, tracking_name(call->session));
    const struct listed_change listed = {
        .kind = (uint8_t)change->kind,
        .type = (uint8_t)change->type,
        .by_client = change->by_client,
        .row_key = encode_metadata_key(call->arena, change->space->name, slot, change->key)};
    change_list_put(&part->changes, &listed);
    return true;
}

/* Moves the command's messages out of the partition's. */
static void collect_messages(struct call *call, uint32_t first)
{
    struct coordinated *transaction = call->session->pending.across;
    struct push_messages *messages = call->partition->watchers.messages;
    for (uint32_t i = first; i < messages->count; i++) {
        struct change *change = messages->items[i].change;
        if (change && collect_change(call, change))
            push_messages_erase(messages, i);
    }
    push_messages_take(messages, first, &transaction->messages);
}

void coordinator_collect(struct call *call, uint32_t messages)
{
    struct coordinated *transaction = call->session->pending.across;
    struct collecting collecting = {call, transaction};
    const struct overlay_changes changes = {
        .on_range = collect_range, .on_row = collect_row, .owner = &collecting};
    transaction->own = begin_effects(call->partition);
    overlay_each_written(call->partition->overlay, &changes);
    collect_messages(call, messages);
    borrow_judge_guesses(transaction->borrow);
}
