/*
 * walk.h - the reply of a whole collection, produced as the client reads it.
 *
 *   handler ─► walk_rows ─► header and rows, up to STREAM_HIGH_WATER ─► the session's reply, held as every reply
 *                 │ rows remain
 *                 ▼
 *              session->walk ──the first part has left, and whenever the stream has drained──► walk_fill ─► stream
 *                 │                                                                                  │
 *                 └─ later requests are not read; messages collect in `behind` ◄── last row: they follow
 *
 * The reply is the collection as it was when the command ran: the walk owns a snapshot of the store and a copy of
 * the effects that lay over it. A walk lives no longer than its session, and is cut with it when the partition
 * stops or a commit fails, for the engine must be without iterators then.
 */
#pragma once

#include "backend/keyspace.h"
#include "shared/list.h"

/* Replies one row; `how` is the handler's. */
typedef void walk_row_fn(struct reply *reply, struct bytes sub, struct bytes value, unsigned how);

struct walk {
    struct list link; /* in partition->walks */
    struct session *session;
    struct overlay_iter *iter;
    size_t prefix_len;
    bool is_reverse;
    uint64_t rows; /* still to be replied */
    walk_row_fn *row;
    unsigned how;
    bool is_open;      /* its first part was handed to the stream */
    unsigned parity;   /* not open: where that is held */
    size_t held_bytes; /* and up to which byte: what lies behind are messages */
    struct out behind; /* messages that leave after the last row */
};

/* Replies the next `rows` rows of the iterator, or what there is, and closes it. Most of a big reply is left to the
 * session. False: the store failed (error replied), or there were fewer rows. */
bool walk_rows(struct call *call, struct sub_iter *it, uint64_t rows, walk_row_fn *row,
               unsigned how);

enum walk_end { WALK_ON, WALK_DONE, WALK_FAILED };
/* Produces rows until the out holds more than `bytes_max`. */
enum walk_end walk_fill(struct walk *walk, struct reply *reply, size_t bytes_max);
void walk_free(struct walk *walk); /* NULL is allowed */
