/*
 * memory_stats.h - the figures of MEMORY STATS: a partition replies its own, a proxy the sums over its shards.
 *
 *   partition:  struct memory_stats ──memory_stats_reply──► map of names and figures
 *   proxy:      map ──memory_stats_read──► add, add … ──memory_stats_reply──► map
 *
 * Percentages and ratios are computed from the figures when they are replied, so a proxy's sums have correct ones too.
 */
#pragma once

#include "shared/reply.h"

/* Figures in bytes. Those of the allocator and of the block cache are of the whole process, which partitions share. */
struct memory_stats {
    uint64_t peak_allocated; /* largest resident size */
    uint64_t total_allocated;
    uint64_t startup_allocated;
    uint64_t clients;
    uint64_t batches; /* effects that are not committed yet */
    uint64_t scripts;
    uint64_t functions;
    uint64_t block_cache;
    uint64_t memtables;
    uint64_t table_readers;
    uint64_t keys; /* number of keys */
    uint64_t allocator_active;
    uint64_t allocator_resident;
    uint64_t rss;
};

void memory_stats_reply(const struct memory_stats *stats, struct reply *reply);
/* Reads what memory_stats_reply() wrote; false when the frame is something else. */
bool memory_stats_read(struct bytes frame, struct memory_stats *stats);
/* Adds a partition's figures. `is_new_process`: no partition of this process has been added before. */
void memory_stats_add(struct memory_stats *sum, const struct memory_stats *stats,
                      bool is_new_process);
