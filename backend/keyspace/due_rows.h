/*
 * due_rows.h - reads the rows of the expiry index that are due, in order of time, between commands.
 *
 *   rows of the index, by time:   ───────────┬───────────────┬──────────────► later
 *                                  were read │ will be read  │ not due
 *                                         `from`           `to`: the time when the range was opened
 *
 * Rows come from a snapshot that reader threads read ahead (range_rows.h), so a row that is written before `to` while the range is
 * open is not among them, nor is a row that is written before `from`. due_rows_note remembers the first of these, and the next range
 * begins there.
 */
#pragma once

#include "backend/keyspace/range_rows.h"

/* A key of the expiry index, on the heap. */
struct index_place {
    char *data;
    size_t len, cap;
};

struct due_rows {
    struct range_rows rows;
    struct index_place from; /* rows before it were read */
    /* the first row before that place that must still be read; empty: there is none */
    struct index_place again;
    uint64_t to_ms;    /* end of the open range */
    uint64_t bound_ms; /* rows of this time or later need not be noted */
    uint32_t count;    /* rows that were read from the open range */
};

/* `on_rows` is called after ROWS_WAIT. */
void due_rows_init(struct due_rows *due, struct partition *partition, void (*on_rows)(void *owner),
                   void *owner);
void due_rows_fini(struct due_rows *due);
/* Begins anew with the first row of the index. To be called before the store is recovered. */
void due_rows_restart(struct due_rows *due);
/* Reads the next row that expired before `now_ms`. The key is borrowed until the next call. After ROWS_END the next call reads rows
 * that were noted or have become due since. */
enum rows_step due_rows_next(struct due_rows *due, uint64_t now_ms, struct bytes *index_key);
/* A row has been written, or could not be dealt with: it is read in one of the next ranges. */
void due_rows_note(struct due_rows *due, uint64_t due_ms, struct bytes row_key);
/* May rows be due that were not read yet, besides those that become due at present? */
bool due_rows_has_more(const struct due_rows *due);
/* The time of the first row that was perhaps not read yet. */
uint64_t due_rows_from_ms(const struct due_rows *due);
