/*
 * plain_keys.c - a table of hashes in buckets of a cache line, which grows by linear hashing.
 *
 *   0 1 2 3 │ 4 5       buckets 4 and 5 were split from 0 and 1; the next one, 6, takes its hashes from 2
 *   └ round ┘
 */
#include "backend/storage/plain_keys.h"

#include "shared/check.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    BUCKET_HASHES = 8,
    GROW_AT = 4, /* keys per bucket at which a bucket is split; buckets not yet split have more */
    BUCKETS_MIN = 64, /* a page */
};

struct hashes {
    uint64_t of[BUCKET_HASHES]; /* 0: free */
};

struct plain_keys {
    struct hashes *buckets;
    size_t buckets_max;  /* a power of two */
    size_t bucket_count; /* buckets in use */
    size_t round;        /* the power of two with round <= bucket_count < 2 * round */
    size_t count;        /* keys */
};

struct plain_keys *plain_keys_new(size_t bytes)
{
    struct plain_keys *keys = calloc(1, sizeof *keys);
    CHECK(keys);
    keys->buckets_max = BUCKETS_MIN;
    while (keys->buckets_max * 2 * sizeof(struct hashes) <= bytes)
        keys->buckets_max *= 2;
    keys->round = keys->bucket_count = BUCKETS_MIN;
    keys->buckets = mmap(NULL, keys->buckets_max * sizeof(struct hashes), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(keys->buckets != MAP_FAILED);
    return keys;
}

void plain_keys_free(struct plain_keys *keys)
{
    if (!keys)
        return;
    (void)munmap(keys->buckets, keys->buckets_max * sizeof(struct hashes));
    free(keys);
}

void plain_keys_clear(struct plain_keys *keys)
{
    /* zeros the buckets and gives their memory back */
    (void)madvise(keys->buckets, keys->buckets_max * sizeof(struct hashes), MADV_DONTNEED);
    keys->round = keys->bucket_count = BUCKETS_MIN;
    keys->count = 0;
}

static struct hashes *bucket_for(const struct plain_keys *keys, uint64_t hash)
{
    size_t at = hash & (2 * keys->round - 1);
    return &keys->buckets[at < keys->bucket_count ? at : at - keys->round];
}

/* Adds a bucket, and moves the hashes to it that belong there. */
static void add_bucket(struct plain_keys *keys)
{
    struct hashes *from = &keys->buckets[keys->bucket_count - keys->round];
    struct hashes *to = &keys->buckets[keys->bucket_count];
    for (int i = 0; i < BUCKET_HASHES; i++)
        if (from->of[i] && (from->of[i] & (2 * keys->round - 1)) == keys->bucket_count) {
            to->of[i] = from->of[i];
            from->of[i] = 0;
        }
    if (++keys->bucket_count == 2 * keys->round)
        keys->round *= 2;
}

/* Points to the hash in its bucket; NULL: the set does not have it. */
static uint64_t *find_hash(const struct plain_keys *keys, uint64_t hash)
{
    struct hashes *bucket = bucket_for(keys, hash);
    for (int i = 0; i < BUCKET_HASHES; i++)
        if (bucket->of[i] == hash)
            return &bucket->of[i];
    return NULL;
}

bool plain_keys_has(const struct plain_keys *keys, uint64_t hash)
{
    return hash && find_hash(keys, hash);
}

void plain_keys_add(struct plain_keys *keys, uint64_t hash)
{
    if (!hash || find_hash(keys, hash))
        return;
    if (keys->count >= keys->bucket_count * GROW_AT && keys->bucket_count < keys->buckets_max)
        add_bucket(keys);
    struct hashes *bucket = bucket_for(keys, hash);
    uint64_t *place = &bucket->of[hash >> 61]; /* a full bucket: the hash to replace */
    for (int i = 0; i < BUCKET_HASHES && *place; i++)
        if (!bucket->of[i])
            place = &bucket->of[i];
    keys->count += *place == 0;
    *place = hash;
}

void plain_keys_remove(struct plain_keys *keys, uint64_t hash)
{
    uint64_t *place = hash ? find_hash(keys, hash) : NULL;
    if (!place)
        return;
    *place = 0;
    keys->count--;
}

size_t plain_keys_count(const struct plain_keys *keys)
{
    return keys->count;
}

size_t plain_keys_bytes(const struct plain_keys *keys)
{
    return keys->bucket_count * sizeof(struct hashes);
}
