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
 *     connections waits until the pipeline is empty. So replies stay in order across lanes, dedicated connections, HELLO
 *     and map changes.
 * (2) The length of replies is not known in advance. So a client may have few requests in its pipeline at first, and
 *     more as it reads its replies (`flow.window`, like TCP's congestion window). The proxy also reads from
 *     a client that does not read its replies, until client-output-limit closes the client: such a client may write
 *     all its requests before it reads.
 * (3) Reading pauses while `held_by` is not 0; unconsumed frames are dispatched afterwards.
 */
#pragma once

#include "proxy/core/frame.h"
#include "proxy/core/pipeline.h"
#include "proxy/core/session.h"
#include "shared/list.h"
#include "shared/net/stream.h"
#include "shared/reply.h"
#include "shared/resp.h"

enum { CLIENT_MAGIC = 0xc11e47 };

struct block;
struct bounce;
struct command;
struct part;
struct proxy_worker;
struct request;
struct upstream;
struct wide;

/* Bits of a label. The bits above them count maps and replaced connections (struct worker_label). */
enum {
    LABEL_LANE = 7 << 0, /* LANE_ of node.h */
    LABEL_DEDICATED = 1 << 3,
    LABEL_RESP3 = 1 << 4,
    LABEL_ALONE = 1 << 5,  /* no other request may be in flight (across.h) */
    LABEL_COPY = 1 << 6,   /* reads at a copy that follows */
    LABEL_ACROSS = 1 << 7, /* may reach keys of other shards; the next 10 bits are the shard */
    LABEL_SHARD_SHIFT = 8,
    LABEL_GENERATION_SHIFT = 18
};
/* A request has bounced: no further one is sent until all are answered. */
#define LABEL_BOUNCED UINT32_MAX

/* Reasons for which a client's frames wait. */
enum client_hold {
    HOLD_PIPELINE = 1 << 0, /* its window is full; at most client-pipeline-limit */
    HOLD_ORDER = 1 << 1, /* the frame needs other connections: wait until the pipeline is empty */
    /* the queue of an upstream is full, or all connections of pool_across() are in use */
    HOLD_UPSTREAM = 1 << 2,
    HOLD_MEMORY = 1 << 3, /* memory-limit */
    HOLD_OUTPUT = 1 << 4, /* it reads its replies more slowly than they come */
    /* its command waits at a backend; the stream is still read, to notice that the client closes */
    HOLD_BLOCKED = 1 << 5,
    HOLD_PAUSED = 1 << 6, /* CLIENT PAUSE */
    HOLD_RATE = 1 << 7,   /* the rate limit of its namespace; rate.c */
    HOLD_SCRIPT = 1 << 8, /* the script of its EVALSHA is being searched; scripts.c */
    HOLD_PORTIONS =
        1 << 9, /* its command is prepared, or changes state, in several turns; next_turn.h */
};

enum { CLIENT_WINDOW_FIRST = 16 };      /* `window` of a new client */
enum { BLOCKED_ANYWHERE = UINT16_MAX }; /* the command waits without keys */

/* Flow control; rule (2). */
struct client_flow {
    uint32_t window;          /* most requests in the pipeline */
    size_t reply_bytes;       /* bytes of the last reply of a shard */
    size_t unread;            /* reply bytes that were unread at the last check under HOLD_OUTPUT */
    bool is_stalled;          /* it reads no replies: HOLD_OUTPUT is not set until it reads some */
    uint64_t across_since_ms; /* since when it waits for a connection of pool_across(); monotonic */
    bool is_next;             /* it has waited for a connection of pool_across(), and one is free */
};

struct client_bytes {
    size_t kept;     /* replies that wait for replies before them */
    size_t login;    /* bytes of its incomplete request before the login; memory_count_login() */
    size_t prepared; /* of a request that is prepared in turns; wide.h */
    size_t copied;   /* everything, as last counted and added to since */
};

struct client_links {
    struct list all;     /* in worker->clients.all; when closed in worker->clients.closed */
    struct list full;    /* in upstream->full or node->across: under HOLD_UPSTREAM */
    struct list rate;    /* in keyspace->waiting: waits at a rate limit; rate.c */
    struct list monitor; /* in worker->monitoring.clients; monitor.c */
};

/* A question to the shards about the script of the next command; scripts.c, declared_flags.c. It is the head of the request's state. */
struct script_search {
    struct client *client; /* NULL: the client has left */
};
struct client_script {
    struct script_search *search; /* under HOLD_SCRIPT */
    bool is_sought; /* the search has ended: the next EVALSHA is sent without another search */
    /* so many of the commands that wait for a CLIENT PAUSE have been asked for: of EXEC, so many of its queue; pause.c */
    uint32_t asked;
    uint32_t answer; /* the flags of the last of them */
};

/* The frame that is dispatched next, perhaps once more. */
struct client_next {
    bool is_charged;   /* the rate limit was charged for it; rate.c */
    struct wide *wide; /* what was prepared for it in turns; NULL: nothing. wide.h */
};

/* The command that waits at a backend; blocked.c */
struct client_blocked {
    struct request *request; /* NULL: none */
    uint16_t slot;           /* slot of its keys, or BLOCKED_ANYWHERE */
    bool has_parts;          /* its keys are on several shards: blocked_parts.c */
    uint8_t unblock;         /* enum upstream_unblock: CLIENT UNBLOCK has ended a wait with parts */
    bool has_bounced;        /* one of its parts: the keys are tried again at their shards */
    uint32_t unsent;         /* connections over which it has not been sent yet */
};

/* Its requests that bounced; bounced.c */
struct client_bounced {
    struct list waiting; /* struct bounced, not sent again yet; in the order of the requests */
    uint32_t in_flight;  /* parts that were sent again */
    uint64_t flight;     /* number of times that parts were sent while none was in flight */
    bool drains;         /* no further one is sent until none is in flight */
    struct upstream *upstream; /* on this connection */
};

struct client {
    uint32_t magic;
    uint32_t label;
    struct proxy_worker *worker;
    struct stream *stream;
    struct pipeline pipeline;
    struct resp_scan scan;
    uint16_t held_by; /* enum client_hold, a set */
    bool is_ending;   /* reads no more; is closed when the pipeline is empty */
    bool is_draining; /* runs the frames that were read, reads no more, then ends */
    bool is_resuming; /* bytes that the stream has kept will be passed to on_data again */
    bool is_closed;   /* the stream is gone; the client is freed at the end of the turn */
    uint64_t id;
    uint64_t created_ms; /* monotonic */
    struct client_flow flow;
    struct client_bytes bytes;
    struct client_links links;
    struct client_script script;
    struct client_next next;
    struct client_blocked blocked;
    struct client_bounced bounced;
    const struct command *last_command; /* NULL: no command yet */
    struct client_tracking *tracking;   /* NULL: it has never tracked. tracking.c */
    struct client_channels *channels;   /* NULL: it has never subscribed. subscriptions.c */
    /* where push messages wait for the end of EXEC's reply or for the confirmations of SUBSCRIBE; NULL: they do not wait */
    struct out *held_pushes;
    struct client_session session;
};

/* Calls to the features of a client, which lie above it. connection.c has the functions. */
struct client_events {
    /* The reply of its EXEC (is_exec) or of its blocking command (is_blocking) came. `reply`: its bytes; NULL when it
     * is merged from several shards. */
    void (*answered)(struct client *client, struct request *request, const char *reply);
    /* One shard has answered a blocking command (is_blocking) that was sent to several; others have not yet. */
    void (*part_answered)(struct client *client, struct request *request);
    /* One more shard has confirmed that the client's command waits there. */
    void (*wait_begun)(struct client *client);
    /* A shard that stops has given the client's command back: it no longer waits there. */
    void (*given_back)(struct client *client);
    /* A shard shows a command of the client's script: a line for MONITOR clients. */
    void (*script_shown)(struct client *client, struct bytes line);
    /* Replies have left the pipeline. Only called when `tracking` is set. */
    void (*advanced)(struct client *client);
    /* The pipeline is empty under HOLD_ORDER, and nothing else holds the client. False: HOLD_ORDER stays. */
    bool (*drained)(struct client *client);
    /* EXEC runs a queued command that concerns all shards. False: the client is held, and it must be run again. */
    bool (*run_queued)(struct client *client, const struct frame *frame,
                       const struct command *command);
    /* A part has bounced: it has left the queue or the wait table of `upstream`, and stays linked. `block` holds the texts. */
    void (*bounced)(struct upstream *upstream, struct part *part, struct block *block,
                    const struct bounce *bounce);
    /* A part of the client's that has bounced before (PART_FOLLOWED) is no longer in a queue. */
    void (*followed)(struct client *client);
    /* The client was closed, and its requests were abandoned. */
    void (*left)(struct client *client);
};

/* Closes the client now; unsent replies are dropped. The struct stays until the end of the turn. */
void client_kill(struct client *client, const char *reason);
/* Reads no more; closes the client when all its replies were sent. */
void client_end(struct client *client);
/* Closes the client if all its replies were sent. */
void client_close_when_done(struct client *client);
/* The proxy stops: closes the client as soon as the frames that were read are finished. */
void client_drain(struct client *client);

/* Begins a reply of the proxy's own, in the client's order. The caller writes it, then calls client_ready(). `command`
 * may be NULL. */
struct request *client_begin_reply(struct client *client, const struct command *command,
                                   struct reply *reply);
/* As client_begin_reply, for an element of EXEC's reply, which is not a call of the client. */
struct request *client_begin_element(struct client *client, const struct command *command,
                                     struct reply *reply);
void client_reply_text(struct client *client, const struct command *command, const char *error);
void client_reply_code(struct client *client, const struct command *command, enum error error);
void client_reply_status(struct client *client, const struct command *command, const char *status);
/* Replies "unknown command". */
void client_reply_unknown(struct client *client, const struct frame *frame);
/* Replies that the command is not available through the proxy. */
void client_reply_denied(struct client *client, const struct command *command);

/* ---- for request.c, upstream.c, transaction.c and worker.c ----------------------------------- */

/* Appends a request to the client's pipeline. */
struct request *client_new_request(struct client *client, const struct command *command);
/* Delivers a request's only reply: data[0..len) in `block` (NULL: in no block). May free the request. */
void client_answer(struct client *client, struct request *request, struct block *block,
                   const char *data, size_t len);
/* The request is complete: its reply was written to request_reply_out(). May free the request. */
void client_ready(struct client *client, struct request *request);
/* Sends a message that is no reply: a push frame, which a RESP2 client gets as an array, or a line of MONITOR. `block`
 * (NULL: none) holds the data. */
void client_push(struct client *client, struct block *block, const char *data, size_t len);
void client_hold(struct client *client, uint16_t why);
/* Removes a reason; without any left the client's frames are read again. */
void client_unhold(struct client *client, uint16_t why);
/* True when a request with this label may be sent now; else holds the client (HOLD_ORDER). */
bool client_may_send(struct client *client, uint32_t label);
/* Recounts the client's memory, except blocks. */
void client_count(struct client *client);
/* Calls `each` for every client of the worker; it may close any of them. */
typedef void client_fn(struct client *client);
void client_each(struct proxy_worker *worker, client_fn *each);
/* The same in steps, between which clients may leave, and turns of the loop may pass. */
struct client_walk {
    struct list link; /* in worker->clients.walks; empty: it has ended */
    struct list *next;
};
void client_walk_begin(struct proxy_worker *worker, struct client_walk *walk);
/* NULL: each client was visited, and the walk has ended. */
struct client *client_walk_next(struct proxy_worker *worker, struct client_walk *walk);
/* Once a second: releases a client from HOLD_OUTPUT that has read no reply since the last call, and marks it as stalled. */
void client_look_stalled(struct client *client);
/* Bytes of unread replies and of the transaction queue. */
size_t client_owed_bytes(const struct client *client);
/* To be called after the turn in which the client was closed. */
void client_free(struct client *client);
