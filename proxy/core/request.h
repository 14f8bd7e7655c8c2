/*
 * request.h - one request of a client, from the frame it read to the reply it sends.
 *
 *   client's pipeline        upstreams' queues of what is in flight
 *   ┌─────────┐ part ──────► shard a:  part part part
 *   │ request ├──────────►   shard b:  part part          a request to one shard has one part, inside it;
 *   └─────────┘                                           a split or broadcast one has an array of them
 *
 * A request is complete when no part waits for its reply. If it is at the front of its client's pipeline, the reply is
 * written to the client's stream at once, else it is kept until the replies before it have left.
 *
 * (1) A request is freed when it is in no pipeline, none of its parts is in an upstream's queue (a part that has failed
 *     stays there until its late reply), and no call to another thread is in progress.
 * (2) `client` is NULL once the client has left; replies are dropped then.
 * (3) Requests come from the worker's free list; only a request with several parts allocates, once.
 */
#pragma once

#include "proxy/core/merge.h"
#include "proxy/core/pipeline.h"
#include "shared/command/command.h"
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
    PART_REQUEST,  /* part of a request */
    PART_FOLLOWED, /* likewise; it has bounced and was sent to another shard (bounced.h) */
    PART_AUTH,     /* SCREE AUTH: if no secret is accepted the connection is closed */
    PART_GREETING, /* HELLO: an error closes the connection */
    PART_SELF,     /* SCREE SELF: the reply says which shard the partition is. greeting.h */
    PART_SWITCH,   /* SCREE USE, SELECT: after an error the requests that follow fail */
    PART_PROBE,    /* PING, UNWATCH: the reply is ignored */
    PART_SEEN,     /* SCREE BOUNCES SEEN: the reply is ignored */
    PART_GONE,     /* SCREE GONE: the reply is ignored */
    PART_ID,       /* CLIENT ID: the reply is the id of a private connection */
};

/* Prefixes of the command, for backends with the cluster secret. */
enum part_prefix {
    PREFIX_PART = 1 << 0, /* SCREE PART: this shard must not count it as a call, another one does */
    PREFIX_SHOW =
        1 << 1, /* SCREE SHOW: MONITOR clients of this proxy shall see what its script runs */
    PREFIX_ACROSS = 1 << 2, /* SCREE ACROSS: may use keys of other shards */
};

/* What is sent to one backend and answered by one reply. */
struct part {
    struct part *next; /* the part after it in the upstream's queue */
    struct request *request;
    /* where it is in flight; for single use and waits NULL when it no longer is */
    struct upstream *upstream;
    /* when the shard should have its bytes; may be later than now. Low bits of the loop's time */
    uint32_t sent_ms;
    uint32_t swallow; /* replies to discard before its own (those of MULTI and queued commands) */
    uint32_t resend_bytes; /* length of its copy in upstream->resend; 0: none */
    uint32_t wait;    /* its entry + 1 in the wait table of `upstream`; 0: none. upstream_waits.c */
    uint16_t index;   /* index in the parts of its request */
    uint8_t kind;     /* enum part_kind */
    uint8_t prefixes; /* enum part_prefix, a set */
    bool is_answered; /* it timed out and was answered with an error: its late reply is discarded */
    bool is_greeting; /* of the connection's greeting: it is sent anew with each connection */
    uint8_t hops;     /* how often it has bounced because of the owner of its slot */
    uint8_t behinds;  /* how often it has bounced because it was behind one that must wait */
};

/* Since when the shard may have it; negative: its bytes may still be on their way. */
static inline int64_t part_age_ms(const struct part *part, uint32_t now_ms)
{
    return (int32_t)(now_ms - part->sent_ms);
}

/* Is it a part of a request, and no command of the proxy itself? */
static inline bool part_is_request(const struct part *part)
{
    return part->kind == PART_REQUEST || part->kind == PART_FOLLOWED;
}

enum {
    REQUEST_INLINE_MAX = 32,
    REQUEST_HEAD_MAX = 256, /* bytes of a frame that are kept for the slow log */
};

/* How a reply is kept while it waits for those before it. */
enum request_kept { KEPT_NOTHING, KEPT_INLINE, KEPT_OUT };

struct request_progress {
    bool is_queued;  /* in its client's pipeline */
    bool is_running; /* a local handler or callback is on the stack */
    bool is_async;   /* a local command waits for shards or another thread */
    bool is_ready;   /* the reply is complete */
    bool is_direct;  /* the reply is written into the client's stream, as the oldest in flight */
};

/* Which program counts the request as a call of the client. */
struct request_count {
    bool is_shards; /* the shard of one of its parts */
    uint8_t own;    /* enum request_own of own_calls.h */
};

/* For an EXEC. */
struct request_exec {
    bool has_db; /* a SELECT was queued: when EXEC succeeds the session is in `db` */
    uint8_t db;
};

/* The first bytes of a request's frame, for the slow log. */
struct request_head {
    const char *data;    /* NULL: the log does not need them */
    struct block *block; /* in which they lie; NULL: they are on the heap */
    size_t frame_bytes;  /* length of the whole frame */
    uint16_t len;        /* at most REQUEST_HEAD_MAX */
    bool shows_clients; /* CLIENT LIST or INFO, which counts its own bytes as those of its client */
};

struct request {
    struct pipeline_link link; /* in the client's pipeline; in the worker's free list */
    struct client *client; /* NULL: the client has left, or the request has none (is_internal) */
    struct proxy_worker *worker;
    const struct command *command;
    struct parts *parts; /* several parts; NULL: `part` is the only one */
    uint16_t waiting;    /* parts without a reply */
    uint16_t linked;     /* number of parts in queues of upstreams, and of calls to other threads */
    uint8_t kept;        /* enum request_kept */
    uint8_t kept_len;    /* KEPT_INLINE */
    struct request_progress progress;
    struct request_exec exec;
    bool is_silent;   /* CLIENT REPLY OFF or SKIP: the reply is discarded */
    bool is_internal; /* of the proxy itself, without a client */
    bool is_exec;     /* EXEC: its reply changes the client's transaction */
    bool is_blocking; /* the client is held until its reply comes */
    bool has_failed;  /* one of its parts got no reply */
    struct request_count count;
    /* the client's protocol when the request came; a later HELLO does not change it */
    uint8_t resp;
    uint64_t begun_us; /* when its frame was read; monotonic µs */
    size_t direct_at;  /* if the reply is_direct: the stream's bytes before it */
    struct request_head head;
    struct part part;
    union {
        /* this field and the others of the union are not initialized */
        char kept_text[REQUEST_INLINE_MAX]; /* KEPT_INLINE */
        struct {
            struct out kept_out;       /* KEPT_OUT, and what a local handler writes */
            struct local_state *local; /* of a local command; NULL: none */
        };
    };
};

/* Loads the part and its request, if it is its only part, into the CPU's cache, ahead of the reply: with many requests in
 * flight they are no longer there. */
static inline void part_prefetch(const struct part *part)
{
    __builtin_prefetch(part);
    __builtin_prefetch((const char *)part - offsetof(struct request, part));
}

/* ---- for local handlers ---------------------------------------------------------------------- */

/* The arguments. Valid while the handler runs, and after request_keep() until the request ends. */
const struct bytes *request_argv(const struct request *request);
uint32_t request_argc(const struct request *request);
/* Copies the arguments, so that callbacks can read them too. */
void request_keep(struct request *request);

/* Memory of `size` bytes, zero at first, that lives as long as the request. Every call returns the same memory. */
void *request_state(struct request *request, size_t size);

/* Called when all shards or threads to which a handler sent a command have answered, never before the handler has
 * returned. The function writes the reply, or sends further commands. It is not called when the client has left. For an
 * internal request `client` and `reply` are NULL. */
typedef void request_done_fn(struct client *client, struct request *request, struct reply *reply);
/* Begins `count` parts that the handler sends itself, with request_part() and upstream_begin(). fan_out.h sends whole
 * commands. */
void request_wait_parts(struct request *request, uint32_t count, request_done_fn *done);
/* The replies, in the order of the map's shards; valid in `done` until it returns or sends further commands. */
uint32_t request_reply_count(const struct request *request);
const struct shard_reply *request_reply(const struct request *request, uint32_t i);

/* Runs `visit` on every worker's thread, then `done` on this thread. Each visit writes to an out of its own (by
 * out_write, without blocks). `data` is copied. */
typedef void gather_visit_fn(struct proxy_worker *worker, const void *data, struct out *out);
void request_gather(struct request *request, gather_visit_fn *visit, const void *data, size_t size,
                    request_done_fn *done);
/* The same in portions of about a millisecond: `visit` is called in one turn of the worker after the other, until it returns false: nothing
 * is left to do. `state` has state_size bytes, at first zeros; it is freed behind the last call. */
typedef bool gather_portion_fn(struct proxy_worker *worker, const void *data, void *state,
                               struct out *out);
void request_gather_portions(struct request *request, gather_portion_fn *visit, size_t state_size,
                             const void *data, size_t size, request_done_fn *done);
/* Makes the request wait until request_wake, then calls `done`. The request stays valid until then, also if its client
 * leaves. */
void request_wait(struct request *request, request_done_fn *done);
void request_wake(struct request *request);
/* Runs `work` on the main thread (reload, configuration), then `done` on this thread. `data` is copied. */
typedef void main_work_fn(struct proxy *proxy, const void *data, struct out *out);
void request_on_main(struct request *request, main_work_fn *work, const void *data, size_t size,
                     request_done_fn *done);
/* For request_gather.c: these become the outputs of request_gathered(); takes over outs[count] and the array, which is on the heap. */
void request_put_gathered(struct request *request, struct out *outs, uint32_t count);
/* For `done`: the output of worker i. The output of `work` has index 0. */
uint32_t request_gathered_count(const struct request *request);
struct out *request_gathered(struct request *request, uint32_t i);

/* A request of the proxy itself, e.g. a health check. The caller must send a command with it at once. The request ends
 * after a `done` that sends no further command. */
struct request *request_internal(struct proxy_worker *worker);

/* ---- for the data path ----------------------------------------------------------------------- */

struct request *request_new(struct proxy_worker *worker, const struct command *command);
/* Frees the request if nothing refers to it any more (rule 1). */
void request_release(struct request *request);
/* Copies the first bytes of its frame to the heap; their number is in head.len. A request that refers to the frame's block no longer does. */
void request_copy_head(struct request *request, const char *data);
void request_drop_head(struct request *request);
/* Gives the request `count` parts, all waiting. `order_count`: number of keys, for MERGE_ARRAY. */
void request_make_parts(struct request *request, uint32_t count, uint32_t order_count);
/* order[i]: the part whose reply has key i. */
uint16_t *request_order(struct request *request);
/* Part i, which will be sent to `node`. The first part of a request counts as the client's call at its shard; a command
 * on several shards must not count several times. */
struct part *request_part(struct request *request, uint32_t i, struct node *node);
/* Like request_part, for a command that the client did not send and that the proxy needs for the reply: no shard counts
 * it as a call. */
struct part *request_helper_part(struct request *request, uint32_t i, struct node *node);
struct part *request_part_at(struct request *request, uint32_t i);
/* The reply of a part came: data[0..len) in `block`. The part is no longer in its upstream's queue. */
void part_answered(struct part *part, struct block *block, const char *data, size_t len);
/* The part gets no reply: `text` is the error, without '-'. The part may still be in its queue. */
void part_failed(struct part *part, const char *text);
/* A part that has failed is no longer in its upstream's queue. */
void part_unlinked(struct part *part);
/* The client has left, and the waiting parts get no replies: frees the request when no part is linked. */
void request_abandon(struct request *request);
/* Between request_hold and request_go a request does not complete, even when all its parts have failed. */
void request_hold(struct request *request);
void request_go(struct request *request);
/* The buffer for a reply of the proxy itself: the client's stream if this reply is next, else a buffer that keeps it.
 * The caller writes the reply, then calls client_ready(). */
struct out *request_reply_out(struct request *request);
/* Runs a local handler; argv is worker->scratch.argv. */
void request_run_local(struct request *request, request_done_fn *handler, uint32_t argc);
/* Moves the kept reply to `out`. */
void request_move_kept(struct request *request, struct out *out);
size_t request_kept_bytes(const struct request *request);
/* The first bytes of the complete reply, kept or direct; *len: its length, 0 if CLIENT REPLY drops it. */
struct bytes request_reply_head(const struct request *request, size_t *len);
/* Keeps one frame as the request's reply. */
void request_keep_reply(struct request *request, struct block *block, const char *data, size_t len);
