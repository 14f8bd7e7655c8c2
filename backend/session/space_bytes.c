#include "backend/session/space_bytes.h"

#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/write_history.h"
#include "backend/store/store.h"

enum { SPACES_MAX = 256 };

/* Ranges of rows: those of each space, or of some of its slots. */
struct row_ranges {
    struct arena arena;
    struct bytes from[SPACES_MAX], to[SPACES_MAX];
    size_t count;
};

static void add_row_range(struct row_ranges *ranges, struct bytes first, struct bytes last)
{
    ranges->from[ranges->count] = first;
    ranges->to[ranges->count++] = encode_prefix_end(&ranges->arena, last);
}

/* Bytes of the ranges in files. */
static uint64_t file_bytes(const struct partition *partition, const struct row_ranges *ranges)
{
    static const enum cf families[] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    uint64_t bytes[SPACES_MAX];
    uint64_t sum = 0;
    for (size_t f = 0; ranges->count && f < sizeof families / sizeof families[0]; f++) {
        store_range_bytes(storage_store(partition->storage), families[f], ranges->from, ranges->to,
                          ranges->count, bytes);
        for (size_t i = 0; i < ranges->count; i++)
            sum += bytes[i];
    }
    return sum;
}

static uint64_t memory_bytes(const struct partition *partition)
{
    return store_figure(storage_store(partition->storage), "memtable_bytes") +
           overlay_memory(partition->overlay);
}

static uint64_t blobs(const struct partition *partition)
{
    return store_figure(storage_store(partition->storage), "blob_bytes");
}

/* The share of `keys` keys in bytes that cannot be attributed to ranges of rows. */
static uint64_t share_by_keys(const struct partition *partition, uint64_t keys, uint64_t shared)
{
    uint64_t total = space_keys_total(partition->spaces);
    double bytes = (double)shared;
    return total ? (uint64_t)(bytes * (double)keys / (double)total) : 0;
}

uint64_t slot_bytes_estimate(const struct partition *partition, uint16_t first, uint16_t last)
{
    uint64_t keys = 0;
    uint64_t expires = 0;
    size_t cursor = 0;
    struct space *space;
    struct row_ranges ranges = {.count = 0};
    space_count_slots(partition->spaces, first, last, &keys, &expires);
    if (!keys || !space_keys_total(partition->spaces))
        return 0;
    arena_init(&ranges.arena);
    while (ranges.count < SPACES_MAX && (space = space_next(partition->spaces, &cursor)))
        if (space->keys)
            add_row_range(&ranges, encode_slot_prefix(&ranges.arena, space->name, first),
                          encode_slot_prefix(&ranges.arena, space->name, last));
    uint64_t bytes = file_bytes(partition, &ranges) +
                     share_by_keys(partition, keys, memory_bytes(partition) + blobs(partition));
    arena_fini(&ranges.arena);
    return bytes;
}

uint64_t space_bytes_estimate(const struct partition *partition, struct space *const *spaces,
                              size_t count)
{
    uint64_t keys = 0;
    uint64_t unfiled = 0;
    struct row_ranges ranges = {.count = 0};
    arena_init(&ranges.arena);
    for (size_t i = 0; i < count && ranges.count < SPACES_MAX; i++) {
        if (!spaces[i])
            continue;
        struct bytes prefix = encode_space_prefix(&ranges.arena, spaces[i]->name);
        add_row_range(&ranges, prefix, prefix);
        keys += spaces[i]->keys;
        unfiled += write_history_bytes(partition->caches.written, spaces[i],
                                       partition->caches.unfiled_bytes);
    }
    uint64_t bytes =
        file_bytes(partition, &ranges) + unfiled + share_by_keys(partition, keys, blobs(partition));
    arena_fini(&ranges.arena);
    return bytes;
}

void space_bytes_tick(struct partition *partition)
{
    struct partition_caches *caches = &partition->caches;
    uint64_t bytes = memory_bytes(partition);
    if (!caches->empty_bytes || bytes < caches->empty_bytes)
        caches->empty_bytes = bytes;
    caches->unfiled_bytes = bytes - caches->empty_bytes;
}

uint64_t partition_bytes(const struct partition *partition)
{
    struct store *store = storage_store(partition->storage);
    return store_figure(store, "sst_bytes") + store_figure(store, "blob_bytes") +
           memory_bytes(partition);
}
