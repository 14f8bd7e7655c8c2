/*
 * key_message.h - KEYS_PUT: a shard sends keys with all their rows to the owner of their slots (stray_moves.h, key_put.h).
 *
 *   request   u64 number │ u8 enum put_mode, then for each key:
 *             namespace │ u8 database │ u32 slot │ key │ metadata row │ rows: u8 column family, sub key, value …
 *   reply     DONE: u8 enum put_result for each key; when that is durable
 *
 * A LOOK has the number 0, no metadata rows and no rows. Others have a number that grows from request to request of a shard: a
 * request whose number was received before is not executed again. It has the reply that the first one had, if no other came in between;
 * else LATER for each key (key_receipt.h). So a request without keys asks what became of a number, and makes sure that nothing will.
 *
 * KEY_PART: a part of a key that is too long for one request. The parts follow each other; together they are the key's rows, as in
 * KEYS_PUT, and at last its metadata row (column family METADATA, empty sub key).
 *
 *   request   u64 number of the transfer │ u8 enum put_mode │ namespace │ u8 database │ u32 slot │ key │ u64 offset │ part
 *   reply     DONE: u8 enum put_result; when the rows that were complete are durable
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct message_reader;
struct out;

enum put_mode {
    PUT_LOOK = 1,    /* only says whether the owner has the key */
    PUT_NEW = 2,     /* unless the owner has another key with this name */
    PUT_REPLACE = 3, /* in any case */
};

enum put_result {
    PUT_DONE = 1,   /* the owner has exactly this key */
    PUT_EXISTS = 2, /* the owner has a key with this name */
    PUT_ABSENT = 3, /* of a LOOK: it has none */
    PUT_LATER = 4,  /* not possible now: the slot is not here, or the key is locked */
    PUT_MORE = 5,   /* of a part: the next one is expected */
    PUT_AGAIN =
        6, /* of a part: parts before it were dropped, so it begins again with the first one */
};

struct put_key {
    struct bytes space; /* namespace; empty: the default one */
    uint8_t database;   /* as clients see it */
    uint16_t slot;
    struct bytes key;
    struct bytes metadata;
    struct bytes rows;
};

/* A row in `rows`. */
struct put_row {
    uint8_t cf;
    struct bytes sub, value;
};

struct key_part {
    uint64_t number; /* of the transfer */
    uint8_t mode;
    struct put_key key; /* without metadata and rows */
    uint64_t offset;    /* of `part` in all bytes; 0: the transfer begins */
    struct bytes part;
};

/* The beginning of KEYS_PUT. False: it is not valid. */
void put_head_write(struct out *out, uint64_t number, enum put_mode mode);
bool put_head_read(struct message_reader *reader, uint64_t *number, enum put_mode *mode);

void key_part_write(struct out *out, const struct key_part *part);
/* Reads a whole payload. False: it is not valid. */
bool key_part_read(struct bytes payload, struct key_part *part);
/* `rows` is appended and emptied; key->rows is ignored. */
void put_key_write(struct out *out, const struct put_key *key, struct out *rows);
void put_row_write(struct out *rows, const struct put_row *row);
/* Reads the next key. False: the bytes are not valid. */
bool put_key_read(struct message_reader *reader, struct put_key *key);
bool put_row_read(struct message_reader *rows, struct put_row *row);
/* Reads the next row of joined parts: also a metadata row that is the last one. False: it is not complete, or not valid. */
bool part_row_read(struct message_reader *rows, struct put_row *row);
