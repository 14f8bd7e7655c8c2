/*
 * client.h - one client connection: frames in, replies out, in order.
 *
 *   on_data ─► resp_scan ─► command ─► route ─► request ─► pipeline
 *                                        │                    ▲  front is ready: reply ─► stream, once per turn
 *                                        └─► upstreams ───────┘
 *
 *     OPEN ──half-closed, QUIT, protocol error──► ENDING ──pipeline empty──► stream_close
 *       └──broken, killed, limit──► stream_abort              (memory goes at the turn's end)
 *
 * (1) `label` names the set of upstream connections that carry what is in flight. A request that would need
 *     others waits until the pipeline is empty, so order is kept across lanes, dedicated connections, HELLO and map
 *     changes.
 * (2) Nobody knows how long replies will be. So a client may have few requests in its pipeline at first, and
 *     more as it shows that it reads what comes (`window`, as TCP does). One that does not read at all is read
 *     from until it is cut at client-output-limit: it may be one that writes everything before it reads.
 * (3) Reading pauses while `held_by` is not 0; unconsumed frames are scanned again afterwards.
 */
#pragma once

#include "proxy/frame.h"
#include "proxy/pipeline.h"
#include "proxy/session.h"
#include "shared/list.h"
#include "shared/net/stream.h"
#include "shared/reply.h"
#include "shared/resp.h"

enum { CLIENT_MAGIC = 0xc11e47 };

struct command;
struct proxy_worker;
struct request;
struct script_search;
struct upstream;

/* Bits of a label; above them the map's generation, and how often connections were replaced. */
enum {
    LABEL_LANE = 3 << 0, /* of pool.h */
    LABEL_DEDICATED = 1 << 2,
    LABEL_RESP3 = 1 << 3,
    LABEL_GENERATION_SHIFT = 4
};

/* Why a client's frames wait. */
enum client_hold {
    HOLD_PIPELINE = 1 << 0, /* its window, at most client-pipeline-limit */
    HOLD_ORDER = 1 << 1,    /* until the pipeline is empty */
    HOLD_UPSTREAM = 1 << 2, /* a backend's queue is full */
    HOLD_MEMORY = 1 << 3,   /* memory-limit */
    HOLD_OUTPUT = 1 << 4,   /* it reads its replies, but slower than they come */
    HOLD_BLOCKED =
        1 << 5, /* its command waits at a backend; it is still read from, to see it leave */
    HOLD_PAUSED = 1 << 6, /* CLIENT PAUSE */
    HOLD_RATE = 1 << 7,   /* its namespace's rate limit; rate.c */
    HOLD_SCRIPT = 1 << 8, /* the script of its EVALSHA is looked for; scripts.c */
};

enum { CLIENT_WINDOW_FIRST = 16 };      /* `window` of a new client */
enum { BLOCKED_ANYWHERE = UINT16_MAX }; /* no slot: the command waits without keys */

/* How much it may have in flight; (2). */
struct client_flow {
    uint32_t window;    /* requests it may have in the pipeline */
    size_t reply_bytes; /* of the last reply of a shard */
    size_t unread;      /* bytes it had not read when last looked at, under HOLD_OUTPUT */
    bool is_stalled;    /* it does not read its replies: no HOLD_OUTPUT until it does */
};

struct client_bytes {
    size_t kept;   /* of replies that wait for replies before them */
    size_t login;  /* of its unfinished request before the login; memory_count_login() */
    size_t copied; /* it has in memory beside blocks, as last counted and added since */
};

struct client_links {
    struct list all;  /* in worker->clients.all; in worker->clients.closed */
    struct list full; /* in the list of an upstream, whose clients wait for room */
    struct list rate; /* in the list of its keyspace, whose clients wait at a rate limit; rate.c */
    struct list monitor; /* in worker->monitoring.clients; monitor.c */
};

/* The search for the script of its EVALSHA; scripts.c */
struct client_script {
    struct script_search *search; /* under HOLD_SCRIPT */
    bool is_sought;               /* the search is over */
};

/* The command that waits at a backend; blocked.c */
struct client_blocked {
    struct request *request; /* NULL: none */
    uint16_t slot;           /* of its keys, or BLOCKED_ANYWHERE */
    uint32_t unsent;         /* connections that it still has to be sent over */
};

struct client {
    uint32_t magic;
    uint32_t label;
    struct proxy_worker *worker;
    struct stream *stream;
    struct pipeline pipeline;
    struct resp_scan scan;
    uint16_t held_by; /* enum client_hold, a set */
    bool is_ending;   /* reads no more; closed when the pipeline is empty */
    bool is_draining; /* finishes what was read, reads no more, then ends */
    bool is_resuming; /* bytes that were kept will be given to on_data again */
    bool is_closed;   /* the stream is gone; freed at the turn's end */
    bool is_charged;  /* its next request, at its namespace's rate limit; rate.c */
    uint64_t id;
    uint64_t created_ms; /* monotonic */
    struct client_flow flow;
    struct client_bytes bytes;
    struct client_links links;
    struct client_script script;
    struct client_blocked blocked;
    const struct command *last_command; /* NULL: none yet */
    struct client_tracking *tracking;   /* NULL: it never tracked. tracking.c */
    struct client_channels *channels;   /* subscriptions; NULL: it never had any. subscriptions.c */
    struct out *held_pushes; /* where messages wait for the confirmations; NULL: they do not */
    struct client_session session;
};

/* What the features of a client do when something happens to it; connection.c has the functions. */
struct client_events {
    /* The reply to its EXEC (is_exec) or to the command that waits at a backend (is_blocking) came; `reply`: its
     * first bytes, NULL when it is merged from several. */
    void (*answered)(struct client *client, struct request *request, const char *reply);
    /* Of a client that has `tracking`: replies have left. */
    void (*advanced)(struct client *client);
    /* Its pipeline is empty. False: HOLD_ORDER stays. */
    bool (*drained)(struct client *client);
    /* It was closed; its requests have been left. */
    void (*left)(struct client *client);
};

/* Closes now; unsent replies are dropped. The struct stays until the turn's end. */
void client_kill(struct client *client, const char *reason);
/* Reads no more; closes when all replies it is owed were sent. */
void client_end(struct client *client);
/* Closes it when it is owed nothing more. */
void client_close_when_done(struct client *client);
/* Closes as soon as what was read is finished: the proxy stops. */
void client_drain(struct client *client);

/* A reply of the proxy's own, in its turn: begin, write, client_ready(). `command` may be NULL. */
struct request *client_begin_reply(struct client *client, const struct command *command,
                                   struct reply *reply);
void client_reply_text(struct client *client, const struct command *command, const char *error);
void client_reply_code(struct client *client, const struct command *command, enum error error);
void client_reply_status(struct client *client, const struct command *command, const char *status);
/* To clients there is no such command. */
void client_reply_unknown(struct client *client, const struct frame *frame);
/* There is, but not behind a proxy. */
void client_reply_denied(struct client *client, const struct command *command);

/* ---- for request.c, upstream.c, transaction.c and worker.c ----------------------------------- */

/* A request of this client at the end of its pipeline. */
struct request *client_new_request(struct client *client, const struct command *command);
/* A request's only reply: data[0..len) of `block` (NULL: elsewhere). The request may be gone after. */
void client_answer(struct client *client, struct request *request, struct block *block,
                   const char *data, size_t len);
/* The request is complete: its reply was written where request_reply_out() said. It may be gone after. */
void client_ready(struct client *client, struct request *request);
/* A message that no request asked for: a push frame, which a RESP2 client gets as an array, or a line of
 * MONITOR. `block` (NULL: none) holds the data. */
void client_push(struct client *client, struct block *block, const char *data, size_t len);
void client_hold(struct client *client, uint16_t why);
/* Lets it go on when nothing else holds it. */
void client_unhold(struct client *client, uint16_t why);
/* True when requests with this label may be sent now; else holds the client. */
bool client_may_send(struct client *client, uint32_t label);
/* Counts again what it has in memory beside blocks. */
void client_count(struct client *client);
/* Calls `each` for every client of the worker; it may end any of them. */
typedef void client_fn(struct client *client);
void client_each(struct proxy_worker *worker, client_fn *each);
/* Once a second, under HOLD_OUTPUT: goes on when it has not read a byte since. */
void client_look_stalled(struct client *client);
/* Bytes of replies it has not read, and of its queue. */
size_t client_owed_bytes(const struct client *client);
/* After the turn in which it was closed. */
void client_free(struct client *client);
