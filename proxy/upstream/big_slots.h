/*
 * big_slots.h - slots of which a request or a reply was big lately: a worker sends their requests on LANE_HEAVY.
 *
 *   GET big ─► LANE_NORMAL ─► a reply of 200 MB: the replies of other clients wait behind it ─► note its slot
 *   GET big ─► LANE_HEAVY, as are all requests of this slot
 *
 * How long a reply will be is not known when its request is sent, but who reads a big value once mostly does so again. Small keys of
 * such a slot, one in 16384, share the lane. All slots are forgotten after some time, because values shrink.
 */
#pragma once

#include "shared/slot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BIG_BYTES = 1024 * 1024, /* hold up what is behind them for longer than most commands take */
    BIG_SLOTS_KEPT_MS = 10 * 60 * 1000,
};

struct big_slots {
    uint32_t count;
    uint32_t since_ms; /* when the first one was noted; low bits of the loop's time */
    uint64_t words[SLOT_COUNT / 64];
};

static inline bool big_slots_has(const struct big_slots *slots, uint16_t slot)
{
    return slots->count && slots->words[slot / 64] >> slot % 64 & 1;
}

void big_slots_note(struct big_slots *slots, uint16_t slot, uint32_t now_ms);
/* To be called now and then: forgets all slots when the time is over. */
void big_slots_tick(struct big_slots *slots, uint32_t now_ms);
