#include "backend/partition/slot_bytes.h"

#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"
#include "backend/store/store.h"

enum { SPACES_MAX = 256 };

static uint64_t file_bytes(const struct partition *partition, uint16_t first, uint16_t last)
{
    static const enum cf families[] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    struct bytes from[SPACES_MAX], to[SPACES_MAX];
    uint64_t bytes[SPACES_MAX];
    uint64_t sum = 0;
    size_t count = 0;
    size_t cursor = 0;
    struct space *space;
    struct arena arena;
    arena_init(&arena);
    while (count < SPACES_MAX && (space = space_next(partition->spaces, &cursor))) {
        if (!space->keys)
            continue;
        from[count] = encode_slot_prefix(&arena, space->name, first);
        to[count++] = encode_prefix_end(&arena, encode_slot_prefix(&arena, space->name, last));
    }
    for (size_t f = 0; count && f < sizeof families / sizeof families[0]; f++) {
        store_range_bytes(storage_store(partition->storage), families[f], from, to, count, bytes);
        for (size_t i = 0; i < count; i++)
            sum += bytes[i];
    }
    arena_fini(&arena);
    return sum;
}

uint64_t slot_bytes_estimate(const struct partition *partition, uint16_t first, uint16_t last)
{
    uint64_t keys = 0;
    uint64_t expires = 0;
    uint64_t total = space_keys_total(partition->spaces);
    double in_memory = (double)store_figure(storage_store(partition->storage), "memtable_bytes") +
                       (double)overlay_memory(partition->overlay);
    space_count_slots(partition->spaces, first, last, &keys, &expires);
    if (!keys || !total)
        return 0;
    return file_bytes(partition, first, last) +
           (uint64_t)(in_memory * (double)keys / (double)total);
}
