#include "proxy/upstream/big_slots.h"

void big_slots_note(struct big_slots *slots, uint16_t slot, uint32_t now_ms)
{
    if (big_slots_has(slots, slot))
        return;
    if (slots->count++ == 0)
        slots->since_ms = now_ms;
    slots->words[slot / 64] |= (uint64_t)1 << slot % 64;
}

void big_slots_tick(struct big_slots *slots, uint32_t now_ms)
{
    if (slots->count && now_ms - slots->since_ms > BIG_SLOTS_KEPT_MS)
        *slots = (struct big_slots){0};
}
