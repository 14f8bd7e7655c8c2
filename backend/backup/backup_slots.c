#include "backend/backup/backup_slots.h"

#include "backend/backup/manifest.h"
#include "backend/backup/slot_copy.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/slot_gate.h"
#include "config/shards_file.h"
#include "shared/slot_ranges.h"

#include <stdlib.h>

const char *backup_slots_choose(struct backup_slots *slots, struct partition *partition,
                                struct bytes ranges, struct bytes map, struct bytes shard)
{
    char error[256];
    struct shard_map *wish = map.len ? shards_parse("", map, error, sizeof error) : NULL;
    int own = wish ? shard_map_named(wish, shard) : -1;
    bool has_any = false;
    slots->wanted = calloc(SLOT_COUNT, sizeof slots->wanted[0]);
    CHECK(slots->wanted);
    bool is_good = ranges.len <= BACKUP_SLOTS_MAX && slot_ranges_read(ranges, slots->wanted) &&
                   (wish || !map.len);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        slots->wanted[slot] &= wish ? shard_map_find(wish, (uint16_t)slot) == own
                                    : slot_is_served(partition, (uint16_t)slot);
        has_any |= slots->wanted[slot];
    }
    shard_map_unref(wish);
    slots->is_none = !has_any;
    slots->snapshot = config_snapshot_ref(partition->snapshot);
    if (!is_good)
        return "ERR invalid SLOTS: expected ranges such as 0-8191,9000, of at most 200 bytes";
    return has_any || map.len ? NULL : "ERR this shard owns none of these slots";
}

void backup_slots_forget(struct backup_slots *slots)
{
    free(slots->wanted);
    if (slots->snapshot)
        config_snapshot_unref(slots->snapshot);
    *slots = (struct backup_slots){0};
}

bool backup_slots_cut(const struct backup_slots *slots, const struct partition *partition,
                      const char *cut, struct disk_progress *progress, char *error, size_t size)
{
    return slot_copy(partition->process->env, &slots->snapshot->config, cut, slots->wanted,
                     progress, error, size);
}
