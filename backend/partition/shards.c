#include "backend/partition/shards.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/bounce.h"
#include "backend/keyspace/lock_waiter.h"
#include "backend/partition/stopping.h"
#include "backend/peer/peer_set.h"
#include "backend/session/limits.h"
#include "backend/session/pubsub.h"
#include "backend/slots/key_arrival.h"
#include "backend/slots/peering.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"
#include "backend/slots/stray_moves.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"
#include "backend/transaction/portion.h"

enum {
    TICK_MS = 50,
    HELD_TICK_MS = 5, /* all clients wait for what others of the cluster say */
};

/* Commands that wait for locks since before `since_ms` have waited for too long. */
static void end_old_waits(struct partition *partition, uint64_t since_ms)
{
    lock_wake_old(partition->shards.locks, since_ms);
    lock_waiters_tick(partition, since_ms);
}

static void tick_shards(void *owner)
{
    struct partition *partition = owner;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t timeout_ms = partition->snapshot->config.lock_timeout_ms;
    if (partition->shards.is_held && !partition->copies.is_closed)
        timer_start(partition->shards.tick, HELD_TICK_MS, TICK_MS);
    key_arrivals_tick(partition->shards.strays.arrivals); /* changes no data */
    if (partition->running.busy_error || partition->copies.is_closed ||
        partition_lease_is_over(partition))
        return;              /* the data must not change during a slow script */
    peering_tick(partition); /* may bring the time for which clients are held */
    slot_owners_tick(partition->shards.owners);
    slot_moves_tick(partition->shards.moves);
    pubsub_check_slots(partition);
    bounce_tick(partition);
    if (partition->shards.has_changed && partition->shards.is_gated)
        blocking_end_foreign(partition->watchers.blocking);
    partition->shards.has_changed = false;
    participant_tick(partition->shards.participant);
    coordinator_tick(partition->shards.coordinator);
    lock_end_reservations(partition->shards.locks);
    if (lock_set_count(partition->shards.locks) && now_ms > timeout_ms)
        end_old_waits(partition, now_ms - timeout_ms);
    limits_tick_waits(partition);
    overlay_await_secured(partition->overlay);
}

/* A copy reads them when it leads: its tables may have a part of a batch, in which two transactions have prepared the same key. */
static bool load_transactions(struct partition *partition)
{
    return storage_is_replicated(partition->storage) ||
           (participant_load(partition->shards.participant) &&
            coordinator_load(partition->shards.coordinator));
}

void shards_tick_soon(struct partition *partition)
{
    timer_start(partition->shards.tick, 1, TICK_MS);
}

bool shards_new(struct partition *partition)
{
    struct partition_shards *shards = &partition->shards;
    partition->metrics.slot_load = slot_load_new();
    partition->running.load_countdown = 1;
    partition->running.load_slot = LOAD_SLOT_NONE;
    shards->peers = peering_new(partition);
    shards->slots = slot_table_new(partition);
    shards->owners = slot_owners_new(partition);
    shards->moves = slot_moves_new(partition);
    shards->strays.moves = stray_moves_new(partition);
    shards->strays.arrivals = key_arrivals_new(partition);
    bounce_init(partition);
    shards->locks = lock_set_new(partition->metrics.cell);
    shards->steps.portion_bytes = PORTION_BYTES;
    shards->steps.apply_effects = APPLY_EFFECTS;
    shards->coordinator = coordinator_new(partition);
    shards->participant = participant_new(partition);
    stopping_set_drained(partition, false);
    shards->tick = timer_new(partition->loop, tick_shards, partition);
    timer_start(shards->tick, TICK_MS, TICK_MS);
    return slot_table_load(shards->slots) && load_transactions(partition);
}

void shards_free(struct partition *partition)
{
    stopping_set_drained(partition, true);
    timer_free(partition->shards.tick);
    bounce_free(partition);
    participant_free(partition->shards.participant);
    coordinator_free(partition->shards.coordinator);
    lock_set_free(partition->shards.locks);
    stray_moves_free(partition->shards.strays.moves);
    key_arrivals_free(partition->shards.strays.arrivals);
    slot_moves_free(partition->shards.moves);
    slot_owners_free(partition->shards.owners);
    slot_table_free(partition->shards.slots);
    slot_load_free(partition->metrics.slot_load);
}

void shards_forget(struct partition *partition)
{
    coordinator_drop(partition->shards.coordinator);
    participant_drop(partition->shards.participant);
}

void shards_drop(struct partition *partition)
{
    struct partition_shards *shards = &partition->shards;
    if (shards->peers)
        peer_set_cut(shards->peers);
    shards_forget(partition);
    stray_moves_load(shards->strays.moves);
    key_arrivals_load(shards->strays.arrivals);
}

/* The requests that end with the links are those of parts that stay: they hear that the connection broke. */
void shards_renew(struct partition *partition)
{
    struct partition_shards *shards = &partition->shards;
    slot_moves_free(shards->moves);
    shards->moves = slot_moves_new(partition);
    shards->is_held = false;
    if (shards->peers)
        peer_set_close(shards->peers);
    slot_owners_step_down(shards->owners);
}

bool shards_reload_slots(struct partition *partition)
{
    if (!slot_table_load(partition->shards.slots))
        return false;
    slot_owners_load(partition->shards.owners);
    return true;
}

bool shards_reload(struct partition *partition)
{
    if (!slot_table_load(partition->shards.slots))
        return false;
    slot_moves_load(partition->shards.moves);
    stray_moves_load(partition->shards.strays.moves);
    key_arrivals_load(partition->shards.strays.arrivals);
    slot_owners_load(partition->shards.owners);
    /* keys of prepared transactions can be locked again when own transactions have released them */
    return coordinator_reload(partition->shards.coordinator) &&
           participant_load(partition->shards.participant);
}
