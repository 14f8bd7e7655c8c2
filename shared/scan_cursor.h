/*
 * scan_cursor.h - SCAN positions as numbers.
 *
 *   bit 53          ┌──────────────┬───────────────────────────────┐
 *   1: of a proxy   │ slot, 14 bit │ fingerprint of the last key,  │   0 = begin (in a reply: end)
 *                   │              │ 39 bit; 0 = start of slot     │
 *                   └──────────────┴───────────────────────────────┘
 *
 * By the slot a proxy finds the shard, by the fingerprint the partition finds the key (backend/keyspace/cursor.h). Proxies mark their
 * cursors with bit 53: all slots before the cursor's are done. Proxies of before had no mark and went from shard to shard.
 * Fingerprints are even, so a client that represents numbers as doubles, as JavaScript does, has each cursor exactly.
 */
#pragma once

#include "shared/bytes.h"

enum { CURSOR_FINGERPRINT_BITS = 39, CURSOR_SLOT_MASK = 0x3fff };

static inline uint16_t cursor_slot(uint64_t cursor)
{
    return (uint16_t)(cursor >> CURSOR_FINGERPRINT_BITS & CURSOR_SLOT_MASK);
}

static inline uint64_t cursor_fingerprint(uint64_t cursor)
{
    return cursor & ((1ULL << CURSOR_FINGERPRINT_BITS) - 1);
}

static inline uint64_t cursor_at_slot(uint16_t slot)
{
    return (uint64_t)slot << CURSOR_FINGERPRINT_BITS;
}

/* A cursor for clients of proxies, which go through all slots in order, and back. */
#define CURSOR_ORDERED (1ULL << 53)
static inline bool cursor_is_ordered(uint64_t cursor)
{
    return cursor == 0 || cursor & CURSOR_ORDERED;
}

static inline uint64_t cursor_ordered(uint64_t cursor)
{
    return cursor | CURSOR_ORDERED;
}

static inline uint64_t cursor_unordered(uint64_t cursor)
{
    return cursor & ~CURSOR_ORDERED;
}

/* Parses a cursor as Redis does (strtoul of the whole text). */
bool cursor_parse(struct bytes text, uint64_t *cursor);
