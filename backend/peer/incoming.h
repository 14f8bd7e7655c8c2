/*
 * incoming.h - a connection that another backend made to this partition (link.h is its other end): runs its requests.
 *
 *   frame ─► handler of its kind ─► struct peer_call ─► peer_call_reply, at once or later, in any order
 *
 * (1) A request that waits holds up no other one: reading goes on while calls are open. More than requests_max of them,
 *     or payloads of more than output_max, are answered FAILED at once; that is counted, and logged once for each connection.
 * (2) A peer that does not read its replies is not read from while more than STREAM_HIGH_WATER of them are unsent, and
 *     cut above output_max.
 * (3) A connection that is silent for three times timeout_ms is closed: its peer sends STATUS more often.
 * (4) When the connection ends its open calls end: on_abandoned.
 * (5) A request whose id came before on this connection is dropped, so it runs once. One so old that this cannot be
 *     decided (id_window.h) closes the connection: its peer ends the request with PEER_LOST.
 */
#pragma once

#include "backend/peer/id_window.h"
#include "backend/peer/link.h"

struct peer_incoming {
    struct list link; /* for the owner */
    const struct peer_self *self;
    struct stream *stream;
    struct peer_identity peer;
    struct peer_id_window ids; /* of requests that came */
    struct list calls;         /* open */
    uint32_t calls_count;      /* in `calls` */
    size_t calls_bytes;        /* their payloads */
    uint64_t heard_ms;         /* monotonic */
    bool was_over_limit;       /* on this connection a rejected request was logged */
    bool is_broken;            /* freed when its bytes are handled, or at the next tick */
};

/* A request that is answered later. */
struct peer_call {
    struct list link;
    struct peer_incoming *incoming;
    uint64_t id;
    size_t bytes; /* of its payload */
    /* The connection ended before the reply: the owner must free the call. */
    void (*on_abandoned)(struct peer_call *call);
};

/* A request came. Answers it with peer_incoming_reply, or opens a call. */
typedef void peer_handler_fn(struct peer_incoming *incoming, uint64_t id, struct bytes payload);

/* Takes over the stream, whose greeting was answered. */
struct peer_incoming *peer_incoming_new(const struct peer_self *self, struct stream *stream,
                                        const struct peer_identity *peer, struct list *all);
/* Closes the connection. */
void peer_incoming_free(struct peer_incoming *incoming);
/* Frees it when it is broken or silent. */
void peer_incoming_tick(struct peer_incoming *incoming);

/* `kind`: PEER_DONE or PEER_FAILED. */
void peer_incoming_reply(struct peer_incoming *incoming, uint8_t kind, uint64_t id,
                         struct bytes payload);
void peer_call_open(struct peer_call *call, struct peer_incoming *incoming, uint64_t id,
                    size_t bytes);
/* Answers; the call is closed, its memory the caller's. */
void peer_call_reply(struct peer_call *call, uint8_t kind, struct bytes payload);
