/*
 * encoding.h - the format of all rows on disk. All integers are big-endian, so memcmp order is numeric order.
 *
 *   CF_METADATA    u8 ns_len | ns | u16 slot | user key                                   → metadata value
 *   CF_DATA        u8 ns_len | ns | u16 slot | u32 key_len | user key | u64 version | sub → value
 *   CF_ZSET_SCORE  … | u64 version | 8-byte score | member                                → (empty)
 *                  hash: … | u64 version | u64 expire_ms | field                          → (empty)
 *   CF_STREAM      … | u64 version | u64 ms | u64 seq                                     → entry
 *   CF_RANK        … | u64 version | u8 level | sub                                        → varint rows | varint blocks (rank.h)
 *                  hash: … | u64 version | 0xff | field                                   → u64 expire_ms (field_expiry.h)
 *   CF_EXPIRE      u64 due_ms | metadata key                                              → u8 type
 *   CF_SYSTEM      'a'                                                                    → from which shards slots came (slot_record.h)
 *                  'c' | u8 ns_len | ns | u16 first slot                                  → slot counts of 1024 slots
 *                  'j' | u8 position                                                      → counts that a batch changed
 *                  'd' | u8 ns_len | ns                                                   → u8[16] database map
 *                  'f' | library name                                                    → code of its functions; default namespace
 *                  'F' | u8 ns_len | namespace | library name                            → code of its functions; other namespaces
 *                  'h'                                                                    → batch header
 *                  '='                                                                    → slots that copies compare (compare_row.h)
 *                  'k' | name of a shard                                                  → u64 number | results of its last keys (key_receipt.h)
 *                  'K'                                                                    → page of strays on its way (stray_page.h)
 *                  'p' | name of an option                                                → u64 version | value (option_row.h)
 *                  'v'                                                                    → u64 data format version
 *                  '2'                                                                    → transactions over shards (transaction_record.h)
 *                  's' | u8 page                                                          → states of 256 slots (slot_record.h)
 *
 *   ns is a storage namespace: the namespace's bytes for database 0, then 0x00 | u8 db for others.
 *
 *   metadata value
 *   ┌───────┬───────────┬──────────────────────────────────────────────┐
 *   │ flags │ expire_ms │ string, JSON: the payload                    │
 *   │ u8    │ u64, 0=no │ others: u64 version | u64 size | list: u64 head | u64 tail
 *   │       │           │ hash, if fields have TTLs: u64 soonest | u64 number of these fields
 *   └───────┴───────────┴──────── stream: 5 ids (u64 ms | u64 seq): last generated, recorded first,
 *                                 max deleted, first, last; then u64 entries added; and, if it was trimmed,
 *                                 u64 entries of the first node | of its removed front: id, u64 bytes,
 *                                 u32 entries, u32 hash of fields
 *                                 Bloom filter: its layers (bloom.h)
 *                                 count-min sketch: sum, width, depth (sketch.h)
 *                                 t-digest: compression, counts, min, max, unmerged values (tdigest.h)
 *                                 top-k list: sizes, decay, last item (topk.h)
 *   flags: bit 7 = 1 (this layout); 0 = the old layout (u32 expire seconds, u32 size), read but never written.
 *          low nibble = type.
 *
 *   slot count     u16 slot | varint keys | varint keys with a TTL      (varint: 7 bits a byte, lowest first)
 *   journal row    u64 serial | per storage namespace: u8 ns_len | ns | u16 n | n slot counts
 *
 * A slot is a contiguous range of each column family, and so is a storage namespace.
 */
#pragma once

#include "backend/format/column_family.h"
#include "shared/arena.h"
#include "shared/byte_order.h"
#include "shared/bytes.h"
#include "shared/command/command.h"

enum type {
    TYPE_NONE = 0,
#define TYPE(id, number, ...) TYPE_##id = (number),
#include "backend/format/types.def"
#undef TYPE
};

enum { TYPE_COUNT = 16 }; /* four bits on disk; some numbers are unused */

struct metadata_fields;

/* A row of the table of types. Commands add their functions in commands/types.h. */
struct type_row {
    const char *name;          /* as TYPE replies it; NULL: the number is unused */
    bool is_inline;            /* the value is in the metadata row */
    bool exists_empty;         /* the key stays when its last element is removed */
    enum type opens_as;        /* commands for this type can open it too; NONE: only its own */
    enum command_group blocks; /* blocking commands of this group can wait for it; GENERIC: none */
    enum cf elements;          /* column family of the elements; 0: CF_DATA */
    /* of its metadata row (encoding.c); NULL: only version and size */
    const struct metadata_fields *fields;
};

/* By type. */
extern const struct type_row type_rows[TYPE_COUNT];

enum {
    DATABASES_MAX = 16,
    NAMESPACE_BYTES_MAX = 200, /* storage namespaces have up to 2 bytes more */
    DATA_FORMAT = 6,
    RANK_FORMAT =
        1, /* of rank trees: older programs wrote none into the root, and maybe wrong counts */
};

enum {
    COUNTER_SLOTS = 1024,      /* slots in one row of counters */
    JOURNAL_ROWS = 256,        /* position of a journal row: its serial modulo this */
    SLOT_COUNT_BYTES_MAX = 22, /* of one slot count */
    VARINT_BYTES_MAX = 10,
};

/* Elements of a collection, and bytes of a string in fragments. */
#define COLLECTION_SIZE_MAX (UINT64_C(1) << 48)
#define BITMAP_BYTES_MAX    (UINT64_C(1) << 32)

struct stream_id {
    uint64_t ms;
    uint64_t seq;
};

/* The removed front of a stream's first node (stream_node.h); 0 entries: nothing was removed, or the front is not
 * known. */
struct stream_node {
    struct stream_id master; /* of the node's first entry */
    uint64_t bytes;
    uint32_t entries;
    uint32_t fields_hash; /* of the names of the first entry's fields */
};

/* A metadata row's value, decoded. */
struct metadata {
    enum type type;
    uint64_t expire_ms;   /* 0 = none */
    struct bytes payload; /* string, JSON; fields of a filter or sketch; borrowed from the row */
    uint64_t version;     /* others */
    uint64_t size;        /* others: elements */
    uint64_t head, tail;  /* list */
    /* hash: number of fields with a TTL, and a time before which none of them expires; 0: no field has one */
    uint64_t field_ttls, field_expire_ms;
    struct stream_id stream_last_generated, stream_recorded_first, stream_max_deleted;
    struct stream_id stream_first, stream_last;
    uint64_t stream_entries_added;
    uint64_t stream_node_size; /* least number of entries in the first node; 0: not counted yet */
    struct stream_node stream_node;
};

/* Header of a batch, for replication and point-in-time recovery. */
struct batch_header {
    uint64_t epoch;
    uint64_t index;     /* in the WAL, which also numbers probes */
    uint64_t origin_ms; /* wall clock of the executing partition */
    /* newest version of a collection: versions never decrease, even if the clock is set back */
    uint64_t version;
    uint64_t hybrid; /* time of the batch (hybrid_clock.h); 0 in rows of older programs */
};

/* Number of keys in one slot of a storage namespace. */
struct slot_count {
    uint16_t slot;
    uint64_t keys;
    uint64_t expires; /* keys with a TTL */
};

/* Is the value of this type in the metadata row? */
static inline bool type_is_inline(enum type type)
{
    return type_rows[type].is_inline;
}

/* The time of the key's row in the expiry index: when the key expires, or perhaps one of its fields; 0: it has none. */
static inline uint64_t metadata_due_ms(const struct metadata *metadata)
{
    uint64_t field_ms = metadata->field_expire_ms;
    uint64_t key_ms = metadata->expire_ms;
    return !field_ms || (key_ms && key_ms < field_ms) ? key_ms : field_ms;
}

/* The column family of a collection's elements. */
static inline enum cf type_elements(enum type type)
{
    return type_rows[type].elements ? type_rows[type].elements : CF_DATA;
}

/* "string", "hash", "list", "set", "zset", "stream", "ReJSON-RL", "sortedint", "MBbloom--", "CMSk-TYPE",
 * "TDIS-TYPE", "TopK-TYPE"; "string" for bitmaps. */
const char *type_name(enum type type);

/* Encode keys in the arena. `space`: bytes of the storage namespace. */
struct bytes encode_metadata_key(struct arena *arena, struct bytes space, uint16_t slot,
                                 struct bytes key);
/* The common prefix of all metadata keys of a storage namespace (or of one slot in it). */
struct bytes encode_space_prefix(struct arena *arena, struct bytes space);
struct bytes encode_slot_prefix(struct arena *arena, struct bytes space, uint16_t slot);
/* The prefix of a collection's rows in CF_DATA, CF_ZSET_SCORE, CF_STREAM and CF_RANK: up to the version. */
struct bytes encode_collection_prefix(struct arena *arena, struct bytes space, uint16_t slot,
                                      struct bytes key, uint64_t version);
/* prefix | sub */
struct bytes encode_sub_key(struct arena *arena, struct bytes prefix, struct bytes sub);
struct bytes encode_expire_key(struct arena *arena, uint64_t expire_ms, struct bytes metadata_key);
struct bytes encode_counter_key(struct arena *arena, struct bytes space, uint16_t first_slot);
struct bytes encode_journal_key(struct arena *arena, uint8_t position);
struct bytes encode_database_map_key(struct arena *arena, struct bytes name);
bool decode_database_map_key(struct bytes row, struct bytes *name);
/* The key of a function library. `name`: the namespace, empty for the default one. */
struct bytes encode_function_key(struct arena *arena, struct bytes name, struct bytes library);
bool is_function_key(struct bytes row);
/* The smallest key greater than all keys with this prefix; empty when there is none. */
struct bytes encode_prefix_end(struct arena *arena, struct bytes prefix);
/* Is `upper` that key? */
bool is_prefix_end(struct bytes prefix, struct bytes upper);

/* Decode keys; false: the bytes are no such key. Results are borrowed from `row`. */
bool decode_metadata_key(struct bytes row, struct bytes *space, uint16_t *slot, struct bytes *key);
bool decode_collection_key(struct bytes row, struct bytes *space, uint16_t *slot, struct bytes *key,
                           uint64_t *version, struct bytes *sub);
/* The common prefix of a collection's rows. */
bool decode_collection_prefix(struct bytes row, struct bytes *prefix);
bool decode_expire_key(struct bytes row, uint64_t *expire_ms, struct bytes *metadata_key);
bool decode_counter_key(struct bytes row, struct bytes *space, uint16_t *first_slot);
bool decode_journal_key(struct bytes row, uint8_t *position);

/* Metadata values. decode_metadata fails on unknown types, short rows, and numbers that no collection has. */
struct bytes encode_metadata(struct arena *arena, const struct metadata *metadata);
/* The metadata row of an empty string without TTL; static. */
struct bytes metadata_plain(void);
/* Is this the metadata row of a string without TTL? False for some that an old version has written. */
bool metadata_is_plain(struct bytes value);
bool decode_metadata(struct bytes value, struct metadata *metadata);
/* May a collection have these numbers? Decoded rows do, and rows that do not are never written: handlers compute sizes of memory
 * and of replies from them. An empty one may only have a type that exists empty; a list has as many elements as places. */
static inline bool metadata_is_sound(const struct metadata *metadata)
{
    /* One less for a type that does not exist empty: its size 0 wraps, and is refused as too big. */
    uint64_t size = metadata->size - !type_rows[metadata->type].exists_empty;
    if (metadata->type == TYPE_BITMAP)
        return size < BITMAP_BYTES_MAX;
    if (metadata->type == TYPE_LIST)
        return size < COLLECTION_SIZE_MAX && metadata->head < metadata->tail &&
               metadata->tail - metadata->head == metadata->size;
    return size < COLLECTION_SIZE_MAX;
}

/* Rows of counters are written and read in pieces: write_* returns the end of what it wrote, decode_next_* reads from
 * the front of `row`, or returns false. */
char *write_slot_count(char *to, const struct slot_count *count);
bool decode_next_slot_count(struct bytes *row, struct slot_count *count);
char *write_journal_space(char *to, struct bytes space, uint16_t counts);
bool decode_next_journal_space(struct bytes *row, struct bytes *space, uint16_t *counts);

/* Sub keys of a field's TTL: its row by name (CF_RANK), and its row by time (CF_ZSET_SCORE). */
struct bytes encode_field_ttl(struct arena *arena, struct bytes field);
bool decode_field_ttl(struct bytes sub, struct bytes *field);
struct bytes encode_field_time(struct arena *arena, uint64_t expire_ms, struct bytes field);
bool decode_field_time(struct bytes sub, uint64_t *expire_ms, struct bytes *field);

/* A block of a rank tree (rank.h): its number of rows, and of blocks on the level below. */
struct bytes encode_rank_block(struct arena *arena, uint64_t count, uint64_t children);
bool decode_rank_block(struct bytes value, uint64_t *count, uint64_t *children);
/* The root row of a rank tree. is_stale: an older program wrote the tree, and its counts may be wrong. */
struct bytes encode_rank_root(struct arena *arena, uint64_t levels, uint64_t tops);
bool decode_rank_root(struct bytes value, uint64_t *levels, uint64_t *tops, bool *is_stale);

struct bytes encode_u64(struct arena *arena, uint64_t value);
bool decode_u64(struct bytes value, uint64_t *number);
/* 8 bytes that sort like the score: -0 becomes 0; NaN is not allowed. */
uint64_t encode_score(double score);
double decode_score(uint64_t bits);

struct bytes encode_batch_header(struct arena *arena, const struct batch_header *header);
bool decode_batch_header(struct bytes value, struct batch_header *header);
