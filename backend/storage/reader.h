/*
 * reader.h - fetches uncached rows on the process' reader threads.
 *
 *   overlay ─ not in memory ─► reader_want ─► fetch ─► a reader thread: store_fetch
 *      ▲                                                        │
 *      │   reader_look                                          ▼
 *      └─── the command runs again ◄─ on_ready ◄─ done: the row is kept for some time
 *
 * A row is fetched once for all requests. A fetched row is valid until reader_forget is called, which the overlay does for
 * every row of a committed batch. A fetch in progress at that time may return the old or the new row, and is not kept.
 *
 * All functions run on the partition's thread; only the read itself runs on a reader thread.
 */
#pragma once

#include "backend/storage/retry.h"
#include "backend/store/store.h"

struct loop;
struct pace_latency;
struct reader;
struct worker;
struct worker_pool;

struct reader *reader_new(struct loop *loop, struct worker_pool *pool, struct store *store);
/* Waits for fetches in progress, for which no struct retry may be waiting. NULL is allowed. */
void reader_free(struct reader *reader);

/* Fetches a row, unless a fetch is in progress. `retry` may be NULL for a prefetch. */
void reader_want(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                 struct retry *retry);
/* Keeps a row that was found in the store's memory as if it had been fetched: OK and its value, whose ownership is
 * taken, or ERR_NOT_FOUND. reader_has must be false for this row. */
void reader_keep(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash, int result,
                 const struct slice *value);
enum { READER_RANGES_MAX = 5 };
/* Reads a range into memory for `retry`: 16 KB at the first call, four times as much at each further call, up to 4 MB
 * at call number READER_RANGES_MAX. A command that needs more should use blocking reads. */
void reader_want_range(struct reader *reader, const struct store_range *range, struct retry *retry);
/* Looks up a fetched row: OK and the value, borrowed until the next turn of the loop or reader_keep; ERR_NOT_FOUND;
 * ERR_UNCACHED: the row was not fetched. */
int reader_look(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct slice *value);
struct reader_share;
/* Keeps the pinned value of a fetched row that has these bytes beyond the end of the fetch, until reader_unshare. NULL: none has them, or
 * it is more than twice as big. Takes time for each fetched row, so it is for big values. */
struct reader_share *reader_share(struct reader *reader, struct bytes value);
void reader_unshare(struct reader_share *share);
/* True when the row is being fetched or was fetched; if it is in progress, `retry` (or NULL) waits for it. */
bool reader_has(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct retry *retry);
/* Drops a fetched row that has changed in the store. */
void reader_forget(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash);
void reader_forget_all(struct reader *reader);
/* True when too many fetches are in progress to prefetch rows. */
bool reader_is_full(const struct reader *reader);
/* True when no fetch is in progress and no row is kept. */
bool reader_is_empty(const struct reader *reader);

/* Is it worthwhile to look for a row in the store's memory? Not if few of the last looks found their row, for a look costs as
 * much as a fetch from the system's page cache: then only one in some looks is made. */
bool reader_expects_memory(struct reader *reader);
/* Counts a look. */
void reader_note_memory(struct reader *reader, bool is_found);

/* ---- for read_ahead.c ---- */

struct worker *reader_worker(struct reader *reader);
/* All read-aheads, also those that were freed while a thread worked for them. */
struct list *reader_read_aheads(struct reader *reader);
/* Do reader threads use iterators of the store, or will they? */
bool reader_has_read_aheads(const struct reader *reader);

/* ---- figures ---- */

/* Counts a blocking read on the partition's thread. */
void reader_note_blocking(struct reader *reader);
/* Was a row uncached within the last second? */
bool reader_has_missed(const struct reader *reader);
/* Counters since the start. */
struct reader_figures {
    uint64_t fetches;  /* made by the reader threads */
    uint64_t blocking; /* blocking reads on the partition's thread */
};
struct reader_figures reader_figures(const struct reader *reader);
/* Latencies of reads since the last call, compared with `target_us` from now on; 0: latencies are not recorded. */
struct pace_latency *reader_latency(struct reader *reader, uint64_t target_us);
