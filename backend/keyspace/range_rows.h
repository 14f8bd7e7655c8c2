/*
 * range_rows.h - reads the rows of a range of a column family in the background: a few at a time, between commands.
 *
 *   range_rows_open ─► the first row is fetched without blocking the thread ─► a detached iterator: reader threads read ahead
 */
#pragma once

#include "backend/format/column_family.h"
#include "backend/storage/retry.h"
#include "shared/arena.h"

struct overlay_iter;
struct partition;

enum rows_step {
    ROWS_ROW,
    ROWS_WAIT, /* rows are being read: on_rows is called */
    ROWS_END,
    ROWS_FAILED, /* the store cannot be read */
};

struct range_rows {
    struct partition *partition;
    void (*on_rows)(void *owner);
    void *owner;
    enum cf cf;
    struct bytes from, to; /* in the arena; `from` NULL: no range is open */
    struct overlay_iter *iter;
    bool is_new_row; /* the iterator's row was not returned yet */
    uint32_t tries;  /* to find the first row */
    struct retry wait;
    struct arena arena;
};

void range_rows_init(struct range_rows *rows, struct partition *partition,
                     void (*on_rows)(void *owner), void *owner);
/* To be called before the overlay is freed or the store recovered. */
void range_rows_fini(struct range_rows *rows);
/* Begins to read the rows of [from, to); both keys are copied. A range that is open is closed first. */
void range_rows_open(struct range_rows *rows, enum cf cf, struct bytes from, struct bytes to);
void range_rows_close(struct range_rows *rows);
static inline bool range_rows_is_open(const struct range_rows *rows)
{
    return rows->from.data != NULL;
}
/* Reads the next row; after ROWS_WAIT it tries the same row again. Key and value are borrowed until the next call. To be called
 * between commands. */
enum rows_step range_rows_next(struct range_rows *rows, struct bytes *key, struct bytes *value);
