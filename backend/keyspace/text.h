/*
 * text.h - the value of a string key, in either of its two physical forms.
 *
 *   inline (TYPE_STRING)      metadata row:  … | the whole value
 *   fragments (TYPE_BITMAP)   metadata row:  … | version | size = bytes of the value
 *                             CF_DATA:       … | version | u32 index  →  bytes [index * 1024, …) of the value
 *
 *   0        1024     2048     3072     4096   size
 *   ├────────┼────────┼────────┼────────┼──────┤
 *   │██████  │        │████████│        │██    │     a fragment's trailing zeros are left out, and a fragment of
 *   └ row 0 ─┘  none  └ row 2 ─┘  none  └ row 4┘     zeros only has no row: SETBIT at a high offset costs one row
 *
 * Replacing a value makes it inline. Changing a part of a value that is longer than TEXT_INLINE_MAX turns it into
 * fragments: then a change costs the affected fragments instead of the whole value. Fragments stay until the value is
 * replaced. An empty value is inline.
 *
 * Entries must have been opened with keyspace_open_type(TYPE_STRING), or satisfy text_is().
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum {
    FRAGMENT_BYTES = 1024,
    /* Measured: changing a byte of an inline row of this length costs a quarter more than in a fragment; at 4096 up to
     * twice as much. */
    TEXT_INLINE_MAX = 2048,
};

/* True when the key is a string in either form. */
static inline bool text_is(const struct entry *entry)
{
    return entry->meta.type == TYPE_STRING || entry->meta.type == TYPE_BITMAP;
}
/* Length of the value; 0 when the key does not exist. */
static inline uint64_t text_len(const struct entry *entry)
{
    return entry->meta.type == TYPE_BITMAP ? entry->meta.size : entry->meta.payload.len;
}

/* The functions below return false when the store failed (the error was replied). */

/* Reads bytes [from, from + len), which must be inside the value: borrowed from its row, or assembled in the arena. */
bool text_read(struct call *call, struct entry *entry, uint64_t from, size_t len,
               struct bytes *value);
/* Copies bytes [from, from + len) to `to`; bytes after the end of the value are zeros. */
bool text_copy(struct call *call, struct entry *entry, uint64_t from, size_t len, char *to);
/* Reads the whole value; empty when the key does not exist. */
bool text_value(struct call *call, struct entry *entry, struct bytes *value);
/* Replies the value, or a part of it, as a bulk string, fragment by fragment. */
bool text_reply(struct call *call, struct entry *entry);
bool text_reply_range(struct call *call, struct entry *entry, uint64_t from, uint64_t len);

/* Overwrites the value at `offset`; a gap after its end is filled with zeros. Keeps the TTL; creates the key. */
bool text_write(struct call *call, struct entry *entry, uint64_t offset, struct bytes patch);
/* Extends the value to this length. */
bool text_grow(struct call *call, struct entry *entry, uint64_t len);
/* Replaces the value and keeps the TTL. */
void text_replace(struct call *call, struct entry *entry, struct bytes value);
/* Replaces the key, of any type, by a value of `len` zero bytes in fragments, without TTL. Until text_save only rows of
 * the new version are written: the old value can still be read through another entry of the key. */
void text_create(struct call *call, struct entry *entry, uint64_t len);
/* Writes a fragment that has no row yet, after text_create. It has FRAGMENT_BYTES; the last fragment may be shorter. */
void text_put_fragment(struct call *call, struct entry *entry, uint32_t index, struct bytes data);
void text_save(struct call *call, struct entry *entry);

/* Iterates over the parts of [from, to) that have rows; gaps between them are zeros.
 *     for (text_iter_init(call, entry, from, to, &iter); text_iter_next(&iter);) use(iter.at, iter.piece);
 *     text_iter_fini(&iter);     false: the store failed (error replied)
 * piece is not empty, and borrowed until the next step. No effects may be made while it is open. */
struct text_iter {
    struct call *call;
    struct entry *entry;
    uint64_t from, to; /* part not yet visited */
    bool has_iter;
    bool failed;
    struct sub_iter rows;
    uint64_t at; /* offset of the piece in the value */
    struct bytes piece;
};
void text_iter_init(struct call *call, struct entry *entry, uint64_t from, uint64_t to,
                    struct text_iter *iter);
bool text_iter_next(struct text_iter *iter);
bool text_iter_fini(struct text_iter *iter);
