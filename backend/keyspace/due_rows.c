#include "backend/keyspace/due_rows.h"

#include "backend/format/encoding.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <stdlib.h>
#include <string.h>

/* So many rows are read from one snapshot of the store: an older one would keep files that compaction has replaced. */
enum { SNAPSHOT_ROWS = 100000, TIME_BYTES = 8 };

/* ---- places ---- */

static struct bytes place_bytes(const struct index_place *place)
{
    return (struct bytes){place->data, place->len};
}

/* The place becomes head | tail. */
static void place_set(struct index_place *place, struct bytes head, struct bytes tail)
{
    size_t len = head.len + tail.len;
    if (len > place->cap) {
        place->cap = 2 * len;
        place->data = realloc(place->data, place->cap);
        CHECK(place->data);
    }
    if (head.len)
        memcpy(place->data, head.data, head.len);
    if (tail.len)
        memcpy(place->data + head.len, tail.data, tail.len);
    place->len = len;
}

static void place_set_ms(struct index_place *place, uint64_t ms)
{
    char time[TIME_BYTES];
    put_be64(time, ms);
    place_set(place, (struct bytes){time, sizeof time}, BYTES(""));
}

static uint64_t place_ms(const struct index_place *place)
{
    return get_be64(place->data);
}

static void set_bound(struct due_rows *due)
{
    bool has_row = due->from.len > TIME_BYTES;
    due->bound_ms =
        range_rows_is_open(&due->rows) ? due->to_ms : place_ms(&due->from) + (has_row ? 1 : 0);
}

/* ---- life ---- */

void due_rows_init(struct due_rows *due, struct partition *partition, void (*on_rows)(void *owner),
                   void *owner)
{
    *due = (struct due_rows){.count = 0};
    range_rows_init(&due->rows, partition, on_rows, owner);
    due_rows_restart(due);
}

void due_rows_fini(struct due_rows *due)
{
    range_rows_fini(&due->rows);
    free(due->from.data);
    free(due->again.data);
}

void due_rows_restart(struct due_rows *due)
{
    range_rows_close(&due->rows);
    place_set_ms(&due->from, 0);
    due->again.len = 0;
    set_bound(due);
}

/* ---- reading ---- */

/* Opens the next range. False: no row can be due. */
static bool open_due_range(struct due_rows *due, uint64_t now_ms)
{
    char to[TIME_BYTES];
    if (due->again.len) {
        place_set(&due->from, place_bytes(&due->again), BYTES(""));
        due->again.len = 0;
        set_bound(due);
    }
    if (place_ms(&due->from) >= now_ms)
        return false;
    put_be64(to, now_ms);
    range_rows_open(&due->rows, CF_EXPIRE, place_bytes(&due->from), (struct bytes){to, sizeof to});
    due->to_ms = now_ms;
    due->count = 0;
    set_bound(due);
    return true;
}

static void close_due_range(struct due_rows *due)
{
    range_rows_close(&due->rows);
    set_bound(due);
}

enum rows_step due_rows_next(struct due_rows *due, uint64_t now_ms, struct bytes *index_key)
{
    struct bytes key;
    struct bytes value;
    if (!range_rows_is_open(&due->rows) && !open_due_range(due, now_ms))
        return ROWS_END;
    enum rows_step step = range_rows_next(&due->rows, &key, &value);
    if (step == ROWS_ROW) {
        place_set(&due->from, key, (struct bytes){"", 1}); /* the key after it */
        *index_key = (struct bytes){due->from.data, due->from.len - 1};
        if (++due->count >= SNAPSHOT_ROWS)
            close_due_range(due);
    } else if (step != ROWS_WAIT) {
        if (step == ROWS_END)
            place_set_ms(&due->from, due->to_ms);
        close_due_range(due);
    }
    return step;
}

void due_rows_note(struct due_rows *due, uint64_t due_ms, struct bytes row_key)
{
    char time[TIME_BYTES];
    struct index_place place = {.data = NULL};
    if (due_ms >= due->bound_ms)
        return;
    put_be64(time, due_ms);
    place_set(&place, (struct bytes){time, sizeof time}, row_key);
    bool is_passed = range_rows_is_open(&due->rows) ||
                     bytes_compare(place_bytes(&place), place_bytes(&due->from)) < 0;
    bool is_first =
        !due->again.len || bytes_compare(place_bytes(&place), place_bytes(&due->again)) < 0;
    if (is_passed && is_first)
        place_set(&due->again, place_bytes(&place), BYTES(""));
    free(place.data);
}

bool due_rows_has_more(const struct due_rows *due)
{
    return range_rows_is_open(&due->rows) || due->again.len || due->from.len > TIME_BYTES;
}

uint64_t due_rows_from_ms(const struct due_rows *due)
{
    uint64_t from_ms = place_ms(&due->from);
    uint64_t again_ms = due->again.len ? place_ms(&due->again) : from_ms;
    return again_ms < from_ms ? again_ms : from_ms;
}
