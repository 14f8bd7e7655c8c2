/*
 * row_feed.h - rows of the store for a walk that outlives its command, read ahead by the reader threads.
 *
 *   walk ─► front: ▪▪▪▪▪▪ ── key, value
 *             ▲ all passed: they change places
 *             ▼
 *           back:  ▪▪▪··· ◄── a reader thread seeks, steps and copies; the store's iterator is its alone
 *             └─ full, or the end ─► on_rows, when the walk had found the front empty
 *
 * While the front is passed the back is filled: a walk over rows in memory hardly ever waits, and one over rows on the
 * disk holds up nobody but itself. What it sees is the moment at which the iterator was made.
 *
 * A feed is the partition's thread's; only what is in the back while a job is under way, and the iterator, is not.
 */
#pragma once

#include "shared/bytes.h"

struct list;
struct reader;
struct row_feed;
struct store_iter;

/* There are rows, or there will be none, behind a move that left the feed dry. */
typedef void row_feed_fn(void *owner);

/* Takes the iterator over. So many rows are read ahead, the rest when it is asked for. The feed stands at the end. */
struct row_feed *row_feed_new(struct reader *reader, struct store_iter *iter, uint64_t ahead,
                              row_feed_fn *on_rows, void *owner);
/* on_rows is not called any more. The iterator is freed now, or as soon as the reader thread is through with it
 * (reader_has_feeds). NULL is allowed. */
void row_feed_free(struct row_feed *feed);
/* The loop died before the job came back. */
void row_feed_bury(struct list *link);

/* Stands on this row, and goes on behind it. */
void row_feed_stand(struct row_feed *feed, struct bytes key, struct bytes value, bool is_reverse);
/* To the first row from `key` on in this direction, with the key itself if or_equal; has_from false: to the end that it
 * comes from. */
struct row_feed_place {
    struct bytes key;
    bool has_from;
    bool or_equal;
    bool is_reverse;
};
void row_feed_seek(struct row_feed *feed, const struct row_feed_place *place);
/* The same for a place that lies ahead: rows that were read are used. */
void row_feed_skip(struct row_feed *feed, const struct row_feed_place *place);
void row_feed_next(struct row_feed *feed); /* it stands on a row */

/* Where it stands: on a row; at the end, or where the store failed; or nowhere, for rows are still being read (dry). */
bool row_feed_valid(const struct row_feed *feed);
bool row_feed_is_dry(const struct row_feed *feed);
bool row_feed_failed(const struct row_feed *feed);
struct bytes row_feed_key(const struct row_feed *feed); /* borrowed until the next move */
struct bytes row_feed_value(const struct row_feed *feed);
