/*
 * wal.h - the write-ahead log (WAL) of a partition: batches appended to segments, made durable by one fdatasync, and
 * replayed at the next start. The WAL does not interpret the content of a batch.
 *
 *   <index of its first batch>.batches:   first line | record | record | ...        (wal_segment.h)
 *   kept/<index>.batches:                 segments that only readers of changes need (wal_kept.c)
 *   <index>.kept:                         likewise, in a copy of the files that was not opened yet
 *   filed:                                the index up to which nothing is replayed  (wal_number.h)
 *   spare:                                space for a segment of small batches, for a full disk (wal_spare.c)
 *
 *   01.batches   1 2 3 4 5 (6)        6 failed: void, since the next file begins with 6
 *   06.batches   6 7 8 (torn)         the next file begins with 9: nothing is missing
 *   09.batches   9 10 11 ...          appended to
 *
 * Batches have consecutive indices: 1, 2, 3 ... Replay reads the longest run without a gap from the oldest file on. A record
 * that is torn, fails its checksum, or has an index with which a later file begins, is not part of it. A gap ends the run,
 * and files after it are removed: after a power loss a later file may exist without an earlier one.
 *
 * Promises, and the test of each in tests/unit/test_wal.c (*: and nothing_durable_is_lost_at_random, on a disk that
 * fails and loses power):
 *
 *   (1)* When a sync returns, everything appended before it is on the disk,   what_a_failed_sync_may_have_lost_is_written_again
 *        and so are the names of its files.
 *   (2)* Trim removes files from the oldest on, each durably before the       trim_removes_exactly_what_is_not_needed
 *        next: what is left has no gap.                                       a_removal_that_fails_is_tried_again
 *   (3)  The newest file is never removed: only truncate gives an index       the_newest_file_keeps_the_count
 *        a second time.
 *   (4)* A batch that failed is void, whatever is left of it on the disk.     a_batch_that_failed_is_void
 *   (5)  Nothing damaged is taken for a batch.                                a_changed_byte_ends_the_log_before_it
 *   (6)  A cursor reads every batch once, in order, whatever rotates          a_cursor_reads_what_is_appended
 *        beside it; what it has not read is not trimmed.                      a_cursor_holds_back_trimming
 *   (7)* Truncate removes files from the newest on, each durably before       truncation_leaves_what_lies_before
 *        the next; no power loss brings back batches after the index.         a_truncation_that_fails_leaves_no_gap
 *   (8)* A batch that is written and not shown is read by no cursor and       a_batch_is_shown_when_it_is_synced
 *        no copy, and is void after an error.
 *   (9)  A weak cursor reads every batch once, in order, from kept and       a_weak_cursor_holds_nothing_back
 *        present segments, or says that its next one is gone.                 what_is_kept_stays_within_its_limits
 *   (10) On a full disk the spare segment takes small batches, and no         a_full_disk_takes_small_batches
 *        others.                                                              a_spare_segment_outlives_its_process
 *
 * After an fdatasync has failed, a later one may succeed although the bytes are not on the disk. So batches that may be
 * missing are read back and written to a new file, where the WAL continues (wal_rotate). After a process was killed, it
 * is also unknown which of its batches are on the disk. So every record contains the index up to which batches were
 * durable when it was written, and the first write or sync of the next process writes the later batches again. With a
 * sync for each batch, that is one batch.
 *
 * Write and sync are two steps, so that a batch can be on its way to other copies while this disk syncs it.
 *
 * Threads: write, show, sync and rotate are called by one thread at a time; sync_upto, trim, last, bytes and copies by any
 * threads, concurrently. An append never waits for the removal of files, and a trim never waits for a sync; but a trim
 * waits while batches are written again.
 *
 * Two processes must not open a WAL at the same time: the lock of the store beside it prevents that (storage.h).
 * Implementations: wal*.c | tests/sim/wal_mem.c (a crash loses unsynced batches; tests/sim/test_wal_mem.c).
 */
#pragma once

#include "shared/bytes.h"

struct wal;

/* Receives one batch, borrowed for the call. False and a one-line reason in error[size]: replay ends, and wal_open
 * fails. */
typedef bool wal_fn(void *owner, uint64_t index, struct bytes batch, char *error, size_t size);

struct wal_options {
    const char *path;    /* directory, exists */
    uint64_t file_bytes; /* a file of this size is followed by a new one */
    /* batches up to this index are not needed (wal_trim) and may be missing; new batches follow it. 0: as the last
     * wal_trim of an earlier process said */
    uint64_t trimmed;
};

/* Replays the batches after the trimmed ones in order (the first one may have any index), then is ready to append; a new file
 * is created when something is appended. Removes files after a gap, durably, and logs what was dropped (wal_gap). A torn end of the
 * newest file is normal after a crash and not logged, unless later records show that it had been durable
 * (wal_damaged). NULL and a one-line reason in error[size]: a file cannot be read, or has a newer format; then no file
 * is removed. */
struct wal *wal_open(const struct wal_options *options, wal_fn *read, void *owner, char *error,
                     size_t size);
/* Replays as wal_open does without changing anything: another process may be appending. False and a one-line reason: a
 * file cannot be read, has a newer format, or `read` returned false. */
bool wal_read_only(const char *path, wal_fn *read, void *owner, char *error, size_t size);
/* Without a sync. NULL is allowed. */
void wal_close(struct wal *wal);

/* The functions below return OK, ERR_DISK_FULL or ERR_STORE, with a one-line reason in error[size]. */

/* Writes a batch of at most 4 GiB after the others; *index is its index. Neither wal_last nor a cursor shows it before
 * wal_sync or wal_show. After an error it and all others that are not shown are void, and no more are accepted until
 * wal_rotate. */
int wal_write(struct wal *wal, struct bytes batch, uint64_t *index, char *error, size_t size);
/* Makes everything written so far durable, and shows it. Errors as for wal_write. */
int wal_sync(struct wal *wal, char *error, size_t size);
/* Shows everything written so far, without a sync. */
void wal_show(struct wal *wal);
/* wal_write, then wal_sync or wal_show. */
int wal_append(struct wal *wal, struct bytes batch, bool sync, char *error, size_t size);
/* Makes batches up to `index` durable, on any thread; an error is also reported to the appending thread. Must not be
 * called while batches of the previous process remain that were neither trimmed nor made durable by wal_sync or
 * wal_rotate. */
int wal_sync_upto(struct wal *wal, uint64_t index, char *error, size_t size);
/* After an error: continues in a new file, so that the failed batch is void. Batches shown before stay, and durable
 * ones stay durable. May fail and be called again; batches that it cannot read back must be trimmed first. */
int wal_rotate(struct wal *wal, char *error, size_t size);
/* Proves that the disk takes data: writes and syncs a file, removes it, and then syncs the WAL. After wal_rotate a batch
 * that failed before can never come back once this has succeeded. Errors as for wal_append. */
int wal_probe(struct wal *wal, char *error, size_t size);
/* Makes a spare segment, unless there is one, or no space. When no other one can be made, it takes small batches. On the thread that writes. */
void wal_make_spare(struct wal *wal);
/* Does the WAL continue in the spare segment? */
bool wal_is_on_spare(const struct wal *wal);
/* Copies the files, durably, into a directory without WAL files: opened there, the WAL has every batch shown before
 * the call. wal_committed_at tells `committed` then. The caller removes what a failed copy leaves. */
int wal_copy(struct wal *wal, const char *path, uint64_t committed, char *error, size_t size);
/* The same in two steps. The first one opens the files, which takes no longer than that; the copy has the batches that are shown then, whatever
 * is appended and trimmed before it is written. NULL and a one-line reason: a file cannot be opened. */
struct wal_copy *wal_copy_begin(struct wal *wal, char *error, size_t size);
/* Between these two, on any thread: the copy ends with batch `index`, and has none of those that follow it; without any batch, if the log begins behind
 * it. ERR_STORE and a one-line reason: the copy lacks this batch, or it cannot be read. */
int wal_copy_end(struct wal_copy *copy, uint64_t index, char *error, size_t size);
int wal_copy_write(const struct wal_copy *copy, const char *path, uint64_t committed, char *error,
                   size_t size);
/* NULL is allowed. */
void wal_copy_free(struct wal_copy *copy);
/* Adds the newest of the kept segments to what wal_copy has made, as links <index>.kept: a WAL that is opened there keeps them. They are added
 * newest first, so that there is no gap when one cannot be; then the older ones are left out. */
void wal_copy_kept(struct wal *wal, const char *path);
/* What wal_copy was given when it made the WAL in this directory; 0: it is no copy. */
uint64_t wal_committed_at(const char *path);
/* From now on the WAL is no copy, durably. Errors as for wal_append. */
int wal_copy_ends(struct wal *wal, char *error, size_t size);

/* Removes the batches after `index`; the next one appended gets index + 1; durable on return. To be called by the
 * appending thread while no copy is made. Ends a failure as wal_rotate does. Errors as for wal_append, after which
 * wal_rotate completes the truncation; ERR_STORE also if `index` was trimmed, and then nothing has changed. */
int wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size);

/* Reads batches by index, on any thread, while others are appended, trimmed and rotated. Batches that it has not read
 * are not trimmed. The batches that it reads may not be durable yet. */
struct wal_cursor;
/* Begins at batch `from`, which may be the next one to be appended. NULL: it was trimmed, or is further ahead. */
struct wal_cursor *wal_cursor_new(struct wal *wal, uint64_t from);
/* To be called before wal_close. NULL is allowed. */
void wal_cursor_free(struct wal_cursor *cursor);
/* The next batch, borrowed until the next call. OK; ERR_NOT_FOUND: it was not appended yet; ERR_STORE and a one-line
 * reason in error[size]: it cannot be read, or batches that the cursor has read were truncated. */
int wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch, char *error,
                    size_t size);

/* As wal_cursor_new, but it holds nothing back, reads kept batches too, and only durable ones: for readers that must never
 * hold back a writer. wal_cursor_next returns ERR_GONE when its next batch is not there any more. NULL: `from` is gone, or
 * further ahead than the next batch. */
struct wal_cursor *wal_cursor_new_weak(struct wal *wal, uint64_t from);

/* Limits for the segments that are kept after they were trimmed. */
struct wal_keep {
    uint64_t bytes;          /* 0: no segment is kept */
    uint64_t age_ms;         /* since a segment was last written; 0: no limit */
    uint64_t free_bytes_min; /* with less space on the disk none are kept; 0: no limit */
};
/* The WAL that is opened in this directory keeps all segments until wal_keep. */
void wal_keep_at(const char *path);
/* Sets the limits, and removes what is beyond them, oldest first. On any thread; waits for the disk. Before the first call
 * all are kept if there are kept ones already. */
void wal_keep(struct wal *wal, const struct wal_keep *keep);
/* Removes all kept segments, because the disk is full. */
void wal_keep_none(struct wal *wal);
struct wal_kept {
    uint64_t bytes;
    uint64_t first;    /* index of the oldest kept batch; 0: none */
    uint64_t oldest_s; /* wall clock when its segment was last written */
};
struct wal_kept wal_kept(struct wal *wal);

/* Batches up to `index` are not needed any more: removes files without other batches, except the newest, or keeps them
 * (wal_keep). Waits for the disk. */
void wal_trim(struct wal *wal, uint64_t index);
uint64_t wal_trimmed(struct wal *wal); /* batches up to this one are not needed */
uint64_t
wal_first(struct wal *wal); /* index of the oldest batch; without batches, of the next one */
uint64_t wal_last(const struct wal *wal); /* index of the last batch; 0: none yet */
/* Index of the last batch that was written, shown or not; the next one gets the index after it. On the thread that writes. */
uint64_t wal_written(const struct wal *wal);
/* Indexes with which the segments begin that have shown batches, oldest first, kept ones too, at most `max` of them. Returns the number of these
 * segments, which may be more than `max`. On any thread. */
size_t wal_firsts(struct wal *wal, uint64_t *firsts, size_t max);
/* Of all files in a directory whose WAL is not open, with zeros at their ends. */
uint64_t wal_bytes_at(const char *path);
uint64_t wal_bytes(const struct wal *wal); /* of all files, without what is reserved */
/* Number of whole batches that were dropped at opening, after one that could not be read (wal_damaged). */
uint64_t wal_damaged(const struct wal *wal);
/* Were batches dropped at opening that readers may have seen: after one that could not be read, or after a gap? */
bool wal_has_lost(const struct wal *wal);
/* Likewise, but only batches that had been durable, as a later one shows, or lay behind a gap. Others are the end that a power loss takes. */
bool wal_has_lost_durable(const struct wal *wal);
