/*
 * link.h - a connection from this partition to another one of the shard map, and the requests that are outstanding on it.
 *
 *            ┌──────────── backoff ◄─── refused, broken, silent ◄────────┐
 *            ▼                                                           │
 *   DOWN ─connect─► CONNECTING ─open─► GREETING ─identity is good─► UP ──┘
 *                                         │  ▲
 *             SCREE AUTH, SCREE PEER ─────┘  └───── +OK, identity
 *
 * (1) Only in UP a request is sent; else peer_link_send refuses it at once, so nothing queues for a peer that is down.
 * (2) Each accepted request ends exactly once: with its reply, or with PEER_LOST when the connection breaks. What was
 *     lost may have been done, or not.
 * (3) Replies come in any order, found by id. A reply with an id that is not outstanding is dropped: its request was
 *     cancelled, or its reply came twice.
 * (4) Memory is bounded: unsent bytes by output_max, outstanding requests by requests_max. A request beyond them is
 *     refused at once; the first one of each connection is logged (peer_over_limit), all are counted. Replies are always
 *     read, so two partitions that fill each other's buffers cannot block each other.
 * (5) A STATUS request is sent every ping_ms. Without a byte from the peer for timeout_ms the connection is closed: a
 *     one-way cut or a stopped process ends like a broken connection.
 * (6) A link comes up only if the peer's identity names the shard that the map has at this address.
 */
#pragma once

#include "backend/peer/frame.h"
#include "shared/list.h"
#include "shared/net/stream.h"

enum { PEER_REASON_MAX = 256 };

struct loop;
struct metrics;
struct table;
struct tls_context;

struct peer_options {
    uint64_t connect_timeout_ms;
    uint64_t timeout_ms;
    uint64_t ping_ms;
    uint64_t backoff_min_ms;
    uint64_t backoff_max_ms;
    uint64_t output_max;   /* unsent bytes of a connection, either way */
    uint32_t requests_max; /* outstanding on a connection, either way */
};

/* The partition that has the links. */
struct peer_self {
    struct loop *loop;
    struct metrics *metrics;
    struct peer_options options;
    struct peer_identity identity; /* log_index: see current_index */
    char *secret;
    struct tls_context *tls; /* NULL: plain connections */
    uint64_t (*current_index)(void *owner);
    void *owner;
};

enum peer_result {
    PEER_OK,      /* payload: the reply's */
    PEER_REFUSED, /* payload: the reason; nothing was done */
    PEER_LOST,    /* no payload */
};

/* The caller's; outstanding until on_reply, which is called once and may free it. */
struct peer_request {
    struct list link;
    uint64_t id;
    void (*on_reply)(struct peer_request *request, enum peer_result result, struct bytes payload);
};

enum peer_link_state {
    PEER_LINK_DOWN,
    PEER_LINK_CONNECTING,
    PEER_LINK_GREETING,
    PEER_LINK_UP,
};

enum peer_sent {
    PEER_SENT,
    PEER_NOT_UP,
    PEER_FULL, /* output_max or requests_max is reached */
};

struct peer_link {
    struct list link; /* for the owner */
    const struct peer_self *self;
    char *shard;
    char *address;
    struct stream *stream; /* NULL in DOWN */
    enum peer_link_state state;
    bool has_auth_reply; /* in GREETING */
    bool was_over_limit; /* on this connection: it was logged */
    struct list requests;
    struct table *by_id;
    uint64_t last_id;
    struct peer_request status;   /* the STATUS that is outstanding, while its id is not 0 */
    struct peer_identity peer;    /* identity of the peer in the last STATUS or greeting */
    uint64_t heard_ms;            /* monotonic: the last byte from the peer */
    uint64_t pinged_ms;           /* monotonic: the last STATUS was sent */
    uint64_t retry_ms;            /* monotonic: in DOWN, when to connect */
    uint32_t failures;            /* in a row */
    uint64_t connects;            /* number of connections that came up */
    char reason[PEER_REASON_MAX]; /* why it is down; empty: it never was */
};

/* `self` outlives the link. Connects at the first tick. */
struct peer_link *peer_link_new(const struct peer_self *self, const char *shard,
                                const char *address);
/* Ends outstanding requests with PEER_LOST and closes the connection. */
void peer_link_free(struct peer_link *link);
/* Connects, sends STATUS, notices silence. Several times in each ping_ms. */
void peer_link_tick(struct peer_link *link);

/* The payload has at most PEER_PAYLOAD_MAX bytes and is copied. PEER_SENT: `request` is outstanding. */
enum peer_sent peer_link_send(struct peer_link *link, struct peer_request *request, uint8_t kind,
                              struct bytes payload);
/* on_reply is not called any more, the request's memory is the caller's. The peer is not notified. */
void peer_link_cancel(struct peer_link *link, struct peer_request *request);
/* Outstanding, without the link's own STATUS. */
uint32_t peer_link_outstanding(const struct peer_link *link);
const char *peer_link_state_name(const struct peer_link *link);

/* The identity as it is now, encoded. */
size_t peer_self_encode(const struct peer_self *self, char to[PEER_IDENTITY_MAX]);
