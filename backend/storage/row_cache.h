/*
 * row_cache.h - rows that were read or written lately, so that most point reads never reach the engine.
 *
 *   buckets   ┌ 8 × (tag, place) ┐ one cache line, chosen by the row's hash
 *                       │
 *   log       ░░░░░░│ oldest … │ row │ … newest │      bytes in a circle: what the end of the log reaches is
 *                   └ end of the log, moves on ►       forgotten, a row that is used while old moves to the end
 *
 * It holds rows as the store has them, never effects that are not written: overlay.c looks into its buffers
 * first, and brings the cache up to date when a buffer is in the store. A row that is not here says nothing.
 *
 * Reading everything once forgets little: when the log is full, a row that is read for the first time leaves
 * only a mark, and is kept when it is read again while the mark is there.
 */
#pragma once

#include "backend/store/store.h"

struct row_cache;

struct row_cache *row_cache_new(size_t bytes);
void row_cache_free(struct row_cache *cache); /* NULL is allowed */
/* True and the value, borrowed until the next row_cache_release_borrowed. */
bool row_cache_get(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes *value);
/* Copies both; big rows are passed over. */
void row_cache_put(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                   struct bytes value);
/* The same for a row that was read in the store: kept at the second time, once the log is full. */
void row_cache_offer(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash,
                     struct bytes value);
void row_cache_remove(struct row_cache *cache, enum cf cf, struct bytes key, uint64_t hash);
void row_cache_clear(struct row_cache *cache);
/* Nothing is borrowed now: room may be used again. */
void row_cache_release_borrowed(struct row_cache *cache);

struct row_cache_figures {
    uint64_t hits;
    uint64_t misses;
    uint64_t bytes; /* of the log, in use */
};
void row_cache_figures(const struct row_cache *cache, struct row_cache_figures *figures);
