/*
 * lanes.h - the connections to the target: pipelines of requests, each with what its reply means.
 *
 *   key ─ slot ─► lane 3:  AUTH, SELECT ✓ │ RESTORE a ✓ │ RESTORE b … │ RESTORE c …      sent, waiting for replies
 *                                                       ▲ oldest: its reply comes next
 *
 * Keys of one slot use one lane, so commands for a key are executed in their order. A lane takes no more requests than LANE_REQUESTS_MAX
 * or LANE_BYTES_MAX without their replies; so memory is bounded, and the target's speed is the tool's.
 */
#pragma once

#include "backend/copy/options.h"
#include "shared/net/loop.h"
#include "shared/out.h"

enum {
    LANE_REQUESTS_MAX = 512,
    LANE_BYTES_MAX = 2 * 1024 * 1024,
    LANES_ERROR_MAX = 512,
    LANES_CONNECT_MS = 10 * 1000,
};

enum request_kind {
    REQUEST_SETUP,    /* AUTH, SELECT: an error ends the run */
    REQUEST_PROBE,    /* PING: does the database exist? */
    REQUEST_RIGHT,    /* a command that is wrong on purpose: is it permitted? */
    REQUEST_COUNT,    /* DBSIZE */
    REQUEST_FUNCTION, /* FUNCTION LOAD; kept until its reply, so that it can be sent again */
    REQUEST_KEY,      /* the command for a whole key; kept likewise */
    REQUEST_LAST,     /* the last command for a key in parts */
    REQUEST_PART,     /* another command for a key in parts */
    REQUEST_CLAIM,    /* XCLAIM of a pending entry */
    REQUEST_EXISTS,   /* for a key in parts that may be kept */
    REQUEST_HALF,     /* likewise: was it left incomplete? */
    REQUEST_MARK,     /* it is incomplete from now on */
    REQUEST_DUMP,     /* of a key that is compared; REQUEST_TIME follows */
    REQUEST_TIME,     /* PEXPIRETIME */
    REQUEST_PAGE,     /* of a long key that is compared */
    REQUEST_QUEUED,   /* of a live copy: in MULTI */
    REQUEST_EXEC,     /* its EXEC */
    REQUEST_STEP,     /* a command whose reply matters only if it is an error */
    REQUEST_CALL,     /* a command whose reply is awaited */
    REQUEST_ASK, /* after an error: does the target answer for this key at all? (copy_errors.c) */
};

struct request {
    struct request *next;
    enum request_kind kind;
    uint64_t bytes;
    uint64_t db;
    uint64_t digest;    /* REQUEST_DUMP: what the value should have */
    uint64_t cut_ms;    /* REQUEST_DUMP: see digest.h */
    bool may_be_gone;   /* REQUEST_DUMP: all fields that the value has expire until then */
    uint64_t expire_ms; /* REQUEST_TIME: what it should be; 0: none */
    bool is_old_stream; /* REQUEST_DUMP: see digest.h */
    bool is_different;  /* REQUEST_TIME: the key has been named already */
    bool is_again;      /* it was sent before */
    bool is_later;      /* likewise, because of an error that passes */
    struct bytes kept;  /* the command, if it is kept; REQUEST_ASK: the error. Owned */
    uint32_t key_len;
    char key[];
};

struct lane;
struct lanes;
struct tls_context;

struct lanes_events {
    /* All lanes are connected and logged in. */
    void (*on_ready)(void *owner);
    /* A reply. `frame` is valid until this returns. */
    void (*on_reply)(void *owner, const struct request *request, struct bytes frame);
    /* Replies have been handled, so a lane may have room. */
    void (*on_room)(void *owner);
    /* A connection failed; called once. */
    void (*on_fail)(void *owner, const char *reason);
};

/* NULL: error says what is wrong with the TLS files. */
struct lanes *lanes_new(struct loop *loop, const struct copy_options *options,
                        const struct lanes_events *events, void *owner,
                        char error[LANES_ERROR_MAX]);
/* For a connection with the TLS files of the options. */
struct tls_context *lanes_new_tls(const struct copy_options *options, char error[LANES_ERROR_MAX]);
void lanes_free(struct lanes *lanes);
struct lane *lane_of(struct lanes *lanes, struct bytes key);
bool lane_is_full(const struct lane *lane);
/* Begins a request in this database: the caller writes one command into the result, then calls lane_end. */
struct out *lane_begin(struct lane *lane, uint64_t db);
/* The command was written. Its reply will be passed on with the returned request, to which the caller may add what it needs. */
struct request *lane_end(struct lane *lane, enum request_kind kind, struct bytes key);
/* Sends a command again that was kept. */
struct request *lane_again(struct lane *lane, const struct request *request);
/* A copy of a request whose command was kept; request_free frees it. */
struct request *request_copy(const struct request *request);
void request_free(struct request *request);
/* Requests without a reply. */
uint64_t lanes_waiting(const struct lanes *lanes);
