/*
 * count_rows.h - the key counters on disk: exact after every batch, at the price of one row a batch.
 *
 *   batch 1     journal row 1     serial 1     shop: slot 7 has 1 key, slot 9000 has 4
 *   batch 2     journal row 2     serial 2     shop: slot 7 has 2 keys
 *   …
 *   batch 257   journal row 1     serial 257   …    in the same batch: counter row (shop, slots 0 … 1023) and
 *                                                   (shop, 8192 … 9215), for the row it takes the place of
 *
 * A journal row says what its batch changed, as absolute numbers. Before it is overwritten the counter rows of
 * the slots it names are written, unless that happened since. So: read all counter rows, then the journal rows
 * in the order of their serials; the last word on a slot is right.
 */
#pragma once

#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"

/* One stored count; a later one for the same slot replaces it. `serial` of its journal row, 0 for a counter row. */
typedef bool stored_count_fn(void *owner, struct bytes space, const struct slot_count *count,
                             uint64_t serial);

/* Reads them all in that order; *serial becomes the newest. False when a row is damaged, the store fails, or
 * `tell` says false. */
bool count_rows_read(struct overlay *overlay, stored_count_fn *tell, void *owner, uint64_t *serial);
