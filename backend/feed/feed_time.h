/*
 * feed_time.h - finds the position of a time in the log of a partition: behind the last batch with a time up to this one (hybrid_clock.h).
 *
 *   segments   [0900 0912 0921] [0930 0944] [0950 0958 …]        0935: the second segment, by its first batch; behind its first batch
 *
 * The times of batches grow. Those of older programs, and the first record of each leader, have none. They are taken for earlier ones while the log
 * is searched, but the position is never behind one of them alone: if a segment has no others, the one before it is read, too.
 */
#pragma once

#include "backend/feed/feed_position.h"

#include <stddef.h>

struct wal;

struct feed_time_wish {
    uint64_t time_us;
    uint64_t last; /* batches up to the time have indexes up to this one */
};

enum feed_time {
    FEED_TIME_FOUND,
    FEED_TIME_UNSYNCED, /* not all batches up to the time are durable */
    FEED_TIME_LOST,     /* the log begins later */
    FEED_TIME_FAILED,   /* it cannot be read: a one-line reason in error[size] */
};

/* Finds the last batch whose time is not later than that of the wish, and sets the index and the sum of `to`. If all are later, and the log begins
 * with the first batch that there ever was, both stay 0. On any thread; reads up to a segment, and those before it that have no times. */
enum feed_time feed_time_find(struct wal *wal, const struct feed_time_wish *wish,
                              struct feed_position *to, char *error, size_t size);
