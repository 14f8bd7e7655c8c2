/*
 * settle.h - brings complete buffers of the overlay into the store's tables, on a thread of its own.
 *
 *   batches ──log──► durable, answered        (commit.h)
 *      │
 *      └─► active write buffer ──full──► immutable one ──sorted, one row for each key──► the store's tables
 *
 * A row that many batches changed goes into the tables once, and rows go in in order: that costs a third of inserting
 * them batch by batch. Nobody waits for it: what is not in the tables yet is in the log and read from the buffers. Only
 * what is durable goes in, so that files never hold what the log may lose.
 */
#pragma once

#include "backend/storage/overlay.h"

struct loop;
struct settle;

/* The write buffer is in the tables, or (an error) it is not, and stays where it is. */
typedef void settle_fn(void *owner, int err);

struct settle *settle_new(struct loop *loop, struct overlay *overlay, struct store *store,
                          settle_fn *on_done, void *owner);
/* Waits for what is under way, then brings in all that is durable: a start has nothing to do again. What fails is in
 * the log. The overlay has no effects that are not durable. NULL is allowed. */
void settle_free(struct settle *settle);
/* The batches of the settling buffer are in the log, the newest of them with this index there (store_logged). No other
 * may be under way. */
void settle_begin(struct settle *settle, uint64_t logged);
/* The same here and now. False: it failed. */
bool settle_now(struct settle *settle, uint64_t logged);
bool settle_is_running(const struct settle *settle);
/* Another way was found to bring into the tables what failed. */
void settle_forget(struct settle *settle);
/* Of the last one: OK, ERR_DISK_FULL or ERR_STORE, and then why, in one line. */
int settle_result(const struct settle *settle);
const char *settle_reason(const struct settle *settle);
/* So many bytes of the buffer under way are in the tables; 0: none is under way. */
size_t settle_bytes(const struct settle *settle);
