/*
 * cursor.c - fingerprints of keys, and the cache from cursors to keys: a ring of entries with a hash table.
 */
#include "backend/keyspace/cursor.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

/* A cursor and its key. */
struct cursor_entry {
    size_t scope_len;
    size_t last_len;
    char bytes[]; /* cursor (8 bytes) | scope | last; the first two are the table's key */
};

struct cursor_cache {
    struct table *entries;
    struct cursor_entry *ring[CURSOR_CACHE_MAX]; /* oldest is overwritten */
    size_t next;
};

/* FNV-1a with 64 bits and a multiply-shift finish. Without a random seed, because cursors outlive the process. */
static uint64_t fingerprint(struct bytes scope, struct bytes key)
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < scope.len; i++)
        hash = (hash ^ (uint8_t)scope.data[i]) * 0x100000001b3ULL;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ (uint8_t)key.data[i]) * 0x100000001b3ULL;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ULL;
    hash ^= hash >> 32;
    uint64_t bits = hash & ((1ULL << CURSOR_FINGERPRINT_BITS) - 2); /* even: scan_cursor.h */
    return bits ? bits : 2;
}

static struct bytes entry_name(const struct cursor_entry *entry)
{
    return (struct bytes){entry->bytes, sizeof(uint64_t) + entry->scope_len};
}

struct cursor_cache *cursor_cache_new(void)
{
    struct cursor_cache *cache = calloc(1, sizeof *cache);
    CHECK(cache);
    cache->entries = table_new();
    return cache;
}

void cursor_cache_free(struct cursor_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < CURSOR_CACHE_MAX; i++)
        free(cache->ring[i]);
    table_free(cache->entries);
    free(cache);
}

static struct cursor_entry *entry_new(struct bytes scope, uint64_t cursor, struct bytes last)
{
    struct cursor_entry *entry = malloc(sizeof *entry + sizeof cursor + scope.len + last.len);
    CHECK(entry);
    entry->scope_len = scope.len;
    entry->last_len = last.len;
    memcpy(entry->bytes, &cursor, sizeof cursor);
    if (scope.len)
        memcpy(entry->bytes + sizeof cursor, scope.data, scope.len);
    if (last.len)
        memcpy(entry->bytes + sizeof cursor + scope.len, last.data, last.len);
    return entry;
}

static struct cursor_entry *find_cursor(struct cursor_cache *cache, struct bytes scope,
                                        uint64_t cursor)
{
    struct cursor_entry *name = entry_new(scope, cursor, (struct bytes){"", 0});
    struct cursor_entry *entry = table_get(cache->entries, entry_name(name));
    free(name);
    return entry;
}

static void remove_cursor(struct cursor_cache *cache, struct cursor_entry *entry)
{
    if (!entry)
        return;
    if (table_get(cache->entries, entry_name(entry)) == entry)
        table_remove(cache->entries, entry_name(entry));
    free(entry);
}

uint64_t cursor_after(struct cursor_cache *cache, struct bytes scope, uint16_t slot,
                      struct bytes last)
{
    uint64_t cursor = cursor_at_slot(slot) | fingerprint(scope, last);
    remove_cursor(cache, cache->ring[cache->next]);
    struct cursor_entry *entry = entry_new(scope, cursor, last);
    cache->ring[cache->next] = entry;
    cache->next = (cache->next + 1) % CURSOR_CACHE_MAX;
    table_put(cache->entries, entry_name(entry), entry);
    return cursor;
}

bool cursor_recall(struct cursor_cache *cache, struct bytes scope, uint64_t cursor,
                   struct bytes *last)
{
    const struct cursor_entry *entry = find_cursor(cache, scope, cursor);
    if (!entry)
        return false;
    *last = (struct bytes){entry->bytes + sizeof(uint64_t) + entry->scope_len, entry->last_len};
    return true;
}

bool cursor_matches(struct bytes scope, uint64_t cursor, struct bytes key)
{
    return fingerprint(scope, key) == cursor_fingerprint(cursor);
}
