/*
 * replica_message.h - what copies of a shard send each other about their log, as payloads of peer frames (backend/peer/frame.h). Integers are
 * little-endian.
 *
 *   REPLICA_HELLO  u32 generation │ u64 group, id, starts, run, number, term, last, last_term │ u8 state │ u8 data format │ u8 flags │ u64 map epoch
 *                  │ what is known of the receiver: u64 id, starts, run, last │ address                      ─► DONE, the same of the receiver
 *   REPLICA_KNOWN  u32 generation │ u64 group │ u8 n │ n × u64 id, starts, run, last
 *   REPLICA_CORE   u32 generation │ u64 group │ u64 time_us │ u64 applied │ message (consensus/message.h) │ its records: u32 length, bytes …
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
    REPLICA_KNOWN_MAX = 8, /* of one REPLICA_KNOWN */
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

/* What else a copy says of itself. */
enum replica_flag {
    REPLICA_FLAG_VOTES = 1, /* its process can be a voter: it knows groups with several */
    REPLICA_FLAG_HAS_LOST =
        2, /* its directory took the place of one that had lost its promises, and which is still kept */
    REPLICA_FLAG_SERVES = 4, /* it leads its group, and all before its leadership is committed */
    REPLICA_FLAGS_ALL = 7,
};

/* What other copies know of one, which its own disk may not have any more (replica_known.h). */
struct replica_known_copy {
    uint64_t id;     /* 0: nothing is known */
    uint64_t starts; /* its newest start … */
    uint64_t run;    /* … was this one */
    uint64_t last;   /* its log had the committed records up to here */
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
    uint64_t number; /* of what this process has said: what comes with a lower one is older */
    uint64_t term;
    uint64_t last, last_term; /* its last record */
    enum replica_state state;
    uint8_t data_format;
    uint8_t flags; /* enum replica_flag */
    uint64_t map_epoch;
    /* Of the receiver, or of a copy that was at its address before. */
    struct replica_known_copy known;
    struct bytes address; /* host:port; when it is read: borrowed from the payload */
};

struct replica_core {
    struct replica_group group;
    uint64_t time_us; /* of the group, as the sender has it (group_clock.h); 0: it does not */
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

struct replica_known_list {
    struct replica_group group;
    unsigned count;
    struct replica_known_copy copies[REPLICA_KNOWN_MAX];
};

void replica_hello_write(const struct replica_hello *hello, struct out *out);
void replica_core_write(const struct replica_core *core, struct out *out);
void replica_part_write(const struct replica_part *part, struct out *out);
/* False: the payload is no such message, or has values that no copy sends. */
bool replica_hello_read(struct bytes payload, struct replica_hello *hello);
bool replica_core_read(struct bytes payload, struct replica_core *core);
bool replica_part_read(struct bytes payload, struct replica_part *part);
void replica_known_write(const struct replica_known_list *list, struct out *out);
bool replica_known_read(struct bytes payload, struct replica_known_list *list);

/* The next record of replica_core.records; moves behind it. False: there is none, or it is cut off. One in parts is empty, with *is_in_parts. */
bool replica_record_next(struct bytes *records, struct bytes *record, bool *is_in_parts);
