/*
 * Linear probing without tombstones: a removal moves later entries of the same run back over the hole, so that a
 * table does not get slower however often it is filled and emptied.
 *
 * A table that grows or shrinks moves its entries to the new places little by little, with each put and remove: moving 100 000 at once
 * would hold up the thread for 10 to 40 ms.
 *
 *   before:   . d e e . a b b c . .      `from` is free, so no run of entries crosses it, and no entry that is left has its
 *               moved ─►│                 place before the moved ones: a run of which a part has moved goes on where the others begin
 *             from      moved
 *
 * The hash is SipHash-1-3 (https://www.aumasson.jp/siphash/) with a key drawn once per process.
 */
#include "shared/table.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <pthread.h>
#include <stdlib.h>

enum { CAP_MIN = 8 };

enum { MOVES = 32 }; /* places that a put or remove looks at */

struct entry {
    uint64_t hash;
    struct bytes key; /* own copy */
    void *value;      /* NULL: the entry is free */
};

struct places {
    struct entry *entries; /* NULL: there are none */
    size_t cap;            /* a power of two */
    size_t from;           /* of `before`: with which moving began */
    size_t moved;          /* of `before`: that are empty, from `from` on */
};

struct table {
    struct places now;
    struct places before; /* whose entries have not all moved yet */
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

static struct places places_new(size_t cap)
{
    struct places places = {.entries = calloc(cap, sizeof(struct entry)), .cap = cap};
    CHECK(places.entries);
    return places;
}

struct table *table_new(void)
{
    struct table *table = calloc(1, sizeof(*table));
    CHECK(table);
    table->now = places_new(CAP_MIN);
    return table;
}

static void places_free(struct places *places)
{
    for (size_t i = 0; places->entries && i < places->cap; i++)
        free((char *)places->entries[i].key.data);
    free(places->entries);
}

void table_free(struct table *table)
{
    if (!table)
        return;
    places_free(&table->now);
    places_free(&table->before);
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
static inline struct entry *find_from(const struct places *places, size_t i, struct bytes key,
                                      uint64_t hash)
{
    size_t mask = places->cap - 1;
    for (;; i++) {
        struct entry *entry = &places->entries[i & mask];
        if (!entry->value || (entry->hash == hash && bytes_equal(entry->key, key)))
            return entry;
    }
}

/* As find_from, in what has not moved yet. */
static struct entry *find_before(const struct table *table, struct bytes key, uint64_t hash)
{
    const struct places *before = &table->before;
    size_t home = (hash - before->from) & (before->cap - 1);
    return find_from(before, before->from + (home < before->moved ? before->moved : home), key,
                     hash);
}

/* The entry of `key`, or the free entry in `now` where it belongs. */
static struct entry *find_entry(const struct table *table, struct bytes key, uint64_t hash)
{
    struct entry *entry = find_from(&table->now, hash, key, hash);
    if (entry->value || !table->before.entries)
        return entry;
    struct entry *old = find_before(table, key, hash);
    return old->value ? old : entry;
}

void *table_get(const struct table *table, struct bytes key)
{
    return find_entry(table, key, hash_bytes(key))->value;
}

/* Moves the entries of the next places. */
static void move_some(struct table *table, size_t count)
{
    struct places *before = &table->before;
    for (; count && before->moved < before->cap; count--, before->moved++) {
        struct entry *old = &before->entries[(before->from + before->moved) & (before->cap - 1)];
        if (old->value)
            *find_from(&table->now, old->hash, old->key, old->hash) = *old;
        *old = (struct entry){0};
    }
    if (before->moved < before->cap)
        return;
    free(before->entries);
    *before = (struct places){0};
}

/* All have moved since the last time: so many entries have come or gone since then that 32 for each were more than enough. A table that has
 * grown from n places grows again 3n/4 entries later, and shrinks n/2 later; one that has shrunk from n shrinks n/16 later, and grows n/4
 * later. */
static void begin_resize(struct table *table, size_t cap)
{
    CHECK(!table->before.entries);
    table->before = table->now;
    table->now = places_new(cap);
    while (table->before.entries[table->before.from].value)
        table->before.from++;
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
    char *copy = malloc(key.len + 1);
    CHECK(copy);
    if (key.len)
        memcpy(copy, key.data, key.len);
    if (table->count + 1 > table->now.cap / 4 * 3)
        begin_resize(table, table->now.cap * 2);
    if (table->before.entries)
        move_some(table, MOVES);
    *find_from(&table->now, hash, key, hash) = (struct entry){hash, {copy, key.len}, value};
    table->count++;
    return NULL;
}

/* Fills the hole with later entries of the run whose probe sequence crosses it. */
static void close_hole(struct places *places, size_t hole)
{
    size_t mask = places->cap - 1;
    for (size_t i = (hole + 1) & mask; places->entries[i].value; i = (i + 1) & mask) {
        size_t home = places->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* its probe sequence starts after the hole */
        places->entries[hole] = places->entries[i];
        hole = i;
    }
    places->entries[hole] = (struct entry){0};
}

static struct places *places_with(struct table *table, const struct entry *entry)
{
    const struct places *now = &table->now;
    return entry >= now->entries && entry < now->entries + now->cap ? &table->now : &table->before;
}

void *table_remove(struct table *table, struct bytes key)
{
    struct entry *entry = find_entry(table, key, hash_bytes(key));
    void *value = entry->value;
    if (!value)
        return NULL;
    struct places *places = places_with(table, entry);
    free((char *)entry->key.data);
    close_hole(places, (size_t)(entry - places->entries));
    table->count--;
    if (table->before.entries)
        move_some(table, MOVES);
    else if (table->now.cap > CAP_MIN && table->count < table->now.cap / 8)
        begin_resize(table, table->now.cap / 2);
    return value;
}

size_t table_moves_left(const struct table *table)
{
    return table->before.cap - table->before.moved;
}

size_t table_count(const struct table *table)
{
    return table->count;
}

bool table_next(const struct table *table, size_t *cursor, struct bytes *key, void **value)
{
    const struct places *now = &table->now;
    for (; *cursor < now->cap + table->before.cap; (*cursor)++) {
        const struct entry *entry = *cursor < now->cap ? &now->entries[*cursor]
                                                       : &table->before.entries[*cursor - now->cap];
        if (!entry->value)
            continue;
        *key = entry->key;
        *value = entry->value;
        (*cursor)++;
        return true;
    }
    return false;
}
