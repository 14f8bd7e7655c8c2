/*
 * slot_rows.h - reads all rows of some slots, a few at a time, while commands go on.
 *
 *   storage namespaces × column families ─► range_rows.h
 *
 * There is no common snapshot: each column family is read when its turn comes, so rows of one key may differ in age. A caller that
 * needs one state also applies, in order, the effects of all batches since slot_rows_new. Effects are whole rows, so applying
 * one twice is harmless.
 */
#pragma once

#include "backend/keyspace/range_rows.h"

struct partition;
struct slot_rows;

enum slot_rows_order {
    METADATA_FIRST, /* for copies: rows without their metadata row count as orphans */
    METADATA_LAST,  /* for deletions: what a crash leaves still has its metadata rows */
};

struct slot_rows *slot_rows_new(struct partition *partition, uint16_t first, uint16_t last,
                                enum slot_rows_order order, void (*on_rows)(void *owner),
                                void *owner);
/* NULL is allowed. To be called before the overlay is freed or the store recovered. */
void slot_rows_free(struct slot_rows *rows);
/* Moves to the next row, except after WAIT, when the same row is tried again. Key and value are borrowed until the next
 * call. To be called between commands. */
enum rows_step slot_rows_next(struct slot_rows *rows, enum cf *cf, struct bytes *key,
                              struct bytes *value);
