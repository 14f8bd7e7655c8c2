/*
 * Linear probing without tombstones: a removal moves later entries of the same run back over the hole, so that a
 * table does not get slower however often it is filled and emptied.
 *
 * The hash is SipHash-1-3 (https://www.aumasson.jp/siphash/) with a key drawn once per process.
 */
#include "shared/table.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <pthread.h>
#include <stdlib.h>

enum { CAP_MIN = 8 };

struct entry {
    uint64_t hash;
    struct bytes key; /* own copy */
    void *value;      /* NULL: the entry is free */
};

struct table {
    struct entry *entries;
    size_t cap; /* a power of two */
    size_t count;
};

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    clock_random_bytes(seed, sizeof(seed));
}

static inline uint64_t rotl64(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

struct sip {
    uint64_t a, b, c, d;
};

static inline void sip_round(struct sip *v)
{
    v->a += v->b;
    v->c += v->d;
    v->b = rotl64(v->b, 13) ^ v->a;
    v->d = rotl64(v->d, 16) ^ v->c;
    v->a = rotl64(v->a, 32);
    v->c += v->b;
    v->a += v->d;
    v->b = rotl64(v->b, 17) ^ v->c;
    v->d = rotl64(v->d, 21) ^ v->a;
    v->c = rotl64(v->c, 32);
}

static inline void sip_word(struct sip *v, uint64_t word)
{
    v->d ^= word;
    sip_round(v);
    v->a ^= word;
}

/* Loads the `count` (0 to 7) bytes before `end`. */
static inline uint64_t load_rest(const char *end, size_t count)
{
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++)
        word = word << 8 | (unsigned char)*--end;
    return word;
}

uint64_t hash_bytes(struct bytes data)
{
    (void)pthread_once(&seed_once, make_seed);
    struct sip v = {seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d,
                    seed[0] ^ 0x6c7967656e657261, seed[1] ^ 0x7465646279746573};
    const char *at = data.data;
    for (size_t words = data.len / 8; words > 0; words--, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sip_word(&v, word);
    }
    size_t rest = data.len % 8;
    sip_word(&v, (rest ? load_rest(at + rest, rest) : 0) | (uint64_t)data.len << 56);
    v.c ^= 0xff;
    sip_round(&v);
    sip_round(&v);
    sip_round(&v);
    return v.a ^ v.b ^ v.c ^ v.d;
}

static struct entry *entries_new(size_t cap)
{
    struct entry *entries = calloc(cap, sizeof(*entries));
    CHECK(entries);
    return entries;
}

struct table *table_new(void)
{
    struct table *table = calloc(1, sizeof(*table));
    CHECK(table);
    table->cap = CAP_MIN;
    table->entries = entries_new(CAP_MIN);
    return table;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->cap; i++)
        free((char *)table->entries[i].key.data);
    free(table->entries);
    free(table);
}

void table_free_values(struct table *table)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table && table_next(table, &cursor, &key, &value))
        free(value);
    table_free(table);
}

/* The entry of `key`, or the free entry where it belongs. */
static struct entry *find_entry(const struct table *table, struct bytes key, uint64_t hash)
{
    size_t mask = table->cap - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct entry *entry = &table->entries[i];
        if (!entry->value || (entry->hash == hash && bytes_equal(entry->key, key)))
            return entry;
    }
}

void *table_get(const struct table *table, struct bytes key)
{
    return find_entry(table, key, hash_bytes(key))->value;
}

static void resize(struct table *table, size_t cap)
{
    struct table old = *table;
    table->entries = entries_new(cap);
    table->cap = cap;
    for (size_t i = 0; i < old.cap; i++)
        if (old.entries[i].value)
            *find_entry(table, old.entries[i].key, old.entries[i].hash) = old.entries[i];
    free(old.entries);
}

void *table_put(struct table *table, struct bytes key, void *value)
{
    CHECK(value);
    uint64_t hash = hash_bytes(key);
    struct entry *entry = find_entry(table, key, hash);
    void *before = entry->value;
    if (before) {
        entry->value = value;
        return before;
    }
    if (table->count + 1 > table->cap / 4 * 3) {
        resize(table, table->cap * 2);
        entry = find_entry(table, key, hash);
    }
    char *copy = malloc(key.len + 1);
    CHECK(copy);
    if (key.len)
        memcpy(copy, key.data, key.len);
    *entry = (struct entry){hash, {copy, key.len}, value};
    table->count++;
    return NULL;
}

/* Fills the hole with later entries of the run whose probe sequence crosses it. */
static void close_hole(struct table *table, size_t hole)
{
    size_t mask = table->cap - 1;
    for (size_t i = (hole + 1) & mask; table->entries[i].value; i = (i + 1) & mask) {
        size_t home = table->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* its probe sequence starts after the hole */
        table->entries[hole] = table->entries[i];
        hole = i;
    }
    table->entries[hole] = (struct entry){0};
}

void *table_remove(struct table *table, struct bytes key)
{
    struct entry *entry = find_entry(table, key, hash_bytes(key));
    void *value = entry->value;
    if (!value)
        return NULL;
    free((char *)entry->key.data);
    close_hole(table, (size_t)(entry - table->entries));
    table->count--;
    if (table->cap > CAP_MIN && table->count < table->cap / 8)
        resize(table, table->cap / 2);
    return value;
}

size_t table_count(const struct table *table)
{
    return table->count;
}

bool table_next(const struct table *table, size_t *cursor, struct bytes *key, void **value)
{
    for (; *cursor < table->cap; (*cursor)++) {
        const struct entry *entry = &table->entries[*cursor];
        if (!entry->value)
            continue;
        *key = entry->key;
        *value = entry->value;
        (*cursor)++;
        return true;
    }
    return false;
}
