#include "backend/partition/gauges.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/rank/rank_cache.h"
#include "backend/session/limits.h"
#include "backend/session/memory.h"
#include "backend/session/session.h"
#include "backend/slots/slot_figures.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/overlay.h"
#include "backend/storage/range_cache.h"
#include "backend/storage/row_cache.h"
#include "backend/store/store.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <inttypes.h>
#include <string.h>

/* Adds the changes of the space's counters to the namespace's metrics, which several databases share. */
static void tell_space(struct partition *partition, struct space *space)
{
    if (space->keys == space->keys_told && space->expires == space->expires_told)
        return;
    if (!space->cell) {
        const char *end = space->name.len ? memchr(space->name.data, 0, space->name.len) : NULL;
        size_t len = end ? (size_t)(end - space->name.data) : space->name.len;
        struct bytes name = {space->name.data, len};
        space->cell = labels_cell(partition->process->labelled.spaces,
                                  len ? name : BYTES("default"), partition->index);
    }
    cell_add(space->cell, SPACE_KEYS, space->keys - space->keys_told);
    cell_add(space->cell, SPACE_EXPIRES, space->expires - space->expires_told);
    space->keys_told = space->keys;
    space->expires_told = space->expires;
}

static void set_transactions(const struct partition *partition)
{
    const struct partition_shards *shards = &partition->shards;
    struct metric_cell *cell = partition->metrics.cell;
    struct coordinator_figures own = coordinator_figures(shards->coordinator);
    struct participant_figures others = participant_figures(shards->participant);
    cell_set(cell, PARTITION_LOCKED_KEYS, lock_set_count(shards->locks));
    cell_set(cell, PARTITION_TRANSACTIONS_OPEN, own.count - own.decided);
    cell_set(cell, PARTITION_TRANSACTIONS_DECIDED, own.decided);
    cell_set(cell, PARTITION_TRANSACTIONS_JOINED, others.count);
    cell_set(cell, PARTITION_TRANSACTIONS_IN_DOUBT, own.uncertain + others.in_doubt);
}

/* Compares what the partition owns with what its shard map gives it. */
static void set_slots(struct partition *partition)
{
    const struct slot_table *table = partition->shards.slots;
    struct metric_cell *cell = partition->metrics.cell;
    struct slot_figures figures = slot_figures_of(partition);
    cell_set(cell, PARTITION_SLOTS_OWNED, figures.owned);
    cell_set(cell, PARTITION_SLOTS_WANTED, figures.wanted);
    cell_set(cell, PARTITION_SLOTS_TO_SEND, figures.to_send);
    cell_set(cell, PARTITION_SLOTS_TO_GET, figures.to_get);
    cell_set(cell, PARTITION_SLOTS_ORPHANED, figures.orphaned);
    cell_set(cell, PARTITION_IS_ELSEWHERE,
             partition->shards.peers && peer_set_is_elsewhere(partition->shards.peers));
    cell_set(cell, PARTITION_SLOTS_MOVING,
             slot_table_count(table, SLOT_EXPORTING) + slot_table_count(table, SLOT_FROZEN) +
                 slot_table_count(table, SLOT_IMPORTING) + slot_table_count(table, SLOT_STAGED));
}

void gauges_set(struct partition *partition)
{
    struct metric_cell *cell = partition->metrics.cell;
    struct space *space;
    size_t cursor = 0;
    struct row_cache_figures rows;
    struct range_cache_figures ranges;
    uint64_t hits;
    uint64_t misses;
    limits_tick(partition);
    while ((space = space_next(partition->spaces, &cursor)))
        tell_space(partition, space);
    cell_set(cell, PARTITION_KEYS, space_keys_total(partition->spaces));
    cell_set(cell, PARTITION_CLIENTS, partition->clients.count);
    cell_set(cell, PARTITION_READONLY,
             commit_refuses_writes(partition->commit, NULL) && !partition->copies.is_following);
    overlay_cache_figures(partition->overlay, &rows);
    cell_set(cell, PARTITION_ROW_HITS, rows.hits);
    cell_set(cell, PARTITION_ROW_MISSES, rows.misses);
    overlay_range_figures(partition->overlay, &ranges);
    cell_set(cell, PARTITION_RANGE_HITS, ranges.hits);
    cell_set(cell, PARTITION_RANGE_MISSES, ranges.misses);
    store_thread_blocks(&hits, &misses);
    cell_set(cell, PARTITION_BLOCK_HITS, hits);
    cell_set(cell, PARTITION_BLOCK_READS, misses);
    set_transactions(partition);
    set_slots(partition);
    cell_set(cell, PARTITION_MEMORY_CLIENTS, memory_of_clients(partition));
    cell_set(cell, PARTITION_MEMORY_BATCHES, overlay_memory(partition->overlay));
    cell_set(cell, PARTITION_MEMORY_RANKS, rank_cache_bytes(partition->caches.ranks));
    cell_set(cell, PARTITION_MEMORY_ROWS, rows.bytes);
    cell_set(cell, PARTITION_MEMORY_RANGES, ranges.bytes);
}

void gauges_turn_end(struct partition *partition)
{
    bool is_full = partition_is_full(partition);
    if (!partition->metrics.turn_us && is_full == (partition->metrics.full_us > 0))
        return;
    uint64_t now_us = clock_mono_us();
    if (partition->metrics.turn_us)
        cell_observe(partition->metrics.cell, PARTITION_TURN_SECONDS,
                     now_us - partition->metrics.turn_us);
    partition->metrics.turn_us = 0;
    if (!is_full && partition->metrics.full_us)
        cell_add(partition->metrics.cell, PARTITION_STALL_US, now_us - partition->metrics.full_us);
    if (is_full != (partition->metrics.full_us > 0))
        partition->metrics.full_us = is_full ? now_us : 0;
}
