/*
 * reply_stream.h - the reply with a whole collection or keyspace, produced in steps while the client reads it.
 *
 *   handler ─► reply_stream_rows ─► header and the first step's rows ─► the session's reply, held like every reply
 *                 │ rows remain
 *                 ▼
 *           session->pending.streamed ──the first part has left──► ready ─┬─ a step a turn ─► stream ──► ready again
 *                 │                                          ▲   └─ the stream is full ──drained──┘
 *                 └─ later requests are not read; messages wait in `behind` ◄── after the last row they are sent
 *
 *   handler ─► reply_stream_search: first counts the rows that match, in steps too; then replies them
 *
 * Steps are short (REPLY_STREAM_STEP_*), because all other clients of the partition wait during a step. The reply shows
 * the collection at the time of the command: the reply stream owns a snapshot of the store and a copy of the effects in
 * the write buffers. The reply stream ends with its session, which is closed when the partition stops or a commit
 * fails, because RocksDB must have no iterators then.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "shared/list.h"
#include "shared/net/loop.h"

enum {
    REPLY_STREAM_ROWS_MAX =
        1 << 30, /* clients cannot read more; a damaged row may have such a number */
    REPLY_STREAM_STEP_ROWS = 512, /* rows examined in one step */
    REPLY_STREAM_REST_ROWS = 128, /* a rest of at most this many rows is added to the last step */
    REPLY_STREAM_STEP_BYTES = 256 * 1024, /* a step ends when its output exceeds this */
    REPLY_STREAMS_A_TURN = 4,             /* reply streams that step in one turn of the loop */
};

struct partition;
struct reply_stream;
struct slot_set;

/* Replies one row; `how` comes from the handler. */
typedef void reply_stream_row_fn(struct reply *reply, struct bytes sub, struct bytes value,
                                 unsigned how);
/* Is the row with this full key part of the reply? */
typedef bool reply_stream_match_fn(const struct reply_stream *streamed, struct bytes key,
                                   struct bytes value);

struct reply_stream {
    struct list link;  /* in partition->streamed.all */
    struct list ready; /* in partition->streamed.ready, while it may step */
    struct session *session;
    struct streamed_command *command; /* in the arena; NULL: it is not logged */
    struct overlay_iter *iter;
    size_t prefix_len;
    bool is_reverse;
    bool is_new_row; /* the row at the iterator was not examined yet */
    uint64_t rows;   /* rows still to be replied; while counting: rows found so far */
    reply_stream_row_fn *row;
    unsigned how;
    reply_stream_match_fn *match; /* NULL: all rows match */
    /* that were served when the command ran; in the arena. NULL: all */
    const struct slot_set *slots;
    struct glob *pattern; /* for `match`; in the arena */
    struct arena arena;
    struct bytes first; /* key of the first row, in the arena too */
    uint64_t now_ms;    /* when the command ran */
    bool is_counting;
    uint64_t observed; /* while counting: the ticket for which the reply waits */
    bool is_open;      /* the first part was given to the stream */
    /* while not open: index of the held output (session_replies) that has the first part */
    unsigned parity;
    /* while not open: size of that output with the first part; messages follow */
    size_t held_bytes;
    struct out behind; /* messages that are sent after the last row */
};

/* May the rest of the call's reply be produced later? Not inside EXEC, a script or another reply. */
bool reply_stream_is_allowed(const struct call *call);
/* Replies the next `rows` rows of the iterator, or all remaining rows, and closes the iterator. Most of a big reply is
 * produced later. False: the store failed (error replied), or there were fewer rows. */
bool reply_stream_rows(struct call *call, struct sub_iter *it, uint64_t rows,
                       reply_stream_row_fn *row, unsigned how);
/* Replies an array of the matching rows; takes ownership of the iterator, which is at its first row. The pattern is
 * copied. Only if reply_stream_is_allowed. */
void reply_stream_search(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                         reply_stream_match_fn *match, struct bytes pattern,
                         reply_stream_row_fn *row);

/* The first part was sent, or the stream has drained: the next step may run. */
void reply_stream_wake(struct reply_stream *streamed);
/* Runs steps of the streamed replies that are ready; task of partition->streamed.task. */
void reply_stream_run(struct task *task);
void reply_stream_free(struct reply_stream *streamed); /* NULL is allowed */
/* Closes the sessions with such replies: RocksDB may be opened again, and must have no iterators then. */
void reply_streams_abort(struct partition *partition);
