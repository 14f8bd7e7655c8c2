/*
 * row_cache.c - a hash table of positions in a circular log.
 *
 * A place counts the units of 8 bytes written since the cache was created, so places only grow. A row is at its place
 * modulo the size of the log, until the end of the log is that size ahead. So evicting costs nothing: a place that is
 * too far behind is ignored.
 *
 * Memory is used as the log fills: the index begins with one page of buckets, and grows with the log by linear hashing. One
 * bucket is split at a time, so that no command waits while a whole index is built again:
 *
 *   0 1 2 3 │ 4 5       buckets 4 and 5 were split from 0 and 1; the next one, 6, takes its rows from 2
 *   └ round ┘
 *
 * Between two calls of row_cache_release_borrowed at most a quarter of the log is written, and rows that are read are in the
 * newer half, or are moved to the end: so a borrowed value is not overwritten.
 */
#include "backend/storage/row_cache.h"

#include "backend/storage/write_buffer.h"
#include "shared/check.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    UNIT = 8,         /* bytes of a place's unit */
    BUCKET_SLOTS = 8, /* a cache line */
    BUCKET_MARKS = 4, /* marks of rows that were read once, per bucket */
    ROW_BYTES = 80,   /* a small row: determines the number of slots */
    ROW_BYTES_MAX = 16 * 1024,
    LOG_BYTES_MIN = 8 * ROW_BYTES_MAX,
    PLACE_BITS = 48,
    BUCKETS_MIN = 64, /* a page */
    SPLITS_MAX = 64,  /* bucket splits for one row */
};

#define PLACE_MAX ((UINT64_C(1) << PLACE_BITS) - 1)

struct log_row {
    uint32_t value_len;
    uint16_t key_len;
    uint16_t cf;
    char bytes[]; /* key, value */
};

struct bucket {
    uint64_t slots[BUCKET_SLOTS]; /* tag above PLACE_BITS bits of place; 0: free */
};

struct row_cache {
    struct bucket *buckets;
    size_t buckets_max;  /* a power of two */
    size_t bucket_count; /* buckets in use */
    size_t round;        /* the power of two with round <= bucket_count < 2 * round */
    uint16_t *marks;     /* tags: BUCKET_MARKS per bucket, newest first */
    char *log;
    uint64_t log_units;
    uint64_t end;  /* place of the next row */
    uint64_t room; /* units that may be written until the next row_cache_release_borrowed */
    uint64_t hits, misses;
};

/* Zeroed memory, allocated when it is first used. Access is random, so huge pages reduce TLB misses. */
static void *map_bytes(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(bytes != MAP_FAILED);
    (void)madvise(bytes, size, MADV_HUGEPAGE);
    return bytes;
}

static size_t marks_bytes(size_t buckets)
{
    return buckets * BUCKET_MARKS * sizeof(uint16_t);
}

static void start_empty(struct row_cache *cache)
{
    cache->round = cache->buckets_max < BUCKETS_MIN ? cache->buckets_max : BUCKETS_MIN;
    cache->bucket_count = cache->round;
    cache->end = cache->log_units; /* so that place 0, a free slot, counts as evicted */
    cache->room = cache->log_units / 4;
}

struct row_cache *row_cache_new(size_t bytes)
{
    struct row_cache *cache = calloc(1, sizeof *cache);
    CHECK(cache);
    cache->buckets_max = 1;
    while (cache->buckets_max * BUCKET_SLOTS * ROW_BYTES < bytes)
        cache->buckets_max *= 2;
    size_t index_bytes = cache->buckets_max * (sizeof(struct bucket) + marks_bytes(1));
    cache->log_units =
        (bytes < index_bytes + LOG_BYTES_MIN ? LOG_BYTES_MIN : bytes - index_bytes) / UNIT;
    cache->buckets = map_bytes(cache->buckets_max * sizeof(struct bucket));
    cache->marks = map_bytes(marks_bytes(cache->buckets_max));
    cache->log = map_bytes(cache->log_units * UNIT);
    start_empty(cache);
    return cache;
}

void row_cache_free(struct row_cache *cache)
{
    if (!cache)
        return;
    (void)munmap(cache->buckets, cache->buckets_max * sizeof(struct bucket));
    (void)munmap(cache->marks, marks_bytes(cache->buckets_max));
    (void)munmap(cache->log, cache->log_units * UNIT);
    free(cache);
}

void row_cache_clear(struct row_cache *cache)
{
    /* zeros the index and gives its memory back */
    (void)madvise(cache->buckets, cache->buckets_max * sizeof(struct bucket), MADV_DONTNEED);
    (void)madvise(cache->marks, marks_bytes(cache->buckets_max), MADV_DONTNEED);
    (void)madvise(cache->log, cache->log_units * UNIT, MADV_DONTNEED);
    start_empty(cache);
}

void row_cache_release_borrowed(struct row_cache *cache)
{
    cache->room = cache->log_units / 4;
    if (cache->end > PLACE_MAX - cache->log_units)
        row_cache_clear(cache);
}

static uint64_t row_units(size_t key_len, size_t value_len)
{
    return (sizeof(struct log_row) + key_len + value_len + UNIT - 1) / UNIT;
}

static struct log_row *log_row_at(const struct row_cache *cache, uint64_t place)
{
    return (struct log_row *)(cache->log + place % cache->log_units * UNIT);
}

static struct bucket *row_bucket(const struct row_cache *cache, uint64_t hash)
{
    size_t at = hash & (2 * cache->round - 1);
    return &cache->buckets[at < cache->bucket_count ? at : at - cache->round];
}

static bool is_live(const struct row_cache *cache, uint64_t place)
{
    return place + cache->log_units > cache->end;
}

/* Adds a bucket, and moves the rows to it that belong there. */
static void split_bucket(struct row_cache *cache)
{
    struct bucket *from = &cache->buckets[cache->bucket_count - cache->round];
    struct bucket *to = &cache->buckets[cache->bucket_count];
    for (int i = 0; i < BUCKET_SLOTS; i++) {
        uint64_t place = from->slots[i] & PLACE_MAX;
        if (!is_live(cache, place))
            continue;
        const struct log_row *row = log_row_at(cache, place);
        uint64_t hash = hash_row((enum cf)row->cf, (struct bytes){row->bytes, row->key_len});
        if ((hash & (2 * cache->round - 1)) == cache->bucket_count) {
            to->slots[i] = from->slots[i];
            from->slots[i] = 0;
        }
    }
    if (++cache->bucket_count == 2 * cache->round)
        cache->round *= 2;
}

/* Splits buckets as the log fills, until all are in use when a quarter is filled: so while it grows, buckets have half as
 * many rows as in a full cache, or fewer, and few rows are evicted because a bucket is full. */
static void grow_index(struct row_cache *cache)
{
    if (cache->bucket_count == cache->buckets_max)
        return;
    uint64_t used = cache->end - cache->log_units;
    double part = 4.0 * (double)used / (double)cache->log_units;
    size_t wanted = part < 1 ? (size_t)((double)cache->buckets_max * part) : cache->buckets_max;
    for (int i = 0; cache->bucket_count < wanted && i < SPLITS_MAX; i++)
        split_bucket(cache);
}

/* The slot of a row, or NULL. */
static uint64_t *find_slot(const struct row_cache *cache, enum cf cf, struct bytes key,
                           uint64_t hash)
{
    struct bucket *bucket = row_bucket(cache, hash);
    for (int i = 0; i < BUCKET_SLOTS; i++) {
        uint64_t place = bucket->slots[i] & PLACE_MAX;
        if ((bucket->slots[i] ^ hash) >> PLACE_BITS || !is_live(cache, place))
            continue;
        const struct log_row *row = log_row_at(cache, place);
        if (row->cf == cf && row->key_len == key.len && memcmp(row->bytes, key.data, key.len) == 0)
            return &bucket->slots[i];
    }
    return NULL;
}

/* The slot for a new row: the one with the oldest place. */
static uint64_t *oldest_slot(const struct row_cache *cache, uint64_t hash)
{
    uint64_t *slots = row_bucket(cache, hash)->slots;
    int oldest = 0;
    for (int i = 1; i < BUCKET_SLOTS; i++)
        if ((slots[i] & PLACE_MAX) < (slots[oldest] & PLACE_MAX))
            oldest = i;
    return &slots[oldest];
}

/* Appends a row of contiguous units to the log. NULL: no space until the next row_cache_release_borrowed. */
static struct log_row *append_log_row(struct row_cache *cache, uint64_t units, uint64_t *place)
{
    uint64_t rest = cache->log_units - cache->end % cache->log_units;
    uint64_t skip = rest < units ? rest : 0;
    if (skip + units > cache->room)
        return NULL;
    cache->room -= skip + units;
    *place = cache->end + skip;
    cache->end = *place + units;
    return log_row_at(cache, *place);
}

static void set_slot(uint64_t *slot, uint64_t hash, uint64_t place)
{
    *slot = (hash & ~PLACE_MAX) | place;
}

/* Moves a row of the older half to the end. */
static struct log_row *refresh(struct row_cache *cache, uint64_t *slot, uint64_t hash)
{
    uint64_t place = *slot & PLACE_MAX;
    struct log_row *row = log_row_at(cache, place);
    if (place + cache->log_units / 2 > cache->end)
        return row;
    uint64_t units = row_units(row->key_len, row->value_len);
    struct log_row *newer = append_log_row(cache, units, &place);
    if (!newer)
        return NULL;
    memmove(newer, row, units * UNIT); /* the old and the new row may overlap */
    set_slot(slot, hash, place);
    return newer;
}

bool row_cache_get(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes *value)
{
    uint64_t *slot = find_slot(cache, cf, key, hash);
    const struct log_row *row = slot ? refresh(cache, slot, hash) : NULL;
    if (!row) {
        cache->misses++;
        return false;
    }
    cache->hits++;
    *value = (struct bytes){row->bytes + row->key_len, row->value_len};
    return true;
}

void row_cache_await(const struct row_cache *cache, uint64_t hash)
{
    __builtin_prefetch(row_bucket(cache, hash), 1);
}

void row_cache_put(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes value)
{
    grow_index(cache);
    uint64_t *slot = find_slot(cache, cf, key, hash);
    uint64_t units = row_units(key.len, value.len);
    struct log_row *row = slot ? log_row_at(cache, *slot & PLACE_MAX) : NULL;
    if (!row || row->value_len != value.len) {
        uint64_t place;
        row = units * UNIT <= ROW_BYTES_MAX ? append_log_row(cache, units, &place) : NULL;
        if (row) {
            *row = (struct log_row){(uint32_t)value.len, (uint16_t)key.len, (uint16_t)cf};
            memcpy(row->bytes, key.data, key.len);
            set_slot(slot ? slot : oldest_slot(cache, hash), hash, place);
        } else if (slot) {
            *slot = 0;
        }
    }
    if (row && value.len)
        memcpy(row->bytes + row->key_len, value.data, value.len);
}

/* Marks the row. True: the row was already marked. */
static bool mark_row(struct row_cache *cache, uint64_t hash)
{
    uint16_t *marks = &cache->marks[(hash & (cache->buckets_max - 1)) * BUCKET_MARKS];
    uint16_t tag = (uint16_t)(hash >> PLACE_BITS);
    for (int i = 0; i < BUCKET_MARKS; i++)
        if (marks[i] == tag)
            return true;
    memmove(marks + 1, marks, (BUCKET_MARKS - 1) * sizeof *marks);
    marks[0] = tag;
    return false;
}

void row_cache_offer(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                     struct bytes value)
{
    bool is_full = cache->end >= 2 * cache->log_units;
    if (!is_full || mark_row(cache, hash))
        row_cache_put(cache, cf, key, hash, value);
}

void row_cache_replace(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                       struct bytes value)
{
    if (find_slot(cache, cf, key, hash))
        row_cache_put(cache, cf, key, hash, value);
}

void row_cache_remove(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash)
{
    uint64_t *slot = find_slot(cache, cf, key, hash);
    if (slot)
        *slot = 0;
}

void row_cache_figures(const struct row_cache *cache, struct row_cache_figures *figures)
{
    uint64_t units = cache->end - cache->log_units;
    figures->hits = cache->hits;
    figures->misses = cache->misses;
    figures->bytes = (units < cache->log_units ? units : cache->log_units) * UNIT;
}
