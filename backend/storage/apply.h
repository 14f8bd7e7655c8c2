/*
 * apply.h - the apply thread: writes immutable write buffers into RocksDB's tables.
 *
 *   batches ──log──► durable, answered        (commit.h)
 *      │
 *      └─► active write buffer ──full──► immutable one ──sorted, one row for each key──► the store's tables
 *
 * A row that many batches changed is written once, and rows are written in order: that costs a third of inserting them
 * batch by batch. No command waits for it: rows that are not in the tables yet are in the WAL, and are read from the
 * buffers. Only durable rows are written, so that files never contain rows that the WAL may lose.
 */
#pragma once

#include "backend/storage/overlay.h"

struct loop;
struct storage;
struct apply;

/* Called when a job ends. err is OK: the rows of the write buffer are in the tables. Else the buffer stays in memory. */
typedef void apply_fn(void *owner, int err);

struct apply *apply_new(struct loop *loop, struct overlay *overlay, struct storage *storage,
                        apply_fn *on_done, void *owner);
/* Waits for the job under way, then applies all durable rows, so that the next start has nothing to replay. Rows that
 * cannot be applied are in the WAL. The overlay must have no effects that are not durable. NULL is allowed. */
void apply_free(struct apply *apply);
/* Applies the immutable write buffer, whose batches are in the WAL, the newest with this index. No other job may be
 * under way. */
void apply_begin(struct apply *apply, uint64_t upto);
/* Does the work of apply_begin on the calling thread. False: it failed. */
bool apply_now(struct apply *apply, uint64_t upto);
bool apply_is_running(const struct apply *apply);
/* Clears the result of a failed job, because recovery has brought its rows into the tables. */
void apply_forget(struct apply *apply);
/* Result of the last job: OK, ERR_DISK_FULL or ERR_STORE, and the reason in one line. */
int apply_result(const struct apply *apply);
const char *apply_reason(const struct apply *apply);
/* Bytes of the buffer under way that are in the tables; 0: no job is under way. */
size_t apply_bytes(const struct apply *apply);
