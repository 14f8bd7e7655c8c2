/*
 * wal.h - the write-ahead log (WAL) of a store: batches appended to segments, made durable by one fdatasync, and
 * replayed at the next start. The content of a batch does not matter here.
 *
 *   <index of its first batch>.batches:   first line | record | record | ...        (wal_segment.h)
 *
 *   01.batches   1 2 3 4 5 (6)        6 failed: void, since the next file begins with 6
 *   06.batches   6 7 8 (torn)         the next file begins with 9: nothing is missing
 *   09.batches   9 10 11 ...          appended to
 *
 * Batches are counted: 1, 2, 3 ... What is read again is the longest unbroken run from the oldest file on. A record
 * that is torn, fails its checksum, or has an index that a later file begins with, is not part of it. A gap ends the
 * run, and the files behind it are removed: a system that lost power may have kept a later file and not an earlier one.
 *
 * Promises, and the test of each in tests/unit/test_wal.c (*: and nothing_durable_is_lost_at_random, on a disk that
 * fails and loses power):
 *
 *   (1)* When a sync returns, everything appended before it is on the disk,   what_a_failed_sync_may_have_lost_is_…
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
 *        the next; no power loss brings back what lay behind the index.       a_truncation_that_fails_leaves_no_gap
 *
 * After an fdatasync that failed, a later one that works says nothing about the same bytes. So what is not known to be
 * on the disk by then is read back and written to a new file, where the WAL goes on (wal_rotate). A process that
 * was killed leaves the same doubt: every record says up to where batches were durable when it was written, and what is
 * behind that is written again by the first sync of the next process: with a sync for each batch, that is one.
 *
 * Threads: append, sync and rotate by one at a time; sync_upto, trim, last, bytes and copy by any, at the same time.
 * Appends never wait for the removal of files, nor does a trim wait for a sync; it does wait where batches are written
 * again.
 */
#pragma once

#include "shared/bytes.h"

struct wal;

/* One batch, borrowed for the call. False and a one-line reason in error[size]: reading ends and wal_open fails. */
typedef bool wal_fn(void *owner, uint64_t index, struct bytes batch, char *error, size_t size);

struct wal_options {
    const char *path;    /* directory, exists */
    uint64_t file_bytes; /* a file that has so many is followed by a new one */
    uint64_t trimmed;    /* batches up to it are not needed, as for wal_trim: they may be
                          * missing, and the next one appended has a higher index. 0: not known */
};

/* Reads again what there is, in order (the first batch read has any index), then is ready to append behind it; makes no
 * file until something is appended. Removes files behind a gap, durably, and logs what was dropped (wal_gap). A torn
 * end of the newest file is what a crash leaves and is not logged, unless what is behind tells that it was durable
 * (wal_damaged). NULL and a one-line reason in error[size]: a file cannot be read, or is of a newer format; then
 * nothing is removed. */
struct wal *wal_open(const struct wal_options *options, wal_fn *read, void *owner, char *error,
                     size_t size);
/* Reads what there is as wal_open does, and changes nothing: another process may be appending. False and a one-line
 * reason: a file cannot be read, is of a newer format, or `read` said so. */
bool wal_read_only(const char *path, wal_fn *read, void *owner, char *error, size_t size);
/* Does not sync. NULL is allowed. */
void wal_close(struct wal *wal);

/* These return OK, ERR_DISK_FULL or ERR_STORE, then with a one-line reason in error[size]. */

/* Appends; with `sync` it and everything before is durable on return. After an error the batch is void and nothing more
 * is accepted until wal_rotate. At most 4 GiB. */
int wal_append(struct wal *wal, struct bytes batch, bool sync, char *error, size_t size);
/* Everything appended so far is durable. An error is one as of append. */
int wal_sync(struct wal *wal, char *error, size_t size);
/* The same up to this batch, by any thread; the one that appends meets an error too. What the process before
 * has left is trimmed, or wal_sync or wal_rotate has come before. */
int wal_sync_upto(struct wal *wal, uint64_t index, char *error, size_t size);
/* After an error: goes on in a new file, so that what failed is void. What was appended before it stays, and what was
 * durable stays durable. May fail and be called again; what it cannot read back it can do without once that
 * is trimmed. */
int wal_rotate(struct wal *wal, char *error, size_t size);
/* Copies the files as they are, durably, into a directory that has no such files: opened there, the WAL has every batch
 * appended before the call. What a failed one leaves there is the caller's to remove. */
int wal_copy(struct wal *wal, const char *path, char *error, size_t size);

/* Batches behind `index` never were, and the next one appended has index + 1; durable on return. By the thread that
 * appends, while no copy is made. Ends a failure as wal_rotate does. An error is one as of append, and the truncation
 * is completed by wal_rotate; ERR_STORE also where `index` was trimmed, then nothing has changed. */
int wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size);

/* Reads batches by index, on any thread, while others are appended, trimmed and rotated. What it has not read yet is
 * not trimmed. It reads what is appended, which may not be durable: compare with what is known to be. */
struct wal_cursor;
/* Its first batch is `from`, which may be the next one to be appended. NULL: it was trimmed, or is behind that. */
struct wal_cursor *wal_cursor_new(struct wal *wal, uint64_t from);
/* Before wal_close. NULL is allowed. */
void wal_cursor_free(struct wal_cursor *cursor);
/* The next batch, borrowed until the next call. OK; ERR_NOT_FOUND: it is not appended yet; ERR_STORE and a one-line
 * reason in error[size]: it cannot be read, or the cursor has read batches that were truncated since. */
int wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch, char *error,
                    size_t size);

/* Batches up to `index` are not needed any more: removes files with no others, the newest excepted. Waits for
 * the disk. */
void wal_trim(struct wal *wal, uint64_t index);
uint64_t
wal_first(struct wal *wal); /* index of the oldest batch there is, or that will be the first one */
uint64_t wal_last(const struct wal *wal);  /* index of the last batch; 0: none yet */
uint64_t wal_bytes(const struct wal *wal); /* of all files, without what is reserved */
/* Whole batches that were dropped when it was opened, behind one that could not be read (wal_damaged). */
uint64_t wal_damaged(const struct wal *wal);
