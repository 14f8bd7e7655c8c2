/*
 * commit.h - the one door through which everything durable goes: batch → durable → replies.
 *
 *     IDLE ──dirty at the end of a turn──► WRITING ──ok──► IDLE (on_commit: replies leave)
 *      ▲                                      └──error──► FAILED (layers dropped, waiting clients get an error)
 *      └────────── recovered ─────────────────────────────┘      retried every second; writes are refused
 *
 * While one batch is written and synced on the commit thread the next one collects: the busier the server,
 * the larger the group, and one fsync serves all of it.
 */
#pragma once

#include "backend/overlay.h"
#include "config/config.h"

struct commit;
struct loop;

/* The batch with this ticket is durable (0), or was not applied (an error; then all later tickets are void too
 * and the state is what the store holds). */
typedef void commit_fn(void *owner, uint64_t ticket, int err);
/* Called on the partition's thread right before a batch is sealed: last rows (counters) are added here. */
typedef void commit_seal_fn(void *owner);

/* After a failure writing works again: read anew what is cached from the store, since the batch that
 * failed may be there after all. False: that failed, writes stay refused and it is tried again. */
typedef bool commit_recover_fn(void *owner);

struct commit_options {
    enum durability durability;
    uint64_t batch_bytes_max; /* commit_is_full above this: the partition stops reading */
    commit_seal_fn *on_seal;
    commit_fn *on_commit;
    commit_recover_fn *on_recover;
    void *owner;
};

struct commit *commit_new(struct loop *loop, struct overlay *overlay, struct store *store,
                          const struct commit_options *options);
/* Waits for what is in flight, syncs, ends the thread. The current layer must be empty or is dropped. */
void commit_free(struct commit *commit);
/* Turn hook: submits current when nothing is in flight. Returns true when it did. */
bool commit_turn(struct commit *commit);
/* Nothing in flight and nothing collected? */
bool commit_is_idle(const struct commit *commit);
/* The collecting batch is too big: pause reading from clients until the next on_commit. */
bool commit_is_full(const struct commit *commit);
/* Writes are refused now; *reason says why (one line, for the log and INFO). */
bool commit_is_failed(const struct commit *commit, const char **reason);
/* What a refused write is answered with: ERR_DISK_FULL or ERR_READONLY_DISK. */
int commit_error(const struct commit *commit);
void commit_set_durability(struct commit *commit, enum durability durability);
/* Rows of the last batch written. */
uint64_t commit_rows(const struct commit *commit);
