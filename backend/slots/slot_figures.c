#include "backend/slots/slot_figures.h"

#include "backend/context/config_snapshot.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/slot_table.h"

#include <string.h>

/* Is the partition the owner in this state? */
static bool is_owning(uint8_t state)
{
    return state == SLOT_OWNED || state == SLOT_EXPORTING || state == SLOT_FROZEN;
}

/* Is no other shard the owner of this slot, which the map gives to the partition `own`, and is it not being moved here? */
static bool is_orphaned(const struct partition *partition, uint16_t slot, const char *own)
{
    uint8_t state = slot_table_state(partition->shards.slots, slot);
    const char *owner = partition->shards.slot_owner(partition, slot);
    return state != SLOT_IMPORTING && state != SLOT_STAGED && (!owner || strcmp(owner, own) == 0);
}

struct slot_figures slot_figures_of(const struct partition *partition)
{
    const struct shard_map *map = partition->snapshot->map;
    const struct peer_set *peers = partition->shards.peers;
    int own = map && peers ? shard_map_named(map, bytes_of(peer_set_shard(peers))) : -1;
    bool may_be_orphaned = partition->shards.is_gated && !partition->shards.is_held;
    struct slot_figures figures = {0};
    for (unsigned slot = 0; map && slot < SLOT_COUNT; slot++) {
        bool is_owned = is_owning(slot_table_state(partition->shards.slots, (uint16_t)slot));
        bool is_wanted = shard_map_find(map, (uint16_t)slot) == own;
        figures.owned += is_owned;
        figures.wanted += is_wanted;
        figures.to_send += is_owned && !is_wanted;
        figures.to_get += is_wanted && !is_owned;
        figures.orphaned += is_wanted && !is_owned && may_be_orphaned &&
                            is_orphaned(partition, (uint16_t)slot, map->shards[own].name);
    }
    return figures;
}
