/*
 * prepared_slots.h - the slots of keys that prepared transactions over shards will change here, at a copy that follows.
 *
 *   row '2' 'p' (transaction_record.h): effects of slots 7 and 99 ─► bits 7 and 99, until the row is gone
 *
 * A transaction is committed by its coordinator, and its client has its reply, before its other shards apply what they have prepared. A leader
 * locks the keys until then. A copy has no locks, but all rows: what is prepared was prepared before it could be committed.
 */
#pragma once

#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct overlay;

struct prepared_slots {
    bool is_known; /* false: it is to be read again, since rows of transactions have changed */
    uint8_t bits[SLOT_COUNT / 8];
};

/* Is a change of the slot prepared? Reads the rows if they are not known; true also if they cannot be read. */
bool prepared_slots_has(struct prepared_slots *prepared, struct overlay *overlay, uint16_t slot);
