/*
 * upstream.h - one connection to one backend.
 *
 * Requests go out in the order they are sent and replies come back in the same order, so the oldest part in
 * the queue owns the next reply: the order alone pairs requests and replies.
 *
 *     IDLE ──first send──► OPENING ──open──► UP ──closed, nothing in flight──► IDLE
 *                          ▲   │ failed      │ broken
 *                     soon │   ▼             ▼
 *                          HOLDING ◄─────────┘              any ──no longer in the map──► draining ──empty──► freed
 *                             │ the time of `hold` is over                             (also when its shard stops)
 *                             ▼
 *                           DOWN ◄── silent, refused, not RESP; ──backoff──► RETRYING ──open──► UP
 *
 * (1) In IDLE, DOWN and RETRYING nothing is in flight; in DOWN and RETRYING sends fail at once.
 * (2) Requests sent in OPENING and HOLDING are written when the connection is open, after the greeting (greeting.h,
 *     HELLO 3). Nothing of them was sent before, so they are kept until a later attempt succeeds (upstream_hold.c).
 * (3) `keyspace` is the keyspace of the backend's session after all requests sent so far: a request of another one is
 *     preceded by SCREE USE (or SELECT), whose reply is discarded.
 * (4) When the connection is lost, every part in flight is answered with an error. One exception: reads that were sent
 *     on an idle connection, which the backend was just closing, are sent once more.
 *
 * What clients see:  -TRYAGAIN shard 'b' (host:port): not reachable: REASON               it was not sent
 *                    -LOADING shard 'b' (host:port): not reachable: REASON                likewise, and the shard restarts
 *                    -SHARDLOST shard 'b' (host:port): not reachable: REASON              its part for this shard was not sent
 *                    -SHARDLOST shard 'b' (host:port): connection lost before the reply: REASON  it is unknown whether
 *                    -SHARDLOST shard 'b' (host:port): no reply within N ms                      a write was applied
 */
#pragma once

#include "proxy/core/request.h"
#include "proxy/upstream/greeting.h"
#include "shared/list.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

enum { UPSTREAM_MAGIC = 0x0b5712ea, UPSTREAM_TEXT_MAX = 512 };
#define WAIT_FOREVER UINT64_MAX

enum upstream_state {
    UPSTREAM_IDLE,
    UPSTREAM_OPENING,
    UPSTREAM_UP,
    UPSTREAM_HOLDING,
    UPSTREAM_DOWN,
    UPSTREAM_RETRYING
};

enum upstream_unblock { UNBLOCK_NOT, UNBLOCK_TIMEOUT, UNBLOCK_ERROR };

struct block;
struct bounce;
struct client;
struct frame;
struct node;
struct keyspace;
struct proxy_worker;
struct upstream;
struct wait_table;

/* Calls to the user of a connection. Each may be NULL. */
struct upstream_events {
    /* The connection is open and greeted; requests sent before are written after this call. */
    void (*up)(struct upstream *upstream);
    /* A push frame came: data[0..len) in `block`. */
    void (*push)(struct upstream *upstream, struct block *block, const char *data, size_t len);
    /* The connection was lost, and will be opened again. */
    void (*lost)(struct upstream *upstream);
    /* The upstream was closed; its parts fail after this call. */
    void (*closed)(struct upstream *upstream, const char *reason);
    /* The upstream is about to be freed. */
    void (*freed)(struct upstream *upstream);
    /* Called at each tick while use.unblock is set and a part is in flight. */
    void (*unblock)(struct upstream *upstream);
    /* The next four are those of use.is_copy, and not NULL there. SCREE USE was sent: the parts behind it are of this keyspace. */
    void (*switched)(struct upstream *upstream, struct keyspace *keyspace);
    /* The reply to the oldest part came (NULL: none is in flight). True: it is not for a client, and the part is in flight elsewhere. */
    bool (*reply)(struct upstream *upstream, struct part *part, struct bytes frame);
    /* These parts have left the queue, because the connection was lost. Returns those that fail. */
    struct part *(*left)(struct upstream *upstream, struct part *parts);
    /* In place of upstream_tick. */
    bool (*tick)(struct upstream *upstream, uint64_t now_ms);
};

/* What the connection is for. */
struct upstream_use {
    const struct upstream_events *events; /* NULL: none are called */
    struct client *client;                /* owner of a dedicated connection; NULL: none */
    void *
        subscriber; /* owner of a subscription connection (subscriptions.c); NULL: another connection */
    struct fair_group *across; /* counts under across-limit for this group; NULL: it does not */
    bool is_private;           /* never shared by clients */
    bool is_copy;              /* to a copy that follows, for reads: copy_reads.h */
    bool is_fresh;             /* likewise, and none of old data */
    /* the keyspace for which the connection counts under dedicated-limit, with a reference; NULL: it does not count */
    struct keyspace *dedicated;
    bool is_single_use;   /* dedicated to one request, whose reply releases it */
    bool is_kept;         /* dedicated to a client until it stops tracking; tracking.c */
    bool is_invalidation; /* a kept connection that carries invalidations only */
    uint8_t unblock;      /* enum upstream_unblock: how to end the wait of its only request */
    uint64_t backend_id;  /* CLIENT ID of a private connection at the backend; 0: not known */
    uint64_t patience_ms; /* single use: how long the command may wait; WAIT_FOREVER */
};

struct upstream_life {
    bool is_open;     /* the stream is connected */
    bool is_opening;  /* counted in node->openings */
    bool is_draining; /* closed when its queue is empty */
    /* draining, because its shard runs a slow script and another connection has replaced it */
    bool is_replaced;
    /* the shard has been lost: what is in the queue was not sent, and waits (upstream_hold.c) */
    bool is_holding;
    bool is_closed;         /* freed at the end of the turn */
    bool has_authenticated; /* SCREE AUTH was sent first: internal commands are allowed */
};

/* Parts in flight, in the order of their replies. */
struct upstream_queue {
    struct part *first;
    struct part *last;
    struct part *undecided; /* the first part that has not timed out */
    uint32_t in_flight;
    uint64_t answered; /* replies that came since the connection was opened */
    uint64_t seen;     /* of them: so many were told by SCREE BOUNCES SEEN */
    uint32_t seens;    /* such commands in flight */
    bool has_bounced;  /* a request has come back since the last one was sent */
    uint32_t left_ms;  /* when upstream_end_left() last acted; low bits of the loop's time */
};

/* Output that cannot be written yet. */
struct upstream_unsent {
    struct out greeting; /* until the stream is connected */
    struct out early;    /* requests, until the greeting is answered */
};

/* Requests that only read, and are sent again when the backend closes a connection that was idle. */
struct upstream_resend {
    /* the connection was idle, and nothing was received since then: read requests are copied */
    bool is_unproven;
    struct out frames;         /* copies of the requests */
    struct keyspace *keyspace; /* keyspace of these requests */
};

/* Reads in flight at a copy, so that they can be sent to the leader instead; copy_reads.h */
struct upstream_kept {
    struct out frames;         /* one after the other, each of part->resend_bytes */
    struct keyspace *keyspace; /* of the part whose reply comes next; with a reference */
    struct list switches; /* of each PART_SWITCH in flight: the keyspace of the parts behind it */
};

/* State of the input. */
struct upstream_reading {
    struct resp_skip skip;
    bool is_fresh;    /* nothing was received since the connection was opened */
    bool is_dropping; /* the current reply is longer than client-output-limit: it is discarded */
    /* when bytes were last received, or the connection was opened; low bits of the loop's time */
    uint32_t heard_ms;
    uint64_t answered_us; /* when the last reply came; monotonic µs */
    /* error of the last SCREE USE or SELECT, with which following requests fail; NULL: it succeeded */
    char *switch_error;
    char *block_error; /* the first error among discarded replies (MULTI, QUEUED); NULL: none */
};

struct upstream_failure {
    uint32_t count; /* attempts in a row */
    uint64_t retry_at_ms;
    char reason[128]; /* reason of the last failure */
};

/* Clients that wait for room in the queue; upstream_room.c */
struct upstream_room {
    struct fair_queue *waiting; /* by namespace; NULL: no client has waited yet */
    uint64_t next_id;           /* the client that was resumed last */
    bool has_sent;              /* it has sent something since */
};

struct upstream_links {
    struct list pool;    /* in pool->upstreams */
    struct list spare;   /* in node->spare */
    struct list opening; /* in node->waiting_to_open */
    struct list kept;    /* in its client's tracking->dedicated_connections */
};

struct upstream {
    uint32_t magic;
    uint8_t state; /* enum upstream_state */
    uint8_t resp;  /* 2 or 3 */
    uint8_t lane;
    uint8_t greetings; /* greeting commands without a reply */
    struct greeting greeting;
    struct proxy_worker *worker;
    struct node *node;
    struct stream *stream;     /* NULL in IDLE and DOWN, and while it is in node->waiting_to_open */
    struct out *out;           /* where frames are written: unsent.early, or the stream's output */
    struct keyspace *keyspace; /* rule (3); NULL: not known */
    /* worker->label.generation of the map whose slots were last sent to the backend */
    uint32_t generation;
    uint64_t session_id;     /* CLIENT ID at the backend, as SCREE SELF said; 0: not known */
    uint64_t limits_version; /* limits_version() when they were last sent; 0: not yet */
    struct upstream_use use;
    struct upstream_life life;
    struct upstream_queue queue;
    struct upstream_unsent unsent;
    struct upstream_resend resend;
    struct upstream_kept kept;
    struct upstream_reading reading;
    struct upstream_failure failure;
    struct upstream_links links;
    /* only in the connection for blocking commands; NULL: another connection */
    struct wait_table *waits;
    struct upstream_room room;
};

struct upstream *upstream_new(struct proxy_worker *worker, struct node *node, unsigned lane,
                              uint8_t resp);
/* Closes the upstream: parts in flight fail with `reason`. It is freed at the end of the turn. May be called twice. */
void upstream_close(struct upstream *upstream, const char *reason);
/* At the end of a turn: if there is room, resumes a client that waits. */
void upstream_resume_next(struct upstream *upstream);
/* Closes the upstream when its queue is empty. */
void upstream_drain(struct upstream *upstream);
/* Switches a dedicated connection to its client's protocol. */
void upstream_hello(struct upstream *upstream, uint8_t resp);
/* Ends the use as a dedicated connection. `is_clean`: it watches no keys. */
void upstream_release(struct upstream *upstream, bool is_clean);
void upstream_free(struct upstream *upstream);
/* Has the shard sent STOPPING_FRAME (shared/stopping.h)? */
bool upstream_is_stopping(const struct upstream *upstream);

/* True when more than queue-limit bytes are unsent, or others wait until fewer are: then the client is held (HOLD_UPSTREAM). */
bool upstream_is_full(struct upstream *upstream, struct client *client);
/* Sends a frame as the request's part. If the shard is down, the part fails before this returns. `is_read`: it may be
 * sent a second time. */
void upstream_send(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame, bool is_read);
/* Sends the only request of a dedicated connection. upstream-timeout begins after `patience_ms`; the reply releases
 * the connection. */
void upstream_send_single_use(struct upstream *upstream, struct part *part,
                              struct keyspace *keyspace, const struct frame *frame,
                              uint64_t patience_ms);
/* Sends the requests of a bounce, which lie in `block`, as the part. `adds_across`: SCREE ACROSS precedes the
 * command. */
void upstream_send_bounced(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                           const struct bounce *bounce, struct block *block, bool adds_across);
/* Sends a command made of `words` as the part. */
void upstream_send_words(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                         const struct bytes *words, uint32_t count);
/* Sends a command of the proxy itself on a private connection; its reply is discarded. */
void upstream_precede(struct upstream *upstream, struct keyspace *keyspace,
                      const struct bytes *words, uint32_t count);
/* For frames that are composed: the caller writes to the returned out, then calls upstream_commit. NULL: the shard is
 * down, and the part has failed. */
struct out *upstream_begin(struct upstream *upstream, struct part *part, struct keyspace *keyspace);
/* Writes the array header of a command of `argc` arguments, and the part's prefixes. */
void upstream_write_header(const struct upstream *upstream, const struct part *part,
                           struct out *out, uint32_t argc);
void upstream_commit(struct upstream *upstream, struct part *part);

/* Called after a frame that changes the session's keyspace at the backend (SELECT inside MULTI). */
void upstream_forget_keyspace(struct upstream *upstream);

/* ---- clients that wait: upstream_waits.c ------------------------------------------------------ */

struct wait_table *wait_table_new(void);
/* True when more than queue-limit bytes are unsent: then the client is held (HOLD_UPSTREAM). */
bool wait_table_is_full(struct upstream *upstream, struct client *client);
/* Sends a blocking command as the request's part. */
void wait_table_send(struct upstream *upstream, struct part *part, const struct keyspace *keyspace,
                     const struct frame *frame);
/* Ends the part's wait: the shard replies later; if the command was not sent yet, the reply comes at once. */
void wait_table_unblock(struct part *part, bool with_error);
/* The part's client has left: cancels the wait. */
void wait_table_cancel(struct part *part);

/* ---- deadlines -------------------------------------------------------------------------------- */

/* The shard is reachable again: the next request opens the connection at once. */
void upstream_end_backoff(struct upstream *upstream);
/* Handles deadlines and backoff. True: the upstream has a deadline. */
bool upstream_tick(struct upstream *upstream, uint64_t now_ms);
/* Once a second: keepalive. */
void upstream_slow(struct upstream *upstream, uint64_t now_ms);
const char *upstream_state_name(const struct upstream *upstream);
