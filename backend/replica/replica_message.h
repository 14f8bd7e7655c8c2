/*
 * replica_message.h - what copies of a shard send each other about their log, as payloads of peer frames (backend/peer/frame.h). Integers are
 * little-endian.
 *
 *   REPLICA_HELLO  u32 generation │ u64 group, id, starts, run, term, last, last_term │ u8 state │ u8 data format │ u64 map epoch │ address
 *                  ─► DONE, the same of the receiver
 *   REPLICA_CORE   u32 generation │ u64 group │ u64 wall_us │ u64 applied │ message (consensus/message.h) │ its records: u32 length, bytes …
 *   REPLICA_PART   u32 generation │ u64 group │ u64 from │ u64 term │ u64 index │ u64 total │ u64 offset │ bytes
 *
 * A record that is longer than REPLICA_RECORDS_BYTES comes in parts, from its first byte on; the REPLICA_CORE after the last part has a single
 * record, with the length REPLICA_IN_PARTS and no bytes. A member hears each part as a sign of life of its leader.
 */
#pragma once

#include "backend/consensus/message.h"

#include <stddef.h>

struct out;

enum {
    REPLICA_ADDRESS_MAX = 255,
    REPLICA_RECORDS_BYTES =
        256 << 10, /* of the records of one REPLICA_CORE, and of one REPLICA_PART */
};
#define REPLICA_IN_PARTS UINT32_MAX

/* What a copy says of itself when it meets another one. */
enum replica_state {
    REPLICA_STATE_NONE = 1, /* of no group, and has lost nothing */
    REPLICA_STATE_EMPTY,    /* of no group: its data may be overwritten */
    REPLICA_STATE_MEMBER,
    REPLICA_STATE_LOST, /* what it had promised is lost */
    REPLICA_STATE_DATA, /* of no group, and has keys */
};

/* The group that a frame belongs to (members_row.h). */
struct replica_group {
    uint32_t generation;
    uint64_t group; /* 0: none */
};

struct replica_hello {
    struct replica_group group;
    uint64_t id;     /* of the copy; 0: it has none yet */
    uint64_t starts; /* how often this copy was started */
    uint64_t run;    /* random number of the process */
    uint64_t term;
    uint64_t last, last_term; /* its last record */
    enum replica_state state;
    uint8_t data_format;
    uint64_t map_epoch;
    struct bytes address; /* host:port; when it is read: borrowed from the payload */
};

struct replica_core {
    struct replica_group group;
    uint64_t wall_us; /* the sender's system clock */
    uint64_t applied; /* the sender's data have all records up to this one */
    struct consensus_message message;
    struct bytes records; /* message.count × (u32 length, bytes); borrowed */
};

struct replica_part {
    struct replica_group group;
    uint64_t from, term;   /* the leader */
    uint64_t index, total; /* of the record: its index and its length */
    uint64_t offset;
    struct bytes bytes; /* borrowed */
};

void replica_hello_write(const struct replica_hello *hello, struct out *out);
void replica_core_write(const struct replica_core *core, struct out *out);
void replica_part_write(const struct replica_part *part, struct out *out);
/* False: the payload is no such message, or has values that no copy sends. */
bool replica_hello_read(struct bytes payload, struct replica_hello *hello);
bool replica_core_read(struct bytes payload, struct replica_core *core);
bool replica_part_read(struct bytes payload, struct replica_part *part);

/* The next record of replica_core.records; moves behind it. False: there is none, or it is cut off. One in parts is empty, with *is_in_parts. */
bool replica_record_next(struct bytes *records, struct bytes *record, bool *is_in_parts);
