/*
 * cursor.h - what the cursors of shared/scan_cursor.h stand for.
 *
 * A partition remembers the key behind each cursor it gave out (a bounded cache), and goes on right behind it,
 * whether that key still exists or not. When the cache has lost it (a restart, a very old cursor), the key with
 * that fingerprint is looked for in the slot; when it is gone too, the slot begins again: keys may then come twice,
 * but none that exists all the time is missed.
 *
 * HSCAN and its sisters use the same cache with slot 0 and fields instead of keys.
 */
#pragma once

#include "shared/scan_cursor.h"

enum { CURSOR_CACHE_MAX = 16384 };

struct cursor_cache;

struct cursor_cache *cursor_cache_new(void);
void cursor_cache_free(struct cursor_cache *cache); /* NULL is allowed */
/* The cursor that goes on behind `last` in the slot; `scope` (a namespace, or a collection with its version)
 * keeps equal keys of different places apart. Remembers it. */
uint64_t cursor_after(struct cursor_cache *cache, struct bytes scope, uint16_t slot,
                      struct bytes last);
/* The key behind the cursor, when the cache still has it; borrowed until the next cursor_after. */
bool cursor_recall(struct cursor_cache *cache, struct bytes scope, uint64_t cursor,
                   struct bytes *last);
/* Is `key` one that the cursor may stand for? */
bool cursor_matches(struct bytes scope, uint64_t cursor, struct bytes key);
