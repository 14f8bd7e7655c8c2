#include "backend/feed/feed.h"

#include "backend/archive/passed_time.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/feed/feed_time.h"
#include "backend/format/archive_frame.h"
#include "backend/format/effects.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/retry.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/net/worker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REQUESTS_MAX = 64,
    CURSORS = 16,
    WORK_US =
        20 * 1000, /* a page of few events ends after this time: other requests are behind it */
    FORGET_MS = 10 * 1000 /* a page that no command has fetched */
};

/* Where a reader has been, so that its next page goes on there. */
struct feed_cursor {
    struct wal_cursor *wal; /* NULL: unused */
    uint64_t log_id;
    uint64_t index, sum; /* of the batch before the next one */
    uint64_t time_us;    /* likewise; 0: not known */
    uint64_t used;       /* the least was not used for longest */
};

struct feed_request {
    struct job job;
    struct list link; /* in feed->requests */
    struct feed *feed;
    uint64_t session, arguments;
    struct list waits;
    bool is_done;
    uint64_t done_ms;          /* monotonic */
    uint64_t log_id;           /* of the partition */
    uint64_t term;             /* in which it was asked for */
    bool is_follower;          /* another copy of the shard leads */
    uint64_t slots;            /* changes of the slots' records until then */
    bool syncs;                /* commits are not synced one by one: the job syncs what it reads */
    struct passed_time passed; /* when it was asked for */
    struct feed_wish wish;
    struct feed_answer answer;
    struct feed_page page;
};

struct feed {
    struct partition *partition;
    struct worker *worker; /* NULL: there was no reader yet */
    struct list requests;
    uint32_t count;
    /* of the thread */
    struct storage *storage;
    struct feed_cursor cursors[CURSORS];
    uint64_t uses;
    struct feed_events *events;
};

/* ---- on the feed's thread ---- */

static bool feed_fail(struct feed_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool feed_fail(struct feed_request *request, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(request->answer.error, sizeof request->answer.error, format, args);
    va_end(args);
    return false;
}

static uint64_t oldest_in(struct storage *storage)
{
    struct wal *wal = storage_wal(storage);
    uint64_t first;
    return wal_firsts(wal, &first, 1) ? first : wal_last(wal) + 1;
}

static bool say_lost(struct feed_request *request, uint64_t wanted)
{
    return feed_fail(request,
                     "CHANGESLOST the log begins with batch %" PRIu64 ", and batch %" PRIu64
                     " is needed: keys may have changed in between",
                     oldest_in(request->feed->storage), wanted);
}

/* A copy that does not lead may lack what the leader has given, or be of a group that has been replaced. */
static bool say_behind(struct feed_request *request)
{
    return feed_fail(request,
                     "TRYAGAIN this copy does not have batch %" PRIu64
                     " yet, or its log is not the one of the copy that leads",
                     request->wish.from.index);
}

static bool say_rewound(struct feed_request *request)
{
    if (request->is_follower)
        return say_behind(request);
    return feed_fail(
        request,
        "CHANGESREWOUND the data was restored or lost its newest changes: what was read "
        "up to batch %" PRIu64 " may not have happened",
        request->wish.from.index);
}

static void close_cursor(struct feed_cursor *cursor)
{
    wal_cursor_free(cursor->wal);
    *cursor = (struct feed_cursor){0};
}

/* The cursor that stands behind this batch, or else the one to be used for it, which is closed. */
static struct feed_cursor *choose_feed_cursor(struct feed *feed, const struct feed_position *from)
{
    struct feed_cursor *oldest = &feed->cursors[0];
    for (int i = 0; i < CURSORS; i++) {
        struct feed_cursor *cursor = &feed->cursors[i];
        if (cursor->wal && cursor->log_id == from->log_id && cursor->index == from->index &&
            (!from->sum || cursor->sum == from->sum))
            return cursor;
        if (cursor->used < oldest->used)
            oldest = cursor;
    }
    close_cursor(oldest);
    return oldest;
}

/* Reads the next batch. ERR_NOT_FOUND: there is none that is durable and committed. */
static int next_batch(struct feed_request *request, struct feed_cursor *cursor,
                      struct bytes *record)
{
    uint64_t index;
    char reason[256];
    if (cursor->index + 1 > storage_committed(request->feed->storage))
        return ERR_NOT_FOUND;
    int err = wal_cursor_next(cursor->wal, &index, record, reason, sizeof reason);
    if (err == ERR_GONE)
        (void)say_lost(request, cursor->index + 1);
    else if (err != OK && err != ERR_NOT_FOUND)
        (void)feed_fail(request, "ERR the log cannot be read: %s", reason);
    return err;
}

/* The group has committed the batch, and this disk has not synced it yet. */
static bool say_unsynced(struct feed_request *request)
{
    return feed_fail(request, "TRYAGAIN batch %" PRIu64 " is not on the disk of this copy yet",
                     request->wish.from.index);
}

static bool say_time_unsynced(struct feed_request *request)
{
    return feed_fail(request, "TRYAGAIN what was written until this time is not all on the disk "
                              "yet");
}

static uint64_t batch_time_us(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    return effects_open(record, &header, &reader) == EFFECTS_READ ? header.hybrid : 0;
}

/* Opens a cursor behind the batch that the reader has read last. False: the log has another batch in its place, or none. */
static bool open_feed_cursor(struct feed_request *request, struct feed_cursor *cursor)
{
    struct wal *wal = storage_wal(request->feed->storage);
    const struct feed_position *from = &request->wish.from;
    struct bytes record;
    bool is_proved = from->index && from->sum;
    cursor->log_id = from->log_id;
    cursor->index = from->index - is_proved;
    if (from->index > storage_committed(request->feed->storage))
        return say_rewound(request);
    cursor->wal = wal_cursor_new_weak(wal, cursor->index + 1);
    if (!cursor->wal)
        return say_lost(request, from->index + 1);
    if (!is_proved)
        return true;
    int err = next_batch(request, cursor, &record);
    if (err != OK)
        return err == ERR_NOT_FOUND ? say_unsynced(request) : false;
    cursor->index = from->index;
    cursor->sum = archive_sum(record);
    cursor->time_us = batch_time_us(record);
    return cursor->sum == from->sum || say_rewound(request);
}

static uint64_t age_ms(uint64_t origin_ms)
{
    uint64_t now_ms = clock_wall_us() / 1000;
    return origin_ms < now_ms ? now_ms - origin_ms : 1;
}

/* The page ends within the batch that was read last, or before it. */
static void end_at_batch(struct feed_request *request, struct feed_cursor *cursor,
                         enum feed_read read)
{
    struct feed_answer *answer = &request->answer;
    uint64_t time_us = request->page.time_us;
    answer->lag_ms = age_ms(request->page.origin_ms);
    answer->reached_us = time_us ? time_us - 1 : 0;
    if (read == FEED_EARLY)
        answer->early_us = time_us;
    close_cursor(cursor); /* the next page reads this batch again */
}

static void pass_batch(struct feed_request *request, struct feed_cursor *cursor,
                       struct bytes record)
{
    struct feed_answer *answer = &request->answer;
    cursor->index++;
    cursor->sum = archive_sum(record);
    if (request->page.time_us)
        cursor->time_us = request->page.time_us;
    answer->to.index = cursor->index;
    answer->to.sum = cursor->sum;
    answer->lag_ms = age_ms(request->page.origin_ms);
    answer->reached_us = cursor->time_us;
}

/* There is no further batch. What the log had when the page was asked for was read, perhaps more. */
static void end_at_end(struct feed_request *request, const struct feed_cursor *cursor)
{
    struct feed_answer *answer = &request->answer;
    bool has_all = cursor->index >= request->passed.index;
    answer->lag_ms = 0;
    answer->reached_us =
        has_all && request->passed.us > cursor->time_us ? request->passed.us : cursor->time_us;
}

/* Reads batches until the page is full, its time is over, or there are no more. */
static bool read_page_of(struct feed_request *request, struct feed_cursor *cursor)
{
    uint64_t end_us = clock_mono_us() + WORK_US;
    uint64_t number = request->wish.from.number;
    struct bytes record;
    int err;
    while ((err = next_batch(request, cursor, &record)) == OK) {
        enum feed_read read =
            feed_batch_read(record, cursor->log_id, &request->wish.filter, &number, &request->page);
        if (read == FEED_UNREADABLE)
            return feed_fail(request, "ERR batch %" PRIu64 " of the log cannot be read",
                             cursor->index + 1);
        request->answer.to.number = number;
        if (read != FEED_WHOLE) {
            end_at_batch(request, cursor, read);
            return true;
        }
        pass_batch(request, cursor, record);
        if (clock_mono_us() >= end_us)
            return true;
    }
    bool is_at_end = err == ERR_NOT_FOUND;
    if (is_at_end)
        end_at_end(request, cursor);
    else if (request->answer.to.index != request->wish.from.index)
        *request->answer.error = 0; /* what was read counts: the next call gets the error */
    return is_at_end;
}

/* The position behind this batch. The checksum is not known if the log does not have it any more. */
static bool find_end(struct feed_request *request, uint64_t index)
{
    struct feed *feed = request->feed;
    struct bytes record;
    struct feed_position *to = &request->answer.to;
    *to = (struct feed_position){.log_id = request->log_id, .index = index};
    struct feed_cursor cursor = {.index = to->index - 1};
    cursor.wal = to->index ? wal_cursor_new_weak(storage_wal(feed->storage), to->index) : NULL;
    if (cursor.wal && next_batch(request, &cursor, &record) == OK)
        to->sum = archive_sum(record);
    wal_cursor_free(cursor.wal);
    return !*request->answer.error;
}

/* Nothing was written since the time: the position is behind the newest batch, which the log need not have any more. */
static bool find_rest(struct feed_request *request)
{
    if (request->passed.index > storage_committed(request->feed->storage))
        return say_time_unsynced(request);
    return find_end(request, request->passed.index);
}

/* The position of a time, if no batch can come that has it or an earlier one. */
static bool find_time(struct feed_request *request)
{
    struct storage *storage = request->feed->storage;
    const uint64_t at_us = request->wish.at_us;
    const struct feed_time_wish wish = {at_us, request->passed.index};
    struct feed_position *to = &request->answer.to;
    char reason[256];
    if (request->passed.us < at_us)
        return feed_fail(request, "TRYAGAIN this time has not passed yet at this shard, or another "
                                  "copy leads it");
    if (request->passed.newest_us && request->passed.newest_us <= at_us)
        return find_rest(request);
    to->log_id = request->log_id;
    switch (feed_time_find(storage_wal(storage), &wish, to, reason, sizeof reason)) {
    case FEED_TIME_FOUND:
        return to->index <= storage_committed(storage) || say_time_unsynced(request);
    case FEED_TIME_UNSYNCED:
        return say_time_unsynced(request);
    case FEED_TIME_LOST:
        return feed_fail(request,
                         "CHANGESLOST the log begins with batch %" PRIu64
                         ", after this time: keys may have changed in between",
                         oldest_in(storage));
    default:
        return feed_fail(request, "ERR the log cannot be read: %s", reason);
    }
}

static bool read_from_position(struct feed_request *request)
{
    struct feed *feed = request->feed;
    struct feed_position *from = &request->wish.from;
    if (!from->log_id)
        *from = (struct feed_position){.log_id = request->log_id};
    if (from->log_id != request->log_id)
        return say_rewound(request);
    request->answer.to = *from;
    struct feed_cursor *cursor = choose_feed_cursor(feed, from);
    cursor->used = ++feed->uses;
    bool is_good =
        (cursor->wal || open_feed_cursor(request, cursor)) && read_page_of(request, cursor);
    if (!is_good)
        close_cursor(cursor);
    return is_good;
}

static void run_feed_job(struct job *job)
{
    struct feed_request *request = container_of(job, struct feed_request, job);
    struct storage *storage = request->feed->storage;
    char reason[256];
    if (request->syncs &&
        storage_sync_upto(storage, storage_committed(storage), reason, sizeof reason) != OK)
        (void)feed_fail(request, "ERR the log cannot be synced: %s", reason);
    else if (request->wish.is_from_now)
        (void)find_end(request, storage_committed(storage));
    else if (request->wish.at_us)
        (void)find_time(request);
    else
        (void)read_from_position(request);
}

/* ---- on the partition's thread ---- */

static void free_feed_request(struct feed_request *request)
{
    out_clear(&request->page.events);
    free((char *)request->wish.filter.pattern.data);
    free(request);
}

static void feed_job_ended(struct job *job)
{
    struct feed_request *request = container_of(job, struct feed_request, job);
    struct metrics *metrics = request->feed->partition->metrics.process;
    request->is_done = true;
    request->done_ms = loop_mono_ms(request->feed->partition->loop);
    metric_add(metrics, METRIC_BACKEND_CHANGES_READ, request->page.count);
    if (*request->answer.error == 'C')
        metric_add(metrics, METRIC_BACKEND_CHANGES_LOST, 1);
    retry_done(&request->waits);
}

/* Frees pages whose commands have ended: their clients have left. */
static void forget_old_pages(struct feed *feed)
{
    uint64_t now_ms = loop_mono_ms(feed->partition->loop);
    struct list *next;
    for (struct list *link = feed->requests.next; link != &feed->requests; link = next) {
        struct feed_request *request = container_of(link, struct feed_request, link);
        next = link->next;
        if (request->is_done && list_empty(&request->waits) &&
            now_ms >= request->done_ms + FORGET_MS)
            feed_end(request);
    }
}

struct feed *feed_new(struct partition *partition)
{
    struct feed *feed = calloc(1, sizeof *feed);
    CHECK(feed);
    feed->partition = partition;
    feed->storage = partition->storage;
    feed->events = feed_events_new();
    list_init(&feed->requests);
    return feed;
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    if (feed->worker)
        worker_free(feed->worker);
    struct list *next;
    for (struct list *link = feed->requests.next; link != &feed->requests; link = next) {
        next = link->next;
        free_feed_request(container_of(link, struct feed_request, link));
    }
    for (int i = 0; i < CURSORS; i++)
        close_cursor(&feed->cursors[i]);
    feed_events_free(feed->events);
    free(feed);
}

struct feed_request *feed_find(struct feed *feed, uint64_t session, uint64_t arguments)
{
    for (struct list *link = feed->requests.next; link != &feed->requests; link = link->next) {
        struct feed_request *request = container_of(link, struct feed_request, link);
        if (request->session == session && request->arguments == arguments &&
            request->term == feed->partition->copies.term &&
            request->is_follower == feed->partition->copies.is_closed)
            return request;
    }
    return NULL;
}

struct feed_request *feed_begin(struct feed *feed, uint64_t session, uint64_t arguments,
                                const struct feed_wish *wish)
{
    const struct partition *partition = feed->partition;
    forget_old_pages(feed);
    if (feed->count == REQUESTS_MAX)
        return NULL;
    struct feed_request *request = calloc(1, sizeof *request);
    CHECK(request);
    request->job = (struct job){.work = run_feed_job, .done = feed_job_ended};
    request->feed = feed;
    request->session = session;
    request->arguments = arguments;
    request->log_id = partition->batch.log_id;
    request->term = partition->copies.term;
    request->is_follower = partition->copies.is_closed;
    request->slots = slot_table_sum(partition->shards.slots).changes;
    request->syncs = partition->snapshot->config.durability != DURABILITY_ALWAYS;
    request->wish = *wish;
    request->page.count_max = wish->count;
    request->page.bytes_max = wish->bytes;
    request->page.past_us = wish->past_us;
    request->page.memory = feed->events;
    request->passed = passed_time_now(feed->partition);
    out_init(&request->page.events);
    list_init(&request->waits);
    list_push(&feed->requests, &request->link);
    feed->count++;
    if (!feed->worker)
        feed->worker = worker_new(partition->loop, "feed");
    worker_submit(feed->worker, &request->job);
    return request;
}

struct list *feed_waits(struct feed_request *request)
{
    return &request->waits;
}

bool feed_is_done(const struct feed_request *request)
{
    return request->is_done;
}

bool feed_has_same_slots(const struct feed_request *request)
{
    return request->slots == slot_table_sum(request->feed->partition->shards.slots).changes;
}

bool feed_has_past(const struct feed_request *request)
{
    return request->wish.past_us != FEED_PAST_ALL;
}

uint64_t feed_time_us(const struct feed_request *request)
{
    return request->wish.at_us;
}

const struct feed_answer *feed_answer(const struct feed_request *request)
{
    return &request->answer;
}

struct feed_page *feed_page(struct feed_request *request)
{
    return &request->page;
}

void feed_end(struct feed_request *request)
{
    list_remove(&request->link);
    request->feed->count--;
    free_feed_request(request);
}

bool feed_is_at_end(const struct feed *feed, const struct feed_position *position,
                    uint64_t *reached_us)
{
    bool is_at_end = position->log_id == feed->partition->batch.log_id && !position->number &&
                     position->index == storage_committed(feed->storage);
    const struct passed_time passed =
        is_at_end ? passed_time_now(feed->partition) : (struct passed_time){0};
    *reached_us = position->index >= passed.index ? passed.us : 0;
    return is_at_end;
}

const char *feed_refusal(const struct partition *partition)
{
    if (!partition->snapshot->config.store_change_log_bytes)
        return "ERR changes cannot be read here: set change-log, the bytes of the log that are "
               "kept "
               "for readers";
    if (!partition->batch.log_id)
        return "ERR changes cannot be read here: the log has no name, because an older program "
               "has founded the group of copies. Restore the shard from a backup to give it one";
    return NULL;
}

uint64_t feed_oldest(const struct partition *partition)
{
    return oldest_in(partition->storage);
}
