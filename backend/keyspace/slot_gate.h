/*
 * slot_gate.h - which keys of this partition commands may use while slots move (slots/slot_moves.h).
 *
 *   a slot is …          its keys are      commands that read them    commands that write them
 *   served               here              run                        run
 *   frozen               here              run                        wait some milliseconds: the slot is being released
 *   arriving             here, or nearly   wait                       wait until this partition owns the slot
 *   anything else        elsewhere         are refused, or borrow the key (borrow.h)
 *
 * A partition without slots that move has no struct moving_slots: then the gate costs one branch.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"

struct retry;

/* Slots in transition. */
struct moving_slots {
    struct slot_set frozen;
    struct slot_set arriving;
    bool has_frozen;
};

/* Does the partition serve the slot's keys? */
static inline bool slot_is_served(const struct partition *partition, uint16_t slot)
{
    return !partition->shards.is_gated || slot_set_has(partition->shards.here, slot);
}

/* The slots that the partition serves; NULL: all. */
static inline const struct slot_set *slots_served(const struct partition *partition)
{
    return partition->shards.is_gated ? partition->shards.here : NULL;
}

/* Must nothing be written to the slot's keys now? */
static inline bool slot_is_frozen(const struct partition *partition, uint16_t slot)
{
    return partition->shards.moving && slot_set_has(&partition->shards.moving->frozen, slot);
}

/* Is the slot in transition? */
static inline bool slot_is_moving(const struct partition *partition, uint16_t slot)
{
    const struct moving_slots *moving = partition->shards.moving;
    return moving && (slot_set_has(&moving->frozen, slot) || slot_set_has(&moving->arriving, slot));
}

/* Are there frozen slots? */
static inline bool slots_are_frozen(const struct partition *partition)
{
    return partition->shards.moving && partition->shards.moving->has_frozen;
}

/* True: the command may use the key, as far as moves are concerned. False: it waits (ERR_RETRY), or a TRYAGAIN was
 * replied because it cannot wait, or has waited for lock-timeout. A transaction that has locked a key of a frozen slot passes:
 * the slot is released only when it has ended. */
bool slot_pass(struct call *call, uint16_t slot, struct bytes row_key, bool writes);
/* As slot_pass, for a command that writes to all keys. */
bool slots_pass(struct call *call);
/* Makes the waiter wait until slots_resume. */
void slot_wait(struct partition *partition, struct retry *retry);
/* A slot's state has changed: everything that waits tries again. */
void slots_resume(struct partition *partition);
/* Resumes what has waited for lock-timeout; to be called several times a second. */
void slots_resume_late(struct partition *partition);
