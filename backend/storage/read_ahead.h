/*
 * read_ahead.h - read-ahead: reader threads copy rows for an iteration that continues after its command.
 *
 *   iteration ─► front: ▪▪▪▪▪▪ ── key, value
 *                  ▲ all passed: front and back are swapped
 *                  ▼
 *                back:  ▪▪▪··· ◄── a reader thread seeks, steps and copies; only it uses the store's iterator
 *                  └─ full, or the end ─► on_rows, if the front was empty
 *
 * While the iteration passes the front, the back is filled: an iteration over rows in memory rarely waits, and one over
 * rows on the disk delays only itself. It sees the state of the store at which the iterator was created.
 *
 * The read-ahead belongs to the partition's thread; the iterator, and the back while a job is under way, belong to the
 * reader thread.
 */
#pragma once

#include "shared/bytes.h"

struct list;
struct reader;
struct read_ahead;
struct store_iter;

/* Called when a read-ahead that was pending has rows, or has reached the end. */
typedef void read_ahead_fn(void *owner);

/* Takes ownership of the iterator. Reads `rows` rows ahead, and more when they are needed. The initial position is the
 * end. */
struct read_ahead *read_ahead_new(struct reader *reader, struct store_iter *iter,
                                  uint64_t rows_wanted, read_ahead_fn *on_rows, void *owner);
/* Frees the read-ahead; on_rows will not be called. The iterator is freed now, or when the reader thread has
 * finished with it (reader_has_read_aheads). NULL is allowed. */
void read_ahead_free(struct read_ahead *ahead);
/* Frees a read-ahead whose job's result was not delivered because the loop was freed. */
void read_ahead_reap(struct list *link);

/* Sets the position to this row; the iteration continues after it. */
void read_ahead_stand(struct read_ahead *ahead, struct bytes key, struct bytes value,
                      bool is_reverse);
/* The target of a seek: the first row from `key` on in this direction, including the key if or_equal; has_from false:
 * the first row of the iteration. */
struct read_ahead_place {
    struct bytes key;
    bool has_from;
    bool or_equal;
    bool is_reverse;
};
void read_ahead_seek(struct read_ahead *ahead, const struct read_ahead_place *place);
/* Moves to a later position; rows that were already read are used. */
void read_ahead_skip(struct read_ahead *ahead, const struct read_ahead_place *place);
void read_ahead_next(struct read_ahead *ahead); /* it must be on a row */

/* Position: on a row (valid); at the end, or the store failed (not valid); or unknown while rows are being read
 * (pending). */
bool read_ahead_valid(const struct read_ahead *ahead);
bool read_ahead_is_pending(const struct read_ahead *ahead);
bool read_ahead_failed(const struct read_ahead *ahead);
struct bytes read_ahead_key(const struct read_ahead *ahead); /* borrowed until the next move */
struct bytes read_ahead_value(const struct read_ahead *ahead);
