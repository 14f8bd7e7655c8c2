/*
 * reader.c - table of fetches by hash, with a queue of those that are done.
 *
 *   buckets ─► fetch ─► fetch      in progress on a thread
 *                │                 done: in `kept`, oldest first, bounded
 *                └─ waits (retry.h)
 *
 * Fetches are submitted in portions: one reader thread makes those of a portion one after the other.
 *
 *   reader_want ─► open portion ── it is full, or the turn ends ─► submitted ─► done
 *                                                                    │ no progress between two ticks
 *                                                                    └► its other fetches become portions of their own
 *
 * Waking a thread costs more than a fetch from the system's page cache (3 to 5 µs), and less than one from a disk. So a
 * portion has as many fetches as take PORTION_NSEC by the mean of the last ones: one, if they go to a disk. When the disk
 * suddenly becomes slow, the fetches behind the first slow one wait for two ticks at most.
 *
 * A small value is copied by the reader thread, which releases its block at once: a block that another thread releases costs
 * more, and would stay in memory as long as the fetch.
 */
#include "backend/storage/reader.h"

#include "backend/storage/read_ahead.h"
#include "backend/store/pace.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    BUCKETS = 4096,
    KEPT_MAX = 2048,
    KEPT_BYTES_MAX = 16 << 20, /* a single bigger row is also kept, alone */
    UNDER_WAY_MAX = 2048,      /* no prefetches while more fetches are in progress */
    MISSED_MS = 1000,
    RANGE_BYTES = 16 * 1024, /* first range that a command requests */
    PORTION_NSEC = 50000,
    PORTION_MAX = 32,
    TICK_MS = 2,
    MEAN_SHARE = 8,            /* the newest portion has this part in the mean */
    FOUND_ALL = 1 << 16,       /* `found` when every look found its row */
    FOUND_SHARE = 64,          /* the newest look has this part in it */
    FOUND_MIN = FOUND_ALL / 4, /* below, memory is said to have few rows */
    SKIPPED =
        31, /* looks that are not made for one that is, when memory has few rows; likewise blocks */
    COPIED_MAX = 4096, /* bytes of a value that is copied */
};

struct fetch {
    struct list kept;   /* in reader->kept when it is done */
    struct list waits;  /* for it (retry.h) */
    struct fetch *next; /* in its bucket */
    struct reader *reader;
    uint64_t hash;
    enum cf cf;
    bool is_done;
    bool is_stale; /* the row has changed in the store since the fetch began */
    bool is_copy;  /* `value` is on the heap, not pinned in the store */
    bool keeps_blocks;
    int result; /* of store_fetch */
    struct slice value;
    struct reader_share *share; /* NULL: the pin is in `value` */
    size_t key_len;
    char key[];
};

/* A pinned value that others have beside its fetch. */
struct reader_share {
    uint32_t count; /* the fetch counts too */
    struct slice value;
};

/* Fetches that one reader thread makes. */
struct portion {
    struct job job;
    struct list link; /* in reader->portions */
    struct reader *reader;
    uint32_t count;         /* of fetches that belong to it; the thread does not use it */
    uint32_t count_before;  /* of fetches that were begun at the last tick */
    uint64_t usec;          /* duration */
    uint32_t end;           /* of the fetches that it had when it was submitted */
    _Atomic uint32_t begun; /* fetches that were begun, or taken away by a tick; may exceed `end` */
    struct fetch *fetches[PORTION_MAX];
};

/* A range that is read into RocksDB's block cache; its rows are not kept here. */
struct range_fetch {
    struct job job;
    struct list link; /* in reader->ranges */
    struct list waits;
    struct reader *reader;
    struct store_range range;
    int result;
    char bytes[]; /* lower | upper | from */
};

struct reader {
    struct worker *worker;
    struct store *store;
    struct list kept;
    struct list ranges; /* in progress */
    struct list read_aheads;
    size_t kept_count;
    size_t kept_bytes;
    size_t under_way;
    struct portion *open;  /* not submitted yet; NULL: none */
    struct last_step step; /* submits it */
    struct list portions;  /* submitted */
    struct timer *tick;    /* runs while there are some */
    bool is_ticking;
    int64_t mean_nsec; /* of a fetch */
    int32_t found; /* part of the looks into the store's memory that find their row, of FOUND_ALL */
    uint32_t skipped; /* looks since the last one that was made */
    uint32_t unkept;  /* fetches since the last one whose blocks were kept */
    struct loop *loop;
    uint64_t missed_ms; /* when a row was last uncached; monotonic */
    struct reader_figures figures;
    uint64_t target_us; /* 0: latencies are not recorded */
    struct pace_latency latency;
    struct fetch *buckets[BUCKETS];
};

static struct bytes fetch_key(const struct fetch *fetch)
{
    return (struct bytes){fetch->key, fetch->key_len};
}

static struct fetch **fetch_bucket(struct reader *reader, uint64_t hash)
{
    return &reader->buckets[hash % BUCKETS];
}

static struct fetch *fetch_find(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = *fetch_bucket(reader, hash);
    while (fetch && !(fetch->hash == hash && fetch->cf == cf && bytes_equal(fetch_key(fetch), key)))
        fetch = fetch->next;
    return fetch;
}

/* ---- shared values ---- */

static struct reader_share *share_pin(struct fetch *fetch)
{
    struct reader_share *share = malloc(sizeof *share);
    CHECK(share);
    *share = (struct reader_share){.count = 1, .value = fetch->value};
    fetch->value.pin = NULL;
    return share;
}

struct reader_share *reader_share(struct reader *reader, struct bytes value)
{
    struct list *link = reader->kept.next;
    struct fetch *fetch = NULL;
    for (; link != &reader->kept; link = link->next) {
        fetch = container_of(link, struct fetch, kept);
        if (!fetch->is_copy && slice_covers(&fetch->value, value))
            break;
    }
    if (link == &reader->kept || fetch->value.len / 2 > value.len)
        return NULL;
    if (!fetch->share)
        fetch->share = share_pin(fetch);
    fetch->share->count++;
    return fetch->share;
}

void reader_unshare(struct reader_share *share)
{
    if (--share->count)
        return;
    slice_release(&share->value);
    free(share);
}

/* ---- fetches ---- */

static void fetch_free(struct fetch *fetch)
{
    struct reader *reader = fetch->reader;
    struct fetch **link = fetch_bucket(reader, fetch->hash);
    CHECK(list_empty(&fetch->waits));
    while (*link != fetch)
        link = &(*link)->next;
    *link = fetch->next;
    if (!list_empty(&fetch->kept)) {
        reader->kept_count--;
        reader->kept_bytes -= fetch->value.len;
    }
    list_remove(&fetch->kept);
    if (fetch->share)
        reader_unshare(fetch->share);
    else if (fetch->is_copy)
        free((char *)fetch->value.data);
    else
        slice_release(&fetch->value);
    free(fetch);
}

static void copy_value(struct fetch *fetch)
{
    struct slice pinned = fetch->value;
    char *copy = malloc(pinned.len + 1);
    CHECK(copy);
    memcpy(copy, pinned.data, pinned.len);
    fetch->value = (struct slice){copy, pinned.len, NULL};
    fetch->is_copy = true;
    slice_release(&pinned);
}

static void fetch_work(struct fetch *fetch)
{
    fetch->result = store_fetch(fetch->reader->store, fetch->cf, fetch_key(fetch),
                                fetch->keeps_blocks, &fetch->value);
    if (fetch->result == OK && fetch->value.len <= COPIED_MAX)
        copy_value(fetch);
}

static void portion_work(struct job *job)
{
    struct portion *portion = container_of(job, struct portion, job);
    uint64_t begun_us = clock_mono_us();
    for (uint32_t i; (i = atomic_fetch_add(&portion->begun, 1)) < portion->end;)
        fetch_work(portion->fetches[i]);
    portion->usec = clock_mono_us() - begun_us;
}

/* Ends the waits for a fetch with this result. */
static void end_waits_for(struct list *waits, int result)
{
    if (result == ERR_STORE)
        retry_failed(waits);
    else
        retry_done(waits);
}

static void retain_fetch(struct reader *reader, struct fetch *fetch)
{
    list_push(&reader->kept, &fetch->kept);
    reader->kept_count++;
    reader->kept_bytes += fetch->value.len;
    while (reader->kept_count > KEPT_MAX ||
           (reader->kept_count > 1 && reader->kept_bytes > KEPT_BYTES_MAX))
        fetch_free(container_of(reader->kept.next, struct fetch, kept));
}

static void fetch_done(struct fetch *fetch, uint64_t usec)
{
    struct reader *reader = fetch->reader;
    reader->under_way--;
    if (reader->target_us)
        pace_note(&reader->latency, reader->target_us, usec);
    fetch->is_done = true;
    end_waits_for(&fetch->waits, fetch->result);
    if (fetch->is_stale || fetch->result == ERR_STORE)
        fetch_free(fetch);
    else
        retain_fetch(reader, fetch);
}

static void portion_done(struct job *job)
{
    struct portion *portion = container_of(job, struct portion, job);
    struct reader *reader = portion->reader;
    int64_t nsec = (int64_t)portion->usec * 1000 / portion->count;
    list_remove(&portion->link);
    reader->mean_nsec += (nsec - reader->mean_nsec) / MEAN_SHARE;
    for (uint32_t i = 0; i < portion->count; i++)
        fetch_done(portion->fetches[i], portion->usec);
    free(portion);
}

static struct portion *portion_new(struct reader *reader)
{
    struct portion *portion = malloc(sizeof *portion);
    CHECK(portion);
    portion->job = (struct job){.work = portion_work, .done = portion_done};
    portion->reader = reader;
    portion->count = portion->count_before = 0;
    list_init(&portion->link);
    return portion;
}

static void portion_submit(struct portion *portion)
{
    struct reader *reader = portion->reader;
    portion->end = portion->count;
    atomic_init(&portion->begun, 0);
    list_push(&reader->portions, &portion->link);
    if (!reader->is_ticking)
        timer_start(reader->tick, TICK_MS, 0);
    reader->is_ticking = true;
    worker_submit(reader->worker, &portion->job);
}

static void submit_open(struct reader *reader)
{
    struct portion *portion = reader->open;
    list_remove(&reader->step.link);
    reader->open = NULL;
    if (portion)
        portion_submit(portion);
}

static void on_last_step(struct last_step *step)
{
    submit_open(container_of(step, struct reader, step));
}

/* Takes the fetches that were not begun away from a portion without progress, and submits each of them. */
static void portion_split(struct portion *portion)
{
    uint32_t from = atomic_exchange(&portion->begun, portion->end);
    for (; portion->count > from; portion->count--) {
        struct portion *other = portion_new(portion->reader);
        other->fetches[other->count++] = portion->fetches[portion->count - 1];
        portion_submit(other);
    }
}

static void portion_check(struct portion *portion)
{
    uint32_t begun = atomic_load(&portion->begun);
    bool is_stuck = begun && begun == portion->count_before && begun < portion->end;
    portion->count_before = begun;
    if (is_stuck)
        portion_split(portion);
}

static void on_reader_tick(void *owner)
{
    struct reader *reader = owner;
    struct list *end = reader->portions.prev; /* splitting appends more */
    reader->is_ticking = !list_empty(&reader->portions);
    if (!reader->is_ticking)
        return;
    timer_start(reader->tick, TICK_MS, 0);
    for (struct list *link = reader->portions.next;; link = link->next) {
        portion_check(container_of(link, struct portion, link));
        if (link == end)
            break;
    }
}

static struct fetch *fetch_new(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = malloc(sizeof *fetch + key.len);
    CHECK(fetch);
    *fetch = (struct fetch){
        .reader = reader,
        .hash = hash,
        .cf = cf,
        .key_len = key.len,
    };
    list_init(&fetch->kept);
    list_init(&fetch->waits);
    memcpy(fetch->key, key.data, key.len);
    fetch->next = *fetch_bucket(reader, hash);
    *fetch_bucket(reader, hash) = fetch;
    return fetch;
}

/* Are few rows found in the store's memory? */
static bool memory_has_few(const struct reader *reader)
{
    return reader->found < FOUND_MIN;
}

/* Neighbours of a metadata row are other keys, which are seldom used together, and the row itself goes to the row cache. So if
 * memory has few rows anyway, most of their blocks are not worth the cost of keeping them. Rows of a collection are neighbours. */
static bool keeps_blocks(struct reader *reader, enum cf cf)
{
    if (cf == CF_METADATA && memory_has_few(reader) && reader->unkept++ < SKIPPED)
        return false;
    reader->unkept = 0;
    return true;
}

static struct fetch *fetch_begin(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = fetch_new(reader, cf, key, hash);
    fetch->keeps_blocks = keeps_blocks(reader, cf);
    reader->under_way++;
    reader->figures.fetches++;
    reader->missed_ms = loop_mono_ms(reader->loop);
    if (!reader->open) {
        reader->open = portion_new(reader);
        loop_at_last(reader->loop, &reader->step);
    }
    struct portion *portion = reader->open;
    portion->fetches[portion->count++] = fetch;
    if (portion->count == PORTION_MAX || portion->count * reader->mean_nsec >= PORTION_NSEC)
        submit_open(reader);
    return fetch;
}

static void wait_for_fetch(struct retry *retry, struct fetch *fetch)
{
    if (retry && !fetch->is_done)
        retry_wait(retry, &fetch->waits);
}

/* ---- ranges ---- */

static void range_free(struct range_fetch *fetch)
{
    list_remove(&fetch->link);
    free(fetch);
}

static void range_work(struct job *job)
{
    struct range_fetch *fetch = container_of(job, struct range_fetch, job);
    fetch->result = store_fetch_range(fetch->reader->store, &fetch->range);
}

static void range_done(struct job *job)
{
    struct range_fetch *fetch = container_of(job, struct range_fetch, job);
    fetch->reader->under_way--;
    end_waits_for(&fetch->waits, fetch->result);
    range_free(fetch);
}

void reader_want_range(struct reader *reader, const struct store_range *range, struct retry *retry)
{
    size_t size = range->lower.len + range->upper.len + range->from.len;
    struct range_fetch *fetch = malloc(sizeof *fetch + size);
    CHECK(fetch);
    *fetch = (struct range_fetch){
        .job = {.work = range_work, .done = range_done}, .reader = reader, .range = *range};
    char *room = fetch->bytes;
    fetch->range.lower = bytes_copy_to(&room, range->lower);
    fetch->range.upper = bytes_copy_to(&room, range->upper);
    fetch->range.from = bytes_copy_to(&room, range->from);
    fetch->range.bytes =
        RANGE_BYTES << (2 *
                        (retry->ranges < READER_RANGES_MAX ? retry->ranges : READER_RANGES_MAX));
    retry->has_range = true;
    list_init(&fetch->waits);
    list_push(&reader->ranges, &fetch->link);
    retry_wait(retry, &fetch->waits);
    reader->under_way++;
    reader->figures.fetches++;
    reader->missed_ms = loop_mono_ms(reader->loop);
    worker_submit(reader->worker, &fetch->job);
}

/* ---- for the overlay ---- */

void reader_want(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                 struct retry *retry)
{
    struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (fetch && fetch->is_done) { /* fetched, but the caller could not use it */
        fetch_free(fetch);
        fetch = NULL;
    }
    wait_for_fetch(retry, fetch ? fetch : fetch_begin(reader, cf, key, hash));
}

void reader_keep(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash, int result,
                 const struct slice *value)
{
    struct fetch *fetch = fetch_new(reader, cf, key, hash);
    fetch->is_done = true;
    fetch->result = result;
    if (result == OK)
        fetch->value = *value;
    retain_fetch(reader, fetch);
}

int reader_look(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct slice *value)
{
    const struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (!fetch || !fetch->is_done)
        return ERR_UNCACHED;
    if (fetch->result == OK)
        *value = (struct slice){fetch->value.data, fetch->value.len, NULL};
    return fetch->result;
}

bool reader_has(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                struct retry *retry)
{
    struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (fetch)
        wait_for_fetch(retry, fetch);
    return fetch != NULL;
}

void reader_forget(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (fetch && fetch->is_done)
        fetch_free(fetch);
    else if (fetch)
        fetch->is_stale = true;
}

void reader_forget_all(struct reader *reader)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct fetch *next;
        for (struct fetch *fetch = reader->buckets[i]; fetch; fetch = next) {
            next = fetch->next;
            fetch->is_stale = true;
            if (fetch->is_done)
                fetch_free(fetch);
        }
    }
}

bool reader_expects_memory(struct reader *reader)
{
    if (memory_has_few(reader) && reader->skipped++ < SKIPPED)
        return false;
    reader->skipped = 0;
    return true;
}

void reader_note_memory(struct reader *reader, bool is_found)
{
    reader->found += ((is_found ? FOUND_ALL : 0) - reader->found) / FOUND_SHARE;
}

bool reader_is_full(const struct reader *reader)
{
    return reader->under_way >= UNDER_WAY_MAX;
}

bool reader_is_empty(const struct reader *reader)
{
    return reader->under_way + reader->kept_count == 0;
}

void reader_note_blocking(struct reader *reader)
{
    reader->figures.blocking++;
    reader->missed_ms = loop_mono_ms(reader->loop);
}

bool reader_has_missed(const struct reader *reader)
{
    return reader->missed_ms && loop_mono_ms(reader->loop) - reader->missed_ms < MISSED_MS;
}

struct reader_figures reader_figures(const struct reader *reader)
{
    return reader->figures;
}

struct pace_latency *reader_latency(struct reader *reader, uint64_t target_us)
{
    reader->target_us = target_us;
    return &reader->latency;
}

struct worker *reader_worker(struct reader *reader)
{
    return reader->worker;
}

struct list *reader_read_aheads(struct reader *reader)
{
    return &reader->read_aheads;
}

bool reader_has_read_aheads(const struct reader *reader)
{
    return !list_empty(&reader->read_aheads);
}

/* ---- create and free ---- */

struct reader *reader_new(struct loop *loop, struct worker_pool *pool, struct store *store)
{
    struct reader *reader = calloc(1, sizeof *reader);
    CHECK(reader);
    reader->worker = worker_new_in(loop, pool);
    reader->loop = loop;
    reader->store = store;
    reader->step.run = on_last_step;
    reader->tick = timer_new(loop, on_reader_tick, reader);
    reader->mean_nsec = PORTION_NSEC;
    reader->found = FOUND_ALL;
    list_init(&reader->step.link);
    list_init(&reader->portions);
    list_init(&reader->kept);
    list_init(&reader->ranges);
    list_init(&reader->read_aheads);
    return reader;
}

void reader_free(struct reader *reader)
{
    if (!reader)
        return;
    submit_open(reader);
    worker_free(reader->worker);
    timer_free(reader->tick);
    /* not delivered, because the loop was freed */
    for (struct list *link; (link = list_pop(&reader->portions));)
        free(container_of(link, struct portion, link));
    while (!list_empty(&reader->ranges))
        range_free(container_of(reader->ranges.next, struct range_fetch, link));
    while (!list_empty(&reader->read_aheads))
        read_ahead_reap(reader->read_aheads.next);
    for (size_t i = 0; i < BUCKETS; i++) {
        struct fetch *next;
        for (struct fetch *fetch = reader->buckets[i]; fetch; fetch = next) {
            next = fetch->next;
            fetch_free(fetch);
        }
    }
    free(reader);
}
