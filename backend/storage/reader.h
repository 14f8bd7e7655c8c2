/*
 * reader.h - rows that are on the disk only, fetched by the process' reader threads.
 *
 *   overlay ─ not in memory ─► reader_want ─► fetch ─► a reader thread: store_fetch
 *      ▲                                                        │
 *      │   reader_look                                          ▼
 *      └─── the command runs again ◄─ on_ready ◄─ done: the row is kept for a while
 *
 * A row is fetched once, however many want it. What was fetched is the store's row as long as reader_forget has not
 * been called for it: the overlay does, for every row of a batch that was committed. A fetch that is under way then may
 * bring the old row or the new one, and is not kept.
 *
 * All of this is the partition's thread's; only the read itself is not.
 */
#pragma once

#include "backend/store/store.h"
#include "shared/list.h"

struct loop;
struct pace_latency;
struct reader;
struct worker;
struct worker_pool;

/* Somebody waits for rows. */
struct reader_wait {
    struct list wants;
    uint32_t pending; /* fetches under way */
    bool has_failed;  /* the store could not read one */
    uint8_t ranges;   /* times that ranges were asked for; the owner counts */
    bool has_range;   /* one was, since the owner set it to false */
    void (*on_ready)(struct reader_wait *wait); /* none is under way any more */
};

struct reader *reader_new(struct loop *loop, struct worker_pool *pool, struct store *store);
/* Waits for fetches under way; nobody may wait for them. NULL is allowed. */
void reader_free(struct reader *reader);

void reader_wait_init(struct reader_wait *wait, void (*on_ready)(struct reader_wait *wait));
/* Waits no more; on_ready is not called. */
void reader_wait_cancel(struct reader_wait *wait);

/* Fetches a row, unless that is under way. `wait` may be NULL: somebody will soon. */
void reader_want(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                 struct reader_wait *wait);
/* The store's row was found in memory: OK and its value, which is taken over, or ERR_NOT_FOUND. It is kept as if it had
 * been fetched: reader_has says that nothing is known of it yet. */
void reader_keep(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash, int result,
                 const struct slice *value);
enum { READER_RANGES_MAX = 5 };
/* Reads a range into memory for `wait`: 16 KB, and each time four times as much, up to 4 MB at the
 * READER_RANGES_MAX-th: who needs more is better off reading by itself. */
void reader_want_range(struct reader *reader, const struct store_range *range,
                       struct reader_wait *wait);
/* What was fetched: OK and the value, borrowed until the next turn of the loop or reader_keep; ERR_NOT_FOUND;
 * ERR_UNCACHED: nothing. */
int reader_look(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct slice *value);
/* Is the row being fetched, or was it? Then `wait`, if any, waits for it. */
bool reader_has(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct reader_wait *wait);
/* The store's row is another one from now on. */
void reader_forget(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash);
void reader_forget_all(struct reader *reader);
/* So much is under way that nothing should be fetched ahead. */
bool reader_is_full(const struct reader *reader);
/* Nothing is under way or kept. */
bool reader_is_empty(const struct reader *reader);

/* ---- for read_ahead.c ---- */

struct worker *reader_worker(struct reader *reader);
/* All there are, by their links; also those that were freed while a thread worked for them. */
struct list *reader_read_aheads(struct reader *reader);
/* Iterators of the store are in the hands of threads, or will be. */
bool reader_has_read_aheads(const struct reader *reader);

/* ---- figures ---- */

/* The partition's thread goes to the disk itself. */
void reader_note_blocking(struct reader *reader);
/* Has something been on the disk only, within the last second? */
bool reader_has_missed(const struct reader *reader);
/* Counted since the beginning. */
struct reader_figures {
    uint64_t fetches;  /* made by the reader threads */
    uint64_t blocking; /* reads of the disk by the partition's thread */
};
struct reader_figures reader_figures(const struct reader *reader);
/* How long rows took that were read since they were taken here, held against `target_us` from now on; 0: they
 * are not. */
struct pace_latency *reader_latency(struct reader *reader, uint64_t target_us);
