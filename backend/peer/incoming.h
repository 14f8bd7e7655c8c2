/*
 * incoming.h - runs the requests of a connection that another backend made to this partition (link.h is the other end).
 *
 *   frame ─► handler of its kind ─► struct peer_call ─► peer_call_reply, at once or later, in any order
 *
 * (1) A request that waits does not block others: reading continues while calls are open. A request beyond requests_max
 *     open calls, or beyond output_max bytes of payloads, is replied FAILED at once; it is counted, and the first one of
 *     each connection is logged.
 * (2) If a peer does not read its replies, nothing is read from it while more than STREAM_HIGH_WATER bytes are unsent; above
 *     output_max the peer is disconnected.
 * (3) A connection that is silent for three times timeout_ms is closed: its peer sends STATUS more often.
 * (4) When the connection ends, on_abandoned is called for each open call.
 * (5) A request whose id was received before on this connection is dropped, so each request runs at most once. If an id
 *     is too old to decide this (id_window.h), the connection is closed: its peer ends the request with PEER_LOST.
 */
#pragma once

#include "backend/peer/id_window.h"
#include "backend/peer/link.h"

struct peer_incoming {
    struct list link; /* in a list of the owner */
    const struct peer_self *self;
    struct stream *stream;
    struct peer_identity peer;
    struct peer_id_window ids; /* of received requests */
    struct list calls;         /* open */
    uint32_t calls_count;      /* length of `calls` */
    size_t calls_bytes;        /* bytes of their payloads */
    size_t held;               /* memory of the peer's transactions here, for their owner */
    struct silence silence;    /* of the peer */
    uint64_t since_ms;         /* monotonic: when the connection was made */
    bool was_over_limit;       /* a rejected request was logged for this connection */
    bool is_held;              /* nothing is read from it */
    bool is_broken;            /* freed after its bytes are handled, or at the next tick */
};

/* A request that is replied later. */
struct peer_call {
    struct list link;
    struct peer_incoming *incoming;
    uint64_t id;
    size_t bytes; /* of its payload */
    /* The connection ended before the reply: the owner must free the call. */
    void (*on_abandoned)(struct peer_call *call);
};

/* Takes ownership of the stream, after the greeting. */
struct peer_incoming *peer_incoming_new(const struct peer_self *self, struct stream *stream,
                                        const struct peer_identity *peer, struct list *all);
/* Closes the connection. */
void peer_incoming_free(struct peer_incoming *incoming);
/* Reads nothing from the connection, which counts as silent, until it is released. */
void peer_incoming_hold(struct peer_incoming *incoming);
/* Does nothing if it is not held. */
void peer_incoming_release(struct peer_incoming *incoming);
/* Frees the connection if it is broken or silent. */
void peer_incoming_tick(struct peer_incoming *incoming);

/* A request is executed by its function (messages.h): it replies DONE or FAILED here, or opens a call. */
void peer_incoming_done(struct peer_incoming *incoming, uint64_t id, struct bytes payload);
void peer_incoming_refuse(struct peer_incoming *incoming, uint64_t id, struct refusal refusal);
void peer_call_open(struct peer_call *call, struct peer_incoming *incoming, uint64_t id,
                    size_t bytes);
/* Replies DONE or FAILED and closes the call; the caller owns its memory again. */
void peer_call_done(struct peer_call *call, struct bytes payload);
void peer_call_refuse(struct peer_call *call, struct refusal refusal);
