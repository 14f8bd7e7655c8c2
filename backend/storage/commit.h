/*
 * commit.h - the one interface through which everything durable goes: batch → log → replies.
 *
 *     IDLE ──dirty at the end of a turn──► WRITING ──ok──► IDLE (on_commit: replies leave)
 *      ▲                                      └──error──► FAILED (batches rolled back, waiting clients get an error)
 *      └────────── recovered ─────────────────────────────┘      retried every second; writes are refused
 *
 * This is group commit: while one batch is logged and synced on the commit thread the next one collects, so the busier
 * the server, the more commands share an fsync. The store's tables get the rows later, many batches at once (apply.h);
 * when they fall behind, because compaction holds the engine back, backpressure lets writes in as fast as rows go into
 * the tables: clients are slowed evenly, by moments each.
 *
 * With durability everysec a batch is synced when the second is over, a busy partition's with the batch that
 * is next then: at most one batch, and its time, later than that.
 */
#pragma once

#include "backend/storage/overlay.h"
#include "config/config.h"

struct commit;
struct loop;

/* The batch with this ticket is durable (0), or was not applied (an error; then all later tickets are void too
 * and the state is what the store holds). */
typedef void commit_fn(void *owner, uint64_t ticket, int err);
/* Called on the partition's thread right before a batch is closed: last rows (counters) are added here. */
typedef void commit_close_fn(void *owner);

/* After a failure writing works again: read anew what is cached from the store, since the batch that
 * failed may be there after all. False: that failed, writes stay refused and it is tried again. */
typedef bool commit_recover_fn(void *owner);

/* There may be room again after commit_is_full. */
typedef void commit_room_fn(void *owner);

struct commit_options {
    enum durability durability;
    commit_close_fn *on_close;
    commit_fn *on_commit;
    commit_recover_fn *on_recover;
    commit_room_fn *on_room;
    void *owner;
};

struct commit *commit_new(struct loop *loop, struct overlay *overlay, struct store *store,
                          const struct commit_options *options);
/* Waits for what is in flight, syncs, brings all of it into the store's tables. The collecting batch is dropped. */
void commit_free(struct commit *commit);
/* Turn hook: submits current when nothing is in flight. Returns true when it did. */
bool commit_turn_end(struct commit *commit);
/* When nothing was written since the last call, the write buffer goes into the tables however small it is: reads need
 * not search it any more. Call it about once a second. */
void commit_rest(struct commit *commit);
/* Brings all rows into the store's tables, unless writes are under way. Few rows go there at once, which blocks for
 * some milliseconds: then it says true. */
bool commit_apply(struct commit *commit);
/* Nothing in flight and nothing collected? */
bool commit_is_idle(const struct commit *commit);
/* The collecting batch is bigger than `limit`, or the tables are behind: pause reading from clients until the next
 * on_commit or on_room. */
bool commit_is_full(const struct commit *commit, uint64_t limit);
/* Writes are refused now; *reason says why (one line, for the log and INFO). */
bool commit_is_failed(const struct commit *commit, const char **reason);
/* What a refused write is answered with: ERR_DISK_FULL or ERR_READONLY_DISK. */
int commit_error(const struct commit *commit);
/* OK, or why a command with these flags (enum command_flags) cannot run now: every write after a failure, what
 * may grow the dataset while the disk is nearly full. */
int commit_gate(const struct commit *commit, uint32_t command_flags);
/* Looks how much room the disk has: below `free_bytes_min` it is nearly full, until there is a quarter more.
 * 0: it never is. Call it about once a second. */
void commit_watch_disk(struct commit *commit, uint64_t free_bytes_min);
void commit_set_durability(struct commit *commit, enum durability durability);
/* In commit_close_fn: the index in the WAL that the batch will have. */
uint64_t commit_next_index(const struct commit *commit);
/* Rows of the last batch logged. */
uint64_t commit_rows(const struct commit *commit);
/* Its bytes, and how long the store took to log and sync it. */
uint64_t commit_bytes(const struct commit *commit);
uint64_t commit_sync_us(const struct commit *commit);
