/*
 * effects.h - what a batch changed, as bytes: ranges deleted, rows put, rows deleted. A record of the log holds one
 * batch. The same bytes are made for the tail of a slot that moves, a prepared transaction and a replica, so a reader
 * finds namespace, slots and column family of each effect without parsing keys.
 *
 *   header, 48 bytes
 *   ┌──────────┬─────────┬─────────┬──────────┬───────────┬──────────┬────────────┬───────────────┬─────────────┐
 *   │ 0 format │ 1 type  │ 2 zero  │ 4 count  │ 8 index   │ 16 term  │ 24 commit  │ 32 origin_ms  │ 40 version  │
 *   │ u8 = 1   │ u8      │ u16     │ u32      │ u64       │ u64      │ u64        │ u64           │ u64         │
 *   └──────────┴─────────┴─────────┴──────────┴───────────┴──────────┴────────────┴───────────────┴─────────────┘
 *   then `count` effects, in the order in which they apply
 *
 *   effect:   u8 head │ place │ varint key_len │ key │ ...
 *                 put            ... varint value_len │ value
 *                 delete         ...
 *                 delete range   ... varint to_len │ to        key <= rows < to; empty `to`: to the end
 *   head:     bits 0-3 column family │ bits 4-5 kind │ bit 6: the place has a last slot │ bit 7: a place follows
 *             without bit 7 the place is that of the effect before
 *   place:    u8 space_len │ space │ u16 first slot │ with bit 6: u16 last slot
 *             space_len 255: rows of any namespace; slot 65535: rows of the partition, which belong to no slot
 *
 * Integers are little-endian; a varint has 7 bits a byte, lowest first. A space is a storage namespace (encoding.h).
 *
 *   SET k v, key k in slot 7629 (0x1dcd) of the default namespace, the effect behind the header:
 *     81 │ 00 cd 1d │ 04 │ 00 1d cd 6b │ 0a │ 81 00 00 00 00 00 00 00 00 76
 *
 * Decoding trusts nothing: lengths, numbers and the count are checked, and all results are borrowed from the bytes.
 */
#pragma once

#include "backend/format/column_family.h"
#include "shared/bytes.h"

enum {
    EFFECTS_FORMAT = 1,
    EFFECTS_HEADER_BYTES = 48,
    EFFECT_NO_SLOT = 65535,
};

/* Numbers of other types are reserved: 3 prepared transaction, 4 decision, 5 members of a cluster. */
enum effects_type {
    EFFECTS_BATCH = 1, /* of commands that have run */
    EFFECTS_PROBE = 2, /* has no effects: shows that the disk takes writes */
};

struct effects_header {
    enum effects_type type;
    uint32_t count; /* of effects; set by the writer */
    uint64_t index; /* in the log: 1, 2, 3 ... */
    uint64_t term;  /* of the leader that made the batch; 0: there is only one copy */
    uint64_t
        commit; /* batches up to this index were committed when this one was made; with only one copy a batch
                         * commits itself, and this is its own index */
    uint64_t origin_ms; /* wall clock of the partition that made it */
    uint64_t version;   /* the newest version of a collection given out by then */
};

enum effect_kind { EFFECT_PUT, EFFECT_DELETE, EFFECT_DELETE_RANGE };

/* Where an effect's rows belong. */
struct effect_place {
    struct bytes space; /* storage namespace; empty where is_any_space */
    bool is_any_space;
    uint16_t first_slot, last_slot; /* both EFFECT_NO_SLOT: rows of the partition */
};

struct effect {
    enum effect_kind kind;
    enum cf cf;
    struct effect_place place;
    struct bytes key;   /* of a range: its first */
    struct bytes value; /* of a put */
    struct bytes to;    /* of a range */
};

/* ---- written ---- */

struct effects;

struct effects *effects_new(void);
void effects_free(struct effects *effects); /* NULL is allowed */
/* Empties it for a new batch. */
void effects_begin(struct effects *effects, const struct effects_header *header);
/* Empties it for a batch of which nothing but the effects is known. */
void effects_clear(struct effects *effects);
/* Gives the batch its index in the log; it commits itself. */
void effects_set_index(struct effects *effects, uint64_t index);
void effects_put(struct effects *effects, enum cf cf, struct bytes key, struct bytes value);
void effects_delete(struct effects *effects, enum cf cf, struct bytes key);
/* Deletes from <= rows < to; an empty `to`: to the end of the column family. */
void effects_delete_range(struct effects *effects, enum cf cf, struct bytes from, struct bytes to);
uint32_t effects_count(const struct effects *effects);
/* The whole batch, until the next change. */
struct bytes effects_bytes(const struct effects *effects);

/* ---- read ---- */

enum effects_read {
    EFFECTS_READ,
    EFFECTS_END,     /* no effect is left */
    EFFECTS_NEWER,   /* a format or type that this program does not have */
    EFFECTS_DAMAGED, /* not what effects_bytes makes */
};

struct effects_reader {
    struct bytes rest;
    uint32_t left;
    bool has_place;
    struct effect_place place;
};

/* Reads the header and begins with the first effect: READ, NEWER or DAMAGED. */
enum effects_read effects_open(struct bytes batch, struct effects_header *header,
                               struct effects_reader *reader);
/* Is this what a record of the WAL held up to its format 1: a write batch of RocksDB? That begins with the sequence number
 * of a batch that was not written yet, 0, and effects do not begin with a zero. */
bool effects_is_write_batch(struct bytes batch);
/* Why a batch was not read, for NEWER and DAMAGED: one line. */
const char *effects_refusal(enum effects_read result);
/* The next effect: READ, END (and nothing is left over) or DAMAGED. */
enum effects_read effects_next(struct effects_reader *reader, struct effect *effect);
