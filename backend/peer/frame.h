/*
 * frame.h - encodes and decodes the bytes that backends send each other.
 *
 * A connection begins as a client's (link.h): SCREE AUTH, then SCREE PEER with the identity of the backend that
 * connects; the reply is the identity of the other backend. From then on the connection carries frames. Requests go
 * from the backend that connected to the backend that accepted; replies go back, each with the id of its request, in
 * any order.
 *
 *   frame     ┌────────────┬────────┬─────────┬───────────────┬────────────┬─────────┐
 *             │ 0 length   │ 4 kind │ 5 zero  │ 8 request id  │ 16 hybrid  │ 24      │
 *             │ u32        │ u8     │ 3 bytes │ u64           │ u64        │ payload │ `length` bytes, at most PEER_PAYLOAD_MAX
 *             └────────────┴────────┴─────────┴───────────────┴────────────┴─────────┘
 *             hybrid: time of the newest effect that the sender may have seen (hybrid_clock.h)
 *
 *   identity  ┌──────────┬─────────────┬─────────────┬───────────────┐
 *             │ 0 format │ 1 map epoch │ 9 map hash  │ 17 log index  │ run id, shard, address, version:
 *             │ u8 = 1   │ u64         │ u64         │ u64           │ each u8 length, then as many bytes
 *             └──────────┴─────────────┴─────────────┴───────────────┘ then the ports for clients without and
 *             with TLS: u16 each, 0: none; then u8, 1: the sender listens to channels (channel_relay.h);
 *             then u64: the sender's system clock, µs since 1970 (cluster_clock.h); then its leadership, u32 generation, u64 term;
 *             then the other copies of its shard: u8 count, and each u64 hash of the address, u8 1: it is up, u64 applied;
 *             then u64: the name of its log (partition_store_log_id), 0: it has none
 *
 *   STATUS    payload: identity of the sender            ─► DONE   payload: identity of the receiver
 *   ECHO      payload: u32 delay in ms, then any bytes   ─► DONE   payload: those bytes, after the delay
 *   LOCK, LOCK_REST, PREPARE_PART, PREPARE, APPLY, RELEASE, OUTCOME, OPEN, WOUND, UNWATCH: of transactions over shards (participant.h)
 *   SLOTS     u64 hash of the last answer, 0: none     ─► DONE   owners of slots, or that they are the same (slot_owners.c)
 *   MOVE_BEGIN, MOVE_ROWS, MOVE_END, MOVE_ACTIVATE, MOVE_ABORT: slots that move to the receiver (move_message.h)
 *   MOVE_ASK  the receiver moves slots to the sender    ─► DONE   whether it still does (move_message.h)
 *   KEYS_PUT  keys of slots that the receiver owns, KEY_PART: a part of a long one ─► DONE   (key_message.h)
 *   SNAPSHOT_BEGIN, SNAPSHOT_READ, SNAPSHOT_END: files of a shard for another copy (backend/replica/snapshot_message.h)
 *   REPLICA_HELLO, REPLICA_CORE, REPLICA_PART: the log of a shard for another copy (backend/replica/replica_message.h); the last two
 *   have no reply
 *   LEADERS   empty; of a copy of this shard           ─► DONE   what is known of all shards (cluster_heard.h)
 *   LEAD      empty; of a copy of this shard           ─► DONE   the receiver hands over to the sender (hand_over.h)
 *   LISTEN    u8 the sender wants PUBLISH from now on, or 0: no longer, u64 order; empty: it wants ─► DONE   (channel_relay.h)
 *   PUBLISH   u32 length of the channel, channel, payload; it has no reply
 *   any request                                          ─► FAILED u8 code │ sentence (refusal.h); nothing was executed
 *
 * Integers are little-endian. A newer identity may be longer: bytes after the known ones are skipped. An older one ends before the
 * ports, after them, before the clock, before the leadership, before the copies, or before the name of the log.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/shard_map.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

enum {
    /* Raised by each change after which backends of different versions would misunderstand each other. Both must have the same. */
    PEER_PROTOCOL = 8,
    PEER_FRAME_HEADER_BYTES = 24,
    PEER_PAYLOAD_MAX = 64 * 1024 * 1024,
    PEER_ECHO_HEADER_BYTES = 4,
    PEER_RUN_ID_MAX = 40,
    PEER_ADDRESS_MAX = 255,
    PEER_VERSION_MAX = 32,
    PEER_IDENTITY_MAX = 1024, /* bytes of an encoded identity, also of newer versions */
    PEER_COPIES_MAX = 8,
};

/* Kinds below 128 are requests (messages.def). */
enum peer_kind {
#define MESSAGE(id, name, ...)      PEER_##name = (id),
#define MESSAGE_LINK(id, name, ...) PEER_##name = (id),
#define MESSAGE_COPY(id, name, ...) PEER_##name = (id),
#include "backend/peer/messages.def"
#undef MESSAGE
#undef MESSAGE_LINK
#undef MESSAGE_COPY
    PEER_DONE = 128,
    PEER_FAILED = 129,
};

struct peer_frame {
    uint8_t kind; /* enum peer_kind, or a kind of a newer version */
    uint64_t id;
    uint64_t hybrid;      /* at most HYBRID_MAX */
    struct bytes payload; /* borrowed */
};

enum peer_decoded {
    PEER_FRAME_WHOLE,
    PEER_FRAME_MORE, /* incomplete; *size is set if the header is complete */
    PEER_FRAME_BAD,
};

/* Appends a frame of at most PEER_PAYLOAD_MAX bytes of payload. */
void peer_frame_write(struct out *out, const struct peer_frame *frame);
/* Reads the frame at the front of data[0..len); *size is its length with its header, 0 while unknown. */
enum peer_decoded peer_frame_read(const char *data, size_t len, struct peer_frame *frame,
                                  size_t *size);

/* Since when a partition leads its shard; all zero: the shard has one copy. Of two leaders of a shard the one with the greater generation
 * of the group, or in the same generation with the greater term, is the newer. */
struct peer_leadership {
    uint32_t generation;
    uint64_t term;
};

/* Negative, 0 or positive: `left` is older than `right`, the same, or newer. */
int peer_leadership_compare(const struct peer_leadership *left,
                            const struct peer_leadership *right);

/* What a leader has heard of the other copies of its shard. */
struct peer_copies {
    uint8_t count;
    struct peer_copy {
        uint64_t address; /* peer_address_hash */
        bool is_up;       /* it is connected to the leader */
        uint64_t applied; /* its data have all records up to this one; 0: it has no data yet */
    } of[PEER_COPIES_MAX];
};

/* Ignores case, as maps do. */
uint64_t peer_address_hash(const char *address);
/* NULL: nothing was heard of a copy at the address. */
const struct peer_copy *peer_copies_find(const struct peer_copies *copies, const char *address);

/* A partition's description of itself for its peers; the texts end with a zero byte. */
struct peer_identity {
    char run_id[PEER_RUN_ID_MAX + 1];
    char shard[SHARD_NAME_MAX + 1];
    char address[PEER_ADDRESS_MAX + 1]; /* advertised */
    char version[PEER_VERSION_MAX + 1];
    uint16_t port; /* for clients; 0: none, or not known */
    uint16_t tls_port;
    uint64_t map_epoch;
    uint64_t map_hash;
    uint64_t log_index; /* index of the last batch */
    bool listens;       /* wants PUBLISH */
    uint64_t wall_us;   /* its system clock when the identity was sent; 0: not known */
    struct peer_leadership leadership;
    struct peer_copies copies; /* of the shard, without this one */
    uint64_t log_id;           /* 0: not known */
};

/* Encodes the identity; returns its length. */
size_t peer_identity_write(const struct peer_identity *identity, char to[PEER_IDENTITY_MAX]);
/* Decodes an identity; false: the bytes are not valid. Texts must be printable ASCII without spaces, commas and '='. */
bool peer_identity_read(struct bytes from, struct peer_identity *identity);
