/*
 * backup_slots.h - the slots of a backup that has not all of them.
 */
#pragma once

#include "backend/backup/disk_file.h"

struct config_snapshot;
struct partition;

struct backup_slots {
    bool *wanted; /* heap; those that this partition owns. NULL: all slots are backed up */
    bool is_none; /* it owns none of them */
    struct config_snapshot *snapshot; /* for opening the cut */
};

/* Reads which slots are backed up. `map`: of the backup, with this partition as `shard`; empty: it is backed up alone, and its records
 * say what it owns. NULL, or the reason for a refusal. */
const char *backup_slots_choose(struct backup_slots *slots, struct partition *partition,
                                struct bytes ranges, struct bytes map, struct bytes shard);
void backup_slots_forget(struct backup_slots *slots);
/* Replaces the cut by a store that has only these slots. On the worker's thread. False and a reason. */
bool backup_slots_cut(const struct backup_slots *slots, const struct partition *partition,
                      const char *cut, struct disk_progress *progress, char *error, size_t size);
