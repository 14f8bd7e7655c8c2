/*
 * coordinator_decided.c - from the decision to its end: participants apply, and after a start or a failed batch decisions are found again.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"
#include "backend/format/transaction_record.h"

#include <stdio.h>

static const uint32_t UNDECIDED =
    STATE_BIT(COORDINATED_COLLECTING) | STATE_BIT(COORDINATED_PREPARING) |
    STATE_BIT(COORDINATED_RELEASING) | STATE_BIT(COORDINATED_PREPARED);

static void forget_decision(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    overlay_savepoint(partition->overlay);
    overlay_secured_begin(partition->overlay);
    overlay_delete(
        partition->overlay, CF_SYSTEM,
        encode_transaction_key(&partition->running.arena, TRANSACTION_DECIDED, &transaction->id));
    overlay_secured_end(partition->overlay);
    coordinated_free(transaction);
}

/* Sends APPLY to the shards that have not applied the effects; deletes the decision when there are none. */
void coordinated_apply_all(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    bool is_done = true;
    for (struct list *at = transaction->participants.next; at != &transaction->participants;
         at = at->next) {
        struct participation *part = participation_at(at);
        struct out out;
        is_done = is_done && part->is_applied;
        if (part->is_applied || part->sent)
            continue;
        out_init(&out);
        coordinated_put_id(&out, &transaction->id);
        (void)participation_send(part, PEER_APPLY, &out);
        out_clear(&out);
    }
    bool may_write = !partition->running.busy_error && !commit_is_failed(partition->commit, NULL);
    if (is_done && may_write)
        forget_decision(transaction);
}

/* ticket_wait.on_end */
void coordinated_on_durable(struct ticket_wait *wait, int err)
{
    struct coordinated *transaction = container_of(wait, struct coordinated, ticket);
    coordinated_set_state(transaction, err ? COORDINATED_UNCERTAIN : COORDINATED_DECIDED);
    if (err)
        return;
    coordinated_count_committed(transaction);
    coordinated_apply_all(transaction);
}

/* The store was recovered: is the decision in it? */
void coordinated_look_up(struct coordinated *transaction)
{
    struct partition *partition = transaction->coordinator->partition;
    struct slice value;
    struct bytes key =
        encode_transaction_key(&partition->running.arena, TRANSACTION_DECIDED, &transaction->id);
    int err = overlay_get(partition->overlay, CF_SYSTEM, key, &value);
    if (err == OK) {
        slice_release(&value);
        coordinated_set_state(transaction, COORDINATED_DECIDED);
        coordinated_count_committed(transaction);
        coordinated_apply_all(transaction);
    } else if (err == ERR_NOT_FOUND) {
        coordinated_count(transaction, METRIC_BACKEND_FAILED_LOG);
        for (struct list *at = transaction->participants.next; at != &transaction->participants;
             at = at->next)
            participation_release(participation_at(at));
        coordinated_free(transaction);
    }
}

/* ---- after a start, or a failed batch ---- */

static bool load_decision(struct coordinator *coordinator, struct bytes row, struct bytes value)
{
    enum transaction_record record;
    struct transaction_id id;
    struct bytes names;
    struct bytes name;
    if (!decode_transaction_key(row, &record, &id))
        return false;
    if (record != TRANSACTION_DECIDED || coordinator_find(coordinator, &id))
        return true;
    if (!decode_decision(value, &names))
        return false;
    struct coordinated *transaction = coordinated_new(coordinator);
    transaction->id = id;
    transaction->state = COORDINATED_DECIDED;
    while (decode_next_name(&names, &name)) {
        char shard[SHARD_NAME_MAX + 1];
        (void)snprintf(shard, sizeof shard, "%.*s", (int)name.len, name.data);
        (void)participation_of(transaction, shard);
    }
    return names.len == 0;
}

bool coordinator_load(struct coordinator *coordinator)
{
    struct partition *partition = coordinator->partition;
    struct overlay_iter *iter = overlay_iter_new(partition->overlay, CF_SYSTEM,
                                                 transaction_rows_from(), transaction_rows_to());
    bool is_good = true;
    for (overlay_iter_seek_first(iter); is_good && overlay_iter_valid(iter);
         overlay_iter_next(iter))
        is_good = load_decision(coordinator, overlay_iter_key(iter), overlay_iter_value(iter));
    is_good = is_good && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    return is_good;
}

bool coordinator_reload(struct coordinator *coordinator)
{
    struct list *next;
    for (struct list *at = coordinator->all.next; at != &coordinator->all; at = next) {
        struct coordinated *transaction = coordinated_at(at);
        next = at->next;
        if (state_is_in(transaction->state, UNDECIDED))
            coordinated_fail(transaction, METRIC_BACKEND_FAILED_LOG,
                             "TRYAGAIN a batch of shard '%s' could not be written",
                             transaction->id.shard);
    }
    return coordinator_load(coordinator);
}
