/*
 * reader.c - table of fetches by hash, with a queue of those that are done.
 *
 *   buckets ─► fetch ─► fetch      in progress on a thread
 *                │                 done: in `kept`, oldest first, bounded
 *                └─ wants ─► waits
 */
#include "backend/storage/reader.h"

#include "backend/storage/read_ahead.h"
#include "backend/store/pace.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdlib.h>

enum {
    BUCKETS = 4096,
    KEPT_MAX = 2048,
    KEPT_BYTES_MAX = 16 << 20, /* a single bigger row is also kept, alone */
    UNDER_WAY_MAX = 2048,      /* no prefetches while more fetches are in progress */
    MISSED_MS = 1000,
    RANGE_BYTES = 16 * 1024, /* first range that a command requests */
};

struct fetch {
    struct job job;
    struct list kept;   /* in reader->kept when it is done */
    struct list wants;  /* struct want: waits for it */
    struct fetch *next; /* in its bucket */
    struct reader *reader;
    uint64_t hash;
    enum cf cf;
    bool is_done;
    bool is_stale; /* the row has changed in the store since the fetch began */
    int result;    /* of store_fetch */
    uint64_t usec; /* duration */
    struct slice value;
    size_t key_len;
    char key[];
};

/* A range that is read into RocksDB's block cache; its rows are not kept here. */
struct range_fetch {
    struct job job;
    struct list link; /* in reader->ranges */
    struct list wants;
    struct reader *reader;
    struct store_range range;
    int result;
    char bytes[]; /* lower | upper | from */
};

/* One wait for one fetch. */
struct want {
    struct list fetch_link;
    struct list wait_link;
    struct reader_wait *wait;
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

/* ---- fetches ---- */

static void fetch_free(struct fetch *fetch)
{
    struct reader *reader = fetch->reader;
    struct fetch **link = fetch_bucket(reader, fetch->hash);
    CHECK(list_empty(&fetch->wants));
    while (*link != fetch)
        link = &(*link)->next;
    *link = fetch->next;
    if (!list_empty(&fetch->kept)) {
        reader->kept_count--;
        reader->kept_bytes -= fetch->value.len;
    }
    list_remove(&fetch->kept);
    slice_release(&fetch->value);
    free(fetch);
}

static void fetch_work(struct job *job)
{
    struct fetch *fetch = container_of(job, struct fetch, job);
    uint64_t begun_us = clock_mono_us();
    fetch->result = store_fetch(fetch->reader->store, fetch->cf, fetch_key(fetch), &fetch->value);
    fetch->usec = clock_mono_us() - begun_us;
}

/* Completes the waits for a fetch. */
static void complete_wants(struct list *wants, int result)
{
    struct list *link;
    while ((link = list_pop(wants))) {
        struct want *want = container_of(link, struct want, fetch_link);
        struct reader_wait *wait = want->wait;
        list_remove(&want->wait_link);
        free(want);
        wait->has_failed |= result == ERR_STORE;
        if (--wait->pending == 0)
            wait->on_ready(wait);
    }
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

static void fetch_done(struct job *job)
{
    struct fetch *fetch = container_of(job, struct fetch, job);
    struct reader *reader = fetch->reader;
    reader->under_way--;
    if (reader->target_us)
        pace_note(&reader->latency, reader->target_us, fetch->usec);
    fetch->is_done = true;
    complete_wants(&fetch->wants, fetch->result);
    if (fetch->is_stale || fetch->result == ERR_STORE)
        fetch_free(fetch);
    else
        retain_fetch(reader, fetch);
}

static struct fetch *fetch_new(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = malloc(sizeof *fetch + key.len);
    CHECK(fetch);
    *fetch = (struct fetch){
        .job = {.work = fetch_work, .done = fetch_done},
        .reader = reader,
        .hash = hash,
        .cf = cf,
        .key_len = key.len,
    };
    list_init(&fetch->kept);
    list_init(&fetch->wants);
    memcpy(fetch->key, key.data, key.len);
    fetch->next = *fetch_bucket(reader, hash);
    *fetch_bucket(reader, hash) = fetch;
    return fetch;
}

static struct fetch *fetch_begin(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash)
{
    struct fetch *fetch = fetch_new(reader, cf, key, hash);
    reader->under_way++;
    reader->figures.fetches++;
    reader->missed_ms = loop_mono_ms(reader->loop);
    worker_submit(reader->worker, &fetch->job);
    return fetch;
}

/* ---- waits ---- */

void reader_wait_init(struct reader_wait *wait, void (*on_ready)(struct reader_wait *wait))
{
    *wait = (struct reader_wait){.on_ready = on_ready};
    list_init(&wait->wants);
}

void reader_wait_cancel(struct reader_wait *wait)
{
    struct list *link;
    while ((link = list_pop(&wait->wants))) {
        struct want *want = container_of(link, struct want, wait_link);
        list_remove(&want->fetch_link);
        free(want);
    }
    wait->pending = 0;
    free(wait->refusal);
    wait->refusal = NULL;
}

void reader_wait_add(struct reader_wait *wait, struct list *wants)
{
    struct want *want = malloc(sizeof *want);
    CHECK(want);
    want->wait = wait;
    list_push(wants, &want->fetch_link);
    list_push(&wait->wants, &want->wait_link);
    wait->pending++;
}

void reader_wait_done(struct list *wants)
{
    complete_wants(wants, OK);
}

static void wait_for_fetch(struct reader_wait *wait, struct fetch *fetch)
{
    if (wait && !fetch->is_done)
        reader_wait_add(wait, &fetch->wants);
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
    complete_wants(&fetch->wants, fetch->result);
    range_free(fetch);
}

void reader_want_range(struct reader *reader, const struct store_range *range,
                       struct reader_wait *wait)
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
        RANGE_BYTES << (2 * (wait->ranges < READER_RANGES_MAX ? wait->ranges : READER_RANGES_MAX));
    wait->has_range = true;
    list_init(&fetch->wants);
    list_push(&reader->ranges, &fetch->link);
    reader_wait_add(wait, &fetch->wants);
    reader->under_way++;
    reader->figures.fetches++;
    reader->missed_ms = loop_mono_ms(reader->loop);
    worker_submit(reader->worker, &fetch->job);
}

/* ---- for the overlay ---- */

void reader_want(struct reader *reader, enum cf cf, struct bytes key, uint64_t hash,
                 struct reader_wait *wait)
{
    struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (fetch && fetch->is_done) { /* fetched, but the caller could not use it */
        fetch_free(fetch);
        fetch = NULL;
    }
    wait_for_fetch(wait, fetch ? fetch : fetch_begin(reader, cf, key, hash));
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
                struct reader_wait *wait)
{
    struct fetch *fetch = fetch_find(reader, cf, key, hash);
    if (fetch)
        wait_for_fetch(wait, fetch);
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
    list_init(&reader->kept);
    list_init(&reader->ranges);
    list_init(&reader->read_aheads);
    return reader;
}

void reader_free(struct reader *reader)
{
    if (!reader)
        return;
    worker_free(reader->worker);
    while (!list_empty(&reader->ranges)) /* not delivered, because the loop was freed */
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
