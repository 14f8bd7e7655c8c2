/*
 * backup_slots.h - which slots a partition backs up, when a backup is limited to some slots.
 */
#pragma once

#include "backend/backup/disk_file.h"

struct config_snapshot;
struct partition;

struct backup_slots {
    bool *wanted; /* heap; slots to back up that this partition owns. NULL: all slots */
    bool is_none; /* this partition owns none of the slots to back up */
    struct config_snapshot *snapshot; /* for opening the cut */
};

/* Finds the slots to back up that this partition owns. `map`: the backup's shard map, in which this partition is `shard`; empty: the
 * partition is backed up alone, and the records in its store name the slots that it owns. Returns NULL, or the reason for a refusal. */
const char *backup_slots_choose(struct backup_slots *slots, struct partition *partition,
                                struct bytes ranges, struct bytes map, struct bytes shard);
void backup_slots_forget(struct backup_slots *slots);
/* Replaces the cut by a store that has only these slots. Runs on a worker thread. Returns false and a reason on failure. */
bool backup_slots_cut(const struct backup_slots *slots, const struct partition *partition,
                      const char *cut, struct disk_progress *progress, char *error, size_t size);
