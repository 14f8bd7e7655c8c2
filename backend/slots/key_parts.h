/*
 * key_parts.h - divides a key that is too long for one request into parts (KEY_PART, key_message.h).
 *
 *   key_reader: rows ─► fill ─► a part ─► write ─► the owner has it ─► next
 *                        ▲ ◄──────── again: the owner has dropped what it had ──┘
 *
 * Memory: a part and the longest row.
 */
#pragma once

#include "backend/slots/key_message.h"
#include "backend/slots/key_reader.h"

struct key_parts {
    uint64_t number; /* of the transfer; 0: none */
    uint64_t offset;
    struct out part;   /* to be sent, perhaps again */
    bool has_metadata; /* the reader's rows end with the metadata row */
    uint32_t begins;   /* how often the key was begun */
};

void key_parts_init(struct key_parts *parts);
void key_parts_clear(struct key_parts *parts);
/* Begins with the reader's key, or begins it again. */
void key_parts_begin(struct key_parts *parts, struct key_reader *reader, uint64_t number);
/* Fills the part with up to `limit` bytes. ROW: it can be sent; END: also, and it is the last one. */
enum rows_step key_parts_fill(struct key_parts *parts, struct key_reader *reader, size_t limit);
/* Writes the request. `key`: where the key is at the owner. */
void key_parts_write(const struct key_parts *parts, enum put_mode mode, const struct put_key *key,
                     struct out *out);
/* The owner has the part. */
void key_parts_next(struct key_parts *parts);
