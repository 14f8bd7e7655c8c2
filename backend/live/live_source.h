/*
 * live_source.h - a running Redis or Valkey as the source: a thread that is its replica, and writes what it sends into the spool.
 *
 *   AUTH, REPLCONF capa eof capa psync2, PSYNC id position+1
 *     +FULLRESYNC id position ─► RDB, by length or up to a mark ─► spool ─┐
 *     +CONTINUE [id]          ─────────────────────────────────────────────┴─► stream ─► spool, for ever
 *   REPLCONF ACK position        what is durable in the target, ten times a second if it has changed
 *
 * A connection that breaks is made again, to the master of that moment (live_find.h), and continues at the end of the spool. If the source does not have these bytes any more, its
 * history is lost: the copy must begin anew. Without a listening port, no Sentinel elects this replica.
 */
#pragma once

#include "backend/copy/options.h"
#include "backend/copy/report.h"
#include "backend/live/live_spool.h"

enum { SOURCE_ERROR_MAX = 1024, REPLICATION_ID_BYTES = 40 };

/* Where a stream stands. */
struct source_point {
    char id[REPLICATION_ID_BYTES + 1]; /* of the source's history; empty: a full copy is needed */
    uint64_t position;
};

/* What the thread has reached. */
struct source_state {
    enum copy_exit exit; /* EXIT_DONE: it works */
    char error[SOURCE_ERROR_MAX];
    char address[COPY_ADDRESS_MAX];    /* where the source is */
    char id[REPLICATION_ID_BYTES + 1]; /* of the history at `end` */
    bool has_full_copy;                /* one was received since the start */
    uint64_t streaming_ms;  /* the stream comes by one connection since then; 0: it does not come */
    uint64_t full_position; /* the full copy is as of there */
    uint64_t end;           /* of the spool */
};

struct live_source;
/* Begins behind `from`, or with a full copy. NULL: error says what is wrong with the TLS files. */
struct live_source *live_source_new(const struct copy_options *options, struct spool *spool,
                                    const struct source_point *from, char *error);
void live_source_free(struct live_source *source);
void live_source_state(struct live_source *source, struct source_state *state);
/* Waits until the spool ends behind the position, or something else has changed, or so long. */
void live_source_wait(struct live_source *source, uint64_t position, uint64_t wait_ms);
/* Everything up to the position is durable in the target. */
void live_source_acknowledge(struct live_source *source, uint64_t position);
