#include "backend/feed/feed_time.h"

#include "backend/format/archive_frame.h"
#include "backend/format/effects.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

/* A search in the log. */
struct time_search {
    struct wal *wal;
    uint64_t time_us;
    char *error;
    size_t size;
};

static uint64_t batch_us(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    return effects_open(record, &header, &reader) == EFFECTS_READ ? header.hybrid : 0;
}

/* Has the batch with this index a time up to the wanted one? An error code: it cannot be read. */
static int is_up_to(const struct time_search *search, uint64_t index, bool *is_early)
{
    struct bytes record;
    struct wal_cursor *cursor = wal_cursor_new_weak(search->wal, index);
    if (!cursor)
        return ERR_GONE;
    int err = wal_cursor_next(cursor, &index, &record, search->error, search->size);
    *is_early = err == OK && batch_us(record) <= search->time_us;
    wal_cursor_free(cursor);
    return err == ERR_NOT_FOUND ? OK : err; /* one that is not durable yet is a late one */
}

/* The batches with which segments begin, oldest first, to be freed. More may have come in between. */
static uint64_t *all_firsts(struct wal *wal, size_t *count)
{
    size_t room = wal_firsts(wal, NULL, 0);
    uint64_t *firsts = calloc(room + 1, sizeof *firsts);
    CHECK(firsts);
    size_t found = wal_firsts(wal, firsts, room);
    *count = found < room ? found : room;
    return firsts;
}

/* Sets *begin to the first batch of the last segment that begins up to the time, or of the first one if none does. 0: there are none. */
static int find_segment_of(const struct time_search *search, uint64_t *begin)
{
    size_t low = 0, high;
    int err = OK;
    uint64_t *firsts = all_firsts(search->wal, &high);
    *begin = high ? firsts[0] : 0;
    while (low < high && err == OK) {
        size_t middle = low + (high - low) / 2;
        bool is_early = false;
        err = is_up_to(search, firsts[middle], &is_early);
        bool is_gone = err == ERR_GONE; /* removed just now, as all before it */
        if (is_gone)
            err = OK;
        if (is_gone || is_early) {
            *begin = is_gone ? 0 : firsts[middle];
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    free(firsts);
    return err;
}

/* Reads from this batch on, to the last one that has a time up to the wanted one. ERR_NOT_FOUND: there is no later one that can be read. */
static int find_in_segment(const struct time_search *search, uint64_t *next,
                           struct feed_position *to)
{
    struct bytes record;
    struct wal_cursor *cursor = wal_cursor_new_weak(search->wal, *next);
    uint64_t index;
    int err = cursor ? OK : ERR_GONE;
    while (err == OK &&
           (err = wal_cursor_next(cursor, &index, &record, search->error, search->size)) == OK) {
        *next = index + 1;
        uint64_t time_us = batch_us(record);
        if (time_us > search->time_us)
            break;
        if (!time_us) /* also what a start writes into an empty log: it proves nothing */
            continue;
        to->index = index;
        to->sum = archive_sum(record);
    }
    wal_cursor_free(cursor);
    return err;
}

enum feed_time feed_time_find(struct storage *storage, uint64_t time_us, uint64_t last,
                              struct feed_position *to, char *error, size_t size)
{
    struct time_search search = {storage_wal(storage), time_us, error, size};
    uint64_t begin;
    int err = find_segment_of(&search, &begin);
    uint64_t next = begin;
    if (err == OK && begin)
        err = find_in_segment(&search, &next, to);
    if (err == ERR_GONE)
        return FEED_TIME_LOST;
    if (err != OK && err != ERR_NOT_FOUND)
        return FEED_TIME_FAILED;
    if ((err == ERR_NOT_FOUND && next <= last) || to->index > storage_committed(storage))
        return FEED_TIME_UNSYNCED;
    bool is_whole = begin == 1 || (!begin && !last); /* all batches that ever were can be read */
    return to->index || is_whole ? FEED_TIME_FOUND : FEED_TIME_LOST;
}
