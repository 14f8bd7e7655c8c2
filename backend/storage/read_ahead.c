/*
 * read_ahead.c - two buffers of rows: the iteration reads one while a job fills the other.
 *
 *   seek ─► `next` ── the next job begins ──► `course` ─► the job's iterator seeks there
 *
 *   load: key_len, value_len, key, value; key_len, …
 */
#include "backend/storage/read_ahead.h"

#include "backend/storage/reader.h"
#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/net/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    LOAD_BYTES_FIRST = 16 * 1024, /* of the first load: small, so that an iteration begins soon */
    LOAD_BYTES_MAX = 128 * 1024,  /* later loads are bigger, up to this size or one row */
    LOAD_ROWS_MORE = 512,         /* rows of a load after the estimated number was read */
};

struct load {
    char *data; /* heap */
    size_t used;
    size_t cap;
};

struct head {
    uint32_t key_len;
    uint32_t value_len;
};

/* A position with its own copy of the key. */
struct course {
    struct read_ahead_place place;
    char *key; /* heap */
    size_t cap;
};

struct read_ahead {
    struct job job;
    struct list link; /* in reader_read_aheads() */
    struct reader *reader;
    read_ahead_fn *on_rows;
    void *owner;
    struct load front;
    size_t at;    /* offset in the front, after the current row */
    bool has_row; /* the position is on the row with this key and value */
    struct bytes key, value;
    bool is_filled; /* the back is filled and not yet swapped */
    bool is_running;
    bool is_freed;        /* read_ahead_free was called while the job ran */
    uint64_t rows_wanted; /* rows to read before they are needed */
    bool has_next; /* the current job's rows are discarded, and the next job goes to `next` */
    struct course next;
    _Atomic bool is_cut; /* the job may end early */

    /* used by the job while it runs */
    struct store_iter *iter;
    struct load back;
    size_t back_bytes;  /* the job ends when the back has this many bytes, */
    uint64_t back_rows; /* or this many rows */
    bool is_moving;     /* the job seeks to `course` first */
    struct course course;
    bool is_ended; /* the iterator reached its end: the back is the last load */
    bool has_failed;
};

/* ---- loads ---- */

static void load_reserve(struct load *load, size_t size)
{
    size_t cap = load->cap ? load->cap : LOAD_BYTES_FIRST;
    if (load->used + size <= load->cap)
        return;
    while (cap < load->used + size)
        cap *= 2;
    load->data = realloc(load->data, cap);
    CHECK(load->data);
    load->cap = cap;
}

static void load_add(struct load *load, struct bytes key, struct bytes value)
{
    struct head head = {(uint32_t)key.len, (uint32_t)value.len};
    CHECK(key.len <= UINT32_MAX);
    CHECK(value.len <= UINT32_MAX);
    load_reserve(load, sizeof head + key.len + value.len);
    char *to = load->data + load->used;
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, key.data, key.len);
    if (value.len)
        memcpy(to + sizeof head + key.len, value.data, value.len);
    load->used += sizeof head + key.len + value.len;
}

/* Empties the buffer; the memory of a big row is freed. */
static void load_clear(struct load *load)
{
    load->used = 0;
    if (load->cap <= 2 * LOAD_BYTES_MAX)
        return;
    free(load->data);
    *load = (struct load){0};
}

static void course_set(struct course *course, const struct read_ahead_place *place)
{
    if (place->key.len > course->cap) {
        free(course->key);
        course->key = malloc(place->key.len);
        CHECK(course->key);
        course->cap = place->key.len;
    }
    if (place->key.len) /* memcpy: `place->key` must not be `course->key` itself */
        memcpy(course->key, place->key.data, place->key.len);
    course->place = *place;
    course->place.key = (struct bytes){course->key, place->key.len};
}

/* ---- on a reader thread ---- */

static void iter_move(struct read_ahead *ahead)
{
    const struct read_ahead_place *place = &ahead->course.place;
    struct store_iter *iter = ahead->iter;
    store_iter_begin(iter, place->is_reverse, place->key, place->has_from);
    if (place->has_from && !place->or_equal && store_iter_valid(iter) &&
        bytes_equal(store_iter_key(iter), place->key))
        store_iter_step(iter, place->is_reverse);
}

static void fill_work(struct job *job)
{
    struct read_ahead *ahead = container_of(job, struct read_ahead, job);
    struct store_iter *iter = ahead->iter;
    uint64_t rows = ahead->back_rows;
    if (ahead->is_moving)
        iter_move(ahead);
    while (store_iter_valid(iter) && rows > 0 && ahead->back.used < ahead->back_bytes &&
           !atomic_load_explicit(&ahead->is_cut, memory_order_relaxed)) {
        load_add(&ahead->back, store_iter_key(iter), store_iter_value(iter));
        store_iter_step(iter, ahead->course.place.is_reverse);
        rows--;
    }
    ahead->back_rows -= rows;
    ahead->is_ended = !store_iter_valid(iter);
    ahead->has_failed = ahead->is_ended && store_iter_failed(iter);
}

/* ---- on the partition's thread ---- */

static void ahead_submit(struct read_ahead *ahead)
{
    load_clear(&ahead->back);
    if (ahead->back_bytes < LOAD_BYTES_MAX)
        ahead->back_bytes *= 2;
    ahead->back_rows = ahead->rows_wanted ? ahead->rows_wanted : LOAD_ROWS_MORE;
    ahead->is_moving = ahead->has_next;
    if (ahead->has_next) {
        struct course old = ahead->course;
        ahead->course = ahead->next;
        ahead->next = old;
    }
    ahead->has_next = false;
    ahead->is_filled = false;
    ahead->is_running = true;
    atomic_store(&ahead->is_cut, false);
    worker_submit(reader_worker(ahead->reader), &ahead->job);
}

/* Moves to the next row of the front, if there is one. */
static void front_next(struct read_ahead *ahead)
{
    struct head head;
    ahead->has_row = ahead->at < ahead->front.used;
    if (!ahead->has_row)
        return;
    const char *from = ahead->front.data + ahead->at;
    memcpy(&head, from, sizeof head);
    ahead->key = (struct bytes){from + sizeof head, head.key_len};
    ahead->value = (struct bytes){ahead->key.data + head.key_len, head.value_len};
    ahead->at += sizeof head + head.key_len + head.value_len;
}

/* Swaps front and back, and starts filling the back. */
static void swap_loads(struct read_ahead *ahead)
{
    struct load front = ahead->front;
    CHECK(ahead->is_filled);
    CHECK(!ahead->is_running);
    ahead->front = ahead->back;
    ahead->back = front;
    ahead->at = 0;
    ahead->is_filled = false;
    ahead->rows_wanted -=
        ahead->rows_wanted < ahead->back_rows ? ahead->rows_wanted : ahead->back_rows;
    front_next(ahead);
    CHECK(ahead->has_row || ahead->is_ended);
    if (!ahead->is_ended && ahead->rows_wanted)
        ahead_submit(ahead);
}

static void ahead_destroy(struct read_ahead *ahead)
{
    list_remove(&ahead->link);
    store_iter_free(ahead->iter);
    free(ahead->front.data);
    free(ahead->back.data);
    free(ahead->next.key);
    free(ahead->course.key);
    free(ahead);
}

static void fill_done(struct job *job)
{
    struct read_ahead *ahead = container_of(job, struct read_ahead, job);
    ahead->is_running = false;
    if (ahead->is_freed) {
        ahead_destroy(ahead);
        return;
    }
    if (ahead->has_next) {
        ahead_submit(ahead);
        return;
    }
    ahead->is_filled = true;
    if (ahead->has_row)
        return;
    swap_loads(ahead);
    ahead->on_rows(ahead->owner);
}

struct read_ahead *read_ahead_new(struct reader *reader, struct store_iter *iter,
                                  uint64_t rows_wanted, read_ahead_fn *on_rows, void *owner)
{
    struct read_ahead *ahead = calloc(1, sizeof *ahead);
    CHECK(ahead);
    ahead->job = (struct job){.work = fill_work, .done = fill_done};
    ahead->reader = reader;
    ahead->iter = iter;
    ahead->is_ended = true;
    ahead->rows_wanted = rows_wanted;
    ahead->on_rows = on_rows;
    ahead->owner = owner;
    ahead->back_bytes = LOAD_BYTES_FIRST / 2;
    list_push(reader_read_aheads(reader), &ahead->link);
    return ahead;
}

void read_ahead_free(struct read_ahead *ahead)
{
    if (!ahead)
        return;
    CHECK(!ahead->is_freed);
    ahead->is_freed = true;
    atomic_store(&ahead->is_cut, true);
    if (!ahead->is_running)
        ahead_destroy(ahead);
}

void read_ahead_reap(struct list *link)
{
    struct read_ahead *ahead = container_of(link, struct read_ahead, link);
    CHECK(ahead->is_freed);
    ahead_destroy(ahead);
}

void read_ahead_seek(struct read_ahead *ahead, const struct read_ahead_place *place)
{
    course_set(&ahead->next, place);
    ahead->has_next = true;
    ahead->has_row = false;
    ahead->at = ahead->front.used = 0;
    if (ahead->is_running)
        atomic_store(&ahead->is_cut, true); /* fill_done continues */
    else
        ahead_submit(ahead);
}

void read_ahead_stand(struct read_ahead *ahead, struct bytes key, struct bytes value,
                      bool is_reverse)
{
    CHECK(!ahead->is_running);
    CHECK(ahead->front.used == 0);
    load_add(&ahead->front, key,
             value); /* key and value may belong to the iterator, which the thread will use */
    front_next(ahead);
    const struct read_ahead_place behind = {
        .key = ahead->key, .has_from = true, .is_reverse = is_reverse};
    course_set(&ahead->next, &behind);
    ahead->has_next = true;
    ahead_submit(ahead);
}

/* Is the current row before the place? */
static bool is_before(const struct read_ahead *ahead, const struct read_ahead_place *place)
{
    int order = bytes_compare(ahead->key, place->key);
    return place->is_reverse ? order > 0 || (order == 0 && !place->or_equal)
                             : order < 0 || (order == 0 && !place->or_equal);
}

void read_ahead_skip(struct read_ahead *ahead, const struct read_ahead_place *place)
{
    CHECK(place->has_from);
    while (ahead->has_row && is_before(ahead, place))
        read_ahead_next(ahead);
    if (read_ahead_is_pending(ahead))
        read_ahead_seek(ahead, place);
}

void read_ahead_next(struct read_ahead *ahead)
{
    CHECK(ahead->has_row);
    front_next(ahead);
    if (!ahead->has_row && ahead->is_filled)
        swap_loads(ahead);
    else if (!ahead->has_row && !ahead->is_running && !ahead->is_ended)
        ahead_submit(ahead);
}

bool read_ahead_valid(const struct read_ahead *ahead)
{
    return ahead->has_row;
}

bool read_ahead_is_pending(const struct read_ahead *ahead)
{
    return !ahead->has_row && ahead->is_running;
}

bool read_ahead_failed(const struct read_ahead *ahead)
{
    return !ahead->has_row && !ahead->is_running && ahead->has_failed;
}

struct bytes read_ahead_key(const struct read_ahead *ahead)
{
    return ahead->key;
}

struct bytes read_ahead_value(const struct read_ahead *ahead)
{
    return ahead->value;
}
