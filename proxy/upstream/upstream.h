/*
 * upstream.h - one connection to one backend.
 *
 * Requests go out in the order they are sent and replies come back in the same order, so the oldest part in
 * the queue owns the next reply. Nothing else pairs them.
 *
 *     IDLE ──first send──► OPENING ──open──► UP ──closed, nothing in flight──► IDLE
 *                             │               │
 *                             ▼               ▼ broken, silent, nonsense
 *                           DOWN ◄────────────┘          any ──no longer in the map──► draining ──empty──► gone
 *                             └──backoff──► RETRYING ──open──► UP
 *
 * (1) In IDLE, DOWN and RETRYING nothing is in flight; in DOWN and RETRYING sends fail at once.
 * (2) What was sent in OPENING leaves when the connection is open, behind the greeting (SCREE AUTH, HELLO 3).
 * (3) `keyspace` is where the backend's session will be after all that was sent: a request from elsewhere is
 *     preceded by SCREE USE (or SELECT), whose reply is swallowed.
 * (4) Losing the connection answers every part in flight with an error, with one exception: reads that met a
 *     connection which the backend closed because it was idle are sent once more.
 *
 * What clients see:  -ERR shard 'b' (host:port): not reachable: REASON                    it was not sent
 *                    -ERR shard 'b' (host:port): connection lost before the reply: REASON  a write may have been
 *                    -ERR shard 'b' (host:port): no reply within N ms                      applied, or not
 */
#pragma once

#include "proxy/request.h"
#include "shared/list.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

enum { UPSTREAM_MAGIC = 0x0b5712ea, UPSTREAM_TEXT_MAX = 512 };
#define WAIT_FOREVER UINT64_MAX

enum upstream_state {
    UPSTREAM_IDLE,
    UPSTREAM_OPENING,
    UPSTREAM_UP,
    UPSTREAM_DOWN,
    UPSTREAM_RETRYING
};

enum upstream_unblock { UNBLOCK_NOT, UNBLOCK_TIMEOUT, UNBLOCK_ERROR };

struct block;
struct client;
struct frame;
struct node;
struct keyspace;
struct proxy_worker;
struct upstream;
struct wait_table;

/* What the user of a connection does when something happens to it. Each may be NULL. */
struct upstream_events {
    /* It is open and greeted; what was sent before leaves now. */
    void (*up)(struct upstream *upstream);
    /* A push frame came: data[0..len) in `block`. */
    void (*push)(struct upstream *upstream, struct block *block, const char *data, size_t len);
    /* It was lost, and will be opened again. */
    void (*lost)(struct upstream *upstream);
    /* It was closed for good; its parts fail after this call. */
    void (*closed)(struct upstream *upstream, const char *reason);
    /* It is about to be freed. */
    void (*freed)(struct upstream *upstream);
    /* At each tick while use.unblock is set and a part waits on it. */
    void (*unblock)(struct upstream *upstream);
};

/* What the connection is for. */
struct upstream_use {
    const struct upstream_events *events; /* NULL: nothing to be called */
    struct client *client;                /* of a dedicated connection; NULL: none */
    void *subscriber;     /* of a connection that brings messages: subscriptions.c; NULL: none */
    bool is_private;      /* not shared by clients */
    bool is_dedicated;    /* counts under dedicated-limit */
    bool is_single_use;   /* dedicated to one request; released by its reply */
    bool is_kept;         /* dedicated to a client for as long as it tracks; tracking.c */
    bool is_invalidation; /* of these, one that only brings invalidations */
    uint8_t unblock;      /* enum upstream_unblock: how the wait of its only request is to end */
    uint64_t backend_id;  /* of a private one: CLIENT ID at the backend; 0: not known */
    uint64_t patience_ms; /* single use: how long the command itself may take; WAIT_FOREVER */
};

struct upstream_life {
    bool is_open;     /* the stream is connected */
    bool is_opening;  /* counts in node->openings */
    bool is_draining; /* is closed when its queue is empty */
    bool is_replaced; /* draining, as its shard is busy with a script; a new one is used */
    bool is_closed;   /* freed at the turn's end */
};

/* Parts in flight, in the order of their replies. */
struct upstream_queue {
    struct part *first;
    struct part *last;
    struct part *undecided; /* the first that has not timed out */
    uint32_t in_flight;
};

/* What waits to be written. */
struct upstream_unsent {
    struct out greeting; /* until the connection is begun */
    struct out early;    /* until the greeting is answered */
};

/* Reads that are sent once more when the backend had closed an idle connection. */
struct upstream_resend {
    bool is_unproven;          /* was idle, and no byte has come since: reads are kept */
    struct out frames;         /* of the reads sent since */
    struct keyspace *keyspace; /* where they belong */
};

/* What has come. */
struct upstream_reading {
    struct resp_skip skip;
    bool is_fresh;    /* no byte has come since it was opened */
    bool is_dropping; /* the reply that arrives is longer than client-output-limit: it is dropped */
    uint32_t heard_ms;    /* low bits of the loop's time: bytes came, or it opened */
    uint64_t answered_us; /* the last request was answered; monotonic */
    char *switch_error; /* the last switch failed: what follows fails with this; NULL: it did not */
    char *block_error;  /* first error among swallowed replies; NULL: none */
};

struct upstream_failure {
    uint32_t count; /* in a row */
    uint64_t retry_at_ms;
    char reason[128]; /* why it is down */
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
    uint8_t greetings; /* still unanswered */
    struct proxy_worker *worker;
    struct node *node;
    struct stream *stream; /* NULL in IDLE and DOWN, and while it waits in node->waiting_to_open */
    struct out *out;       /* where frames are appended: unsent.early, or the stream's */
    struct keyspace *keyspace; /* NULL: not known */
    uint32_t generation;       /* of the map whose slots were last sent to the backend */
    struct upstream_use use;
    struct upstream_life life;
    struct upstream_queue queue;
    struct upstream_unsent unsent;
    struct upstream_resend resend;
    struct upstream_reading reading;
    struct upstream_failure failure;
    struct upstream_links links;
    struct wait_table *waits; /* of one that carries the clients who wait; NULL: it does not */
    struct list full;         /* clients that wait for room */
};

struct upstream *upstream_new(struct proxy_worker *worker, struct node *node, unsigned lane,
                              uint8_t resp);
/* Parts in flight fail with `reason`; freed at the turn's end. Again is harmless. */
void upstream_close(struct upstream *upstream, const char *reason);
/* Closes when its queue is empty. */
void upstream_drain(struct upstream *upstream);
/* A dedicated one follows its client to another protocol. */
void upstream_hello(struct upstream *upstream, uint8_t resp);
/* The dedicated connection ends; `is_clean`: nothing is watched on it. */
void upstream_release(struct upstream *upstream, bool is_clean);
void upstream_free(struct upstream *upstream);

/* True when it holds more than queue-limit: then the client waits for room (HOLD_UPSTREAM). */
bool upstream_is_full(struct upstream *upstream, struct client *client);
/* Sends a frame as the request's part. A shard that is down fails the part before this returns.
 * `is_read`: it may be sent twice. */
void upstream_send(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                   const struct frame *frame, bool is_read);
/* Sends the only request of a dedicated connection: upstream-timeout begins after `patience_ms`, and its reply releases
 * it. */
void upstream_send_single_use(struct upstream *upstream, struct part *part,
                              struct keyspace *keyspace, const struct frame *frame,
                              uint64_t patience_ms);
/* Sends a command that is made of these words as the part. */
void upstream_send_words(struct upstream *upstream, struct part *part, struct keyspace *keyspace,
                         const struct bytes *words, uint32_t count);
/* Sends a command of the proxy's own, whose reply does not matter, from this keyspace on a private connection. */
void upstream_precede(struct upstream *upstream, struct keyspace *keyspace,
                      const struct bytes *words, uint32_t count);
/* The same in two steps, for frames that are made: write to what begin gives, then commit. NULL: it is down,
 * the part has failed. */
struct out *upstream_begin(struct upstream *upstream, struct part *part, struct keyspace *keyspace);
void upstream_commit(struct upstream *upstream, struct part *part);

/* A frame went out that moves the backend's session (SELECT inside MULTI). */
void upstream_forget_keyspace(struct upstream *upstream);

/* ---- clients that wait: upstream_waits.c ------------------------------------------------------ */

struct wait_table *wait_table_new(void);
/* True when it holds more than queue-limit: then the client waits for room (HOLD_UPSTREAM). */
bool wait_table_is_full(struct upstream *upstream, struct client *client);
/* Sends the frame, which may wait at the shard, as the request's part. */
void wait_table_send(struct upstream *upstream, struct part *part, const struct keyspace *keyspace,
                     const struct frame *frame);
/* Asks the shard to end the part's wait; the reply comes later, or at once when it has not been sent. */
void wait_table_unblock(struct part *part, bool with_error);
/* The part's client has left. */
void wait_table_cancel(struct part *part);

/* ---- time ------------------------------------------------------------------------------------- */

/* Deadlines and backoff; true: it has one. */
bool upstream_tick(struct upstream *upstream, uint64_t now_ms);
/* Once a second: keepalive. */
void upstream_slow(struct upstream *upstream, uint64_t now_ms);
const char *upstream_state_name(const struct upstream *upstream);
