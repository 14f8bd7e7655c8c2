/*
 * map_measure.h - asks the shards of a map for owners, moves, keys and bytes, for tools that run without a proxy.
 *
 *   snapshot (addresses, secret, TLS, timeouts) ─► a worker without clients ─► SCREE OWNERS, SCREE MOVES
 *                                                                          └─► SCREE WEIGHTS, page by page; CONFIG GET
 */
#pragma once

#include "config/reload.h"
#include "proxy/cluster/map_truth.h"

struct map_figures {
    struct map_truth *truth;
    /* by which the shards were asked: of a shard with copies, the first address is the leader's */
    struct shard_map *map;
    bool *has_weights;         /* [wish->shard_count]: keys and bytes of all its slots are known */
    uint64_t keys[SLOT_COUNT]; /* of slots whose owner was measured */
    uint64_t bytes[SLOT_COUNT];
    uint64_t load[SLOT_COUNT]; /* CPU time in the last minutes */
    bool has_rate;             /* at least one shard has reported its migration-rate */
    uint64_t rate;             /* the lowest of all shards, bytes per second; 0: none has a limit */
};

/* Asks the shards of the snapshot's map; waits for their replies or timeouts, at most `max_ms` (0: no limit). If `weighs`,
 * also for keys and bytes. */
struct map_figures *map_measure(struct proxy_snapshot *snapshot, bool weighs, uint64_t max_ms);
void map_figures_free(struct map_figures *figures);
/* Shards whose keys and bytes are not known. */
unsigned map_figures_missing(const struct map_figures *figures);
