/*
 * apply.h - the apply thread: brings immutable write buffers into the store's tables.
 *
 *   batches ──log──► durable, answered        (commit.h)
 *      │
 *      └─► active write buffer ──full──► immutable one ──sorted, one row for each key──► the store's tables
 *
 * A row that many batches changed goes into the tables once, and rows go in in order: that costs a third of inserting
 * them batch by batch. Nobody waits for it: what is not in the tables yet is in the WAL and read from the buffers. Only
 * what is durable goes in, so that files never hold what the WAL may lose.
 */
#pragma once

#include "backend/storage/overlay.h"

struct loop;
struct apply;

/* The write buffer is in the tables, or (an error) it is not, and stays where it is. */
typedef void apply_fn(void *owner, int err);

struct apply *apply_new(struct loop *loop, struct overlay *overlay, struct store *store,
                        apply_fn *on_done, void *owner);
/* Waits for what is under way, then brings in all that is durable: a start has nothing to do again. What fails is in
 * the WAL. The overlay has no effects that are not durable. NULL is allowed. */
void apply_free(struct apply *apply);
/* The batches of the immutable write buffer are in the WAL, the newest of them with this index there (store_logged).
 * No other apply may be under way. */
void apply_begin(struct apply *apply, uint64_t logged);
/* The same here and now. False: it failed. */
bool apply_now(struct apply *apply, uint64_t logged);
bool apply_is_running(const struct apply *apply);
/* Another way was found to bring into the tables what failed. */
void apply_forget(struct apply *apply);
/* Of the last one: OK, ERR_DISK_FULL or ERR_STORE, and then why, in one line. */
int apply_result(const struct apply *apply);
const char *apply_reason(const struct apply *apply);
/* So many bytes of the buffer under way are in the tables; 0: none is under way. */
size_t apply_bytes(const struct apply *apply);
