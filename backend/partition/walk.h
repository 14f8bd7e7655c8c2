/*
 * walk.h - the reply of a whole collection or keyspace, produced in steps as the client reads it.
 *
 *   handler ─► walk_rows ─► header and the first step's rows ─► the session's reply, held as every reply
 *                 │ rows remain
 *                 ▼
 *              session->walk ──the first part has left──► ready ─┬─ a step a turn ─► stream ──► ready again
 *                 │                                          ▲   └─ the stream is full ──drained──┘
 *                 └─ later requests are not read; messages collect in `behind` ◄── last row: they follow
 *
 *   handler ─► walk_search: how many rows match is counted first, in steps too; then the same walk once more
 *
 * A step is short (WALK_STEP_*), for everybody else on the partition waits for it. The reply is the collection as
 * it was when the command ran: the walk owns a snapshot of the store and a copy of the effects that lay over it. A
 * walk lives no longer than its session, and is cut with it when the partition stops or a commit fails, for the
 * engine must be without iterators then.
 */
#pragma once

#include "backend/keyspace/keyspace.h"
#include "shared/list.h"
#include "shared/net/loop.h"

enum {
    WALK_STEP_ROWS = 512,         /* looked at in one step */
    WALK_REST_ROWS = 128,         /* no more are left: not worth a walk */
    WALK_STEP_BYTES = 256 * 1024, /* a step ends when it has made more */
    WALKS_A_TURN = 4,             /* that step in a turn of the loop */
};

struct walk;

/* Replies one row; `how` is the handler's. */
typedef void walk_row_fn(struct reply *reply, struct bytes sub, struct bytes value, unsigned how);
/* Does the row of this full key belong to the reply? */
typedef bool walk_match_fn(const struct walk *walk, struct bytes key, struct bytes value);

struct walk {
    struct list link;  /* in partition->walks.all */
    struct list ready; /* in partition->walks.ready: it may step */
    struct session *session;
    struct overlay_iter *iter;
    size_t prefix_len;
    bool is_reverse;
    bool is_new_row; /* the row under the iterator was not looked at yet */
    uint64_t rows;   /* still to be replied; while it counts: found so far */
    walk_row_fn *row;
    unsigned how;
    walk_match_fn *match; /* NULL: all do */
    struct glob *pattern; /* what match looks for; in the arena */
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
bool walk_is_allowed(const struct call *call);
/* Replies the next `rows` rows of the iterator, or what there is, and closes it. Most of a big reply is left to the
 * session. False: the store failed (error replied), or there were fewer rows. */
bool walk_rows(struct call *call, struct sub_iter *it, uint64_t rows, walk_row_fn *row,
               unsigned how);
/* Replies an array of the rows that match, of an iterator that stands on its first; takes the iterator. The pattern is
 * copied. Only where walk_is_allowed. */
void walk_search(struct call *call, struct overlay_iter *iter, size_t prefix_len,
                 walk_match_fn *match, struct bytes pattern, walk_row_fn *row);

/* It may step: its first part has left, or its stream has drained. */
void walk_wake(struct walk *walk);
/* Steps of the partition's walks that are ready; task of partition->walks.task. */
void walk_run(struct task *task);
void walk_free(struct walk *walk); /* NULL is allowed */
