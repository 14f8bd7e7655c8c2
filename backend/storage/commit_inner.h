/*
 * commit_inner.h - shared by commit.c, which changes the state, and commit_gate.c, which reads it.
 */
#pragma once

#include "backend/storage/apply.h"
#include "backend/storage/commit.h"
#include "shared/net/worker.h"

#include <stdatomic.h>

enum commit_state { COMMIT_IDLE, COMMIT_WRITING, COMMIT_FAILED, COMMIT_FOLLOWING };

/* What the commit thread does; the partition's thread reads it when the job is done. */
struct commit_job {
    const struct batch *batch; /* NULL: only a sync */
    uint64_t ticket;
    bool sync;
    int result;
    char reason[256];
    uint64_t index; /* of the batch in the WAL */
    uint64_t count; /* of rows */
    uint64_t bytes;
    uint64_t begun_us, sync_us;
    uint64_t closed_us; /* with a log: when the batch was given to the commit thread; else 0 */
    bool has_log;       /* the batch goes through commit_log; its index is set before */
    bool is_running;    /* on the commit thread */
    bool is_committed;  /* by the log */
    bool is_given_up;   /* the store steps down: its end is not reported */
    bool is_stalled;    /* commit_watch_log */
    uint64_t term;      /* with a log */
    /* ticket of the last batch that was logged; any thread may read it */
    atomic_uint_fast64_t durable;
};

/* commit_watch_disk, commit_watch_copies */
struct commit_disk {
    bool is_low;
    enum commit_room copies;
    uint64_t room; /* bytes */
};

/* commit_cut */
enum commit_cut_state {
    CUT_NONE,
    CUT_WANTED,   /* of a leader: the next batch fills its buffer */
    CUT_WAITS,    /* of a copy that follows: another buffer is being applied */
    CUT_APPLYING, /* the buffer that ends with the record */
};

struct commit_cut {
    enum commit_cut_state state;
    commit_cut_fn *fn;
    void *owner;
};

struct commit {
    struct job job;
    struct loop *loop;
    struct overlay *overlay;
    struct storage *storage;
    struct commit_options options;
    struct commit_log log; /* append NULL: none */
    struct worker *worker;
    struct timer *timer;     /* everysec: sync; FAILED: next recovery */
    struct effects *effects; /* of the batch in flight */
    struct apply *apply;
    enum commit_state state;
    bool unsynced;    /* batches were written since the last sync */
    bool sync_is_due; /* everysec: the second was over while a batch was being written */
    struct commit_disk disk;
    bool has_failed;   /* set by the job; commit_turn_end handles it */
    bool retry_is_due; /* commit_turn_end recovers */
    bool fills_buffer; /* the batch is the last one of its buffer */
    uint64_t active_ms,
        immutable_ms;        /* wall clock, when the buffers received their first row; 0: empty */
    uint64_t immutable_upto; /* index in the WAL of the last batch of the immutable buffer */
    uint64_t followed_ms; /* while it follows: leader's wall clock in the last record; 1: unknown */
    uint64_t rest_ticket; /* of the open batch at the last commit_rest */
    uint64_t retries;     /* recoveries that failed since the write that failed */
    struct commit_job current;
    struct commit_cut cut;
};
