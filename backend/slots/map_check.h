/*
 * map_check.h - may the partitions of this process have their places in a shard map?
 *
 *   struct map_check check = {0};
 *   for each partition of the process: map_check(&check, …)
 *
 * Copies of a shard are in different processes, since a copy beside another one on its disk protects from nothing. A record counts as a
 * copy's when it is on the disk, so replies wait for that.
 */
#pragma once

#include "backend/context/process.h"

struct partition;
struct shard;

/* Zeros: no partition was checked. */
struct map_check {
    const struct shard *taken[PARTITIONS_MAX]; /* shards of the partitions that were checked */
    unsigned count;
    /* a shard gets copies, and the partition that serves it has begun without */
    bool needs_restart;
};

/* Checks the place of this partition, whose port is known, in the map of the snapshot, which may be NULL. False: the map is refused, or an
 * option that copies need is missing, for the reason in error[size]. */
bool map_check(struct map_check *check, const struct config_snapshot *snapshot,
               const struct partition *partition, char *error, size_t size);
