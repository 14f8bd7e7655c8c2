/*
 * commit.h - group commit: the only way by which effects become durable. Batch → WAL → replies.
 *
 *     IDLE ──dirty at the end of a turn──► WRITING ──ok──► IDLE (on_commit: replies are sent)
 *      ▲                                      └──error──► FAILED (batches rolled back, waiting clients get an error)
 *      └────────── recovered ─────────────────────────────┘      retried every second; writes are refused
 *
 * While one batch is written and synced on the commit thread, the next one is open: the busier the server, the more
 * commands share an fsync. RocksDB's tables receive the rows later, many batches at once (apply.h). When they fall behind,
 * because compaction delays RocksDB, backpressure accepts writes only as fast as rows are applied: all clients are
 * slowed by short pauses.
 *
 * With other copies that vote, a commit_log takes the place of the WAL: the commit thread (for a small batch the partition's) encodes the
 * batch and gives it to the log, which writes it here and at the others at once. It is committed when most of them have it (commit_ended); a leader that is replaced before that
 * steps down (commit_step_down), and its successor decides about the batch.
 *
 *     FOLLOWING: the store is a copy that does not lead. Writes are refused; each committed record that another copy has sent is added
 *     by commit_follow, and the buffers are applied as those of a leader
 *
 * With durability everysec a batch is synced when the second is over; on a busy partition together with the next batch,
 * that is at most one batch later.
 */
#pragma once

#include "backend/storage/overlay.h"
#include "backend/storage/storage.h"
#include "config/config.h"

struct commit;
struct loop;

/* The batch with this ticket is durable and has this index in the WAL (err 0), or was rolled back (an error and index 0; then all later
 * tickets are void too, and the state is that of the store). */
typedef void commit_fn(void *owner, uint64_t ticket, uint64_t index, int err);
/* Called on the partition's thread right before a batch is closed, to add the last rows (counters). */
typedef void commit_close_fn(void *owner);

/* Called when writes work again after a failure: reads again everything that was cached from the store, because the
 * store may contain the failed batch after all. False: reading failed; writes stay refused, and recovery is tried
 * again. */
typedef bool commit_recover_fn(void *owner);

/* Called when there may be room again after commit_is_full. */
typedef void commit_room_fn(void *owner);

struct commit_options {
    enum durability durability;
    commit_close_fn *on_close;
    commit_fn *on_commit;
    commit_recover_fn *on_recover;
    commit_room_fn *on_room;
    void *owner;
};

/* The log of a group of copies. */
struct commit_log {
    /* Takes the record, with its numbers: index, term, and the index before as committed. Borrowed; called on the commit thread or
     * the partition's. OK, or an error and a one-line reason in error[size]: the record is not taken, and the batch is rolled back. */
    int (*append)(void *owner, struct bytes record, char *error, size_t size);
    /* After an error: would the log take a record? As append. */
    int (*may_append)(void *owner, char *error, size_t size);
    /* Is the record with this index, which was appended in this term, committed? Not blocking; it may be so before commit_ended. */
    bool (*has_committed)(void *owner, uint64_t index, uint64_t term);
    void *owner;
};

struct commit *commit_new(struct loop *loop, struct overlay *overlay, struct storage *storage,
                          const struct commit_options *options);
/* Waits for the batch in flight, syncs, and applies everything to RocksDB's tables. The open batch is dropped. */
void commit_free(struct commit *commit);
/* Turn hook: closes the open batch if none is in flight. True: a batch was closed. */
bool commit_turn_end(struct commit *commit);
/* From the next batch on that is closed, batches go through the log; copied. All records up to storage_committed are committed, and none is
 * behind it; only this commit appends. It ends with commit_step_down. */
void commit_use_log(struct commit *commit, const struct commit_log *log);
bool commit_uses_log(const struct commit *commit);
/* In commit_fn: has this batch gone through the log? */
bool commit_went_through_log(const struct commit *commit);
/* The log has committed the records up to this index: on_commit for the batch in flight, if it is one of them. Not while a command
 * runs. */
void commit_ended(struct commit *commit, uint64_t index);
/* Another copy leads, or none: the open batch and the one in flight are rolled back without on_commit, and the store follows
 * (commit_set_following). Returns the ticket of the batch in flight, which the next leader may have committed; 0: there was none. Waits
 * for the disk if the batch does not go through a log. Not while a command runs. */
uint64_t commit_step_down(struct commit *commit);
/* From now on the store follows another copy, or ends following and takes writes (unless the disk was full at the start). No batch is in
 * flight, and the open one is empty. While it follows: commit_is_failed, with commit_error ERR_READONLY; there is neither a retry nor a
 * recovery; a batch that something opens all the same ends the process. */
void commit_set_following(struct commit *commit, bool is_following);
/* To be called ten times a second, not while a command runs. True: the log has not committed the batch in flight for five seconds. From then
 * on, until it is committed or given up, writes are refused (commit_is_failed), so that the open batch does not grow. */
bool commit_watch_log(struct commit *commit);
bool commit_is_stalled(const struct commit *commit);
/* Does the commit thread write a batch to the WAL itself? */
bool commit_is_writing(const struct commit *commit);
/* While it follows: adds the committed record with this index, which is durable here and follows the last committed one, and commits it.
 * Not while commit_is_full. OK, or the error with which applying failed before, or ERR_STORE: the record cannot be read; commit_is_failed
 * has the reason, and the record was not added. Not while a command runs. */
int commit_follow(struct commit *commit, struct bytes record, uint64_t index);
/* While it follows: rows could not be applied, or the disk was full at the start: commit_follow_recover is to be called. */
bool commit_follow_is_broken(const struct commit *commit);
/* … and commit_follow adds nothing before. If only space is lacking, it goes on in memory: a full disk has room for few more records. */
bool commit_follow_is_stopped(const struct commit *commit);
/* Tries to make applying work again, as a recovery of a store that takes writes does, and calls on_recover; blocks. Not while a command
 * runs. Afterwards the next record of commit_follow is the one after storage_committed, which may be greater. False: try again later. */
bool commit_follow_recover(struct commit *commit);
/* To be called about once a second. If nothing was written since the last call, the write buffer is applied, however
 * small it is, so that reads need not search it. */
void commit_rest(struct commit *commit);
/* Applies all rows to RocksDB's tables, unless writes are under way. Few rows are applied at once, which blocks for
 * some milliseconds: then the result is true. */
bool commit_apply(struct commit *commit);
/* When the oldest effects were made that the tables lack, wall clock; 0: they have all that is committed. */
uint64_t commit_buffered_ms(const struct commit *commit);
/* The tables have exactly the rows of the records up to this one, until the call returns. 0: they will not, because writing or applying has failed,
 * the role has changed, an older buffer was still being applied, or they have newer ones since the start. */
typedef void commit_cut_fn(void *owner, uint64_t index);
/* Calls the function once, perhaps at once; one cut at a time. For a store that takes writes, the record is the next batch that is closed; for one that
 * follows, the last one that was added, and no other may be added before the call. */
void commit_cut(struct commit *commit, commit_cut_fn *fn, void *owner);
/* The function is not called any more. */
void commit_cut_cancel(struct commit *commit);
/* True when no batch is in flight and the open batch is empty. */
bool commit_is_idle(const struct commit *commit);
/* The ticket of the batch in flight if it is durable already (with a log: committed), but on_commit has not been called, because a command is
 * running; else 0. */
uint64_t commit_durable_in_flight(const struct commit *commit);
/* The open batch is bigger than `limit`, or the tables are behind: stop reading from clients until the next on_commit
 * or on_room. */
bool commit_is_full(const struct commit *commit, uint64_t limit);
/* With half of what commit_is_full allows. */
bool commit_is_half_full(const struct commit *commit, uint64_t limit);
/* The buffers have more than `limit` bytes of big values: run no request that brings another one until the next on_commit or
 * on_room. */
bool commit_is_full_of_big(const struct commit *commit, uint64_t limit);
/* Writes are refused; *reason is why (one line, for the log and INFO). */
bool commit_is_failed(const struct commit *commit, const char **reason);
/* Likewise, and also while the disks of most copies are full: no command may write. */
bool commit_refuses_writes(const struct commit *commit, const char **reason);
/* The error for a refused write: ERR_DISK_FULL, ERR_READONLY_DISK, ERR_READONLY or ERR_STALLED. */
int commit_error(const struct commit *commit);
/* OK, or why a command with these flags (enum command_flags) cannot run now: every write after a failure, and commands
 * that may grow the dataset while the disk is nearly full. */
int commit_gate(const struct commit *commit, uint32_t command_flags);
/* To be called about once a second. The disk is nearly full when less than `free_bytes_min` is free, and until a
 * quarter more than that is free. 0: no limit. */
void commit_watch_disk(struct commit *commit, uint64_t free_bytes_min);
/* Is it so, of this disk? */
bool commit_is_disk_low(const struct commit *commit);
/* What the disks of most copies take. */
enum commit_room {
    COMMIT_ROOM,
    COMMIT_ROOM_LOW,  /* as if this one was nearly full */
    COMMIT_ROOM_NONE, /* no batch: writes are refused before one is begun */
};
void commit_watch_copies(struct commit *commit, enum commit_room room);
/* Bytes that were free then above this limit; UINT64_MAX: there is no limit. */
uint64_t commit_disk_room(const struct commit *commit);
void commit_set_durability(struct commit *commit, enum durability durability);
/* The next batch is synced before on_commit, whatever the durability. */
void commit_sync_next(struct commit *commit);
/* In commit_close_fn: index that the batch will have in the WAL. */
uint64_t commit_next_index(const struct commit *commit);
/* Number of rows of the last batch. */
uint64_t commit_rows(const struct commit *commit);
/* Bytes of the last batch, and how long writing and syncing it took; with a log, until it was committed. */
uint64_t commit_bytes(const struct commit *commit);
uint64_t commit_sync_us(const struct commit *commit);
