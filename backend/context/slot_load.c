#include "backend/context/slot_load.h"

#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/slot.h"

#include <stdlib.h>

enum {
    HALF_LIFE_MS = 60 * 1000,
    ARGUMENT_BYTES = 5 /* of an argument in RESP, without its text */
};

struct slot_load *slot_load_new(void)
{
    struct slot_load *load = calloc(1, sizeof *load + SLOT_COUNT * sizeof load->slots[0]);
    CHECK(load);
    load->random = 1;
    return load;
}

void slot_load_free(struct slot_load *load)
{
    free(load);
}

void slot_load_choose(struct partition *partition, uint16_t slot)
{
    struct slot_load *load = partition->metrics.slot_load;
    load->random = load->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    /* 1 to 31, 16 on the average */
    partition->running.load_countdown =
        1 + (uint32_t)(load->random >> 33) % (2 * SLOT_LOAD_EVERY - 1);
    partition->running.load_slot = slot;
}

void slot_load_add(const struct call *call, uint64_t usec)
{
    struct partition *partition = call->partition;
    struct slot_cost *cost = &partition->metrics.slot_load->slots[partition->running.load_slot];
    uint64_t bytes_in = 0;
    for (uint32_t i = 0; i < call->argc; i++)
        bytes_in += call->argv[i].len + ARGUMENT_BYTES;
    slot_load_age(partition);
    cost->usec += usec * SLOT_LOAD_EVERY;
    cost->recent += usec * SLOT_LOAD_EVERY;
    cost->bytes_in += bytes_in * SLOT_LOAD_EVERY;
    if (call->reply.out->bytes > call->begun)
        cost->bytes_out += (call->reply.out->bytes - call->begun) * SLOT_LOAD_EVERY;
    partition->running.load_slot = LOAD_SLOT_NONE;
}

void slot_load_age(struct partition *partition)
{
    struct slot_load *load = partition->metrics.slot_load;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t halvings = (now_ms - load->aged_ms) / HALF_LIFE_MS;
    if (!load->aged_ms)
        load->aged_ms = now_ms;
    else if (halvings) {
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
            load->slots[slot].recent = halvings < 64 ? load->slots[slot].recent >> halvings : 0;
        load->aged_ms += halvings * HALF_LIFE_MS;
    }
}

void slot_load_forget(struct partition *partition, uint16_t first, uint16_t last)
{
    memset(&partition->metrics.slot_load->slots[first], 0,
           (size_t)(last - first + 1) * sizeof(struct slot_cost));
}

void slot_load_reset(struct partition *partition)
{
    struct slot_cost *slots = partition->metrics.slot_load->slots;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        slots[slot].usec = slots[slot].bytes_in = slots[slot].bytes_out = 0;
}
