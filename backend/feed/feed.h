/*
 * feed.h - readers of changes: gives pages of events from the log of a partition, read on a thread of its own.
 *
 *   SCREE CHANGES READ ─► feed_begin ─► command waits (retry.h) ─► feed_find ─► reply
 *                            │                 ▲
 *                            ▼                 │ done
 *     WAL ──durable and committed──► thread: cursor ─► batches ─► events (feed_batch.h)
 *
 * Readers hold nothing back: a reader says with each call from where on it wants to read (feed_position.h), and batches that the WAL
 * has no more are refused. What the partition keeps for them are a few cursors, so that a page does not begin with a search, and the
 * pages that wait for their commands. The thread begins with the first reader. It reads the WAL and atomics only.
 */
#pragma once

#include "backend/feed/feed_batch.h"
#include "backend/feed/feed_position.h"
#include "shared/list.h"

struct feed;
struct partition;

/* What a reader wants. */
struct feed_wish {
    bool is_from_now; /* no events, only the position of now … */
    uint64_t at_us;   /* … or, if this is not 0, that of this time (feed_time.h) */
    /* Else from a position on; one without log id: from the first batch of the log. */
    struct feed_position from;
    uint32_t count; /* at most so many events, and bytes of them, though at least one */
    size_t bytes;
    uint64_t past_us; /* feed_page.past_us */
    struct feed_filter filter;
};

/* A page for one command. Its owner is the feed. */
struct feed_request;

struct feed *feed_new(struct partition *partition);
/* Waits for the thread. To be called before the storage is closed. NULL is allowed. */
void feed_free(struct feed *feed);

/* The page that the session has asked for with these arguments; NULL: it has not. */
struct feed_request *feed_find(struct feed *feed, uint64_t session, uint64_t arguments);
/* Begins to read a page; takes over the pattern of the wish, which it copies. NULL: too many are being read. */
struct feed_request *feed_begin(struct feed *feed, uint64_t session, uint64_t arguments,
                                const struct feed_wish *wish);
/* Commands wait in this list until the page is done. */
struct list *feed_waits(struct feed_request *request);
bool feed_is_done(const struct feed_request *request);

/* Have no slots come or gone since the page was asked for? */
bool feed_has_same_slots(const struct feed_request *request);
/* feed_wish.at_us */
uint64_t feed_time_us(const struct feed_request *request);
/* Does the reader compare the logs of several shards (feed_page.past_us)? */
bool feed_has_past(const struct feed_request *request);

struct feed_answer {
    struct feed_position to; /* to go on from */
    uint64_t lag_ms;         /* age of the first batch that was not read; 0: there is none */
    /* The position is behind all batches of the log with times up to this one, also future ones. */
    uint64_t reached_us;
    /* The next batch has this time, and other logs must be read before it (FEED_EARLY); 0: not so. */
    uint64_t early_us;
    char error[512]; /* why nothing could be read; empty: it was */
};
const struct feed_answer *feed_answer(const struct feed_request *request);
struct feed_page *feed_page(struct feed_request *request);
void feed_end(struct feed_request *request);

/* Is there nothing behind this position? Then the thread need not be asked. *reached_us: as in an answer. */
bool feed_is_at_end(const struct feed *feed, const struct feed_position *position,
                    uint64_t *reached_us);
/* Why changes cannot be read here, an error text; NULL: they can. */
const char *feed_refusal(const struct partition *partition);
/* The oldest batch that can be read, or the next one. */
uint64_t feed_oldest(const struct partition *partition);
