#include "backend/session/bounced_slots.h"

#include "backend/context/partition.h"

#include <stdlib.h>

struct bounced_slots {
    struct slot_set slots;
    struct slot_set here; /* those of the partition without `slots`, as of `version` */
    uint64_t version;     /* partition_shards.here_version; 0: not computed yet */
};

void bounced_slots_add(struct bounced_slots **bounced, uint16_t slot)
{
    if (!*bounced)
        *bounced = calloc(1, sizeof **bounced);
    CHECK(*bounced);
    (*bounced)->slots.words[slot / 64] |= (uint64_t)1 << slot % 64;
    (*bounced)->version = 0;
}

bool bounced_slots_has(const struct bounced_slots *bounced, uint16_t slot)
{
    return bounced && slot_set_has(&bounced->slots, slot);
}

void bounced_slots_clear(struct bounced_slots **bounced)
{
    free(*bounced);
    *bounced = NULL;
}

const struct slot_set *bounced_slots_here(struct bounced_slots *bounced,
                                          const struct partition *partition)
{
    const struct slot_set *here = partition->shards.here;
    if (bounced->version == partition->shards.here_version)
        return &bounced->here;
    bounced->version = partition->shards.here_version;
    for (unsigned i = 0; i < SLOT_COUNT / 64; i++)
        bounced->here.words[i] = (here ? here->words[i] : UINT64_MAX) & ~bounced->slots.words[i];
    return &bounced->here;
}
