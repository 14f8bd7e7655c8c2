/*
 * cursor.h - the keys that stand for the cursors of shared/scan_cursor.h.
 *
 * A bounded cache maps each returned cursor to its key; SCAN continues after that key, even if it was deleted. When the
 * cache no longer has the cursor (after a restart, or because the cursor is old), the slot is searched for a key with
 * the cursor's fingerprint. If there is none, the slot is scanned again: keys may be returned twice, but no key that
 * exists during the whole scan is missed.
 *
 * HSCAN, SSCAN and ZSCAN use the same cache with slot 0 and fields or members instead of keys.
 */
#pragma once

#include "shared/scan_cursor.h"

enum { CURSOR_CACHE_MAX = 16384 };

struct cursor_cache;

struct cursor_cache *cursor_cache_new(void);
void cursor_cache_free(struct cursor_cache *cache); /* NULL is allowed */
/* The cursor that continues after `last` in the slot. `scope` (a namespace, or a collection with its version)
 * distinguishes equal keys. Adds it to the cache. */
uint64_t cursor_after(struct cursor_cache *cache, struct bytes scope, uint16_t slot,
                      struct bytes last);
/* The key of the cursor, if the cache has it; borrowed until the next cursor_after. */
bool cursor_recall(struct cursor_cache *cache, struct bytes scope, uint64_t cursor,
                   struct bytes *last);
/* Can `key` be the key of the cursor? Compares fingerprints. */
bool cursor_matches(struct bytes scope, uint64_t cursor, struct bytes key);
