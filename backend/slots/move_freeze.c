/*
 * move_freeze.c - writes to the slots of a move wait: in turns while the target is behind, and during the hand-over.
 *
 *   FOLLOWING ── late ──► brake on ─ off ─ on …     (2) of move_source.h
 *       └─ near ─► freeze ─► FREEZING ─► transactions have ended, the log has everything ─► DRAINING ─► ENDING ─► RELEASING
 *       ◄───────── thaw ──── it takes too long, or the target is gone ──┴──────────────────────┘
 */
#include "backend/slots/move_source.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/lock.h"
#include "backend/slots/move_source_inner.h"

enum { FREEZE_MAX_MS = 10000 };

uint64_t move_freeze_ended(const struct move_source *move)
{
    uint64_t frozen_ms = move_now_ms(move) - move->frozen_ms;
    cell_observe(move->host->partition->metrics.cell, PARTITION_FREEZE_SECONDS, frozen_ms * 1000);
    return frozen_ms;
}

struct bytes move_why_not_frozen(const struct move_source *move)
{
    const struct peer_link *link = move_target_link(move);
    if (!link || link->state != PEER_LINK_UP)
        return BYTES("the target shard is not connected");
    if (lock_is_in_doubt_in(move->host->partition->shards.locks, move->slots.first,
                            move->slots.last))
        return BYTES("a transaction on keys of the slots is in doubt (SCREE TRANSACTIONS)");
    return BYTES("");
}

bool move_is_late(const struct move_source *move)
{
    return move_now_ms(move) >= move->copy.late_ms;
}

static void set_brake(struct move_source *move, bool is_on)
{
    struct move_brake *brake = &move->brake;
    brake->is_on = is_on;
    brake->until_ms = move_now_ms(move) + (is_on ? brake->on_ms : brake->off_ms);
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

void move_brake_step(struct move_source *move)
{
    const struct move_brake *brake = &move->brake;
    uint64_t now_ms = move_now_ms(move);
    bool is_near = !move_is_late(move) || move->copy.rounds;
    if (now_ms < brake->until_ms)
        return;
    if (brake->is_on) {
        brake_more(move);
        set_brake(move, false);
    } else if (!is_near && now_ms >= move->retry_ms && !move->host->is_paused &&
               !move_why_not_frozen(move).len) {
        set_brake(move, true);
    }
}

/* ---- handing over ---- */

void move_thaw(struct move_source *move, struct bytes reason)
{
    ticket_wait_cancel(&move->ticket);
    move->is_stale = true;
    (void)move_freeze_ended(move);
    move_set_state(move, SOURCE_FOLLOWING);
    move_wait_because(move, reason);
}

void move_thaw_late(struct move_source *move)
{
    move->freeze_ms = move->freeze_ms < FREEZE_MAX_MS / 2 ? move->freeze_ms * 2 : FREEZE_MAX_MS;
    move_thaw(move, BYTES("handing over took too long, it will be tried again"));
}

void move_freeze(struct move_source *move)
{
    struct bytes reason = move_why_not_frozen(move);
    if (reason.len) {
        move_wait_because(move, reason);
        return;
    }
    move->frozen_ms = move_now_ms(move);
    move->copy.rounds = 0;
    move->brake.is_on = false;
    move_set_state(move, SOURCE_FREEZING);
    lock_wound_in(move->host->partition->shards.locks, move->slots.first, move->slots.last);
}

void move_on_frozen(struct ticket_wait *wait, int err)
{
    struct move_source *move = container_of(wait, struct move_source, ticket);
    if (err || move->state != SOURCE_FREEZING)
        return;
    move_set_state(move, SOURCE_DRAINING);
    move_source_step(move);
}

void move_await_quiet(struct move_source *move)
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

bool move_is_frozen_too_long(const struct move_source *move)
{
    return move_now_ms(move) >= move->frozen_ms + move->freeze_ms;
}
