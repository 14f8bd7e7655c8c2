/*
 * request.h - one request of a client, from the frame it read to the reply it sends.
 *
 *   client's pipeline        upstreams' queues of what is in flight
 *   ┌─────────┐ part ──────► shard a:  part part part
 *   │ request ├──────────►   shard b:  part part          a request to one shard has one part, inside it;
 *   └─────────┘                                           a split or broadcast one has an array of them
 *
 * A request is done when no part waits for its answer. If it is at the front of its client's pipeline the
 * reply goes straight to the client's stream, else it is kept until its turn.
 *
 * (1) A request's memory stays while it is in a pipeline, or a part of it is in an upstream's queue (a late
 *     reply is swallowed there), or a call to other threads is out.
 * (2) `client` is NULL once the client has left; replies are dropped then.
 * (3) Requests come from the worker's free list; only those of several parts allocate, once.
 */
#pragma once

#include "proxy/merge.h"
#include "proxy/pipeline.h"
#include "shared/command.h"
#include "shared/out.h"
#include "shared/reply.h"

struct client;
struct node;
struct parts;
struct keyspace;
struct proxy;
struct proxy_worker;
struct request;
struct upstream;

enum part_kind {
    PART_REQUEST,  /* a client's */
    PART_GREETING, /* SCREE AUTH, HELLO: an error breaks the connection */
    PART_SWITCH,   /* SCREE USE, SELECT: an error fails what follows */
    PART_PROBE,    /* PING, UNWATCH: the reply does not matter */
    PART_ID,       /* CLIENT ID: the number of a private connection */
};

/* What travels to one backend and comes back as one reply. */
struct part {
    struct part *next; /* behind it in the upstream's queue */
    struct request *request;
    struct upstream *
        upstream; /* where it is in flight; of a dedicated connection for one request or a wait NULL once it is not */
    uint32_t sent_ms;      /* low bits of the loop's time */
    uint32_t swallow;      /* replies that come before its own (MULTI's, QUEUED) */
    uint32_t resend_bytes; /* of a read kept for a second try; 0: none */
    uint32_t
        wait; /* its entry + 1 in the waits of `upstream`; 0: none. upstream/upstream_waits.c */
    uint16_t index;   /* in its request's parts */
    uint8_t kind;     /* enum part_kind */
    bool is_answered; /* timed out: the late reply is swallowed */
};

enum {
    REQUEST_INLINE_MAX = 32,
    REQUEST_HEAD_MAX = 256, /* of a frame, kept for the slow log */
};

/* How a reply is kept until its turn. */
enum request_kept { KEPT_NOTHING, KEPT_INLINE, KEPT_OUT };

struct request_progress {
    bool is_queued;  /* in its client's pipeline */
    bool is_running; /* a local handler or callback is on the stack */
    bool is_async;   /* a local command that waits for shards or another thread */
    bool is_ready;   /* its reply is complete, and waits for the replies before it */
};

/* Of an EXEC. */
struct request_exec {
    bool has_db; /* a SELECT was queued: after success the session is in `db` */
    uint8_t db;
};

struct request {
    struct pipeline_link link; /* in the client's pipeline; in the free list */
    struct client *client;     /* NULL: it left, or there never was one (is_internal) */
    struct proxy_worker *worker;
    const struct command *command;
    struct parts *parts; /* of a request with several; NULL: the one below */
    uint16_t waiting;    /* parts without an answer */
    uint16_t linked;     /* parts in queues of upstreams, calls to other threads */
    uint8_t kept;        /* enum request_kept */
    uint8_t kept_len;    /* KEPT_INLINE */
    uint16_t head_len;   /* of `head`; 0: the request is not timed */
    struct request_progress progress;
    struct request_exec exec;
    bool is_silent;    /* CLIENT REPLY OFF: no reply leaves */
    bool is_internal;  /* of the proxy itself; has no client */
    bool is_exec;      /* the client's EXEC: transaction.c looks at the reply */
    bool is_blocking;  /* the command on which the client waits: blocked.c learns of the reply */
    uint8_t resp;      /* the client's protocol when it came, whatever HELLO is behind it */
    uint64_t begun_us; /* when its frame was taken; monotonic. slow_log.h */
    struct part part;
    char head[REQUEST_HEAD_MAX]; /* the frame's first bytes; from here on nothing is set at first */
    union {
        char kept_text[REQUEST_INLINE_MAX]; /* KEPT_INLINE */
        struct {
            struct out kept_out;       /* KEPT_OUT, and what a local handler writes */
            struct local_state *local; /* of a local command; NULL: none */
        };
    };
};

/* ---- for local handlers ---------------------------------------------------------------------- */

/* The arguments. Valid while the handler runs; after request_keep() until the request ends. */
const struct bytes *request_argv(const struct request *request);
uint32_t request_argc(const struct request *request);
/* Copies the arguments, so that callbacks can read them too. */
void request_keep(struct request *request);

/* Memory of `size` zero bytes that lives as long as the request, for what a handler must remember between
 * callbacks; the same memory on every call. */
void *request_state(struct request *request, size_t size);

/* What a handler passes to whatever asks shards or threads. The handler writes no reply then: `done` is called, never before the
 * handler has returned, and writes it, or sends again. A client that has left is not called back; an internal
 * request is, with client and reply NULL. */
typedef void request_done_fn(struct client *client, struct request *request, struct reply *reply);
/* The handler sends `count` parts itself, with request_part() and upstream_begin(); fan_out.h does that for whole
 * commands. */
void request_wait_parts(struct request *request, uint32_t count, request_done_fn *done);
/* The answers, in the order of the map's shards; valid in `done` until it returns or sends again. */
uint32_t request_reply_count(const struct request *request);
const struct shard_reply *request_reply(const struct request *request, uint32_t i);

/* Runs `visit` on every worker's thread with an out of its own to write to (out_write, no blocks), then `done`
 * here. `data` is copied. */
typedef void gather_visit_fn(struct proxy_worker *worker, const void *data, struct out *out);
void request_gather(struct request *request, gather_visit_fn *visit, const void *data, size_t size,
                    request_done_fn *done);
/* Runs `work` on the main loop's thread (reload, configuration), then `done` here. `data` is copied. */
typedef void main_work_fn(struct proxy *proxy, const void *data, struct out *out);
void request_on_main(struct request *request, main_work_fn *work, const void *data, size_t size,
                     request_done_fn *done);
/* In `done`: what worker i wrote; what `work` wrote is the first. */
uint32_t request_gathered_count(const struct request *request);
struct out *request_gathered(struct request *request, uint32_t i);

/* A request of the proxy itself, e.g. for health; the caller sends with it at once. It ends by itself after
 * a `done` that did not send again. */
struct request *request_internal(struct proxy_worker *worker);

/* ---- for the data path ----------------------------------------------------------------------- */

struct request *request_new(struct proxy_worker *worker, const struct command *command);
/* Gives it back once nothing refers to it any more (rule 1). */
void request_release(struct request *request);
/* An array of `count` parts instead of the inner one, all waiting; `order_count`: keys of MERGE_ARRAY. */
void request_make_parts(struct request *request, uint32_t count, uint32_t order_count);
/* order[i]: the part that has the reply of key i. */
uint16_t *request_order(struct request *request);
/* Part i, which goes to `node`. */
struct part *request_part(struct request *request, uint32_t i, struct node *node);
struct part *request_part_at(struct request *request, uint32_t i);
/* The reply of a part came: data[0..len) in `block`. The part has left its upstream's queue. */
void part_answered(struct part *part, struct block *block, const char *data, size_t len);
/* There will be none: `text` is an error without '-'. The part may still be in its queue. */
void part_failed(struct part *part, const char *text);
/* A part that had failed before has left its queue. */
void part_unlinked(struct part *part);
/* Between request_hold and request_go a request does not complete, though all its parts may have failed. */
void request_hold(struct request *request);
void request_go(struct request *request);
/* Where a reply of the proxy's own is written: at once if it is its turn. Then client_ready(). */
struct out *request_reply_out(struct request *request);
/* Runs a local handler in the request's turn; argv is worker->scratch.argv. */
void request_run_local(struct request *request, request_done_fn *handler, uint32_t argc);
/* The reply that is kept moves to `out`. */
void request_move_kept(struct request *request, struct out *out);
size_t request_kept_bytes(const struct request *request);
/* The reply that is kept is an error. */
bool request_is_error(const struct request *request);
/* Keeps one frame as its reply. */
void request_keep_reply(struct request *request, struct block *block, const char *data, size_t len);
