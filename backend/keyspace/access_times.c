#include "backend/keyspace/access_times.h"

#include "shared/check.h"

#include <stdlib.h>

enum {
    SLOTS = 8, /* of a bucket, which is one cache line */
    TAG_SHIFT = 32,
};

struct slot {
    uint32_t tag;
    uint32_t second; /* since 1970; 0: the slot is free */
};

struct bucket {
    struct slot slots[SLOTS];
};

struct access_times {
    struct bucket *buckets; /* in `memory`, each in one cache line */
    void *memory;
    size_t count; /* a power of two */
    uint64_t start_s;
};

struct access_times *access_times_new(size_t bytes, uint64_t now_s)
{
    struct access_times *times = calloc(1, sizeof *times);
    CHECK(times);
    times->start_s = now_s;
    times->count = 1;
    while (times->count * 2 * sizeof(struct bucket) <= bytes)
        times->count *= 2;
    size_t size = times->count * sizeof(struct bucket);
    times->memory = calloc(1, size + sizeof(struct bucket)); /* zeros that use no memory yet */
    CHECK(times->memory);
    uintptr_t at = (uintptr_t)times->memory + sizeof(struct bucket) - 1;
    times->buckets = (struct bucket *)(at - at % sizeof(struct bucket));
    return times;
}

void access_times_free(struct access_times *times)
{
    if (!times)
        return;
    free(times->memory);
    free(times);
}

static struct bucket *bucket_of(const struct access_times *times, uint64_t hash)
{
    return &times->buckets[hash & (times->count - 1)];
}

void access_times_prefetch(const struct access_times *times, uint64_t hash)
{
    __builtin_prefetch(bucket_of(times, hash), 1);
}

/* The slot of the key; if it has none, a free slot of its bucket, else the slot with the oldest access. */
static struct slot *access_slot(const struct access_times *times, uint64_t hash)
{
    struct slot *slots = bucket_of(times, hash)->slots;
    uint32_t tag = (uint32_t)(hash >> TAG_SHIFT);
    struct slot *oldest = slots;
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].tag == tag && slots[i].second)
            return &slots[i];
        if (slots[i].second < oldest->second)
            oldest = &slots[i];
    }
    return oldest;
}

void access_times_touch(struct access_times *times, uint64_t hash, uint64_t accessed_s)
{
    const struct slot accessed = {(uint32_t)(hash >> TAG_SHIFT), (uint32_t)accessed_s};
    struct slot *slot = access_slot(times, hash);
    if (slot->second != accessed.second || slot->tag != accessed.tag) /* avoids a needless write */
        *slot = accessed;
}

uint64_t access_times_idle(const struct access_times *times, uint64_t hash, uint64_t now_s)
{
    const struct slot *slot = access_slot(times, hash);
    uint64_t accessed_s = slot->second ? slot->second : times->start_s;
    return now_s > accessed_s ? now_s - accessed_s : 0;
}
