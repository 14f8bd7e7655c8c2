#include "backend/feed/feed_time.h"

#include "backend/format/archive_frame.h"
#include "backend/format/effects.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

/* A search in the log. */
struct time_search {
    struct wal *wal;
    uint64_t time_us;
    uint64_t *firsts; /* the batches with which segments begin, oldest first … */
    size_t count;     /* … so many */
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

/* Finds where segments begin. More may come afterwards. */
static void list_firsts(struct time_search *search)
{
    size_t room = wal_firsts(search->wal, NULL, 0);
    search->firsts = calloc(room + 1, sizeof *search->firsts);
    CHECK(search->firsts);
    size_t found = wal_firsts(search->wal, search->firsts, room);
    search->count = found < room ? found : room;
}

/* Sets *number to the last segment that begins up to the time, or with a record without one; or to the first segment if none does. */
static int last_early_segment(const struct time_search *search, size_t *number)
{
    size_t low = 0, high = search->count;
    *number = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool is_early = false;
        int err = is_up_to(search, search->firsts[middle], &is_early);
        if (err != OK && err != ERR_GONE)
            return err;
        if (err == ERR_GONE || is_early) /* what is gone was removed just now, with all before it */
            low = middle + 1;
        else
            high = middle;
        if (is_early)
            *number = middle;
    }
    return OK;
}

/* Reads from batch *next on, but not batch `end`, to the last one that has a time up to the wanted one. ERR_NOT_FOUND: there is no later one that
 * can be read. */
static int find_in_segment(const struct time_search *search, uint64_t *next, uint64_t end,
                           struct feed_position *to)
{
    struct bytes record;
    struct wal_cursor *cursor = wal_cursor_new_weak(search->wal, *next);
    uint64_t index;
    int err = cursor ? OK : ERR_GONE;
    while (err == OK && *next < end &&
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

/* Reads the segment, and those before it while no batch in them has a time up to the wanted one. Sets *next to the batch behind what was read. */
static int find_back_from(const struct time_search *search, size_t number, uint64_t *next,
                          struct feed_position *to)
{
    *next = search->firsts[number];
    int err = find_in_segment(search, next, UINT64_MAX, to);
    for (int older = OK; (err == OK || err == ERR_NOT_FOUND) && older == OK && number && !to->index;
         number--) {
        uint64_t first = search->firsts[number - 1];
        older = find_in_segment(search, &first, search->firsts[number], to);
        if (older != OK)
            err = older;
    }
    return err;
}

/* As feed_time_find, in a log that has segments. */
static enum feed_time find_in_log(const struct time_search *search, uint64_t last,
                                  struct feed_position *to)
{
    size_t number;
    uint64_t next = 0;
    int err = last_early_segment(search, &number);
    if (err == OK)
        err = find_back_from(search, number, &next, to);
    if (err == ERR_GONE)
        return FEED_TIME_LOST;
    if (err != OK && err != ERR_NOT_FOUND)
        return FEED_TIME_FAILED;
    if (err == ERR_NOT_FOUND && next <= last)
        return FEED_TIME_UNSYNCED;
    bool is_whole = search->firsts[0] == 1; /* all batches that ever were can be read */
    return to->index || is_whole ? FEED_TIME_FOUND : FEED_TIME_LOST;
}

enum feed_time feed_time_find(struct wal *wal, const struct feed_time_wish *wish,
                              struct feed_position *to, char *error, size_t size)
{
    struct time_search search = {wal, wish->time_us, NULL, 0, error, size};
    list_firsts(&search);
    enum feed_time found = FEED_TIME_LOST;
    if (search.count)
        found = find_in_log(&search, wish->last, to);
    else if (!wish->last) /* there were no batches */
        found = FEED_TIME_FOUND;
    free(search.firsts);
    return found;
}
