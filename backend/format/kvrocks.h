/*
 * kvrocks.h - decodes rows of Apache Kvrocks 2, in its old and new encoding. Both lie side by side in one directory.
 *
 *   metadata   u8 ns_len | ns | [u16 slot] | user key                                        → value
 *   default    u8 ns_len | ns | [u16 slot] | u32 key_len | user key | u64 version | sub key  → element of any type but stream
 *   stream     … | u64 version | u64 ms | u64 seq                                            → (varint length | bytes)…
 *              … | u64 version | ff × 8 | 1 | u64 len | group                                → 6 × u64
 *                                     … | 2 | u64 len | group | u64 len | consumer           → 3 × u64
 *                                     … | 3 | u64 len | group | u64 ms | u64 seq             → u64 time | u64 deliveries | u64 len | consumer
 *   propagate  lua_lib_code_<library>                                                        → code
 *
 *   value of a metadata row
 *   ┌───────┬───────────────────────┬───────────────────────────────────────────────────────────────┐
 *   │ flags │ new: u64 expire_ms    │ string: payload │ JSON: u8 format | payload                   │
 *   │ u8    │ old: u32 seconds      │ others: u64 version | size (new u64, old u32) | list: u64 head | u64 tail
 *   └───────┴───────────────────────┴───────── stream: 5 ids | u64 entries added | [u64 groups] │ HyperLogLog: u8 form
 *   flags: bit 7 = new encoding, low nibble = type
 *
 * Slots are in keys only if the directory is one of cluster mode. All functions are pure; results are borrowed from the rows. A row with
 * more or fewer bytes than its type has is refused: it may be of a later Kvrocks, and mean something else.
 */
#pragma once

#include "backend/format/stream_id.h"

enum kvrocks_type {
    KVROCKS_STRING = 1,
    KVROCKS_HASH,
    KVROCKS_LIST,
    KVROCKS_SET,
    KVROCKS_ZSET,
    KVROCKS_BITMAP,
    KVROCKS_SORTEDINT,
    KVROCKS_STREAM,
    KVROCKS_BLOOM,
    KVROCKS_JSON,
    KVROCKS_HYPERLOGLOG,
    KVROCKS_TYPES /* later types are unknown */
};

enum {
    KVROCKS_PART_BYTES = 1024,        /* of a bitmap in one row */
    KVROCKS_HLL_ROWS = 16,            /* of a HyperLogLog */
    KVROCKS_HLL_ROW_BYTES = 768,      /* 1024 registers of 6 bits */
    KVROCKS_BITMAP_MAX = 1 << 29,     /* bytes */
    KVROCKS_LIBRARY_PREFIX_BYTES = 13 /* lua_lib_code_ */
};

#define KVROCKS_LIBRARY_PREFIX "lua_lib_code_"

struct kvrocks_value {
    enum kvrocks_type type;
    uint64_t expire_ms;   /* 0: none */
    struct bytes payload; /* of a string and of JSON */
    bool is_cbor;         /* JSON */
    uint64_t version;     /* of the others */
    uint64_t size;        /* bytes of a bitmap; of others a count that may be wrong */
    uint64_t head, tail;  /* list: the elements are head <= i < tail */
    struct stream_id last_generated, max_deleted;
    uint64_t entries_added;
};

/* False: the row is damaged or of an unknown form. The type is set if there is a row at all. */
bool kvrocks_value_read(struct bytes row, struct kvrocks_value *value);

/* The parts of a metadata key. */
struct kvrocks_key {
    struct bytes prefix; /* what the key's rows begin with: namespace and slot */
    struct bytes space;  /* namespace */
    struct bytes key;
};
bool kvrocks_key_read(struct bytes row, bool has_slots, struct kvrocks_key *key);
/* Would these bytes be a metadata key with its own slot? */
bool kvrocks_key_fits_slot(struct bytes row);
/* What all rows of this key and version begin with. */
struct bytes kvrocks_rows_prefix(struct arena *arena, const struct kvrocks_key *key,
                                 uint64_t version);

/* The offset of a bitmap's part: decimal, a multiple of KVROCKS_PART_BYTES. */
bool kvrocks_part_read(struct bytes sub, uint64_t *offset);
struct bytes kvrocks_part_sub(struct arena *arena, uint64_t offset);
/* In a bitmap of Kvrocks, the first bit of a byte is the lowest one; in Redis, the highest. */
uint8_t kvrocks_reverse_bits(uint8_t byte);
/* A score's 8 bytes; false: other bytes, or no number. */
bool kvrocks_score_read(struct bytes value, double *score);

/* Is this the row of a stream's entry, as in stream_entry.h, with pairs of fields and values? */
bool kvrocks_entry_is_good(struct bytes row);

/* Sub keys of a stream's groups begin with these bytes. `name` without data: of all groups; a group may have an empty name. */
enum kvrocks_group_row { KVROCKS_GROUP = 1, KVROCKS_CONSUMER = 2, KVROCKS_PENDING = 3 };
bool kvrocks_is_group_row(struct bytes sub);
struct bytes kvrocks_group_prefix(struct arena *arena, enum kvrocks_group_row kind,
                                  struct bytes name);

struct kvrocks_group {
    struct bytes name;
    struct stream_id last;
    uint64_t entries_read; /* UINT64_MAX: not known */
};
struct kvrocks_consumer {
    struct bytes group;
    struct bytes name;
    uint64_t seen_ms;
    uint64_t active_ms;
};
struct kvrocks_pending {
    struct bytes group;
    struct bytes consumer;
    struct stream_id id;
    uint64_t delivered_ms; /* XREADGROUP of Kvrocks 2.10 stores 0 in both */
    uint64_t deliveries;
};
bool kvrocks_group_read(struct bytes sub, struct bytes value, struct kvrocks_group *group);
bool kvrocks_consumer_read(struct bytes sub, struct bytes value, struct kvrocks_consumer *consumer);
bool kvrocks_pending_read(struct bytes sub, struct bytes value, struct kvrocks_pending *pending);
