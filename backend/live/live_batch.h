/*
 * live_batch.h - the commands of a source's stream, collected for one transaction in the target.
 *
 *   … SELECT 3 │ SET a 1 │ PING │ MULTI │ INCR b │ LPUSH c x │ EXEC │ MULTI │ DEL …
 *                 └─unit─┘        └────────── unit ────────────┘    └ not whole yet
 *
 * A batch ends between units, so a transaction of the source is never divided. What says nothing about data is left out: PING, REPLCONF,
 * PUBLISH and SCRIPT, and so is what is not selected (live_select.h).
 */
#pragma once

#include "backend/copy/live_select.h"

enum { BATCH_ERROR_MAX = 256, BATCH_BYTES = 1024 * 1024, BATCH_COMMANDS_MAX = 1000 };

struct batch_command {
    size_t at; /* in the bytes that were read */
    size_t len;
    struct bytes made;   /* what is sent in place of these bytes; empty: nothing is */
    uint64_t db;         /* in the target */
    uint32_t element;    /* its place in the reply to EXEC */
    bool is_refused;     /* it cannot be copied, or the target does not accept it: it is left out */
    const char *refusal; /* why; in the selector's arena, or a constant */
};

struct batch {
    struct selector selector;
    struct batch_command *all;
    size_t count;
    size_t room;
    size_t bytes;      /* from the start of what was read to the end of the last unit */
    uint64_t db;       /* selected there, at the source */
    uint64_t left_out; /* commands that were left out */
    char error[BATCH_ERROR_MAX];
};

void batch_init(struct batch *batch, const struct copy_options *options);
void batch_free(struct batch *batch);
/* Collects units of `bytes`, which begin with database `db`, until there are `limit` commands or BATCH_BYTES. False: `error` says what
 * cannot be copied. A batch without bytes: no unit is whole. */
bool batch_collect(struct batch *batch, struct bytes bytes, uint64_t db, size_t limit);
/* The bytes that are sent for a command. */
struct bytes batch_frame(struct bytes bytes, const struct batch_command *command);
/* Leaves the command out, for this reason. */
void batch_refuse(struct batch *batch, struct batch_command *command, struct bytes reason);
/* The n-th word of a command, as the source has sent it. */
struct bytes batch_word(struct bytes bytes, const struct batch_command *command, unsigned number);
