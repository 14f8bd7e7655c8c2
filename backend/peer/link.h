/*
 * link.h - a connection from this partition to another partition of the shard map, with its outstanding requests.
 *
 *            ┌──────────── backoff ◄─── refused, broken, silent ◄────────┐
 *            ▼                                                           │
 *   DOWN ─connect─► CONNECTING ─open─► GREETING ─identity is good─► UP ──┘
 *                                         │  ▲
 *             SCREE AUTH, SCREE PEER ─────┘  └───── +OK, identity
 *
 * (1) Requests are sent only in UP; otherwise peer_link_send refuses at once, so nothing queues for a peer that is down.
 * (2) Each accepted request ends exactly once: with its reply, or with PEER_LOST when the connection breaks. A lost
 *     request may have been executed or not.
 * (3) Replies arrive in any order and are matched by id. A reply with an id that is not outstanding is dropped: the
 *     request was cancelled, or the reply is a duplicate.
 * (4) Memory is bounded: unsent bytes by output_max, outstanding requests by requests_max. A request beyond these
 *     limits is refused at once and counted; the first refusal of a connection is logged (peer_over_limit). Replies are always
 *     read, so two partitions that fill each other's buffers cannot block each other.
 * (5) A STATUS request is sent every ping_ms. If no byte arrives from the peer for timeout_ms, the connection is closed:
 *     so a network that fails in one direction, or a stopped process, has the effect of a broken connection.
 * (6) A link to a partition of the same process goes through memory, without TLS: its bytes do not leave the process.
 * (7) A link comes up only if the peer's identity names the shard that the map has at this address, and no newer leader of this shard was
 *     heard.
 * (8) A shard with several copies has several addresses. One of them leads, so the link tries them in turn, at first without a wait. A
 *     copy that does not lead names the one that does, as far as it has heard: this one is tried in between (leaders.h). When a newer
 *     leader is heard, the connection to the one before ends: its requests are lost as if the shard had restarted, and the link goes on
 *     at the new leader.
 */
#pragma once

#include "backend/context/refusal.h"
#include "backend/peer/frame.h"
#include "backend/peer/silence.h"
#include "shared/list.h"
#include "shared/net/stream.h"

enum { PEER_REASON_MAX = 256 };

struct cluster_clock;
struct hybrid_clock;
struct loop;
struct labels;
struct peer_incoming;
struct peer_leaders;
struct peer_link;
struct metric_cell;
struct metrics;
struct table;
struct tls_context;

struct peer_options {
    uint64_t connect_timeout_ms;
    uint64_t timeout_ms;
    uint64_t ping_ms;
    uint64_t backoff_min_ms;
    uint64_t backoff_max_ms;
    uint64_t output_max;   /* unsent bytes of a connection, outgoing or incoming */
    uint32_t requests_max; /* outstanding requests of a connection, outgoing or incoming */
};

/* Requests that this room does not handle itself. */
struct peer_requests {
    /* Handles a request of another backend (incoming.h), or returns why not. */
    struct refusal (*handle)(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame);
    /* The connection has ended. */
    void (*on_closed)(void *owner, struct peer_incoming *incoming);
};

/* Functions of the links' owner; each may be NULL. Not called while a link is made or freed. */
struct peer_link_events {
    void (*on_up)(void *owner, struct peer_link *link);
    /* it was up */
    void (*on_down)(void *owner, struct peer_link *link);
    /* its output is short again (stream.h) */
    void (*on_drain)(void *owner, struct peer_link *link);
};

/* The partition that has the links. */
struct peer_self {
    struct loop *loop;
    /* of the greeting: "PEER"; "REPLICA": the links lead to copies of this shard */
    const char *word;
    struct peer_link_events events;
    struct metrics *metrics;
    bool counts_links;            /* in METRIC_BACKEND_PEER_LINKS and _LINKS_UP */
    struct labels *links;         /* metrics by shard */
    uint32_t thread;              /* index of the partition, for `links` */
    struct peer_leaders *leaders; /* of other shards; NULL: each link has one address */
    struct cluster_clock *clock;  /* hears the clocks of peers; NULL: none does */
    struct hybrid_clock *hybrid;  /* of the partition */
    const uint64_t *log_id;       /* peer_host.log_id */
    struct peer_options options;
    struct peer_identity identity; /* log_index, wall_us, copies, log_id: see peer_self_encode */
    uint32_t *listeners;           /* counts links with `listens` */
    char *secret;
    char *secret_previous;   /* is shown too; empty: none */
    struct tls_context *tls; /* NULL: plain connections */
    uint64_t (*current_index)(void *owner);
    void (*copies)(void *owner, struct peer_copies *to); /* peer_host.copies */
    struct peer_requests requests;
    void *owner; /* of these functions */
};

enum peer_result {
    PEER_OK, /* payload: of the reply */
    PEER_REFUSED, /* request->refusal: why; payload: a sentence for people; the request was not executed */
    PEER_LOST, /* no payload */
};

/* A request, owned by the caller; outstanding until on_reply, which is called once and may free the request. */
struct peer_request {
    struct list link;
    uint64_t id;
    enum refusal_code refusal; /* of PEER_REFUSED */
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

/* What is outstanding in GREETING. */
struct peer_greeting {
    uint8_t auths_left; /* replies to SCREE AUTH */
    bool is_admitted;   /* the peer has accepted a secret */
};

/* Where and when a link connects next. */
struct peer_retry {
    uint64_t at_ms;    /* monotonic */
    uint32_t failures; /* consecutive ones */
    uint32_t turn;     /* of the shard's addresses, which was tried last */
    bool is_named;     /* a copy has named the present address: it is not of the turn */
};

struct peer_link {
    struct list link; /* in a list of the owner */
    const struct peer_self *self;
    char *shard;
    char *address;         /* in DOWN: where it connects next */
    struct stream *stream; /* NULL in DOWN */
    enum peer_link_state state;
    struct peer_greeting greeting;
    bool is_here;           /* the connection does not leave the process */
    bool was_over_limit;    /* peer_over_limit was logged for this connection */
    bool listens;           /* the peer wants PUBLISH, or did before its connection broke */
    uint64_t listens_order; /* of the last LISTEN that counted */
    struct list requests;
    struct table *by_id;
    uint64_t last_id;
    struct peer_request status; /* the outstanding STATUS request; id 0: none */
    struct peer_identity peer;  /* of the peer at this address, in the last STATUS or greeting */
    struct silence silence;     /* of the peer */
    uint64_t pinged_us;         /* monotonic: the last STATUS was sent */
    uint64_t round_trip_us;     /* of the last STATUS that was replied to; 0: none */
    struct metric_cell *cell;   /* enum link_word */
    struct peer_retry retry;
    uint64_t since_ms;            /* monotonic: when the link came up, or since when it is not up */
    uint64_t connects;            /* number of connections that came up */
    char reason[PEER_REASON_MAX]; /* why the link is down; empty: it was never down */
};

/* Makes a link, which connects at the first tick. `self` must outlive the link; `label` is that of its metrics by shard;
 * NULL: it has none. */
struct peer_link *peer_link_new(const struct peer_self *self, const char *shard,
                                const char *address, const char *label);
/* Ends outstanding requests with PEER_LOST and closes the connection. */
void peer_link_free(struct peer_link *link);
/* Closes the connection: nothing is sent or heard any more. Requests stay outstanding until they are cancelled, or the link is freed, which
 * comes next. */
void peer_link_cut(struct peer_link *link);
/* Connects, sends STATUS and detects silence; to be called several times in each ping_ms. */
void peer_link_tick(struct peer_link *link);

/* The peer has connected to this process, so it listens. A link that waits before it tries again, or that still tries an address where the
 * peer may have been before, begins anew at the next tick. */
void peer_link_hurry(struct peer_link *link);

/* A newer leader of the shard was heard, at this address; NULL: at none that the map has. Ends the connection, unless it is being made to
 * this address, and connects there at the next tick. */
void peer_link_new_leader(struct peer_link *link, const char *address);

/* Sends a request. The payload has at most PEER_PAYLOAD_MAX bytes and is copied. PEER_SENT: `request` is
 * outstanding. */
enum peer_sent peer_link_send(struct peer_link *link, struct peer_request *request, uint8_t kind,
                              struct bytes payload);
/* As peer_link_send, with the bytes of `out`, which is cleared. `link` NULL: PEER_NOT_UP. More than PEER_PAYLOAD_MAX bytes: PEER_FULL.
 * link_send.c */
enum peer_sent peer_link_send_out(struct peer_link *link, struct peer_request *request,
                                  uint8_t kind, struct out *out);
/* Sends a request whose reply does not matter, if the link is up. link_send.c */
void peer_link_tell(struct peer_link *link, uint8_t kind, struct bytes payload);
/* Sends a request that has no reply. */
enum peer_sent peer_link_post(struct peer_link *link, uint8_t kind, struct bytes payload);
/* Notes whether the peer wants PUBLISH. A peer increases `order` with each such statement, so older ones are ignored. */
void peer_link_note_listener(struct peer_link *link, bool listens, uint64_t order);
/* Cancels a request: on_reply will not be called, and the caller owns the request's memory. The peer is not
 * notified. */
void peer_link_cancel(struct peer_link *link, struct peer_request *request);
/* peer_link_post, with the content of `out` as the payload; `out` is empty afterwards. */
enum peer_sent peer_link_post_out(struct peer_link *link, uint8_t kind, struct out *out);
/* Unsent bytes of the connection; 0: it is not up. */
size_t peer_link_pending(const struct peer_link *link);
/* Number of outstanding requests, without the link's own STATUS. */
uint32_t peer_link_outstanding(const struct peer_link *link);
const char *peer_link_state_name(const struct peer_link *link);
/* "memory", "tls" or "tcp": how the link is connected, or will be. */
const char *peer_link_through(const struct peer_link *link);
/* How much the peer's system clock is ahead of the time of the cluster (cluster_clock.h), in µs; 0: not known. */
int64_t peer_link_clock_skew_us(const struct peer_link *link);

/* Copies the secrets; `previous` may be empty, `tls` NULL. */
void peer_self_set_credentials(struct peer_self *self, const char *secret, const char *previous,
                               struct tls_context *tls);
bool peer_self_has_credentials(const struct peer_self *self, const char *secret,
                               const char *previous, const struct tls_context *tls);
void peer_self_free_credentials(struct peer_self *self);
/* Encodes the current identity. */
size_t peer_self_encode(const struct peer_self *self, char to[PEER_IDENTITY_MAX]);
