/*
 * read_ahead.h - read-ahead: reader threads copy rows of the store for an iteration that outlives its command.
 *
 *   iteration ─► front: ▪▪▪▪▪▪ ── key, value
 *                  ▲ all passed: they change places
 *                  ▼
 *                back:  ▪▪▪··· ◄── a reader thread seeks, steps and copies; the store's iterator is its alone
 *                  └─ full, or the end ─► on_rows, when the front was found empty
 *
 * While the front is passed the back is filled: an iteration over rows in memory hardly ever waits, and one over rows
 * on the disk delays only itself. It sees the store of the moment at which the iterator was made.
 *
 * The read-ahead belongs to the partition's thread; the back while a job is under way, and the iterator, to the reader
 * thread.
 */
#pragma once

#include "shared/bytes.h"

struct list;
struct reader;
struct read_ahead;
struct store_iter;

/* Called once a read-ahead that was pending has rows, or has reached the end. */
typedef void read_ahead_fn(void *owner);

/* Takes the iterator over. So many rows are read ahead, the rest when it is asked for. It stands at the end. */
struct read_ahead *read_ahead_new(struct reader *reader, struct store_iter *iter,
                                  uint64_t rows_wanted, read_ahead_fn *on_rows, void *owner);
/* on_rows is not called any more. The iterator is freed now, or as soon as the reader thread is through with it
 * (reader_has_read_aheads). NULL is allowed. */
void read_ahead_free(struct read_ahead *ahead);
/* The loop died before the job came back. */
void read_ahead_reap(struct list *link);

/* Stands on this row, and goes on behind it. */
void read_ahead_stand(struct read_ahead *ahead, struct bytes key, struct bytes value,
                      bool is_reverse);
/* To the first row from `key` on in this direction, with the key itself if or_equal; has_from false: to the end that it
 * comes from. */
struct read_ahead_place {
    struct bytes key;
    bool has_from;
    bool or_equal;
    bool is_reverse;
};
void read_ahead_seek(struct read_ahead *ahead, const struct read_ahead_place *place);
/* The same for a place that lies ahead: rows that were read are used. */
void read_ahead_skip(struct read_ahead *ahead, const struct read_ahead_place *place);
void read_ahead_next(struct read_ahead *ahead); /* it stands on a row */

/* Where it stands: on a row; at the end, or where the store failed; or nowhere, for rows are still being read
 * (pending). */
bool read_ahead_valid(const struct read_ahead *ahead);
bool read_ahead_is_pending(const struct read_ahead *ahead);
bool read_ahead_failed(const struct read_ahead *ahead);
struct bytes read_ahead_key(const struct read_ahead *ahead); /* borrowed until the next move */
struct bytes read_ahead_value(const struct read_ahead *ahead);
