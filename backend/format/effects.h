/*
 * effects.h - the effects of a batch as bytes: deleted ranges, written rows, deleted rows. A record of the WAL has one batch.
 * Moved slots and prepared transactions have this format too, so namespace, slots and column family of each effect can be read
 * without parsing keys.
 *
 *   header, 56 bytes
 *   ┌──────────┬────────┬────────┬─────────┬─────────┬─────────┬───────────┬──────────────┬────────────┬───────────┐
 *   │ 0 format │ 1 type │ 2 zero │ 4 count │ 8 index │ 16 term │ 24 commit │ 32 origin_ms │ 40 version │ 48 hybrid │
 *   │ u8 = 2   │ u8     │ u16    │ u32     │ u64     │ u64     │ u64       │ u64          │ u64        │ u64       │
 *   └──────────┴────────┴────────┴─────────┴─────────┴─────────┴───────────┴──────────────┴────────────┴───────────┘
 *   then `count` effects, in the order in which they apply
 *
 *   effect:   u8 head │ place │ varint key_len │ key │ ...
 *                 put 0          ... varint value_len │ value
 *                 delete 1       ...
 *                 delete range 2 ... varint to_len │ to        key <= rows < to; empty `to`: to the end
 *                 note 3         ... varint value_len │ value  about the row `key`; changes nothing (note.h)
 *   head:     bits 0-2 column family │ bit 3: the shard's own change │ bits 4-5 kind
 *             bit 6: the place has a last slot │ bit 7: a place follows; without it: the place of the previous effect
 *   place:    u8 space_len │ space │ u16 first slot │ with bit 6: u16 last slot
 *             space_len 255: rows of any namespace; slot 65535: rows of the partition, which belong to no slot
 *
 * Integers are little-endian; a varint has 7 bits a byte, lowest first. A space is a storage namespace (encoding.h).
 *
 *   SET k v, key k in slot 7629 (0x1dcd) of the default namespace, the effect after the header:
 *     81 │ 00 cd 1d │ 04 │ 00 1d cd 6b │ 0a │ 81 00 00 00 00 00 00 00 00 76
 *
 * A change of the shard's own moves rows between shards: rows that arrive with a slot, and the removal of those that left. No
 * client's key changes by it.
 *
 * Format 1, in logs and prepared transactions of older programs, is read too: it ends its header before `hybrid`, and has neither
 * notes, nor bit 3, nor members.
 *
 * Decoding checks all lengths, numbers and the count. Results are borrowed from the bytes.
 */
#pragma once

#include "backend/format/column_family.h"
#include "shared/bytes.h"

enum {
    EFFECTS_FORMAT = 2,
    EFFECTS_HEADER_BYTES = 56,
    EFFECT_NO_SLOT = 65535,
};

enum effects_type {
    EFFECTS_BATCH = 1, /* of commands */
    /* without effects: the first record of a new leader. Older programs wrote it to check the disk */
    EFFECTS_PROBE = 2,
    EFFECTS_MEMBERS = 5, /* a batch that also changes the members of the group (members_row.h) */
};

struct effects_header {
    enum effects_type type;
    uint32_t count; /* of effects; set by the writer */
    uint64_t index; /* in the WAL: 1, 2, 3 ... */
    uint64_t term;  /* of the leader that made the batch; 0: there is one copy of the data */
    /* batches up to this index were committed when this one was made; with only one copy a batch commits itself, and this is
     * its own index */
    uint64_t commit;
    uint64_t origin_ms; /* wall clock of the partition */
    uint64_t version;   /* newest version of a collection so far */
    uint64_t hybrid;    /* time of the batch, µs (hybrid_clock.h); 0: as the record before */
};

enum effect_kind { EFFECT_PUT, EFFECT_DELETE, EFFECT_DELETE_RANGE, EFFECT_NOTE };

/* Namespace and slots of an effect's rows. */
struct effect_place {
    struct bytes space; /* storage namespace; empty if is_any_space */
    bool is_any_space;
    uint16_t first_slot, last_slot; /* both EFFECT_NO_SLOT: rows of the partition */
};

struct effect {
    enum effect_kind kind;
    enum cf cf;
    bool is_internal; /* a change of the shard's own */
    struct effect_place place;
    struct bytes key;   /* of a range: first key */
    struct bytes value; /* of a put or a note */
    struct bytes to;    /* of a range */
};

/* ---- encoding ---- */

struct effects;

struct effects *effects_new(void);
void effects_free(struct effects *effects); /* NULL is allowed */
/* Begins a new batch. */
void effects_begin(struct effects *effects, const struct effects_header *header);
/* Begins a batch whose header is not known yet. */
void effects_clear(struct effects *effects);
/* Sets the batch's index in the WAL; the batch commits itself. */
void effects_set_index(struct effects *effects, uint64_t index);
/* Sets index, term of the leader, and the index up to which batches are committed, which is at most `index`. */
void effects_set_numbers(struct effects *effects, uint64_t index, uint64_t term, uint64_t commit);
/* Sets the newest version of a collection. */
void effects_set_version(struct effects *effects, uint64_t version);
/* Are the effects that are added from now on the shard's own changes? Not after effects_begin. */
void effects_set_internal(struct effects *effects, bool is_internal);
void effects_put(struct effects *effects, enum cf cf, struct bytes key, struct bytes value);
void effects_delete(struct effects *effects, enum cf cf, struct bytes key);
/* Deletes from <= rows < to; an empty `to` means the end of the column family. */
void effects_delete_range(struct effects *effects, enum cf cf, struct bytes from, struct bytes to);
/* A note about a row (note.h). */
void effects_note(struct effects *effects, enum cf cf, struct bytes key, struct bytes value);
/* With notes. */
uint32_t effects_count(const struct effects *effects);
/* The whole batch; valid until the next change. */
struct bytes effects_bytes(const struct effects *effects);

/* Namespace and slots of a row, or of the rows of a range. The space is borrowed from the key. */
struct effect_place effect_place_of_row(enum cf cf, struct bytes key);
struct effect_place effect_place_of_range(enum cf cf, struct bytes from, struct bytes to);
/* Do the effect's rows belong to its place? Decoding does not compare them, and another shard may have named other slots. */
bool effect_is_at_place(const struct effect *effect);

/* ---- decoding ---- */

enum effects_read {
    EFFECTS_READ,
    EFFECTS_END,     /* no effect is left */
    EFFECTS_NEWER,   /* a format or type that this program does not have */
    EFFECTS_DAMAGED, /* not the result of effects_bytes */
};

struct effects_reader {
    struct bytes rest;
    uint32_t left;
    uint8_t format;
    bool has_place;
    struct effect_place place;
};

/* Reads the header and moves before the first effect: READ, NEWER or DAMAGED. */
enum effects_read effects_open(struct bytes batch, struct effects_header *header,
                               struct effects_reader *reader);
/* Is this a record of format 1 of the WAL, a write batch of RocksDB? These begin with a sequence number of 0, and
 * effects do not begin with a zero byte. */
bool effects_is_write_batch(struct bytes batch);
/* Describes NEWER and DAMAGED in one line. */
const char *effects_refusal(enum effects_read result);
/* Reads the next effect, without notes: READ, END (no bytes are left) or DAMAGED. */
enum effects_read effects_next(struct effects_reader *reader, struct effect *effect);
/* Reads the next effect or note. */
enum effects_read effects_next_or_note(struct effects_reader *reader, struct effect *effect);
