/*
 * reply_stream.h - the streamed reply of a whole collection or keyspace, produced in steps as the client reads it.
 *
 *   handler ─► reply_stream_rows ─► header and the first step's rows ─► the session's reply, held as every reply
 *                 │ rows remain
 *                 ▼
 *           session->pending.streamed ──the first part has left──► ready ─┬─ a step a turn ─► stream ──► ready again
 *                 │                                          ▲   └─ the stream is full ──drained──┘
 *                 └─ later requests are not read; messages collect in `behind` ◄── last row: they follow
 *
 *   handler ─► reply_stream_search: how many rows match is counted first, in steps too; then they are replied
 *
 * A step is short (REPLY_STREAM_STEP_*), because all other clients of the partition wait for it. The reply is the
 * collection as it was when the command ran: the reply stream owns a snapshot of the store and a copy of the effects in
 * the write buffers. It lives no longer than its session, and ends with it when the partition stops or a commit fails,
 * because the engine must be without iterators then.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "shared/list.h"
#include "shared/net/loop.h"

enum {
    REPLY_STREAM_STEP_ROWS = 512,         /* looked at in one step */
    REPLY_STREAM_REST_ROWS = 128,         /* no more are left: not worth a step */
    REPLY_STREAM_STEP_BYTES = 256 * 1024, /* a step ends when it has made more */
    REPLY_STREAMS_A_TURN = 4,             /* that step in a turn of the loop */
};

struct reply_stream;

/* Replies one row; `how` is the handler's. */
typedef void reply_stream_row_fn(struct reply *reply, struct bytes sub, struct bytes value,
                                 unsigned how);
/* Does the row of this full key belong to the reply? */
typedef bool reply_stream_match_fn(const struct reply_stream *streamed, struct bytes key,
                                   struct bytes value);

struct reply_stream {
    struct list link;  /* in partition->streamed.all */
    struct list ready; /* in partition->streamed.ready: it may step */
    struct session *session;
    struct overlay_iter *iter;
    size_t prefix_len;
    bool is_reverse;
    bool is_new_row; /* the row under the iterator was not looked at yet */
    uint64_t rows;   /* still to be replied; while it counts: found so far */
    reply_stream_row_fn *row;
    unsigned how;
    reply_stream_match_fn *match; /* NULL: all do */
    struct glob *pattern;         /* what match looks for; in the arena */
    struct arena arena;
    struct bytes first; /* key of the row that it began with, likewise */
    uint64_t now_ms;    /* when the command ran */
    bool is_counting;
    uint64_t observed; /* while it counts: the ticket that its reply waits for */
    bool is_open;      /* its first part was handed to the stream */
    unsigned parity;   /* not open: where that is held */
    size_t held_bytes; /* and up to which byte: what lies behind are messages */
    struct out behind; /* messages that leave after the last row */
};

/* May the rest of the call's reply come later? Only when nothing else belongs to it. */
bool reply_stream_is_allowed(const struct call *call);
/* Replies the next `rows` rows of the iterator, or what there is, and closes it. Most of a big reply is left to the
 * session. False: the store failed (error replied), or there were fewer rows. */
bool reply_stream_rows(struct call *call, struct sub_iter *it, uint64_t rows,
                       reply_stream_row_fn *row, unsigned how);
/* Replies an array of the rows that match, of an iterator that stands on its first; takes the iterator. The pattern is
 * copied. Only where reply_stream_is_allowed. */
void reply_stream_search(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                         reply_stream_match_fn *match, struct bytes pattern,
                         reply_stream_row_fn *row);

/* It may step: its first part has left, or its stream has drained. */
void reply_stream_wake(struct reply_stream *streamed);
/* Steps of the streamed replies that are ready; task of partition->streamed.task. */
void reply_stream_run(struct task *task);
void reply_stream_free(struct reply_stream *streamed); /* NULL is allowed */
