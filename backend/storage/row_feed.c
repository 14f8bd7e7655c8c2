/*
 * row_feed.c - two loads of rows: the walk passes one, a job fills the other.
 *
 *   seek ─► next ──the job begins──► course ─► the iterator goes there, once
 *
 *   load: key_len, value_len, key, value; key_len, …
 */
#include "backend/storage/row_feed.h"

#include "backend/storage/reader.h"
#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/net/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    LOAD_BYTES_FIRST = 16 * 1024, /* few, so that a walk begins soon; then twice as many, */
    LOAD_BYTES_MAX = 128 * 1024,  /* up to so many, or one row if that has more */
    LOAD_ROWS_MORE = 512,         /* when the walk wants more rows than it thought */
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

/* A place with a key of its own. */
struct course {
    struct row_feed_place place;
    char *key; /* heap */
    size_t cap;
};

struct row_feed {
    struct job job;
    struct list link; /* in reader_feeds() */
    struct reader *reader;
    row_feed_fn *on_rows;
    void *owner;
    struct load front;
    size_t at;    /* behind the row in the front that it stands on */
    bool has_row; /* it stands on one: */
    struct bytes key, value;
    bool is_filled; /* the back was, and is not in front yet */
    bool is_running;
    bool is_freed;  /* while it ran */
    uint64_t ahead; /* so many rows are to be read before they are asked for */
    bool has_next;  /* the rows that the job brings are none of: */
    struct course next;
    _Atomic bool is_cut; /* the job may end early */

    /* the job's, while it runs */
    struct store_iter *iter;
    struct load back;
    size_t back_bytes;  /* to be filled with so many, */
    uint64_t back_rows; /* and not with more rows than these */
    bool is_moving;     /* the iterator goes to: */
    struct course course;
    bool is_ended; /* nothing is left behind the back */
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

/* A large row's memory is given back. */
static void load_clear(struct load *load)
{
    load->used = 0;
    if (load->cap <= 2 * LOAD_BYTES_MAX)
        return;
    free(load->data);
    *load = (struct load){0};
}

static void course_set(struct course *course, const struct row_feed_place *place)
{
    if (place->key.len > course->cap) {
        free(course->key);
        course->key = malloc(place->key.len);
        CHECK(course->key);
        course->cap = place->key.len;
    }
    if (place->key.len) /* it may be a key of the front, but not the course's own */
        memcpy(course->key, place->key.data, place->key.len);
    course->place = *place;
    course->place.key = (struct bytes){course->key, place->key.len};
}

/* ---- on a reader thread ---- */

static void iter_move(struct row_feed *feed)
{
    const struct row_feed_place *place = &feed->course.place;
    struct store_iter *iter = feed->iter;
    store_iter_begin(iter, place->is_reverse, place->key, place->has_from);
    if (place->has_from && !place->or_equal && store_iter_valid(iter) &&
        bytes_equal(store_iter_key(iter), place->key))
        store_iter_step(iter, place->is_reverse);
}

static void fill_work(struct job *job)
{
    struct row_feed *feed = container_of(job, struct row_feed, job);
    struct store_iter *iter = feed->iter;
    uint64_t rows = feed->back_rows;
    if (feed->is_moving)
        iter_move(feed);
    while (store_iter_valid(iter) && rows > 0 && feed->back.used < feed->back_bytes &&
           !atomic_load_explicit(&feed->is_cut, memory_order_relaxed)) {
        load_add(&feed->back, store_iter_key(iter), store_iter_value(iter));
        store_iter_step(iter, feed->course.place.is_reverse);
        rows--;
    }
    feed->back_rows -= rows;
    feed->is_ended = !store_iter_valid(iter);
    feed->has_failed = feed->is_ended && store_iter_failed(iter);
}

/* ---- on the partition's thread ---- */

static void feed_submit(struct row_feed *feed)
{
    load_clear(&feed->back);
    if (feed->back_bytes < LOAD_BYTES_MAX)
        feed->back_bytes *= 2;
    feed->back_rows = feed->ahead ? feed->ahead : LOAD_ROWS_MORE;
    feed->is_moving = feed->has_next;
    if (feed->has_next) {
        struct course old = feed->course;
        feed->course = feed->next;
        feed->next = old;
    }
    feed->has_next = false;
    feed->is_filled = false;
    feed->is_running = true;
    atomic_store(&feed->is_cut, false);
    worker_submit(reader_worker(feed->reader), &feed->job);
}

/* Stands on the next row of the front, if there is one. */
static void front_next(struct row_feed *feed)
{
    struct head head;
    feed->has_row = feed->at < feed->front.used;
    if (!feed->has_row)
        return;
    const char *from = feed->front.data + feed->at;
    memcpy(&head, from, sizeof head);
    feed->key = (struct bytes){from + sizeof head, head.key_len};
    feed->value = (struct bytes){feed->key.data + head.key_len, head.value_len};
    feed->at += sizeof head + head.key_len + head.value_len;
}

/* The back becomes the front, and is filled anew. */
static void feed_turn(struct row_feed *feed)
{
    struct load front = feed->front;
    CHECK(feed->is_filled);
    CHECK(!feed->is_running);
    feed->front = feed->back;
    feed->back = front;
    feed->at = 0;
    feed->is_filled = false;
    feed->ahead -= feed->ahead < feed->back_rows ? feed->ahead : feed->back_rows;
    front_next(feed);
    CHECK(feed->has_row || feed->is_ended);
    if (!feed->is_ended && feed->ahead)
        feed_submit(feed);
}

static void feed_destroy(struct row_feed *feed)
{
    list_remove(&feed->link);
    store_iter_free(feed->iter);
    free(feed->front.data);
    free(feed->back.data);
    free(feed->next.key);
    free(feed->course.key);
    free(feed);
}

static void fill_done(struct job *job)
{
    struct row_feed *feed = container_of(job, struct row_feed, job);
    feed->is_running = false;
    if (feed->is_freed) {
        feed_destroy(feed);
        return;
    }
    if (feed->has_next) {
        feed_submit(feed);
        return;
    }
    feed->is_filled = true;
    if (feed->has_row)
        return;
    feed_turn(feed);
    feed->on_rows(feed->owner);
}

struct row_feed *row_feed_new(struct reader *reader, struct store_iter *iter, uint64_t ahead,
                              row_feed_fn *on_rows, void *owner)
{
    struct row_feed *feed = calloc(1, sizeof *feed);
    CHECK(feed);
    feed->job = (struct job){.work = fill_work, .done = fill_done};
    feed->reader = reader;
    feed->iter = iter;
    feed->is_ended = true;
    feed->ahead = ahead;
    feed->on_rows = on_rows;
    feed->owner = owner;
    feed->back_bytes = LOAD_BYTES_FIRST / 2;
    list_push(reader_feeds(reader), &feed->link);
    return feed;
}

void row_feed_free(struct row_feed *feed)
{
    if (!feed)
        return;
    CHECK(!feed->is_freed);
    feed->is_freed = true;
    atomic_store(&feed->is_cut, true);
    if (!feed->is_running)
        feed_destroy(feed);
}

void row_feed_bury(struct list *link)
{
    struct row_feed *feed = container_of(link, struct row_feed, link);
    CHECK(feed->is_freed);
    feed_destroy(feed);
}

void row_feed_seek(struct row_feed *feed, const struct row_feed_place *place)
{
    course_set(&feed->next, place);
    feed->has_next = true;
    feed->has_row = false;
    feed->at = feed->front.used = 0;
    if (feed->is_running)
        atomic_store(&feed->is_cut, true); /* fill_done goes on */
    else
        feed_submit(feed);
}

void row_feed_stand(struct row_feed *feed, struct bytes key, struct bytes value, bool is_reverse)
{
    CHECK(!feed->is_running);
    CHECK(feed->front.used == 0);
    load_add(&feed->front, key,
             value); /* they may be the iterator's, which is the thread's in a moment */
    front_next(feed);
    const struct row_feed_place behind = {
        .key = feed->key, .has_from = true, .is_reverse = is_reverse};
    course_set(&feed->next, &behind);
    feed->has_next = true;
    feed_submit(feed);
}

/* Does the row it stands on lie before the place? */
static bool is_before(const struct row_feed *feed, const struct row_feed_place *place)
{
    int order = bytes_compare(feed->key, place->key);
    return place->is_reverse ? order > 0 || (order == 0 && !place->or_equal)
                             : order < 0 || (order == 0 && !place->or_equal);
}

void row_feed_skip(struct row_feed *feed, const struct row_feed_place *place)
{
    CHECK(place->has_from);
    while (feed->has_row && is_before(feed, place))
        row_feed_next(feed);
    if (row_feed_is_dry(feed))
        row_feed_seek(feed, place);
}

void row_feed_next(struct row_feed *feed)
{
    CHECK(feed->has_row);
    front_next(feed);
    if (!feed->has_row && feed->is_filled)
        feed_turn(feed);
    else if (!feed->has_row && !feed->is_running && !feed->is_ended)
        feed_submit(feed);
}

bool row_feed_valid(const struct row_feed *feed)
{
    return feed->has_row;
}

bool row_feed_is_dry(const struct row_feed *feed)
{
    return !feed->has_row && feed->is_running;
}

bool row_feed_failed(const struct row_feed *feed)
{
    return !feed->has_row && !feed->is_running && feed->has_failed;
}

struct bytes row_feed_key(const struct row_feed *feed)
{
    return feed->key;
}

struct bytes row_feed_value(const struct row_feed *feed)
{
    return feed->value;
}
