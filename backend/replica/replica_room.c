/*
 * replica_room.c - which copies have room for records.
 *
 *   each copy    home: free space ─► replica_note_room ─┬─► bits of its core's state ─► replies ─► leader: the room that most voters have
 *                log: no space found ───────────────────┘                                            └─► replica_room_of_most: home refuses writes
 *
 * Home says REPLICA_ROOM_NONE while its disk has some space left. The rest is for PROBEs: a leader that is elected while all disks are full
 * serves, so reads go on.
 *
 * A leader takes a member that has not answered yet for as full as itself: else each new leader with a full disk would hand over at once, and
 * that one again.
 */
#include "backend/replica/replica_inner.h"
#include "shared/clock.h"

/* ---- what this copy reports -------------------------------------------------------------------- */

void replica_report(struct replica *replica, enum consensus_state bit, bool is_set)
{
    uint8_t others = (uint8_t)(replica->core.state & ~(unsigned)bit);
    uint8_t state = (uint8_t)(others | (is_set ? (unsigned)bit : 0));
    if (replica->has_core && state != replica->core.state)
        replica_step(replica, (struct consensus_event){.kind = CONSENSUS_STATE, .state = state});
}

static void report_room(struct replica *replica)
{
    int room = atomic_load(&replica->shown.own_room);
    replica_report(replica, CONSENSUS_LOW, room != REPLICA_ROOM);
    replica_report(replica, CONSENSUS_FULL, room == REPLICA_ROOM_NONE || replica->disk.is_full);
}

void replica_log_is_full(struct replica *replica, bool is_full)
{
    replica->disk.is_full = is_full;
    report_room(replica);
}

/* ---- what a leader hears ----------------------------------------------------------------------- */

enum replica_room replica_room_at(const struct consensus *core, unsigned at)
{
    const struct consensus_progress *progress = &core->progress[at];
    bool is_other = core->members.list[at].id != core->id && progress->has_answered;
    uint8_t state = is_other ? progress->state : core->state;
    if (state & CONSENSUS_FULL)
        return REPLICA_ROOM_NONE;
    return state & CONSENSUS_LOW ? REPLICA_ROOM_LOW : REPLICA_ROOM;
}

/* A voter that was not heard for E takes nothing. */
static bool is_heard(const struct consensus *core, unsigned at, uint64_t now_us)
{
    return core->members.list[at].id == core->id ||
           core->progress[at].heard_us + core->election_us > now_us;
}

static bool most_have(const struct consensus *core, enum replica_room room)
{
    unsigned voters = 0, count = 0;
    uint64_t now_us = clock_boot_us();
    for (unsigned i = 0; i < core->members.count; i++) {
        bool is_voter = core->members.list[i].kind == CONSENSUS_VOTER;
        voters += is_voter;
        count += is_voter && is_heard(core, i, now_us) && replica_room_at(core, i) <= room;
    }
    return 2 * count > voters;
}

static enum replica_room find_room_of_most(const struct replica *replica)
{
    const struct consensus *core = &replica->core;
    if (!replica->has_core || core->role < CONSENSUS_LEADING || most_have(core, REPLICA_ROOM))
        return REPLICA_ROOM;
    return most_have(core, REPLICA_ROOM_LOW) ? REPLICA_ROOM_LOW : REPLICA_ROOM_NONE;
}

void replica_room_note(struct replica *replica)
{
    atomic_store(&replica->shown.room_of_most, (int)find_room_of_most(replica));
}

void replica_room_tick(struct replica *replica)
{
    report_room(replica);
    replica_room_note(replica);
}

/* ---- home -------------------------------------------------------------------------------------- */

void replica_note_room(struct replica *replica, enum replica_room room)
{
    atomic_store(&replica->shown.own_room, (int)room);
}

enum replica_room replica_room_of_most(const struct replica *replica)
{
    return (enum replica_room)atomic_load(&replica->shown.room_of_most);
}
