/*
 * row_cache.h - recently read or written rows, so that most point reads need no call of RocksDB.
 *
 *   buckets   ┌ 8 × (tag, place) ┐ one cache line, chosen by the row's hash
 *                       │
 *   log       ░░░░░░│ oldest … │ row │ … newest │      a circular buffer: the end of the log overwrites the
 *                   └ end of the log, moves on ►       oldest rows; an old row that is used moves to the end
 *
 * The cache has rows of RocksDB's tables, without effects that are only in a write buffer: overlay.c searches the
 * buffers first, and updates the cache when a buffer was applied. A row that is not in the cache may still exist.
 *
 * A full scan evicts little: when the log is full, the first read of a row only marks it, and a second read caches the
 * row if the mark still exists.
 */
#pragma once

#include "backend/store/store.h"

struct row_cache;

/* Reserves addresses; memory is used as rows are added. */
struct row_cache *row_cache_new(size_t bytes);
void row_cache_free(struct row_cache *cache); /* NULL is allowed */
/* In all functions `hash` is hash_row(cf, key) (write_buffer.h).
 * True and the value, borrowed until the next row_cache_release_borrowed. */
bool row_cache_get(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes *value);
/* A row with this hash is put or removed soon: until then the CPU fetches its bucket, which is seldom in the CPU's caches. */
void row_cache_await(const struct row_cache *cache, uint64_t hash);
/* Copies key and value; big rows are ignored. */
void row_cache_put(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes value);
/* As row_cache_put, for a row that was read from the store. When the cache is full, the first offer of a row only marks it, and the
 * second one caches it: so a scan, which reads each row once, evicts little. */
void row_cache_offer(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                     struct bytes value);
/* Replaces the value of a row that is in the cache; adds no row. */
void row_cache_replace(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                       struct bytes value);
void row_cache_remove(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash);
void row_cache_clear(struct row_cache *cache);
/* Called when no value is borrowed any more: the space of borrowed values may be overwritten. */
void row_cache_release_borrowed(struct row_cache *cache);

struct row_cache_figures {
    uint64_t hits;
    uint64_t misses;
    uint64_t bytes; /* bytes of the log in use */
};
void row_cache_figures(const struct row_cache *cache, struct row_cache_figures *figures);
