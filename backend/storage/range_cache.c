#include "backend/storage/range_cache.h"

#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/list.h"

#include <stdlib.h>

enum {
    RUN_BYTES = 1024, /* of an average run: determines the number of buckets */
    BUCKETS_MIN = 64,
    MARKS = 8192,           /* positions where iterations began */
    COLLECTION_RUNS = 8,    /* runs of one collection, all of which are searched */
    DRAFT_BYTES = 4 * 1024, /* collection key and bounds of a draft; longer ones are not cached */
};

struct kept {
    struct run run;
    struct kept *next; /* in its bucket, newest first */
    struct list age;   /* in cache->ages, most recently used last */
    uint64_t hash;
    enum cf cf;
    struct bytes collection;
    uint32_t holders; /* references: of iterations, and of the cache */
    size_t size;
    struct run_row rows[]; /* followed by the bytes of rows, bounds and collection */
};

/* A run that is being recorded, with rows in the order of the iteration. */
struct run_draft {
    struct range_cache *cache;
    struct run_place place; /* its bytes are in `keys` */
    uint64_t hash;          /* of the collection */
    bool is_open;
    bool is_full;
    uint32_t count;
    uint32_t used;
    struct run_row rows[RUN_ROWS_MAX];
    char bytes[RUN_BYTES_MAX];
    char keys[DRAFT_BYTES];
};

struct range_cache {
    size_t bytes_max;
    size_t bytes;
    size_t bucket_count; /* a power of two */
    struct kept **buckets;
    struct list ages;
    uint64_t hits, misses;
    uint16_t marks[MARKS];
    struct run_draft draft;
};

struct range_cache *range_cache_new(size_t bytes)
{
    struct range_cache *cache = calloc(1, sizeof *cache);
    CHECK(cache);
    cache->bytes_max = bytes;
    cache->bucket_count = BUCKETS_MIN;
    while (cache->bucket_count * RUN_BYTES < bytes)
        cache->bucket_count *= 2;
    cache->buckets = calloc(cache->bucket_count, sizeof *cache->buckets);
    CHECK(cache->buckets);
    list_init(&cache->ages);
    return cache;
}

void range_cache_free(struct range_cache *cache)
{
    if (!cache)
        return;
    range_cache_clear(cache);
    free(cache->buckets);
    free(cache);
}

/* ---- runs ---- */

uint32_t run_before(const struct run *run, struct bytes key, bool or_equal)
{
    uint32_t low = 0;
    uint32_t high = run->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = bytes_compare(run_key(run, middle), key);
        if (order < 0 || (or_equal && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct kept **run_bucket(struct range_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->bucket_count - 1)];
}

static bool is_run_of(const struct kept *kept, uint64_t hash, enum cf cf, struct bytes collection)
{
    return kept->hash == hash && kept->cf == cf && bytes_equal(kept->collection, collection);
}

static bool has_place(const struct run *run, const struct run_place *place)
{
    if (!place->has_from)
        return place->is_reverse ? run->has_end : run->has_start;
    return (run->has_start || bytes_compare(place->from, run->low) >= 0) &&
           (run->has_end || bytes_compare(place->from, run->high) <= 0);
}

static void release_run(struct kept *kept)
{
    CHECK(kept->holders > 0);
    if (--kept->holders == 0)
        free(kept);
}

/* Removes the run that `link` points to from the cache. */
static void drop_run(struct range_cache *cache, struct kept **link)
{
    struct kept *kept = *link;
    *link = kept->next;
    list_remove(&kept->age);
    cache->bytes -= kept->size;
    release_run(kept);
}

static void drop_oldest(struct range_cache *cache)
{
    struct kept *oldest = container_of(cache->ages.next, struct kept, age);
    struct kept **link = run_bucket(cache, oldest->hash);
    while (*link != oldest)
        link = &(*link)->next;
    drop_run(cache, link);
}

const struct run *range_cache_find(struct range_cache *cache, const struct run_place *place)
{
    uint64_t hash = hash_row(place->cf, place->collection);
    for (struct kept *kept = *run_bucket(cache, hash); kept; kept = kept->next)
        if (is_run_of(kept, hash, place->cf, place->collection) && has_place(&kept->run, place)) {
            list_remove(&kept->age);
            list_push(&cache->ages, &kept->age);
            kept->holders++;
            cache->hits++;
            return &kept->run;
        }
    cache->misses++;
    return NULL;
}

void range_cache_release(const struct run *run)
{
    release_run(container_of(run, struct kept, run));
}

/* Evicts runs so that one more run of the collection fits. */
static void evict_run(struct range_cache *cache, uint64_t hash, enum cf cf, struct bytes collection)
{
    struct kept **last = NULL;
    int count = 0;
    for (struct kept **link = run_bucket(cache, hash); *link; link = &(*link)->next)
        if (is_run_of(*link, hash, cf, collection)) {
            last = link;
            count++;
        }
    if (count >= COLLECTION_RUNS)
        drop_run(cache, last);
}

/* ---- drafts ---- */

/* Marks the place where an iteration begins. True: the place was already marked. */
static bool mark_read_run(struct range_cache *cache, uint64_t hash, const struct run_place *place)
{
    uint64_t all = hash + (place->has_from ? hash_bytes(place->from) : 0) + place->is_reverse;
    uint16_t *at = &cache->marks[all % MARKS];
    uint16_t tag = (uint16_t)(all >> 48 | 1);
    bool is_marked = *at == tag;
    *at = tag;
    return is_marked;
}

struct run_draft *range_cache_draft(struct range_cache *cache, const struct run_place *place)
{
    struct run_draft *draft = &cache->draft;
    uint64_t hash = hash_row(place->cf, place->collection);
    if (draft->is_open || place->collection.len + place->from.len > sizeof draft->keys ||
        !mark_read_run(cache, hash, place))
        return NULL;
    char *end = draft->keys;
    draft->cache = cache;
    draft->place = *place;
    draft->place.collection = bytes_copy_to(&end, place->collection);
    draft->place.from = bytes_copy_to(&end, place->from);
    draft->hash = hash;
    draft->is_open = true;
    draft->is_full = false;
    draft->count = draft->used = 0;
    return draft;
}

void run_draft_add(struct run_draft *draft, struct bytes key, struct bytes value)
{
    draft->is_full = draft->is_full || draft->count == RUN_ROWS_MAX ||
                     key.len + value.len > sizeof draft->bytes - draft->used;
    if (draft->is_full)
        return;
    char *end = draft->bytes + draft->used;
    draft->rows[draft->count++] =
        (struct run_row){draft->used, (uint32_t)key.len, (uint32_t)value.len};
    (void)bytes_copy_to(&end, key);
    (void)bytes_copy_to(&end, value);
    draft->used = (uint32_t)(end - draft->bytes);
}

/* Sets the ends of a recorded run: from the beginning of the iteration to the last row it passed, or to the end of the
 * collection. */
static void set_bounds(struct run *run, const struct run_draft *draft, bool is_end, char **end)
{
    const struct run_place *place = &draft->place;
    struct bytes *begin = place->is_reverse ? &run->high : &run->low;
    struct bytes *reached = place->is_reverse ? &run->low : &run->high;
    *(place->is_reverse ? &run->has_end : &run->has_start) = !place->has_from;
    *(place->is_reverse ? &run->has_start : &run->has_end) = is_end;
    *begin = bytes_copy_to(end, place->from);
    if (!is_end)
        *reached = run_key(run, place->is_reverse ? 0 : run->count - 1);
}

static struct kept *make(const struct run_draft *draft, bool is_end)
{
    const struct run_place *place = &draft->place;
    size_t rows_size = draft->count * sizeof(struct run_row);
    size_t size =
        sizeof(struct kept) + rows_size + draft->used + place->from.len + place->collection.len;
    struct kept *kept = malloc(size);
    CHECK(kept);
    char *end = (char *)kept->rows + rows_size;
    *kept = (struct kept){.hash = draft->hash, .cf = place->cf, .holders = 1, .size = size};
    kept->run.count = draft->count;
    kept->run.rows = kept->rows;
    for (uint32_t i = 0; i < draft->count; i++)
        kept->rows[i] = draft->rows[place->is_reverse ? draft->count - 1 - i : i];
    kept->run.bytes = bytes_copy_to(&end, (struct bytes){draft->bytes, draft->used}).data;
    kept->collection = bytes_copy_to(&end, place->collection);
    set_bounds(&kept->run, draft, is_end, &end);
    return kept;
}

void run_draft_end(struct run_draft *draft, bool is_end)
{
    struct range_cache *cache = draft->cache;
    draft->is_open = false;
    is_end = is_end && !draft->is_full;
    if (draft->count == 0 && !is_end)
        return;
    struct kept *kept = make(draft, is_end);
    evict_run(cache, kept->hash, kept->cf, kept->collection);
    kept->next = *run_bucket(cache, kept->hash);
    *run_bucket(cache, kept->hash) = kept;
    list_push(&cache->ages, &kept->age);
    cache->bytes += kept->size;
    while (cache->bytes > cache->bytes_max)
        drop_oldest(cache);
}

/* ---- changes ---- */

void range_cache_forget(struct range_cache *cache, enum cf cf, struct bytes collection)
{
    uint64_t hash = hash_row(cf, collection);
    CHECK(!cache->draft.is_open);
    for (struct kept **link = run_bucket(cache, hash); *link;)
        if (is_run_of(*link, hash, cf, collection))
            drop_run(cache, link);
        else
            link = &(*link)->next;
}

void range_cache_clear(struct range_cache *cache)
{
    CHECK(!cache->draft.is_open);
    while (!list_empty(&cache->ages))
        drop_oldest(cache);
}

bool range_cache_is_empty(const struct range_cache *cache)
{
    return list_empty(&cache->ages);
}

void range_cache_figures(const struct range_cache *cache, struct range_cache_figures *figures)
{
    *figures = (struct range_cache_figures){cache->hits, cache->misses, cache->bytes};
}
